"""`as_written`: marks functions that TensorFlow traces as they are written.

AutoGraph would rewrite their Python conditions and loops for tensors. They have none, and the rewriting takes longer
than the tracing itself, once for each `tf.data` pipeline.
"""

import tensorflow as tf

as_written = tf.autograph.experimental.do_not_convert

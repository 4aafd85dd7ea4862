"""How a training step is divided: into parts, over replicas, over workers, and what TensorFlow alone can do in one.

Knows `tf.distribute`, nothing of BERT.

On another backend than TensorFlow a step is what Keras makes of it.
"""

import keras

from bert_keras.distribution.step import Step, current_step, salted_step, within_step

if keras.backend.backend() == "tensorflow":
    from bert_keras.distribution.divided_step import DividedStep
    from bert_keras.distribution.philox import philox_bits
    from bert_keras.distribution.real_rows import RealRows
else:
    philox_bits = RealRows = None

    class DividedStep:
        """Nothing: Keras's own step."""

        divides_steps = False


__all__ = ["DividedStep", "RealRows", "Step", "current_step", "philox_bits", "salted_step", "within_step"]

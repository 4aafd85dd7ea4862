"""`EventFile`: one run of TensorBoard, written with TensorFlow's public records and messages.

`tf.summary` needs the tensorboard package. Writing the records does not; only viewing them does.
"""

import contextlib
import itertools
import logging
import os
import socket
import time

import tensorflow as tf

_COUNTER = itertools.count()
_LOG = logging.getLogger(__name__)


class EventFile:
    """Event file of a run, created when the first value is written.

    A run that is continued or repeated has several files. Each begins with a mark that makes TensorBoard drop the
    values of earlier files from `first_step` on, such as those after the backup from which a training resumes. A file
    that cannot be written is reported once, and the training continues.

    Args:
        folder: folder of the run.
        first_step: the first step that this file can contain.
    """

    def __init__(self, folder: str, first_step: int):
        self._folder, self._first_step = folder, first_step
        self._writer: tf.io.TFRecordWriter | None = None
        self._has_failed = False

    def write_scalars(self, scalars: dict[str, float], step: int) -> None:
        """Write numbers, keyed by tag."""
        value = tf.compat.v1.Summary.Value
        self._write_summary([value(tag=tag, simple_value=number) for tag, number in scalars.items()], step)

    def write_text(self, tag: str, text: str, step: int) -> None:
        """Write Markdown for the TEXT tab."""
        value = tf.compat.v1.Summary.Value(tag=tag, tensor=tf.make_tensor_proto([text]))
        value.metadata.plugin_data.plugin_name = "text"
        self._write_summary([value], step)

    def write_summary(self, serialized: bytes, step: int) -> None:
        """Write a serialized `Summary` message, such as those of TensorBoard's plugins."""
        self._write_summary(tf.compat.v1.Summary.FromString(serialized).value, step)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(tf.errors.OpError):  # reported when it was written
            if self._writer is not None:
                self._writer.close()

    def _write_summary(self, values: list, step: int) -> None:
        if self._has_failed:
            return
        try:
            if self._writer is None:
                self._open()
            self._write(step=step, summary=tf.compat.v1.Summary(value=values))
            self._writer.flush()
        except tf.errors.OpError as error:  # such as a full disk, which must not end a training
            self._has_failed = True
            _LOG.warning("no more values for TensorBoard in %s: %s", self._folder, error)

    def _open(self) -> None:
        tf.io.gfile.makedirs(self._folder)
        # TensorBoard finds event files by this name, and reads them in the order of their names: 000009 before 000010
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_COUNTER):06}"
        self._writer = tf.io.TFRecordWriter(os.path.join(self._folder, name))
        self._write(file_version="brain.Event:2")
        start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
        self._write(step=self._first_step, session_log=start)

    def _write(self, **event: object) -> None:
        self._writer.write(tf.compat.v1.Event(wall_time=time.time(), **event).SerializeToString())

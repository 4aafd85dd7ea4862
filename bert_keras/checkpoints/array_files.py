"""Write named arrays to safetensors files. This module does not import Keras."""

import os
import pathlib
import re
from collections.abc import Mapping

import numpy as np
import safetensors
import safetensors.numpy


def write_arrays(path: pathlib.Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write named arrays as a safetensors file.

    Raises:
        OSError: the disk is full, or the path cannot be written; safetensors itself raises a `SafetensorError`.
    """
    try:
        safetensors.numpy.save_file(dict(arrays), path, metadata=metadata)
    except safetensors.SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), os.fspath(path)) from error

"""List the ops and kernels of an unpacked TensorFlow through its C API, without importing another TensorFlow.

    python list_registry.py FOLDER

FOLDER contains `tensorflow/libtensorflow_*` and optionally `tensorflow_text/`. The script writes the protocol buffers
`ops`, `kernels` and `ops_with_text` to it.
"""

import ctypes
import pathlib
import sys


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p)]


def main(root: pathlib.Path) -> None:
    ctypes.CDLL(str(root / "tensorflow/libtensorflow_framework.so.2"), ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(root / "tensorflow/libtensorflow_cc.so.2"), ctypes.RTLD_GLOBAL)
    library.TF_GetAllOpList.restype = library.TF_GetAllRegisteredKernels.restype = ctypes.POINTER(_Buffer)
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_GetAllRegisteredKernels.argtypes = [ctypes.c_void_p]
    _write(root / "ops", library.TF_GetAllOpList())
    _write(root / "kernels", library.TF_GetAllRegisteredKernels(library.TF_NewStatus()))
    for path in sorted(root.glob("tensorflow_text/python/**/*.so")):
        ctypes.CDLL(str(path))
    _write(root / "ops_with_text", library.TF_GetAllOpList())


def _write(path: pathlib.Path, buffer) -> None:
    path.write_bytes(ctypes.string_at(buffer.contents.data, buffer.contents.length))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

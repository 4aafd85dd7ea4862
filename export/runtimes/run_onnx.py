"""Runs an ONNX file in onnxruntime: no import of ours.

    python run_onnx.py FILE EXCHANGE

EXCHANGE: see `exchange.py`. A file has one function, so the name of the signature is not looked at.
"""

import sys

NUM_THREADS = 2


def load(path):
    """Opens the file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = NUM_THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    wanted = {entry.name: entry.type for entry in session.get_inputs()}

    def answer(signature, inputs):
        del signature
        given = {name: _cast(inputs[name], wanted[name]) for name in wanted}
        return dict(zip(outputs, session.run(outputs, given), strict=True))

    sides = {"inputs": session.get_inputs(), "outputs": session.get_outputs()}
    return answer, {"": {side: _described(entries) for side, entries in sides.items()}}


def _cast(values, wanted):
    return values.astype("int64" if "int64" in wanted else values.dtype)


def _described(entries):
    return {entry.name: [entry.type.removeprefix("tensor(").removesuffix(")"), entry.shape] for entry in entries}


if __name__ == "__main__":
    from exchange import serve

    serve(lambda: load(sys.argv[1]), sys.argv[2])

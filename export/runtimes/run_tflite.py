"""Run a TFLite file in LiteRT's interpreter, without importing this package.

    python run_tflite.py FILE EXCHANGE

EXCHANGE is the folder of requests and answers described in `exchange.py`. Inputs and outputs are found by their names
in a signature, never by position.
"""

import sys
from collections.abc import Callable, Mapping

import numpy as np

NUM_THREADS = 2


def load(path: str) -> tuple[Callable, Mapping]:
    """Open the file; return the function that runs a signature, and a description of all signatures."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=NUM_THREADS)
    runners = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}

    def answer(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values.copy() for name, values in runners[signature](**inputs).items()}

    return answer, {name: _describe(runner) for name, runner in runners.items()}


def _describe(runner) -> dict[str, dict[str, list]]:
    return {
        side: {name: [detail["dtype"].__name__, detail["shape_signature"].tolist()] for name, detail in details.items()}
        for side, details in (("inputs", runner.get_input_details()), ("outputs", runner.get_output_details()))
    }


if __name__ == "__main__":
    from exchange import serve

    serve(lambda: load(sys.argv[1]), sys.argv[2])

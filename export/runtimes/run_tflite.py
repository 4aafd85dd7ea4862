"""Runs a TFLite file in LiteRT's own interpreter: no import of ours.

    python run_tflite.py FILE EXCHANGE

EXCHANGE: see `exchange.py`. Inputs and outputs are found by their names in a signature, never by their places.
"""

import sys

NUM_THREADS = 2


def load(path):
    """Opens the file."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=NUM_THREADS)
    runners = {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}

    def answer(signature, inputs):
        return {name: values.copy() for name, values in runners[signature](**inputs).items()}

    return answer, {name: _described(runner) for name, runner in runners.items()}


def _described(runner):
    return {
        side: {name: [detail["dtype"].__name__, detail["shape_signature"].tolist()] for name, detail in details.items()}
        for side, details in (("inputs", runner.get_input_details()), ("outputs", runner.get_output_details()))
    }


if __name__ == "__main__":
    from exchange import serve

    serve(lambda: load(sys.argv[1]), sys.argv[2])

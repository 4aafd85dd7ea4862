"""Compare predictions of `plan` with measured training steps: peak memory of the process, and seconds per step.

    python benchmarks/planning.py [--rounds 3]

For each shape, a process that plans and a process that trains run alternately. Training runs a few steps of `fit` with
AdamW, with XLA like `pretrain` or without it like `finetune`. Prints a table of medians over the rounds. The constants
of `bert_keras.analysis.cost_model` were fitted to different shapes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# preset, head, batch size, tokens per sequence, dtype policy, checkpointing
SHAPES = [
    ("tiny", "pretraining", 64, 64, "float32", False),
    ("mini", "pretraining", 8, 256, "float32", False),
    ("small", "classification", 16, 64, "float32", False),
    ("medium", "pretraining", 8, 128, "float32", False),
    ("base", "classification", 8, 96, "float32", False),
    ("base", "pretraining", 4, 128, "float32", False),
    ("medium", "classification", 16, 128, "float32", True),
    ("medium", "pretraining", 16, 128, "float32", True),
    ("medium", "classification", 16, 128, "mixed_bfloat16", False),
]
_WARM_UP_STEPS, _STEPS = 2, 5


def main() -> None:
    """Compare all shapes; in a child process, predict or measure one shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--shapes", type=int, nargs="+", default=range(len(SHAPES)), help="indices into SHAPES (default: all)"
    )
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(SIDES[arguments.child](*SHAPES[arguments.shapes[0]])))
        return
    print("| model | batch size x tokens | memory, MB: predicted | measured | | s/step: predicted | measured | |")
    print("|---|---|---|---|---|---|---|---|")
    for number in arguments.shapes:
        results = {side: [] for side in SIDES}
        for _ in range(arguments.rounds):
            for side in SIDES:
                results[side].append(_run_child(side, number))
        print(_format_row(SHAPES[number], results), flush=True)


def predict(preset: str, head: str, batch_size: int, length: int, policy: str, checkpointing: bool) -> dict:
    """Predict a step with the cost model."""
    from bert_keras import plan

    planned = plan(preset, head=head, batch_size=batch_size, length=length)
    memory = next(
        one for one in planned.memory if (one.dtype_policy, one.gradient_checkpointing) == (policy, checkpointing)
    )
    is_default = policy == "float32" and not checkpointing
    return {"memory": memory.process, "seconds": planned.step_seconds if is_default else None}


def measure(preset: str, head: str, batch_size: int, length: int, policy: str, checkpointing: bool) -> dict:
    """Train a few steps; return the peak memory of the process and the median seconds per step."""
    import keras
    import tensorflow as tf

    from bert_keras.analysis.cost_model.subjects import add_head
    from bert_keras.analysis.cost_model.workloads import BatchShape, Workload
    from bert_keras.architectures.encoder import BertEncoder
    from bert_keras.cli.console import get_peak_memory
    from bert_keras.config import BertConfig
    from bert_keras.training.optimizers.update_rules import BertAdamW
    from bert_keras.training.strategies import keep_freed_memory

    keep_freed_memory()
    keras.config.set_dtype_policy(policy)
    model = add_head(BertEncoder(BertConfig.from_preset(preset)), head)
    model.compile(
        BertAdamW(1e-4, clipnorm=1.0), gradient_checkpointing=checkpointing, jit_compile=head == "pretraining"
    )

    specs = Workload(model, BatchShape(batch_size, length)).example_specs()
    batch = tf.nest.map_structure(lambda spec: tf.ones(spec.shape, spec.dtype), specs)
    clock = _Clock()
    data = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(data, steps_per_epoch=_WARM_UP_STEPS + _STEPS, verbose=0, callbacks=[clock.callback(keras)])
    return {"memory": get_peak_memory(), "seconds": statistics.median(clock.seconds[_WARM_UP_STEPS:])}


class _Clock:
    """Timer of training steps."""

    def __init__(self):
        self.seconds: list[float] = []
        self._began = 0.0

    def callback(self, keras):
        """Return a Keras callback that appends the seconds of each step to `seconds`."""
        return keras.callbacks.LambdaCallback(on_train_batch_begin=self._begin, on_train_batch_end=self._end)

    def _begin(self, *_, **__):
        self._began = time.perf_counter()

    def _end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self._began)


def _run_child(side: str, number: int) -> dict:
    command = [sys.executable, __file__, "--child", side, "--shapes", str(number)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def _format_row(shape: tuple, results: dict[str, list[dict]]) -> str:
    preset, head, batch_size, length, policy, checkpointing = shape
    notes = [
        f"{preset}, {head}",
        *([policy] if policy != "float32" else []),
        *(["checkpointing"] if checkpointing else []),
    ]
    cells = [", ".join(notes), f"{batch_size} x {length}"]
    for quantity, scale, digits in (("memory", 1e6, 0), ("seconds", 1.0, 3)):
        predicted, measured = (
            [result[quantity] for result in results[side] if result[quantity] is not None] for side in SIDES
        )
        if not predicted:
            cells += ["", "", ""]
            continue
        medians = statistics.median(predicted), statistics.median(measured)
        cells += [f"{value / scale:,.{digits}f}" for value in medians] + [f"{medians[0] / medians[1] - 1:+.0%}"]
    return f"| {' | '.join(cells)} |"


SIDES = {"predicted": predict, "measured": measure}

if __name__ == "__main__":
    main()

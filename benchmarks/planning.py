"""What `plan` says of a training step, beside real steps: peak memory of the process, and seconds.

    python benchmarks/planning.py [--rounds 3]

Each side of each shape runs in a process of its own, and they take turns: one plans, the other trains some steps of
`fit` with AdamW, as `pretrain` (with XLA) or `finetune` (without) do. Prints a table of medians over the rounds. The
shapes are others than those that the constants of `bert_keras.analysis.cost_model` were fitted to.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# preset, head, rows, tokens, dtype policy, checkpointing
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
    """Runs all shapes in turn, or as a child one side of one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", type=int, nargs="+", default=range(len(SHAPES)), help="by number, from 0")
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(SIDES[arguments.child](*SHAPES[arguments.shapes[0]])))
        return
    print("| model | rows x tokens | memory, MB: predicted | measured | | seconds a step: predicted | measured | |")
    print("|---|---|---|---|---|---|---|---|")
    for number in arguments.shapes:
        found = {side: [] for side in SIDES}
        for _ in range(arguments.rounds):
            for side, results in found.items():
                results.append(_child(side, number))
        print(_row(SHAPES[number], found), flush=True)


def predicted(preset: str, head: str, rows: int, length: int, policy: str, checkpointing: bool) -> dict:
    """Plans a step."""
    from bert_keras import plan

    planned = plan(preset, head=head, batch_size=rows, length=length)
    memory = next(
        one for one in planned.memory if (one.dtype_policy, one.gradient_checkpointing) == (policy, checkpointing)
    )
    is_plain = policy == "float32" and not checkpointing
    return {"memory": memory.process, "seconds": planned.step_seconds if is_plain else None}


def measured(preset: str, head: str, rows: int, length: int, policy: str, checkpointing: bool) -> dict:
    """Takes steps, and returns the process's peak and the median of the steps."""
    import keras
    import tensorflow as tf

    from bert_keras.analysis.cost_model.subjects import HEADS
    from bert_keras.analysis.cost_model.workloads import Workload
    from bert_keras.cli.console.report import peak_memory_bytes
    from bert_keras.config import BertConfig
    from bert_keras.modeling import BertEncoder
    from bert_keras.training.freed_memory import keep_freed_memory
    from bert_keras.training.optimizers.adamw_and_lamb import BertAdamW

    keep_freed_memory()
    keras.config.set_dtype_policy(policy)
    model = HEADS[head](BertEncoder(BertConfig.from_preset(preset)), 2)
    model.compile(
        BertAdamW(1e-4, clipnorm=1.0), gradient_checkpointing=checkpointing, jit_compile=head == "pretraining"
    )

    def drawn(spec: tf.TensorSpec) -> tf.Tensor:
        return tf.ones(spec.shape, spec.dtype) if spec.dtype.is_floating else tf.fill(spec.shape, 1)

    batch = tf.nest.map_structure(drawn, Workload(model, rows, length).examples())
    clock = _Clock()
    data = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(data, steps_per_epoch=_WARM_UP_STEPS + _STEPS, verbose=0, callbacks=[clock.callback(keras)])
    return {"memory": peak_memory_bytes(), "seconds": statistics.median(clock.seconds[_WARM_UP_STEPS:])}


class _Clock:
    """The seconds of each step."""

    def __init__(self):
        self.seconds: list[float] = []
        self._began = 0.0

    def callback(self, keras):
        """Returns a Keras callback that keeps them here."""
        return keras.callbacks.LambdaCallback(on_train_batch_begin=self._begin, on_train_batch_end=self._end)

    def _begin(self, *_, **__):
        self._began = time.perf_counter()

    def _end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self._began)


def _child(side: str, number: int) -> dict:
    command = [sys.executable, __file__, "--child", side, "--shapes", str(number)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def _row(shape: tuple, found: dict[str, list[dict]]) -> str:
    preset, head, rows, length, policy, checkpointing = shape
    notes = [
        f"{preset}, {head}",
        *([policy] if policy != "float32" else []),
        *(["checkpointing"] if checkpointing else []),
    ]
    cells = [", ".join(notes), f"{rows} x {length}"]
    for what, scale, digits in (("memory", 1e6, 0), ("seconds", 1.0, 3)):
        ours, real = (
            [result[what] for result in found[side] if result[what] is not None] for side in ("predicted", "measured")
        )
        if not ours:
            cells += ["", "", ""]
            continue
        middle, real_middle = statistics.median(ours), statistics.median(real)
        values = (f"{one / scale:,.{digits}f}" for one in (middle, real_middle))
        cells += [*values, f"{middle / real_middle - 1:+.0%}"]
    return f"| {' | '.join(cells)} |"


SIDES = {"predicted": predicted, "measured": measured}

if __name__ == "__main__":
    main()

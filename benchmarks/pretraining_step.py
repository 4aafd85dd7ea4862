"""Compare the speed of a pretraining step with other libraries: real tokens/s at length 128, 20 masked positions.

    python benchmarks/pretraining_step.py [--sizes tiny mini base] [--rounds 7]

Each side runs in its own process, so that no library changes the environment of another. The sides alternate: a round
is a few steps of each. The sides are

    ours            BertPretrainer (masked LM and next sentence), optimizer and settings of `pretrain`, XLA
    ours-plain      the same without XLA
    keras-hub       BertMaskedLM with its defaults: no next sentence, no clipping
    keras-hub-xla   the same with jit_compile=True
    transformers    BertForPreTraining, PyTorch, fused AdamW

Requires the `test` extra. Other work on the machine affects every number, so only compare numbers of one run.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

LENGTH, NUM_MASKED = 128, 20
SIDES = ("ours", "ours-plain", "keras-hub", "keras-hub-xla", "transformers")
NUM_STEPS = {"tiny": 5, "mini": 2, "small": 1, "medium": 1, "base": 1, "large": 1}  # per side and round


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mini", "base"], choices=list(NUM_STEPS))
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)  # the side of a child process
    arguments = parser.parse_args()
    if arguments.side:
        run_side(arguments.side, arguments.sizes[0])
        return
    for size in arguments.sizes:
        print_table(size, measure(size, arguments.sides, arguments.rounds))


def measure(size: str, sides: list[str], num_rounds: int) -> dict[str, float]:
    """Measure the median seconds per step of each side."""
    command = [sys.executable, __file__, "--sizes", size, "--side"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "stderr": subprocess.DEVNULL}
    children = {}
    for side in sides:  # sequentially, because compilation needs memory and both cores
        children[side] = subprocess.Popen([*command, side], **pipes)
        run_turn(children[side])
    seconds = {side: [] for side in sides}
    for _ in range(num_rounds):
        for side, child in children.items():
            seconds[side].append(run_turn(child))
    for child in children.values():
        child.communicate("\n")
    return {side: statistics.median(values) for side, values in seconds.items()}


def run_turn(child: subprocess.Popen) -> float:
    """Let a child process run its steps; return its seconds per step."""
    child.stdin.write("go\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def run_side(side: str, size: str) -> None:
    """Run the steps of a child process, one turn per line of standard input."""
    step = STEPS[side](size, side)
    step()
    step()
    while sys.stdin.readline().strip():
        started = time.perf_counter()
        for _ in range(NUM_STEPS[size]):
            step()
        print((time.perf_counter() - started) / NUM_STEPS[size], flush=True)


def print_table(size: str, medians: dict[str, float]) -> None:
    """Print a table."""
    batch_size = choose_batch_size(size)
    print(f"{size}, {batch_size} x {LENGTH}", flush=True)
    for side, seconds in medians.items():
        ratios = [f"{seconds / medians['ours']:.2f} x ours"] if "ours" in medians else []
        speed = batch_size * LENGTH / seconds
        print(f"  {side:<14} {seconds * 1e3:9,.1f} ms  {speed:9,.0f} tokens/s", *ratios, flush=True)


def choose_batch_size(size: str) -> int:
    """Return the batch size: 8 for large models, 32 for small ones."""
    return 8 if size in ("base", "large") else 32


def make_batch(batch_size: int, length: int = LENGTH) -> tuple[dict, dict]:
    """Draw a batch without padding, with 20 random masked positions per 128 tokens."""
    import numpy as np

    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (batch_size, length)).astype("int32")
    num_masked = length * NUM_MASKED // LENGTH
    drawn = np.stack([rng.permutation(length - 1)[:num_masked] + 1 for _ in ids])
    positions = np.sort(drawn, axis=1).astype("int32")
    features = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    labels = {
        "mask_ids": np.take_along_axis(ids, positions, axis=1),
        "mask_weights": np.ones(positions.shape, "float32"),
        "next_sentence_labels": rng.integers(0, 2, len(ids)).astype("int32"),
    }
    return {**features, "mask_positions": positions}, labels


def our_step(size: str, side: str):
    """Return a function that runs a step of `BertPretrainer`."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import bert_keras as bk
    from bert_keras.training.optimizers.schedules import adamw
    from bert_keras.training.strategies import keep_freed_memory

    keep_freed_memory()
    model = bk.BertPretrainer(bk.BertEncoder(bk.BertConfig.from_preset(size)))
    model.compile(adamw(1e-4, 1_000_000), jit_compile=side == "ours")
    features, labels = make_batch(choose_batch_size(size))
    return lambda: model.train_on_batch(features, labels)


def keras_hub_step(size: str, side: str):
    """Return a function that runs a step of KerasHub's `BertMaskedLM`."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import keras_hub

    from bert_keras.config import BertConfig

    config = BertConfig.from_preset(size)
    names = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
    backbone = keras_hub.models.BertBackbone(**{name: getattr(config, name) for name in names})
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    xla = {"jit_compile": True} if side == "keras-hub-xla" else {}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-4), loss=loss, **xla)
    features, labels = make_batch(choose_batch_size(size))
    return lambda: model.train_on_batch(features, labels["mask_ids"], labels["mask_weights"])


def make_transformers_config(preset: str):
    """Return the configuration of a preset in transformers."""
    import transformers

    from bert_keras.config import BertConfig

    config = BertConfig.from_preset(preset)
    return transformers.BertConfig(
        vocab_size=config.vocabulary_size,
        num_hidden_layers=config.num_layers,
        hidden_size=config.hidden_dim,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_dim,
    )


def torch_step(size: str, side: str):
    """Return a function that runs a step of transformers' `BertForPreTraining`."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count())
    model = transformers.BertForPreTraining(make_transformers_config(size)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    features, labels = make_batch(choose_batch_size(size))
    ids, positions = torch.from_numpy(features["token_ids"]).long(), torch.from_numpy(features["mask_positions"]).long()
    targets = torch.full_like(ids, -100).scatter(1, positions, torch.from_numpy(labels["mask_ids"]).long())
    next_sentence = torch.from_numpy(labels["next_sentence_labels"]).long()

    def step():
        optimizer.zero_grad()
        model(input_ids=ids, labels=targets, next_sentence_label=next_sentence).loss.backward()
        optimizer.step()

    return step


STEPS = {
    "ours": our_step,
    "ours-plain": our_step,
    "keras-hub": keras_hub_step,
    "keras-hub-xla": keras_hub_step,
    "transformers": torch_step,
}

if __name__ == "__main__":
    main()

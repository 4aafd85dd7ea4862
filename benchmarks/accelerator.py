"""Measure pretraining steps and forward passes on a GPU, a TPU or the CPU, compared with transformers.

    python benchmarks/accelerator.py [--preset base] [--shapes 32x128 32x512] [--parts training inference]
        [--sides jax tensorflow torch torch-compile] [--precision bfloat16] [--rounds 5]

Each side is a process that uses the accelerator that its library finds. The sides alternate: a round is about half a
second of each, after a warm-up. Sequences are not padded.

    jax, tensorflow         BertPretrainer by `model.fit`, and BertEncoder, compiled by XLA
    torch, torch-compile    transformers' BertForPreTraining with fused AdamW, and BertModel; the second compiled

transformers computes the logits of all positions, ours those of the masked ones, and BertModel's pooler too.

With bfloat16, training is in mixed precision and inference has weights of 16 bits. A table has the median per step,
the ratio to the first side, sequences/s, the operations of the encoder's matrix products per second and their share of
what one large product reaches in JAX or PyTorch, and the peak memory. A side whose library is missing is left out.
"""

import argparse
import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

PARTS = ("training", "inference")
SIDES = ("jax", "tensorflow", "torch", "torch-compile")
PRECISIONS = ("bfloat16", "float32")
SECONDS_PER_TURN = 0.5
MAX_STEPS_PER_TURN = 200

Run = Callable[[int], None]  # runs a number of steps and waits for the last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--shapes", nargs="+", default=["32x128", "32x512"], metavar="BATCHxLENGTH")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--precision", default="bfloat16", choices=PRECISIONS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", help=argparse.SUPPRESS)  # part, shape and side of a child process
    arguments = parser.parse_args()
    if arguments.side:
        run_side(*arguments.side.split(","), arguments.preset, arguments.precision)
        return
    print(f"{datetime.date.today()}, {arguments.preset}, {arguments.precision}", flush=True)
    for part, shape in itertools.product(arguments.parts, arguments.shapes):
        print(f"\n## {part}, {shape}\n", flush=True)
        measure(part, shape, arguments)


def measure(part: str, shape: str, arguments: argparse.Namespace) -> None:
    """Measure every side of a part at one shape, and print a table."""
    command = [sys.executable, __file__, "--preset", arguments.preset, "--precision", arguments.precision, "--side"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children, about = {}, {}
    for side in arguments.sides:
        child = subprocess.Popen([*command, f"{part},{shape},{side}"], **pipes)
        about[side] = ask(child)
        if "error" in about[side]:
            print(f"- {side}: left out: {about[side]['error']}", flush=True)
            continue
        print(f"- {side}: {about[side]['versions']}, {about[side]['device']}", flush=True)
        children[side] = child
    rounds = [{side: ask(child) for side, child in children.items()} for _ in range(arguments.rounds)]
    if ended := {side for turn in rounds for side in turn if "error" in turn[side]}:
        raise SystemExit(f"{', '.join(sorted(ended))} ended during the measurement; see the messages above")
    for child in children.values():
        child.communicate("\n")
    if rounds and children:
        print_table(part, shape, arguments.preset, [about[side] for side in children], rounds)


def ask(child: subprocess.Popen) -> dict:
    """Let a child process take its turn, and return what it reports."""
    child.stdin.write("go\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline() or '{"error": "the process ended with the message above"}')


def print_table(part: str, shape: str, preset: str, about: list[dict], rounds: list[dict]) -> None:
    """Print the medians of the sides, and their ratios to the first one's time: the median of the rounds' ratios."""
    sides = list(rounds[0])
    batch_size = int(shape.split("x")[0])
    flops = count_flops(part, shape, preset)
    product = max(one["product"] for one in about)
    head = ("", "ms per step", "ratio", "sequences/s", "TFLOP/s", "of one product", "peak memory")
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for side in sides:
        seconds = statistics.median(turn[side]["seconds"] for turn in rounds)
        ratio = statistics.median(turn[side]["seconds"] / turn[sides[0]]["seconds"] for turn in rounds)
        memory = rounds[-1][side]["memory"]
        columns = (
            side,
            f"{1e3 * seconds:,.2f}",
            f"{ratio:.2f} x",
            f"{batch_size / seconds:,.0f}",
            f"{flops / seconds / 1e12:,.2f}",
            f"{flops / seconds / product:.0%}" if product else "-",
            f"{memory / 1e9:.1f} GB" if memory else "-",
        )
        print(f"| {' | '.join(columns)} |", flush=True)


def count_flops(part: str, shape: str, preset: str) -> float:
    """Count the operations of the matrix products of the encoder in a step, without those of the heads."""
    from bert_keras.config import BertConfig

    config = BertConfig.from_preset(preset)
    batch_size, length = map(int, shape.split("x"))
    weights = config.num_layers * (4 * config.hidden_dim**2 + 2 * config.hidden_dim * config.intermediate_dim)
    attention = config.num_layers * 2 * length * config.hidden_dim
    return {"training": 3, "inference": 1}[part] * 2.0 * batch_size * length * (weights + attention)


def run_side(part: str, shape: str, side: str, preset: str, precision: str) -> None:
    """Run the turns of a child process, one per line of standard input; each writes a line of JSON."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print

    def answer(**values: object) -> None:
        print(json.dumps(values), file=answers, flush=True)

    sys.stdin.readline()
    try:
        prepare = prepare_torch if side.startswith("torch") else prepare_keras
        run, about, read_memory = prepare(part, shape, side, preset, precision)
    except ImportError as error:
        answer(error=str(error))
        return
    run(1)
    run(2)
    started = time.perf_counter()
    run(2)
    num_steps = int(min(max(2 * SECONDS_PER_TURN / (time.perf_counter() - started), 2), MAX_STEPS_PER_TURN))
    run(num_steps)
    answer(**about)
    while sys.stdin.readline().strip():
        started = time.perf_counter()
        run(num_steps)
        answer(seconds=(time.perf_counter() - started) / num_steps, memory=read_memory())


def make_batches(shape: str, num_batches: int = 1) -> tuple[dict, dict]:
    """Draw a batch for `BertPretrainer`, and repeat it."""
    import numpy as np
    from pretraining_step import make_batch

    return tuple(
        {name: np.concatenate([array] * num_batches) for name, array in arrays.items()}
        for arrays in make_batch(*map(int, shape.split("x")))
    )


def prepare_keras(part: str, shape: str, side: str, preset: str, precision: str) -> tuple[Run, dict, Callable]:
    """Build our model in JAX or TensorFlow."""
    os.environ["KERAS_BACKEND"] = side
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other sides need memory too
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    import keras

    library = __import__(side)
    import bert_keras as bk

    config = bk.BertConfig.from_preset(preset)
    if part == "training":
        run = train_keras(bk, config, shape, "mixed_bfloat16" if precision == "bfloat16" else precision)
    else:
        run = {"jax": infer_jax, "tensorflow": infer_tensorflow}[side](bk, config, shape, precision)
    versions = f"{side} {library.__version__}, keras {keras.__version__}"
    if side == "tensorflow":
        return run, {"versions": versions, **describe_tensorflow(library, precision)}, read_tensorflow_memory
    device = library.devices()[0]

    def read_memory() -> int:
        return (device.memory_stats() or {}).get("peak_bytes_in_use", 0)

    about = {"versions": versions, "device": device.device_kind, "product": time_jax_product(precision)}
    return run, about, read_memory


def train_keras(bk, config, shape: str, policy: str) -> Run:
    """Return a function that trains `BertPretrainer` by `model.fit`."""
    from bert_keras.training import adamw

    model = bk.BertPretrainer(bk.BertEncoder(config, dtype=policy), dtype=policy)
    model.compile(adamw(1e-4, 1_000_000), jit_compile=True)
    batch_size = int(shape.split("x")[0])
    batches = {}

    def run(num_steps: int) -> None:
        if num_steps not in batches:
            batches[num_steps] = make_batches(shape, num_steps)
        features, labels = batches[num_steps]
        model.fit(features, labels, batch_size=batch_size, epochs=1, shuffle=False, verbose=0)

    return run


def infer_jax(bk, config, shape: str, policy: str) -> Run:
    """Return a function that runs `BertEncoder` in JAX."""
    import jax

    model = bk.BertEncoder(config, dtype=policy)
    features, _ = make_batches(shape)
    inputs = {name: jax.device_put(features[name]) for name in ("token_ids", "segment_ids", "padding_mask")}
    model(inputs)
    kinds = model.trainable_variables, model.non_trainable_variables
    weights = [[variable.value for variable in kind] for kind in kinds]
    call = jax.jit(lambda weights, inputs: model.stateless_call(*weights, inputs, training=False)[0]["sequence_output"])

    def run(num_steps: int) -> None:
        for _ in range(num_steps):
            outputs = call(weights, inputs)
        outputs.block_until_ready()

    return run


def infer_tensorflow(bk, config, shape: str, policy: str) -> Run:
    """Return a function that runs `BertEncoder` in TensorFlow."""
    import tensorflow as tf

    model = bk.BertEncoder(config, dtype=policy)
    features, _ = make_batches(shape)
    inputs = {name: tf.constant(features[name]) for name in ("token_ids", "segment_ids", "padding_mask")}
    call = tf.function(lambda inputs: model(inputs, training=False)["sequence_output"], jit_compile=True)

    def run(num_steps: int) -> None:
        for _ in range(num_steps):
            outputs = call(inputs)
        outputs[0, 0, 0].numpy()

    return run


def describe_tensorflow(tf, precision: str) -> dict:
    """Return the device that TensorFlow uses, and the operations per second of one large product on it."""
    gpus = tf.config.list_physical_devices("GPU")
    size = 8192 if gpus else 1024
    matrix = tf.cast(tf.random.normal((size, size)), precision)
    multiply = tf.function(lambda a, b: tf.reduce_sum(a @ b), jit_compile=True)
    product = 2 * size**3 / time_product(lambda: multiply(matrix, matrix).numpy())
    device = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU") if gpus else "CPU"
    return {"device": device, "product": product}


def read_tensorflow_memory() -> int:
    """Return the peak memory of the first GPU in TensorFlow; 0 without one."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        return 0
    return tf.config.experimental.get_memory_info("GPU:0")["peak"]


def time_jax_product(precision: str) -> float:
    """Return the floating-point operations per second of one large matrix product."""
    import jax

    size = 8192 if jax.default_backend() != "cpu" else 1024
    matrix = jax.random.normal(jax.random.key(0), (size, size), precision)  # constants would take less power
    multiply = jax.jit(lambda a, b: a @ b)
    return 2 * size**3 / time_product(lambda: multiply(matrix, matrix).block_until_ready())


def time_product(multiply: Callable[[], object]) -> float:
    """Return the median seconds of a product."""
    seconds = []
    for _ in range(12):
        started = time.perf_counter()
        multiply()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[2:])


def prepare_torch(part: str, shape: str, side: str, preset: str, precision: str) -> tuple[Run, dict, Callable]:
    """Build transformers' model."""
    import torch
    import transformers
    from pretraining_step import make_transformers_config

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")  # as JAX: TF32 where there is TF32
    config = make_transformers_config(preset)
    dtype = getattr(torch, precision)
    features, labels = (
        {name: torch.from_numpy(array).to(device) for name, array in part.items()} for part in make_batches(shape)
    )
    ids = features["token_ids"].long()
    inputs = {"input_ids": ids, "attention_mask": features["padding_mask"].long(), "token_type_ids": 0 * ids}

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def compile_model(model: torch.nn.Module) -> Callable:
        return torch.compile(model) if side == "torch-compile" else model

    if part == "training":
        model = transformers.BertForPreTraining(config).to(device).train()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
        targets = torch.full_like(ids, -100).scatter(1, features["mask_positions"].long(), labels["mask_ids"].long())
        next_sentence = labels["next_sentence_labels"].long()
        call = compile_model(model)

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast(device, dtype, enabled=precision == "bfloat16"):
                loss = call(**inputs, labels=targets, next_sentence_label=next_sentence).loss
            loss.backward()
            optimizer.step()

    else:
        call = compile_model(transformers.BertModel(config).to(device, dtype).eval())

        def step() -> None:
            with torch.inference_mode():
                call(**inputs)

    def run(num_steps: int) -> None:
        for _ in range(num_steps):
            step()
        wait()

    size = 8192 if device == "cuda" else 1024
    matrix = torch.randn((size, size), dtype=dtype, device=device)
    product = 2 * size**3 / time_product(lambda: (matrix @ matrix, wait()))
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    about = {"versions": f"torch {torch.__version__}, transformers {transformers.__version__}", "device": name}
    return run, {**about, "product": product}, lambda: torch.cuda.max_memory_allocated() if device == "cuda" else 0


if __name__ == "__main__":
    main()

"""Compare the speed, the answers and the memory of artifacts in every engine, with other libraries.

    python benchmarks/inference.py WORK MINILM DATA [--parts ids texts vectors process tflite] [--models minilm base]
        [--rounds 5] [--only TEXT ...] [--as-is] [--peers-python PYTHON]

WORK is a folder for artifacts, which `inference_artifacts.py` writes first, unless they exist; MINILM is a folder of
all-MiniLM-L6-v2; DATA contains `banking77/`, `stsb/` and `sst2/`. Each side is a process with two threads that loads
its artifact (`inference_sides.py`). Each round measures every side, one after the other; the first is a warm-up. A
table per part has the medians over the rounds and the ratio to the first side's time: the median of the rounds' ratios.

- ids: forward passes on ids without padding
- texts: 500 texts of 3 to 60 words to labels, one by one, in batches of 8, and all at once
- vectors: sentence vectors of 10,000 sentences, and the share with the same nearest neighbour as in float32 PyTorch
- process: seconds to the first answer of a new process, and its peak memory
- tflite: forward passes in LiteRT, with one and two threads

Other libraries than those of `bert-keras[test]` run in another interpreter, --peers-python, of an environment with
`"sentence-transformers<6" "optimum-onnx[onnxruntime]" "optimum-intel[openvino]" nncf "datasets<5" fastembed
ctranslate2`. A side that does not load is left out, with the reason.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

from bert_keras.engines.engine import FAST_SAVED_MODEL

NUM_THREADS = 2
HERE = pathlib.Path(__file__).parent
PARTS = ("ids", "texts", "vectors", "process", "tflite")
SHAPES = {"ids": ((1, 16), (1, 128), (8, 32), (8, 128)), "tflite": ((1, 16), (1, 128))}
WARM_UP_SENTENCES = 512
BATCH_SIZES = (1, 8, 0)  # 0: all at once
ENGINES = ("onnxruntime", "openvino")
PEERS = (
    *("sentence-transformers onnx", "sentence-transformers onnx int8", "sentence-transformers openvino"),
    *("sentence-transformers openvino int8", "fastembed float32", "fastembed int8", "ctranslate2 int8"),
)
REFERENCE = "sentence-transformers torch"  # float32, the vectors that others are compared with
FLOAT32 = "model.onnx"
TEXT = "How do I locate my card?"

Rounds = dict[tuple[str, str], list[float]]  # seconds per round, keyed by side and column


def list_sides(part: str, folder: pathlib.Path) -> list[str]:
    """Return the names of the sides of a part, given the artifacts of a model."""
    files = [path.name for path in sorted((folder / "artifacts" / "onnx" / "onnx").glob("*")) if _is_model(path)]
    pairs = [f"engine {engine} {file}" for engine in ENGINES for file in files if _is_readable(engine, file)]
    engines = [f"{pair}{instances}" for pair in pairs for instances in ("", f" {NUM_THREADS}x")]
    if part == "ids":
        sides = [f"onnxruntime {file}" for file in files if _is_readable("onnxruntime", file)]
        sides += [f"openvino {file} f32" for file in files]
        return [sides[0], "saved_model", "saved_model bfloat16", *sides[1:], f"openvino {FLOAT32} bf16", "torch_onnx"]
    if part == "texts":
        return ["pipeline", "saved_model", "saved_model bfloat16", "padded", "engine tensorflow", *engines]
    if part == "vectors":
        return [REFERENCE, f"{REFERENCE} bfloat16", *PEERS, "engine tensorflow", *engines]
    names = ("float32", "float16", "dynamic_int8")
    return [f"litert model_{name}_lengths.tflite {threads}" for name in names for threads in (2, 1)]


def _is_model(path: pathlib.Path) -> bool:
    return path.suffix in (".onnx", ".xml")


def _is_readable(engine: str, file: str) -> bool:
    return engine == "openvino" or file.endswith(".onnx")


class Side:
    """A process that loads a side and answers requests."""

    def __init__(self, part: str, name: str, folder: pathlib.Path, python: str):
        self.name = name
        command = [python, str(HERE / "inference_sides.py"), part, name, str(folder), str(NUM_THREADS)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(NUM_THREADS), "HF_HUB_OFFLINE": "1"}
        for variable in FAST_SAVED_MODEL:
            environment.setdefault(variable, "1")  # as in the Dockerfile of serving/
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self._process = subprocess.Popen(command, env=environment, **pipes)

    def read(self) -> dict:
        """Return the next line of the process; its versions or the reason why it cannot be loaded come first."""
        return json.loads(self._process.stdout.readline() or '{"error": "the process ended"}')

    def ask(self, request: dict) -> dict:
        """Return the answer to a request."""
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self.read()
        if "error" in answer:
            raise SystemExit(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def start_sides(part: str, names: Sequence[str], folder: pathlib.Path, peers_python: str) -> list[Side]:
    """Start the processes of all sides, one after the other, and print their versions."""
    sides = []
    for name in names:
        python = peers_python if name in PEERS else sys.executable
        side = Side("ids" if part == "tflite" else part, name, folder, python)
        answer = side.read()
        if "error" in answer:
            print(f"- {name}: left out: {' '.join(answer['error'].split())[:200]}")
            side.close()
            continue
        print(f"- {name}: {', '.join(f'{package} {version}' for package, version in answer['versions'].items())}")
        sides.append(side)
    print(flush=True)
    return sides


def measure(
    sides: Sequence[Side], requests: dict[str, dict], num_rounds: int, warm_up: dict | None = None
) -> tuple[Rounds, dict[str, dict]]:
    """Return the seconds of every round, and the last answer of each side.

    Args:
        sides: the processes.
        requests: what to ask, keyed by the column of the table; `{side}` in a value is replaced by the side's name.
        num_rounds: rounds after the warm-up.
        warm_up: what the requests of the warm-up change.
    """
    rounds: Rounds = {}
    answers = {}
    for number in range(num_rounds + 1):
        for column, request in requests.items():
            for side in sides:
                out = {"out": request["out"].format(side=side.name)} if "out" in request else {}
                answer = answers[side.name] = side.ask(request | out | (warm_up or {} if number == 0 else {}))
                if number:  # the first round is a warm-up
                    rounds.setdefault((side.name, column), []).append(answer["seconds"])
    for side in sides:
        side.close()
    return rounds, answers


def print_table(rounds: Rounds, format_seconds, extra: dict[str, dict[str, str]] | None = None) -> None:
    """Print a Markdown table: a row per side, with the ratio to the first side's time.

    Args:
        rounds: the seconds of every round.
        format_seconds: function from seconds to the text of a cell.
        extra: more columns: texts keyed by the column and by the side.
    """
    sides, columns = (list(dict.fromkeys(key[index] for key in rounds)) for index in (0, 1))
    extra = extra or {}
    print("| " + " | ".join(["", *columns, *extra]) + " |")
    print("|---" * (1 + len(columns) + len(extra)) + "|")
    for side in sides:
        cells = [side]
        for column in columns:
            ratios = [mine / first for mine, first in zip(rounds[side, column], rounds[sides[0], column], strict=True)]
            cells.append(
                f"{format_seconds(statistics.median(rounds[side, column]))} ({statistics.median(ratios):.2f} x)"
            )
        print("| " + " | ".join([*cells, *(values.get(side, "") for values in extra.values())]) + " |")
    print(flush=True)


def measure_ids(part: str, folder: pathlib.Path, arguments: argparse.Namespace) -> None:
    """Print milliseconds per forward pass, and the ratio of the times."""
    sides = start_sides(part, choose(list_sides(part, folder), arguments.only), folder, arguments.peers_python)
    requests = {f"{size} x {length}": {"shape": [size, length]} for size, length in SHAPES[part]}
    rounds, _ = measure(sides, requests, arguments.rounds)
    print_table(rounds, lambda seconds: f"{1000 * seconds:.1f} ms")


def measure_texts(folder: pathlib.Path, arguments: argparse.Namespace) -> None:
    """Print texts/s, the ratio of the times, and the share of labels that are equal to the checkpoint's."""
    sides = start_sides("texts", choose(list_sides("texts", folder), arguments.only), folder, arguments.peers_python)
    requests = {f"batch {size}" if size else "all at once": {"batch_size": size} for size in BATCH_SIZES}
    rounds, answers = measure(sides, requests, arguments.rounds)
    expected = json.loads((folder / "labels.json").read_text("utf-8"))
    equal = {
        name: f"{np.mean([a == b for a, b in zip(answer['labels'], expected, strict=True)]):.1%}"
        for name, answer in answers.items()
    }
    print_table(rounds, lambda seconds: f"{len(expected) / seconds:.0f} texts/s", {"equal labels": equal})


def measure_vectors(work: pathlib.Path, arguments: argparse.Namespace) -> None:
    """Print sentences/s, the ratio of the times, and the share of equal nearest neighbours."""
    folder, out = work / "embedder", work / "vectors"
    out.mkdir(exist_ok=True)
    names = choose(list_sides("vectors", folder), arguments.only)
    sides = start_sides("vectors", names, folder, arguments.peers_python)
    count = arguments.sentences
    requests = {f"{count:,} sentences": {"count": count, "out": f"{out}/{{side}}.npy"}}
    rounds, answers = measure(sides, requests, arguments.rounds, warm_up={"count": WARM_UP_SENTENCES})
    groups = np.array(json.loads((work / "sentences.json").read_text("utf-8"))["groups"][:count])
    expected = np.load(out / f"{REFERENCE}.npy")[:count]
    subsets = {f"banking77, {number}": np.flatnonzero(groups == "banking77")[:number] for number in (400, 3000)}
    subsets["STS-B"] = np.flatnonzero(groups == "stsb")
    equal = {
        f"same neighbour, {name}": {
            side: f"{compare_neighbours(np.load(out / f'{side}.npy')[rows], expected[rows]):.1%}" for side in answers
        }
        for name, rows in subsets.items()
    }
    print_table(rounds, lambda seconds: f"{count / seconds:.0f}/s", equal)


def compare_neighbours(vectors: np.ndarray, expected: np.ndarray) -> float:
    """Return the share of vectors whose nearest other vector is the same as in the expected vectors."""
    return float(np.mean(find_neighbours(vectors) == find_neighbours(expected)))


def find_neighbours(vectors: np.ndarray) -> np.ndarray:
    """Return the index of the nearest other vector, for unit vectors `(N, D)`."""
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    return similarity.argmax(axis=1)


def measure_processes(folder: pathlib.Path, arguments: argparse.Namespace) -> None:
    """Print seconds from the start of a process to its first answer, which ends it, and its peak memory."""
    onnx = folder / "artifacts" / "onnx" / "onnx"
    files = [path for path in sorted(onnx.glob("*")) if _is_model(path)]
    script = (
        "import sys, bert_keras as bk; "
        "print(bk.Predictor.from_artifact(sys.argv[1], engine=sys.argv[2], threads=2)([sys.argv[3]])[0]['label'])"
    )
    commands = {}
    for engine, path in [(e, p) for e in ENGINES for p in files if _is_readable(e, p.name)]:
        commands[f"Python, {engine} {path.name}"] = [sys.executable, "-c", script, str(path), engine, TEXT]
        commands[f"bert-keras predict, {engine} {path.name}"] = [
            *(
                str(pathlib.Path(sys.executable).with_name("bert-keras")),
                "predict",
                str(path),
                TEXT,
                "--engine",
                engine,
            ),
        ]
    saved_model = str(folder / "artifacts")
    commands["Python, tensorflow"] = [sys.executable, "-c", script, saved_model, "tensorflow", TEXT]
    rounds: Rounds = {}
    memory: dict[str, list[int]] = {}
    failed = set()
    for number in range(arguments.rounds + 1):
        for name in choose(list(commands), arguments.only):
            if name in failed:
                continue
            seconds, peak, error = run_process(commands[name])
            if error:
                failed.add(name)
                print(f"- {name}: left out: {error[-200:]}")
            elif number:
                rounds.setdefault((name, "first answer"), []).append(seconds)
                memory.setdefault(name, []).append(peak)
    print()
    if rounds:
        peaks = {name: f"{statistics.median(peaks) / 1e6:.0f} MB" for name, peaks in memory.items()}
        print_table(rounds, lambda seconds: f"{seconds:.2f} s", {"peak memory": peaks})


def run_process(command: list[str]) -> tuple[float, int, str]:
    """Return the seconds of a command, its peak memory in bytes, and the last line of its error, if it fails."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    lines = errors.strip().splitlines() or ["no message"]
    return seconds, 1024 * usage.ru_maxrss, lines[-1] if process.returncode else ""


def choose(names: list[str], only: Sequence[str]) -> list[str]:
    """Return the first name, which others are compared with, and those that contain one of the texts."""
    return [name for number, name in enumerate(names) if not number or not only or any(text in name for text in only)]


def describe_machine() -> str:
    """Return the date, the processor and what it offers for small numbers."""
    information = pathlib.Path("/proc/cpuinfo").read_text("utf-8")
    lines = dict(line.split(":", 1) for line in information.replace("\t", "").splitlines() if ":" in line)
    flags = lines.get("flags", "").split()
    names = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
    features = ", ".join(flag for flag in names if flag in flags)
    processor = f"{lines.get('model name', platform.machine()).strip()}, family {lines.get('cpu family', '').strip()}"
    cores = f"{os.cpu_count()} cores of {processor} ({features})"
    return f"{datetime.date.today()}, {cores}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work", "minilm", "data"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--models", nargs="+", choices=["minilm", "base"], default=["minilm", "base"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=10_000, help="number of sentences of the part vectors")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="sides whose names contain a text")
    parser.add_argument("--as-is", action="store_true", help="write no artifacts, measure those that WORK contains")
    parser.add_argument("--peers-python", default=sys.executable, help="the interpreter of other libraries")
    arguments = parser.parse_args()
    if not arguments.as_is:
        script = [sys.executable, str(HERE / "inference_artifacts.py")]
        paths = [str(path) for path in (arguments.work, arguments.minilm, arguments.data)]
        subprocess.run([*script, *paths, "--models", *arguments.models, "embedder"], check=True, stdout=sys.stderr)
    print(describe_machine(), end="\n\n")
    for part in arguments.parts:
        if part == "vectors":
            print(f"## {part}\n")
            measure_vectors(arguments.work, arguments)
            continue
        for model in arguments.models if part in ("ids", "texts") else ["minilm"]:
            folder = arguments.work / model
            print(f"## {part}, {model}\n", flush=True)
            if part == "texts":
                measure_texts(folder, arguments)
            elif part == "process":
                measure_processes(folder, arguments)
            else:
                measure_ids(part, folder, arguments)


if __name__ == "__main__":
    main()

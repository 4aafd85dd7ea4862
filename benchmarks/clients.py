"""Compare the answers of the clients in `examples/` with `Predictor`'s, with real models and texts.

    python benchmarks/clients.py WORK CHECKPOINT TEXTS [--number 300] [--clients python typescript java]
        [--runtimes tflite onnx]

CHECKPOINT is a fine-tuned model, TEXTS a file for `bert-keras predict`. Labels, ranges and answers must be equal, and
numbers within 1e-4; the first difference ends the program. WORK gets the exported files, and the classes of Java. The
clients must be built: `npm ci && npm run build` in `examples/typescript`.
"""

import argparse
import contextlib
import pathlib
import subprocess
import time

import bert_keras as bk
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.prediction_data import read_prediction_data
from tests.examples.clients.answer_checks import check_answers
from tests.examples.clients.client_process import ClientProcess
from tests.examples.clients.conftest import FILES
from tests.examples.clients.python_client import PythonClient
from tests.examples.clients.runner_process import RunnerProcess, make_runner

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
RUNTIMES = {"python": ("tflite",), "typescript": ("tflite", "onnx"), "java": ("tflite", "onnx")}


def main() -> None:
    """Compare the answers, and print the seconds of each client."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--clients", nargs="+", choices=RUNTIMES, default=list(RUNTIMES))
    parser.add_argument("--runtimes", nargs="+", choices=FILES, default=list(FILES))
    arguments = parser.parse_args()
    artifacts = arguments.work / arguments.checkpoint.name
    if not artifacts.is_dir():
        bk.export_model(arguments.checkpoint, artifacts, ["tflite", "onnx"], quantizations=("float32",))
    whole = bk.Predictor.from_checkpoint(arguments.checkpoint)
    texts = [one.example for one in read_prediction_data(whole.task, arguments.texts, FileOptions())]
    step = max(1, len(texts) // arguments.number)
    examples = [_get_texts(example) for example in texts[::step][: arguments.number]]
    for runtime in arguments.runtimes:
        length = min(128, whole.task.max_sequence_length) if runtime == "tflite" else whole.task.max_sequence_length
        predictor = bk.Predictor(whole.model, whole.tokenizer, whole.task.with_length(length))
        for name in arguments.clients:
            if runtime in RUNTIMES[name]:
                start = time.perf_counter()
                with open_client(name, artifacts / runtime, FILES[runtime], arguments.work) as client:
                    check_answers(client, predictor, examples)
                seconds = time.perf_counter() - start
                print(f"{whole.task.name}: {len(examples)} equal, {name}, {runtime}, {seconds:.0f} s", flush=True)


def open_client(
    name: str, folder: pathlib.Path, file: str, work: pathlib.Path
) -> contextlib.AbstractContextManager[ClientProcess | PythonClient]:
    """Start the test program of a client."""
    if name == "python":
        return contextlib.nullcontext(PythonClient(folder, file))
    if name == "typescript":
        return ClientProcess(["node", EXAMPLES / "typescript/test/answer_lines.mjs"], folder, file)
    classes = work / "classes"
    if not classes.is_dir():
        sources = [
            *(EXAMPLES / "java/src/main").rglob("*.java"),
            EXAMPLES / "java/src/test/java/bertkeras/client/AnswerLines.java",
        ]
        subprocess.run(["javac", "--release", "11", "-d", classes, *sources], check=True)
    path = [classes, EXAMPLES / "java/src/main/resources"]
    command = ["java", "-cp", ":".join(map(str, path)), "bertkeras.client.AnswerLines"]
    return RunnerProcess(command, folder, make_runner(folder / file))


def _get_texts(example: object) -> tuple[str, ...]:
    """Return the text, or the two texts, of an example of a task."""
    if hasattr(example, "question"):
        return (example.question, example.context)
    second = getattr(example, "second_text", None)
    return (example.text,) if second is None else (example.text, second)


if __name__ == "__main__":
    main()

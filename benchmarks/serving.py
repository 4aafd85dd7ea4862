"""Measure `bert-keras serve`: throughput compared with other servers, overload, changes of versions, and a long run.

    python -m benchmarks.serving compare --artifact FILE.onnx --checkpoint CHECKPOINT --peers-python PYTHON \\
        [--triton REPOSITORY --triton-packages SITE_PACKAGES] [--rounds 3]
    python -m benchmarks.serving bulk --artifact FILE
    python -m benchmarks.serving cost --artifact FILE.onnx
    python -m benchmarks.serving overload --artifact FILE
    python -m benchmarks.serving versions --artifact FILE --changes 50 --requests 50000
    python -m benchmarks.serving soak --artifact FILE --minutes 60

CHECKPOINT is a classifier that transformers reads, and the artifact an export of it. `serving_peers.py` says how to
make the environments of the others. The texts are those of `serving_load.py`, one per request. The load generator
runs on the same machine.

compare: each round starts each server in turn and sends requests of 32 clients, each of which waits for its answer.
bulk: texts/s of the same requests compared with `Predictor` on all texts at once, the most that the engine can do.
cost: CPU time per request of the server's process and of the worker's with an onnxruntime that computes nothing.
overload: requests arrive at ten times the rate that the server can answer. With --separate-cores the generator has
cores of its own, because sending ten times as many requests takes a part of the machine.
versions: requests arrive at half that rate, without changes, while versions appear one after the other, and without.
soak: half that rate for a long time; memory, threads and open files of all processes at the beginning and at the end.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence, Set

from benchmarks.http_load import LoadSettings, run_load
from benchmarks.inference import describe_machine
from benchmarks.load_result import LoadResult
from benchmarks.process_usage import list_family, read_processes
from benchmarks.serving_load import make_bodies, make_texts
from benchmarks.serving_peers import Peer, run_python_peer, run_triton, stop

CLIENTS = 32
MODEL = "model"
NO_ENGINE = """
import numpy as np
import onnxruntime

def run(self, names, inputs):
    rows = len(next(iter(inputs.values())))
    return [np.zeros((rows, *output.shape[1:]), np.float32) for output in self.get_outputs() if output.name in names]

onnxruntime.InferenceSession.run = run
"""  # as sitecustomize.py, which Python imports at its start


@contextlib.contextmanager
def run_own(
    model: pathlib.Path, *options: str, cores: Set[int] = frozenset(), environment: Mapping[str, str] | None = None
) -> Iterator[Peer]:
    """Run `bert-keras serve` with one model, on some of the cores if they are given."""
    command = [sys.executable, "-m", "bert_keras.cli.main", "serve", "--model", f"{MODEL}={model}", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-grpc", "--json", *options],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    if cores:
        os.sched_setaffinity(process.pid, cores)
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not start; see its messages above")
        yield Peer(f"http://127.0.0.1:{json.loads(line)['http']}", process.pid)
    finally:
        stop(process)
        process.stdout.close()


def send(peer: Peer, path: str, protocol: str, **settings) -> LoadResult:
    """Send the texts, one per request, and return the result of the load."""
    bodies = make_bodies(protocol, make_texts())
    return run_load(LoadSettings(peer.url + path, bodies, warmup_seconds=3, **{"pids": [peer.pid], **settings}))


def measure_capacity(peer: Peer, seconds: float) -> float:
    """Return the requests/s that the server answers when 32 clients wait for their answers."""
    return send(peer, "/classify", "tasks", num_clients=CLIENTS, duration_seconds=seconds).summarize()[
        "requests_per_second"
    ]


def compare(arguments: argparse.Namespace) -> None:
    """Print throughput, latency and CPU time of each server."""
    triton = arguments.triton and arguments.triton_packages
    sides = ["bert-keras", "bert-keras, openvino"] if arguments.openvino else ["bert-keras"]
    sides += ["fastapi", "litserve"] * bool(arguments.peers_python) + ["triton"] * bool(triton)
    results: dict[str, list[dict]] = {side: [] for side in sides}
    for number in range(arguments.rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            with start(side, arguments) as peer:
                path, protocol = {
                    "fastapi": ("/predict", "tei"),
                    "litserve": ("/predict", "tei"),
                    "triton": (f"/v2/models/{arguments.triton_model}/infer", "oip"),
                }.get(side, ("/classify", "tasks"))
                results[side].append(
                    send(peer, path, protocol, num_clients=CLIENTS, duration_seconds=arguments.seconds).summarize()
                )
    names = ("server", "requests/s", "faster by", "p50, ms", "p99, ms", "CPU ms per request", "memory, MB", "errors")
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    own = [result["requests_per_second"] for result in results["bert-keras"]]
    for side, rounds in results.items():
        rates = [result["requests_per_second"] for result in rounds]
        ratio = statistics.median(one / other for one, other in zip(own, rates, strict=True))
        latencies = [statistics.median(result["latency_ms"][name] for result in rounds) for name in ("p50", "p99")]
        cpu = statistics.median(result["servers"][0]["cpu_ms_per_request"] for result in rounds)
        memory = max(result["servers"][0]["rss_max_bytes"] for result in rounds) / 1e6
        failed = sum(result["requests"] - result["statuses"].get("200", 0) for result in rounds)
        numbers = [f"{statistics.median(rates):.0f}", f"{ratio:.2f}x", *(f"{value:.0f}" for value in latencies)]
        print("| " + " | ".join([side, *numbers, f"{cpu:.2f}", f"{memory:.0f}", str(failed)]) + " |")


@contextlib.contextmanager
def start(side: str, arguments: argparse.Namespace) -> Iterator[Peer]:
    """Start a server of the comparison."""
    if side.startswith("bert-keras"):
        engine = ("--engine", "openvino") if "openvino" in side else ()
        running = run_own(arguments.artifact, *engine)
    elif side == "triton":
        running = run_triton(arguments.triton, site_packages=arguments.triton_packages)
    else:
        running = run_python_peer(side, arguments.checkpoint, python=arguments.peers_python)
    with running as peer:
        yield peer


def measure_bulk(arguments: argparse.Namespace) -> None:
    """Print the throughput of 32 clients as a share of that of `Predictor`."""
    code = (
        "import os, sys, time; os.environ['TOKENIZERS_PARALLELISM'] = 'false'\n"
        "import bert_keras as bk\n"
        "from benchmarks.serving_load import make_texts\n"
        "predictor = bk.Predictor.from_artifact(sys.argv[1], instances=os.cpu_count())\n"
        "texts = make_texts() * 3\n"
        "predictor(texts[:200]); begin = time.perf_counter(); predictor(texts)\n"
        "print(len(texts) / (time.perf_counter() - begin))"
    )
    command = [sys.executable, "-c", code, str(arguments.artifact)]
    bulks, rates = [], []
    for _ in range(arguments.rounds):
        bulks.append(float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
        with run_own(arguments.artifact) as peer:
            rates.append(measure_capacity(peer, arguments.seconds))
    shares = [rate / bulk for rate, bulk in zip(rates, bulks, strict=True)]
    print(
        f"Predictor: {statistics.median(bulks):.0f} texts/s; {CLIENTS} clients: {statistics.median(rates):.0f} texts/s"
    )
    print(f"share {statistics.median(shares):.1%} ({', '.join(f'{share:.1%}' for share in shares)})")


def measure_cost(arguments: argparse.Namespace) -> None:
    """Print the CPU time per request without the engine's."""
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "sitecustomize.py").write_text(NO_ENGINE)
        environment = {"PYTHONPATH": os.pathsep.join([folder, os.getcwd()]), "ORT_DISABLE_TELEMETRY": "1"}
        for _ in range(arguments.rounds):
            with run_own(arguments.artifact, environment=environment) as peer:
                worker = list_family(peer.pid, read_processes()[1])[-1]
                settings = {"num_clients": CLIENTS, "duration_seconds": arguments.seconds, "pids": [peer.pid, worker]}
                result = send(peer, "/classify", "tasks", **settings).summarize()
                both, own = (server["cpu_ms_per_request"] for server in result["servers"])
                costs.append((result["requests_per_second"], both - own, own))
    rate, front, own = map(statistics.median, zip(*costs, strict=True))
    print(f"{rate:.0f} requests/s; CPU time: server {front:.2f} ms, worker {own:.2f} ms, sum {front + own:.2f} ms")


def measure_overload(arguments: argparse.Namespace) -> None:
    """Print what happens at ten times the capacity."""
    cores = os.sched_getaffinity(0)
    server_cores = set()
    if arguments.separate_cores:
        server_cores = set(sorted(cores)[: len(cores) // 2])
        os.sched_setaffinity(0, cores - server_cores)
    options = ("--timeout", "2", "--max-requests", str(arguments.max_requests))
    with run_own(arguments.artifact, *options, cores=server_cores) as peer:
        capacities, results = [measure_capacity(peer, arguments.seconds)], []
        for _ in range(arguments.rounds):
            rate = 10 * capacities[-1]
            settings = {"rate": rate, "duration_seconds": arguments.seconds, "num_connections": 1024}
            results.append(send(peer, "/classify", "tasks", **settings).summarize())
            print_load(f"{rate:.0f} arrivals/s", results[-1])
            capacities.append(measure_capacity(peer, arguments.seconds))
    shares = [
        result["requests_per_second"] / statistics.mean(capacities[number : number + 2])
        for number, result in enumerate(results)
    ]
    print(f"capacity {', '.join(f'{capacity:.0f}' for capacity in capacities)} requests/s; deadline 2 s")
    print(f"goodput {statistics.median(shares):.1%} ({', '.join(f'{share:.1%}' for share in shares)}) of the capacity")


def print_load(name: str, result: dict) -> None:
    """Print the figures of a load."""
    memory = [result["servers"][0][f"rss_{moment}_bytes"] / 1e6 for moment in ("begin", "max", "end")]
    print(f"{name}: {result['requests']} requests, {result['requests_per_second']:.0f} answers/s")
    print(f"  status {result['statuses']}, errors {result['errors']}, latency in ms {result['latency_ms']}")
    print(f"  memory in MB: begin {memory[0]:.0f}, max {memory[1]:.0f}, end {memory[2]:.0f}")
    print(f"  generator: delay in ms {result['delay_ms']}, {result['generator_cpu_seconds']:.1f} CPU seconds")


def measure_versions(arguments: argparse.Namespace) -> None:
    """Print the latency with and without changes of versions."""
    is_quantized = "quantized" in arguments.artifact.name
    source = arguments.artifact.parent.parent if arguments.artifact.is_file() else arguments.artifact
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        model.mkdir()
        publish(source, model / "1")
        with run_own(model, "--poll", "0.5", *(["--quantized"] if is_quantized else [])) as peer:
            rate = arguments.load * measure_capacity(peer, arguments.seconds)
            settings = {"rate": rate, "arrivals": "poisson", "num_connections": 256}
            few, many = arguments.requests // 4, arguments.requests // 2
            steady = [send(peer, "/classify", "tasks", num_requests=few, **settings).summarize()]
            is_done, seconds = threading.Event(), []
            pause = arguments.requests / 2 / rate / arguments.changes
            work = (peer, model, source, arguments.changes, pause, seconds, is_done)
            changing = threading.Thread(target=change_versions, args=work)
            changing.start()
            changed = send(peer, "/classify", "tasks", num_requests=many, **settings).summarize()
            is_done.set()
            changing.join()
            steady.append(send(peer, "/classify", "tasks", num_requests=few, **settings).summarize())
    print(f"{rate:.0f} requests/s, {arguments.load:.0%} of the capacity")
    print_load("before the changes", steady[0])
    print_load(f"with {len(seconds)} changes, which took {statistics.median(seconds):.1f} s each", changed)
    print_load("after the changes", steady[1])
    usual = statistics.mean(result["latency_ms"]["p99"] for result in steady)
    print(f"p99 with changes is {changed['latency_ms']['p99'] / usual:.2f} times that without")


def publish(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy a model so that it appears complete."""
    shutil.copytree(source, target.with_name(f"{target.name}.copying"))
    target.with_name(f"{target.name}.copying").rename(target)


def change_versions(
    peer: Peer,
    model: pathlib.Path,
    source: pathlib.Path,
    number: int,
    pause: float,
    seconds: list[float],
    is_done: threading.Event,
) -> None:
    """Publish versions one after the other, `pause` seconds apart; append the seconds until each one answers."""
    for version in range(2, number + 2):
        begin = time.monotonic()
        publish(source, model / str(version))
        while get_state(peer, version) != "AVAILABLE":
            time.sleep(0.05)
        seconds.append(time.monotonic() - begin)
        shutil.rmtree(model / str(version - 1))
        if is_done.wait(max(0.0, begin + pause - time.monotonic())):
            return


def get_state(peer: Peer, version: int) -> str:
    """Return the state of a version."""
    with urllib.request.urlopen(f"{peer.url}/v1/models/{MODEL}") as answer:
        statuses = json.load(answer)["model_version_status"]
    return next((one["state"] for one in statuses if int(one["version"]) == version), "START")


def soak(arguments: argparse.Namespace) -> None:
    """Print memory, threads and open files at the beginning and at the end of a long run at half the capacity."""
    with run_own(arguments.artifact, *(["--engine", arguments.engine] if arguments.engine else [])) as peer:
        rate = arguments.load * measure_capacity(peer, arguments.seconds)
        first = count_resources(peer.pid)
        result = send(
            peer, "/classify", "tasks", rate=rate, duration_seconds=60 * arguments.minutes, num_connections=64
        )
        time.sleep(5)
        last = count_resources(peer.pid)
    print_load(f"{rate:.0f} requests/s for {arguments.minutes:g} minutes", result.summarize())
    for name in first:
        print(f"{name}: {first[name]} at the beginning, {last[name]} at the end")


def count_resources(pid: int) -> dict[str, list[int]]:
    """Return memory (MB), threads and open files of a process and its descendants."""
    _, children = read_processes()
    family = list_family(pid, children)
    usages, _ = read_processes()
    return {
        "memory, MB": [usages[one].rss_bytes // 1_000_000 for one in family],
        "threads": [len(os.listdir(f"/proc/{one}/task")) for one in family],
        "open files": [len(os.listdir(f"/proc/{one}/fd")) for one in family],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"compare": compare, "bulk": measure_bulk, "overload": measure_overload, "versions": measure_versions}
    parts |= {"cost": measure_cost, "soak": soak}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--artifact", type=pathlib.Path, required=True, help="ONNX file or folder of a classifier")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="the same model for transformers")
    parser.add_argument("--peers-python", help="interpreter with fastapi, litserve, transformers and torch")
    parser.add_argument("--triton", type=pathlib.Path, help="model repository for Triton")
    parser.add_argument("--triton-model", default=MODEL, help="name of the model in it")
    parser.add_argument("--triton-packages", type=pathlib.Path, help="folder of packages with nvidia-pytriton")
    parser.add_argument("--openvino", action="store_true", help="compare with the engine openvino too")
    parser.add_argument("--engine", help="engine of the long run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--max-requests", type=int, default=512)
    parser.add_argument("--separate-cores", action="store_true", help="half of the cores for the server (overload)")
    parser.add_argument("--load", type=float, default=0.5, help="share of the capacity")
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(describe_machine())
    parts[arguments.part](arguments)


if __name__ == "__main__":
    main()

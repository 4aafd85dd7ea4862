"""Send texts to an HTTP server and print throughput, latencies, errors, and the server's CPU time and memory.

    python -m benchmarks.serving_load --url http://127.0.0.1:8000/predict --protocol tei --rate 100 --duration 30 \\
        [--arrivals poisson] [--connections 64] [--warmup 5] [--pid PID ...] [--timeline seconds.csv] [--json]
    python -m benchmarks.serving_load --url http://127.0.0.1:8000/predict --protocol tei --clients 16 --duration 30

With --rate, the arrival times of the requests are fixed in advance, and latencies count from them, whether or not the
server keeps up (`http_load.py`). With --clients, each client waits for its answer before it sends its next request: for
the maximum throughput. Percentiles are those of answers with status 200; everything else is counted. If the delay
before sending is large although no request waited for a connection, the generator is the limit: use a lower rate.

The texts are 1,000 questions and sentences of 3 to 60 words from banking77 and SST-2, or passages of Python's help
where these data sets are missing; --texts FILE gives others, one per line. Request i sends text i, then they repeat.
--body-template gives the body of another protocol: `{text}` stands for a JSON string, `{texts}` for a list of them.

    tasks       {"text": "TEXT"}, or {"examples": [{"text": "TEXT"}, ...]}   to /classify or /tag
    tfserving   {"instances": [{"text": "TEXT"}]}                       to /v1/models/NAME:predict
    tei         {"inputs": "TEXT"}, or a list of several                to /embed
    tei-predict {"inputs": "TEXT"}, or [["TEXT"], ...] for several      to /predict
    openai      {"input": "TEXT", "model": "bert"}, or a list           to /v1/embeddings
    oip         {"inputs": [{"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": ["TEXT"]}]}
                                                                        to /v2/models/NAME/infer
"""

import argparse
import itertools
import json
import pathlib
import pydoc_data.topics
import random
import re
from collections.abc import Callable, Sequence

from benchmarks.http_load import ARRIVALS, LoadSettings, run_load
from benchmarks.inference_artifacts import read_column

SHARED_DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"
NUM_TEXTS = 1000
NUM_WORDS = (3, 60)  # shortest and longest text

PROTOCOLS: dict[str, Callable[[Sequence[str]], dict]] = {
    "tasks": lambda texts: {"text": texts[0]} if len(texts) == 1 else {"examples": [{"text": text} for text in texts]},
    "tfserving": lambda texts: {"instances": [{"text": text} for text in texts]},
    "tei": lambda texts: {"inputs": texts[0] if len(texts) == 1 else texts},
    "tei-predict": lambda texts: {"inputs": texts[0] if len(texts) == 1 else [[text] for text in texts]},
    "openai": lambda texts: {"input": texts[0] if len(texts) == 1 else texts, "model": "bert"},
    "oip": lambda texts: {"inputs": [{"name": "text", "shape": [len(texts), 1], "datatype": "BYTES", "data": texts}]},
}


def make_texts(num_texts: int = NUM_TEXTS, seed: int = 0, data: pathlib.Path = SHARED_DATA) -> list[str]:
    """Draw texts of 3 to 60 words from banking77 and SST-2, or from Python's help if a data set is missing."""
    paths = data / "banking77" / "test.csv", data / "sst2" / "dev.tsv"
    if all(path.exists() for path in paths):
        texts = {*read_column(paths[0]), *read_column(paths[1], delimiter="\t")}
        chosen = sorted(text for text in texts if NUM_WORDS[0] <= len(text.split()) <= NUM_WORDS[1])
        random.Random(seed).shuffle(chosen)
    else:
        chosen = _cut_help(num_texts, random.Random(seed))
    return list(itertools.islice(itertools.cycle(chosen), num_texts))


def _cut_help(num_texts: int, generator: random.Random) -> list[str]:
    words = " ".join(pydoc_data.topics.topics.values()).split()
    lengths = [generator.randint(*NUM_WORDS) for _ in range(num_texts)]
    starts = [generator.randrange(len(words) - length) for length in lengths]
    return [" ".join(words[start : start + length]) for start, length in zip(starts, lengths, strict=True)]


def make_bodies(protocol: str, texts: Sequence[str], *, num_texts: int = 1, template: str = "") -> list[bytes]:
    """Encode all texts as bodies of requests.

    Args:
        protocol: key of `PROTOCOLS`.
        texts: the texts; a rest that fills no body is left out.
        num_texts: texts per body.
        template: body that replaces the protocol's; `{text}` and `{texts}` stand for the first text and for all.
    """
    groups = [list(texts[start : start + num_texts]) for start in range(0, len(texts) - num_texts + 1, num_texts)]
    if not template:
        return [json.dumps(PROTOCOLS[protocol](group)).encode() for group in groups]
    return [_fill(template, group).encode() for group in groups]


def _fill(template: str, texts: list[str]) -> str:
    values = {"{text}": json.dumps(texts[0]), "{texts}": json.dumps(texts)}
    return re.sub(r"\{texts?\}", lambda match: values[match[0]], template)


def print_report(summary: dict) -> None:
    """Print the summary of a result as a table of two columns, and one of the server's processes."""
    statuses, errors = (
        ", ".join(f"{name}: {count:,}" for name, count in summary[key].items()) or "none"
        for key in ("statuses", "errors")
    )
    latencies, delays = (
        ", ".join(f"{name} {format_number(value)}" for name, value in summary[key].items())
        for key in ("latency_ms", "delay_ms")
    )
    rows = {
        "requests": f"{summary['requests']:,} in {summary['seconds']:.1f} s",
        "answers per status": statuses,
        "errors": errors,
        "throughput": f"{summary['requests_per_second']:,.1f} requests/s, {summary['texts_per_second']:,.1f} texts/s",
        "latency, ms": latencies,
        "waited for a connection": f"{summary['waited_for_connection']:,}",
        "delay before sending, ms": delays,
        "generator": f"{summary['generator_cpu_seconds']:.2f} CPU seconds",
    }
    print("| | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    if summary["servers"]:
        print("\n| process | CPU seconds | CPU ms per request | memory: begin | max | end |\n|---|---|---|---|---|---|")
    for server in summary["servers"]:
        memory = (f"{server[f'rss_{name}_bytes'] / 1e6:,.0f} MB" for name in ("begin", "max", "end"))
        cpu = f"{server['cpu_seconds']:.2f} | {format_number(server['cpu_ms_per_request'])}"
        print(f"| {server['pid']} | {cpu} | {' | '.join(memory)} |")


def format_number(value: float | None) -> str:
    """Return a number with two decimals, or a dash for None."""
    return "-" if value is None else f"{value:,.2f}"


def parse_header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header such as "Authorization: Bearer KEY"."""
    name, colon, value = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} has no colon; expected NAME:VALUE")
    return name.strip(), value.strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Send the load and print the report; return 1 if no answer has status 200."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="address with path, such as http://127.0.0.1:8000/predict")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="tasks", help="built-in body (default: tasks)")
    parser.add_argument("--body-template", default="", metavar="JSON", help="body with {text} or {texts}")
    parser.add_argument("--texts", type=pathlib.Path, metavar="FILE", help="texts to send, one per line")
    parser.add_argument("--texts-per-request", type=int, default=1, metavar="N", help="texts per body (default: 1)")
    parser.add_argument("--header", type=parse_header, action="append", default=[], metavar="NAME:VALUE")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--rate", type=float, help="requests/s of an open loop")
    kind.add_argument("--clients", type=int, metavar="N", help="clients of a closed loop")
    parser.add_argument("--arrivals", choices=ARRIVALS, default="constant", help="of an open loop (default: constant)")
    parser.add_argument("--connections", type=int, default=64, metavar="N", help="of an open loop (default: 64)")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="length of the measurement")
    parser.add_argument("--requests", type=int, metavar="N", help="end after this number of requests")
    parser.add_argument("--warmup", type=float, default=0.0, metavar="SECONDS", help="uncounted start (default: 0)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="of a request (default: 30)")
    parser.add_argument("--pid", type=int, action="append", default=[], help="process of the server; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="seed of texts and arrivals (default: 0)")
    parser.add_argument("--timeline", type=pathlib.Path, metavar="FILE", help="write a CSV with a line per second")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args(argv)
    try:
        settings = make_settings(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    try:
        result = run_load(settings)
    except OSError as error:
        parser.exit(1, f"{settings.url} accepts no connection: {error}; start the server first\n")
    if arguments.timeline:
        result.write_timeline(arguments.timeline)
    summary = result.summarize()
    if arguments.json:
        print(json.dumps(summary))
    else:
        print_report(summary)
    return int("200" not in summary["statuses"])


def make_settings(arguments: argparse.Namespace) -> LoadSettings:
    """Read or draw the texts, and return the settings of the load."""
    num_texts = arguments.texts_per_request
    if arguments.texts:
        texts = arguments.texts.read_text("utf-8").splitlines()
    else:
        texts = make_texts(NUM_TEXTS * num_texts, arguments.seed)
    bodies = make_bodies(arguments.protocol, texts, num_texts=num_texts, template=arguments.body_template)
    return LoadSettings(
        url=arguments.url,
        bodies=bodies,
        rate=arguments.rate,
        num_clients=arguments.clients,
        num_requests=arguments.requests,
        duration_seconds=arguments.duration,
        warmup_seconds=arguments.warmup,
        arrivals=arguments.arrivals,
        num_connections=arguments.connections,
        timeout_seconds=arguments.timeout,
        headers=dict(arguments.header),
        num_texts=num_texts,
        pids=arguments.pid,
        seed=arguments.seed,
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""Run `examples/ray_serve.py` on a local Ray and print the answers to the requests on standard input, as JSON.

python run_ray.py ARTIFACT PORT < REQUESTS
"""

import concurrent.futures
import json
import pathlib
import sys
import urllib.error
import urllib.request

import ray
from ray import serve

from examples.ray_serve import build


def ask(address: str, body: object) -> tuple[int, dict]:
    """Return the status and the answer of a request."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode()), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


if __name__ == "__main__":
    artifact, port, file = sys.argv[1:]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    serve.run(build({"artifact": artifact}))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: ask(f"http://127.0.0.1:{port}/", body), json.load(sys.stdin)))
    pathlib.Path(file).write_text(json.dumps(answers))
    serve.shutdown()
    ray.shutdown()

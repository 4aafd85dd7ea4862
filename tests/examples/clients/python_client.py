"""The Python client of `examples/python`, with the methods of `ClientProcess`."""

import importlib.util
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def _import_client():
    spec = importlib.util.spec_from_file_location("bert_client", EXAMPLES / "python" / "bert_client.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bert_client = _import_client()


class PythonClient:
    """The client of a folder, in this process.

    Args:
        folder: the folder with `model.json` and the vocabulary.
        file: the name of the model file; None: only texts are tokenized.
    """

    is_utf16 = False

    def __init__(self, folder: pathlib.Path, file: str | None = None):
        if file is not None:
            self._client = bert_client.BertClient.load(folder, file)
            return
        description = json.loads((folder / "model.json").read_text("utf-8"))
        vocabulary = (folder / "vocab.txt").read_bytes().decode().split("\n")[:-1]
        self._client = bert_client.BertClient(description, vocabulary, None)

    def ask_all(self, requests: Sequence[Mapping]) -> Iterator[dict]:
        """Yield the answers to requests, as `ClientProcess` does."""
        for request in requests:
            if "tokenize" in request:
                columns = [*zip(*self._client.tokenizer.tokenize(request["tokenize"]), strict=True)] or [()] * 5
                yield dict(zip(("ids", "starts", "ends", "wordStarts", "wordEnds"), columns, strict=True))
            else:
                yield self._client.answer(*request["answer"])

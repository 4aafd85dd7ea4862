"""Write `recorded_sentence_folder`: a tiny folder saved by sentence-transformers, and the vectors that it returns.

    python -m tests.checkpoints.make_sentence_folder

Every setting that changes vectors is there: all poolings, prompts that are not pooled, a default, `do_lower_case`.
"""

import json
import pathlib
import shutil
import tempfile

import sentence_transformers

from tests.checkpoints.sentence_folders import STYLES, TEXTS, encode_texts, list_prompts, write_folder

OUT = pathlib.Path(__file__).parent / "recorded_sentence_folder"


def main() -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent) / "folder"
        write_folder(folder, **STYLES["every_pooling"], **_PROMPTS, tokenizer={"do_lower_case": False}, lower=True)
        theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        cases = [
            {"prompt": prompt, "vectors": encode_texts(theirs, TEXTS, **prompt).round(7).tolist()}
            for prompt in list_prompts(theirs)
        ]
        (folder / "vectors.json").write_text(json.dumps(cases) + "\n")
        shutil.rmtree(OUT, ignore_errors=True)
        shutil.copytree(folder, OUT)


_PROMPTS = {"prompts": {"query": "query: ", "passage": "passage: "}, "default": "query", "include_prompt": False}

if __name__ == "__main__":
    main()

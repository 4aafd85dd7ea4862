"""Write `transformers_folders.json`: the files of tokenizers saved by transformers 5.

python -m tests.pipelines.text.make_transformers_folders
"""

import json
import pathlib
import tempfile

TOKENS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff play ##ing Play é É e E ##é a ##a A , . - s ##s 中 文 国 NAME name "
    "[ ] < > cat Cat mask new word ##word b c d ( )"
).split()
NORMALIZED, WHOLE = ("newword", "Grün", "N C", "国a"), ("[E1]", "<NEW>")
PATH = pathlib.Path(__file__).with_name("transformers_folders.json")


def make(lowercase: bool, folder: pathlib.Path) -> None:
    """Write a tokenizer with special and other added tokens, in the vocabulary and after it."""
    from transformers import BertTokenizer

    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in [*TOKENS, "[E1]"]), encoding="utf-8")
    tokenizer = BertTokenizer.from_pretrained(folder, do_lower_case=lowercase, model_max_length=77)
    tokenizer.add_special_tokens({"extra_special_tokens": list(WHOLE)})
    tokenizer.add_tokens(list(NORMALIZED))
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink()


def made_files(lowercase: bool) -> dict[str, dict]:
    """Return the files that transformers writes."""
    with tempfile.TemporaryDirectory() as name:
        make(lowercase, pathlib.Path(name))
        paths = sorted(pathlib.Path(name).glob("*.json"))
        return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


if __name__ == "__main__":
    folders = {name: made_files(lowercase) for name, lowercase in (("uncased", True), ("cased", False))}
    PATH.write_text(json.dumps(folders, ensure_ascii=False) + "\n", encoding="utf-8")

"""Measure effects of the options of `learn-vocab` on seven languages: changed characters, [UNK], tokens per word.

    python benchmarks/languages.py ../shared/data/ud_pud

For each language and set of options, it runs `bert-keras learn-vocab` and `make-records` on the 1,000 sentences of
`LANGUAGE_pud-ud-test.conllu.gz`. Prints the table of docs/guide/languages.md. Words are those of the treebank.
"""

import argparse
import contextlib
import gzip
import io
import json
import pathlib
import tempfile

from tokenizers import normalizers

from bert_keras.cli.main import main

OPTIONS = {
    "(uncased)": [],
    "--no-strip-accents": ["--no-strip-accents"],
    "--cased": ["--cased"],
    "--no-chinese-split": ["--no-chinese-split"],
}


def read(path: pathlib.Path) -> tuple[list[str], int]:
    """Return the sentences of a treebank and the number of its words without punctuation."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    columns = [line.split("\t") for line in lines if line[:1].isdigit()]
    num_words = sum(row[0].isdigit() and row[3] != "PUNCT" for row in columns)
    return [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")], num_words


def run(*command: object) -> dict:
    """Run a command and return its JSON result."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        status = main([*map(str, command), "--json"])
    if status:
        raise SystemExit(f"{' '.join(map(str, command))} exited with status {status}")
    return json.loads(output.getvalue())


def changed_share(sentences: list[str], result: dict) -> float:
    """Return the fraction of characters that normalization changes or removes, apart from case."""
    normalizer = normalizers.BertNormalizer(
        lowercase=False, strip_accents=result["strip_accents"], handle_chinese_chars=False
    )
    characters = [character for sentence in sentences for character in sentence if not character.isspace()]
    return sum(normalizer.normalize_str(character) != character for character in characters) / len(characters)


def measure(path: pathlib.Path, folder: pathlib.Path, size: int) -> None:
    """Print the table rows of a language."""
    sentences, num_words = read(path)
    (folder / "text.txt").write_text("\n\n".join(sentences), encoding="utf-8")
    for name, options in OPTIONS.items():
        vocabulary = folder / f"{name}.txt"
        learned = run("learn-vocab", vocabulary, "--size", size, "--text", folder / "text.txt", "--overwrite", *options)
        records = folder / f"{name}.records"
        made = run("make-records", vocabulary, records, "--objective", "none", "--text", folder / "text.txt")
        print(
            f"| {path.name[:2]} | `{name}` | {changed_share(sentences, made):.1%} | "
            f"{made['quality']['unknown_token_share']:.1%} | {made['num_text_tokens'] / num_words:.2f} | "
            f"{learned['vocabulary_size']:,} | {learned['alphabet_size']:,} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=4000)
    arguments = parser.parse_args()
    print("| language | options | characters changed | [UNK] | tokens per word | vocabulary | alphabet |")
    print("|---|---|---|---|---|---|---|")
    for treebank in sorted(arguments.folder.glob("*.conllu.gz")):
        with tempfile.TemporaryDirectory() as place:
            measure(treebank, pathlib.Path(place), arguments.size)

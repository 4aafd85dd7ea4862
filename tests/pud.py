"""News in seven languages, 1,000 parallel sentences each, from Universal Dependencies PUD."""

import gzip

from tests.shared_data import shared

LANGUAGES = ("ar", "de", "hi", "ru", "th", "tr", "zh")


def sentences(language: str) -> list[str]:
    """Return the sentences of a language; skip the test if they are missing."""
    with gzip.open(shared("ud_pud") / f"{language}_pud-ud-test.conllu.gz", "rt", encoding="utf-8") as lines:
        return [line.removeprefix("# text = ").strip() for line in lines if line.startswith("# text = ")]

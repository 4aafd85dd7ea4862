"""`manifest.json`: what a folder of records holds, how it was made, and by what it is known again."""

import dataclasses
import os
import pathlib
import re
import typing
from collections.abc import Collection, Iterable, Mapping

from bert_keras.checks import format_names, path_inside, quote, read_field
from bert_keras.errors import InputError
from bert_keras.files import check_digest, read_json
from bert_keras.pipelines.corpus.data_quality import share_of, unreachable_share
from bert_keras.pipelines.records.blocks import SPLITS
from bert_keras.pipelines.records.known_characters import text_normalizer
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.records.tokenizer_spec import IDENTITY, TokenizerSpec

FORMAT = "bert_keras.pretraining_records"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
COUNTS = ("num_documents", "num_sentences", "num_examples", "num_rows", "num_tokens", "num_positive_labels")
QUALITY_COUNTS = (
    "num_text_tokens",
    "num_unknown_tokens",
    "num_characters",
    "num_known_characters",
    "num_long_word_characters",
)
_SHARES = ("unknown_token_share", "alphabet_coverage", "unreachable_token_share")
_NEWER_SHARES = ("long_word_share",)  # the first folders of version 0.2 lack them
_LABEL_SHARES = {"nsp": "random_next_share", "sop": "swapped_share"}

TOKENIZER_FACTS = ("lowercase", "vocabulary_size", "vocabulary_sha256")
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_COUNT = 10**15  # so that no sum of them leaves 64 bits
_SETTINGS = tuple(field.name for field in dataclasses.fields(RecordSettings))


def make_manifest(
    settings: RecordSettings, tokenizer: TokenizerSpec, sentences: str, sources: list[dict], shards: Iterable[dict]
) -> dict:
    """Returns the manifest of shards, whose dicts have both kinds of counts, a name, a split, a hash and a size."""
    shards = list(shards)
    by_split = {split: [shard for shard in shards if shard["split"] == split] for split in SPLITS}
    kept = ("name", "split", "num_rows", "num_examples", "sha256", "bytes")
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **_sums(shards),
        **dataclasses.asdict(settings),
        "sentences": sentences,
        **tokenizer.identity,
        "quality": _quality(settings, tokenizer, _sums(shards)),
        "splits": {split: _sums(of_split) for split, of_split in by_split.items()},
        "sources": sources,
        "shards": [{key: shard[key] for key in kept} for split in SPLITS for shard in by_split[split]],
    }


def read_manifest(folder: str | os.PathLike, *, tokenizer=None, checked_splits: Collection[str] = SPLITS) -> dict:
    """Reads the manifest of a records folder and checks that every shard is what was written.

    Args:
        folder: what `write_records` published.
        tokenizer: the `BertTokenizer` of the model to train; it must be the one the records were made with.
        checked_splits: whose shards to hash.

    Returns:
        The settings by the names of `RecordSettings`; `COUNTS`, and under `splits` the same for "train" and "held_out";
        `quality`, unless version 0.1 wrote the folder; `sources`; `shards`, each with `name`, `split`, `num_rows`,
        `num_examples`, `sha256` and `bytes`.

    Raises:
        InputError: this is no records folder, a shard is missing or changed, or the tokenizer is another one.
    """
    path = pathlib.Path(folder) / MANIFEST
    manifest = read_json(path)
    if manifest.get("format") != FORMAT or manifest.get("format_version") != FORMAT_VERSION:
        found = f"format {quote(manifest.get('format'))}, version {quote(manifest.get('format_version'))}"
        raise InputError(
            f"{path} has {found}; expected {FORMAT!r}, version {FORMAT_VERSION}: write the records again with this "
            "version of bert-keras"
        )
    expected = (*COUNTS, *_SETTINGS, *TOKENIZER_FACTS, "splits", "sources", "shards")
    if missing := [key for key in expected if key not in manifest]:
        raise InputError(f"{path} lacks {', '.join(missing)}: copy the folder again, or write the records again")
    _check_values(manifest, path)
    if tokenizer is not None:
        _check_tokenizer(manifest, tokenizer, path)
    for shard in manifest["shards"]:
        if shard["split"] in checked_splits:
            check_digest(path.parent / shard["name"], shard)
    return manifest


def shard_paths(folder: str | os.PathLike, manifest: dict, split: str = "train") -> list[str]:
    """Returns the paths of a split's shards in the order of the text; none if nothing was held out.

    Raises:
        InputError: there is no split of that name.
    """
    if split not in SPLITS:
        raise InputError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    return [str(pathlib.Path(folder) / shard["name"]) for shard in manifest["shards"] if shard["split"] == split]


def _check_values(manifest: dict, path: pathlib.Path) -> None:
    """Checks that every value is of its type, and that each shard lies in the folder."""
    kinds = typing.get_type_hints(RecordSettings)
    settings = {name: read_field(manifest, name, kinds[name], source=path) for name in _SETTINGS}
    try:
        RecordSettings(**settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name, kind in zip(TOKENIZER_FACTS, (bool, int, str), strict=True):
        read_field(manifest, name, kind, source=path)
    if not _SHA256.fullmatch(manifest["vocabulary_sha256"]):
        raise InputError(
            f"{path} sets vocabulary_sha256 to {quote(manifest['vocabulary_sha256'])}; expected 64 hexadecimal digits: "
            "copy the folder again, or write the records again"
        )
    splits = read_field(manifest, "splits", dict, source=path)
    for counts in (manifest, *(read_field(splits, split, dict, source=path) for split in SPLITS)):
        for name in COUNTS:
            read_field(counts, name, int, source=path, minimum=0, maximum=_MAX_COUNT)
    read_field(manifest, "sources", list[dict], source=path)
    for shard in read_field(manifest, "shards", list[dict], source=path):
        path_inside(path.parent, read_field(shard, "name", str, source=path), source=path)
        read_field(shard, "split", str, source=path, choices=SPLITS)
        read_field(shard, "sha256", str, source=path)
        for name in ("num_rows", "num_examples", "bytes"):
            read_field(shard, name, int, source=path, minimum=0, maximum=_MAX_COUNT)
    for split in SPLITS:
        listed = sum(shard["num_rows"] for shard in manifest["shards"] if shard["split"] == split)
        if listed != splits[split]["num_rows"]:
            raise InputError(
                f"{path} counts {splits[split]['num_rows']:,} rows of {split}, and its shards {listed:,}; expected the "
                "same: copy the folder again, or write the records again"
            )
    if "quality" in manifest:  # version 0.1 wrote none
        quality = read_field(manifest, "quality", dict[str, float], source=path)
        newer = [name for name in _NEWER_SHARES if name in quality]
        for name in (*_SHARES, *newer, *filter(None, [_LABEL_SHARES.get(settings["sentence_objective"])])):
            read_field(quality, name, float, source=path, minimum=0, maximum=1)


def _sums(shards: list[dict]) -> dict:
    return {name: sum(shard[name] for shard in shards) for name in (*COUNTS, *QUALITY_COUNTS)}


def _quality(settings: RecordSettings, tokenizer: TokenizerSpec, counts: dict) -> dict[str, float]:
    """Returns the shares that `records_warnings` looks at."""
    quality = {
        "unknown_token_share": share_of(counts["num_unknown_tokens"], counts["num_text_tokens"]),
        "alphabet_coverage": share_of(counts["num_known_characters"], counts["num_characters"]),
        "long_word_share": share_of(counts["num_long_word_characters"], counts["num_characters"]),
        "unreachable_token_share": unreachable_share(
            tokenizer.vocabulary, tokenizer.special_tokens, text_normalizer(tokenizer.rules)
        ),
    }
    if settings.sentence_objective in _LABEL_SHARES:
        name = _LABEL_SHARES[settings.sentence_objective]
        quality[name] = share_of(counts["num_positive_labels"], counts["num_examples"])
    return quality


def _plain(value: object) -> str:
    return format_names([value]) if isinstance(value, str) else quote(value)


def list_tokenizer_differences(one: Mapping, other: Mapping, *, here: str = "here") -> list[str]:
    """Return in what the tokenizers of two manifests differ, for a message; folders of version 0.1 lack some facts.

    Args:
        one: a manifest.
        other: another one, or `TokenizerSpec.identity`.
        here: what `other` is called; `one` is "there".
    """
    return [
        f"{name} {_plain(one[name])} there, {_plain(other[name])} {here}"
        for name in IDENTITY
        if name in one and name in other and one[name] != other[name]
    ]


def _check_tokenizer(manifest: dict, tokenizer, path: pathlib.Path) -> None:
    if differing := list_tokenizer_differences(manifest, TokenizerSpec.from_tokenizer(tokenizer).identity):
        raise InputError(
            f"{path}: the records were made with another tokenizer ({'; '.join(differing)}): "
            "use the vocabulary they were made with, or write them again with this one"
        )

"""`manifest.json`: the contents of a records folder, the settings that made it, and its tokenizer."""

import dataclasses
import os
import pathlib
import re
import typing
from collections.abc import Collection, Iterable, Mapping

from bert_keras.checks import format_names, quote, read_field, resolve_inside
from bert_keras.errors import InputError
from bert_keras.files import check_digest, read_json
from bert_keras.pipelines.corpus.data_quality import compute_share, compute_unreachable_share
from bert_keras.pipelines.records.documents import SPLITS
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.portable_tokenizer import IDENTITY, TokenizerSpec, make_normalizer

FORMAT = "bert_keras.pretraining_records"
FORMAT_VERSION = 3
MANIFEST = "manifest.json"
COUNTS = ("num_documents", "num_sentences", "num_examples", "num_records", "num_tokens", "num_positive_labels")
QUALITY_COUNTS = (
    "num_text_tokens",
    "num_unknown_tokens",
    "num_characters",
    "num_known_characters",
    "num_long_word_characters",
)

_READABLE_VERSIONS = (2, 3)
_KEYS_OF_VERSION_2 = {"num_rows": "num_records", "max_examples_a_row": "max_examples_per_sequence"}
_SHARES = ("unknown_token_share", "alphabet_coverage", "unreachable_token_share")
_NEWER_SHARES = ("long_word_share",)  # absent in early folders of format version 2
_LABEL_SHARES = {"nsp": "random_next_share", "sop": "swapped_share"}
_TOKENIZER_FIELDS = {"lowercase": bool, "vocabulary_size": int, "vocabulary_sha256": str}
_SHARD_KEYS = ("name", "split", "num_records", "num_examples", "sha256", "bytes")
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_COUNT = 10**15  # sums of counts stay below 64 bits
_SETTINGS = tuple(field.name for field in dataclasses.fields(RecordSettings))


def make_manifest(
    settings: RecordSettings, tokenizer: TokenizerSpec, sentences: str, sources: list[dict], shards: Iterable[dict]
) -> dict:
    """Return the manifest of a records folder.

    Args:
        settings: the settings of the records.
        tokenizer: the tokenizer of the records.
        sentences: "lines" or "split", see `FileText`.
        sources: name, size and SHA-256 of each source of text.
        shards: for each shard its name, split, SHA-256 and size, `COUNTS` and `QUALITY_COUNTS`.
    """
    shards = list(shards)
    by_split = {split: [shard for shard in shards if shard["split"] == split] for split in SPLITS}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **_sum_counts(shards),
        **dataclasses.asdict(settings),
        "sentences": sentences,
        **tokenizer.identity,
        "quality": _compute_quality(settings, tokenizer, _sum_counts(shards)),
        "splits": {split: _sum_counts(shards_of_split) for split, shards_of_split in by_split.items()},
        "sources": sources,
        "shards": [{key: shard[key] for key in _SHARD_KEYS} for split in SPLITS for shard in by_split[split]],
    }


def read_manifest(
    folder: str | os.PathLike, *, tokenizer: object = None, checked_splits: Collection[str] = SPLITS
) -> dict:
    """Read the manifest of a records folder and check that its shards are unchanged.

    Args:
        folder: the records folder.
        tokenizer: the `BertTokenizer` of the model to train, which must equal the tokenizer of the records.
        checked_splits: the splits whose shards are hashed.

    Returns:
        The settings, keyed as in `RecordSettings`; `COUNTS`, and the same counts of "train" and "held_out" under
        `splits`; `quality`, absent in folders of release 0.1; `sources`; `shards`, each with `name`, `split`,
        `num_records`, `num_examples`, `sha256` and `bytes`. Keys of older manifests are translated.

    Raises:
        InputError: the folder holds no valid manifest, a shard is missing or changed, or the tokenizer is different.
    """
    path = pathlib.Path(folder) / MANIFEST
    manifest = read_json(path)
    if manifest.get("format") != FORMAT or manifest.get("format_version") not in _READABLE_VERSIONS:
        found = f"format {quote(manifest.get('format'))}, version {quote(manifest.get('format_version'))}"
        raise InputError(
            f"{path} has {found}; expected {FORMAT!r}, version {' or '.join(map(str, _READABLE_VERSIONS))}: write the "
            "records again with this version of bert-keras"
        )
    manifest = _translate_old_keys(manifest)
    expected = (*COUNTS, *_SETTINGS, *_TOKENIZER_FIELDS, "splits", "sources", "shards")
    if missing := [key for key in expected if key not in manifest]:
        raise InputError(f"{path} lacks {', '.join(missing)}: copy the folder again, or write the records again")
    _check_values(manifest, path)
    identity = {} if tokenizer is None else TokenizerSpec.from_tokenizer(tokenizer).identity
    if differences := list_tokenizer_differences(manifest, identity):
        raise InputError(
            f"{path}: the records were made with another tokenizer ({'; '.join(differences)}): "
            "use the vocabulary they were made with, or make the records again with this one"
        )
    for shard in manifest["shards"]:
        if shard["split"] in checked_splits:
            check_digest(path.parent / shard["name"], shard)
    return manifest


def list_shard_paths(folder: str | os.PathLike, manifest: dict, split: str = "train") -> list[str]:
    """Return the paths of a split's shards in the order of the text; empty if nothing was held out.

    Raises:
        InputError: there is no split of that name.
    """
    if split not in SPLITS:
        raise InputError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    return [str(pathlib.Path(folder) / shard["name"]) for shard in manifest["shards"] if shard["split"] == split]


def list_tokenizer_differences(one: Mapping, other: Mapping, *, here: str = "here") -> list[str]:
    """Describe how the tokenizers of two manifests differ, for a message. Keys missing in old folders are skipped.

    Args:
        one: a manifest, called "there" in the message.
        other: another manifest, or `TokenizerSpec.identity`.
        here: the name of `other` in the message.
    """

    def show(value: object) -> str:
        return format_names([value]) if isinstance(value, str) else quote(value)

    return [
        f"{name} {show(one[name])} there, {show(other[name])} {here}"
        for name in IDENTITY
        if name in one and name in other and one[name] != other[name]
    ]


def _translate_old_keys(manifest: dict) -> dict:
    """Replace the keys of format version 2 at the three levels that have counts. Values are not checked yet."""

    def rename(values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {_KEYS_OF_VERSION_2.get(key, key): value for key, value in values.items()}

    manifest = rename(manifest)
    if isinstance(manifest.get("splits"), dict):
        manifest["splits"] = {split: rename(counts) for split, counts in manifest["splits"].items()}
    if isinstance(manifest.get("shards"), list):
        manifest["shards"] = [rename(shard) for shard in manifest["shards"]]
    return manifest


def _check_values(manifest: dict, path: pathlib.Path) -> None:
    """Check the type and range of every value, and that each shard lies in the folder."""
    kinds = typing.get_type_hints(RecordSettings)
    settings = {name: read_field(manifest, name, kinds[name], source=path) for name in _SETTINGS}
    try:
        RecordSettings(**settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name, kind in _TOKENIZER_FIELDS.items():
        read_field(manifest, name, kind, source=path)
    if not _SHA256.fullmatch(manifest["vocabulary_sha256"]):
        raise InputError(
            f"{path} sets vocabulary_sha256 to {quote(manifest['vocabulary_sha256'])}; expected 64 hexadecimal digits: "
            "copy the folder again, or write the records again"
        )
    read_field(manifest, "sources", list[dict], source=path)
    _check_counts(manifest, path)
    if "quality" in manifest:  # absent in folders of release 0.1
        quality = read_field(manifest, "quality", dict[str, float], source=path)
        newer = [name for name in _NEWER_SHARES if name in quality]
        for name in (*_SHARES, *newer, *filter(None, [_LABEL_SHARES.get(settings["sentence_objective"])])):
            read_field(quality, name, float, source=path, minimum=0, maximum=1)


def _check_counts(manifest: dict, path: pathlib.Path) -> None:
    """Check the counts of the folder, its splits and its shards, and that shards and splits agree."""
    splits = read_field(manifest, "splits", dict, source=path)
    for counts in (manifest, *(read_field(splits, split, dict, source=path) for split in SPLITS)):
        for name in COUNTS:
            read_field(counts, name, int, source=path, minimum=0, maximum=_MAX_COUNT)
    for shard in read_field(manifest, "shards", list[dict], source=path):
        resolve_inside(path.parent, read_field(shard, "name", str, source=path), source=path)
        read_field(shard, "split", str, source=path, choices=SPLITS)
        read_field(shard, "sha256", str, source=path)
        for name in ("num_records", "num_examples", "bytes"):
            read_field(shard, name, int, source=path, minimum=0, maximum=_MAX_COUNT)
    for split in SPLITS:
        in_shards = sum(shard["num_records"] for shard in manifest["shards"] if shard["split"] == split)
        if in_shards != splits[split]["num_records"]:
            raise InputError(
                f"{path} counts {splits[split]['num_records']:,} records in {split}, but its shards hold "
                f"{in_shards:,}; expected the same number: copy the folder again, or write the records again"
            )


def _sum_counts(shards: list[dict]) -> dict:
    return {name: sum(shard[name] for shard in shards) for name in (*COUNTS, *QUALITY_COUNTS)}


def _compute_quality(settings: RecordSettings, tokenizer: TokenizerSpec, counts: dict) -> dict[str, float]:
    """Compute the shares that `find_records_warnings` checks."""
    normalize = make_normalizer(tokenizer.rules)
    quality = {
        "unknown_token_share": compute_share(counts["num_unknown_tokens"], counts["num_text_tokens"]),
        "alphabet_coverage": compute_share(counts["num_known_characters"], counts["num_characters"]),
        "long_word_share": compute_share(counts["num_long_word_characters"], counts["num_characters"]),
        "unreachable_token_share": compute_unreachable_share(tokenizer.vocabulary, tokenizer.special_tokens, normalize),
    }
    if name := _LABEL_SHARES.get(settings.sentence_objective):
        quality[name] = compute_share(counts["num_positive_labels"], counts["num_examples"])
    return quality

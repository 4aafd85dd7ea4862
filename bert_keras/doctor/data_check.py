"""Check records folders, backups of a training, vocabulary files and data files."""

import contextlib
import pathlib
from collections.abc import Mapping

from bert_keras.checks import format_count, format_names
from bert_keras.doctor.findings import FAULT, Section, format_size
from bert_keras.errors import InputError
from bert_keras.files import check_digest
from bert_keras.pipelines.corpus.data_quality import find_records_warnings
from bert_keras.pipelines.records.manifest import list_tokenizer_differences, read_manifest
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec
from bert_keras.pipelines.text.tokenizer_folder import TokenizerFolder
from bert_keras.pipelines.text.vocabulary_settings import get_settings_path, read_vocabulary_and_settings

_HEADER_BYTES, _FOOTER_BYTES = 12, 4  # of a record in a TFRecord file: its length and two checksums
_MAX_LISTED = 5
TABLES = (".csv", ".tsv", ".jsonl", ".json")
WORD_FILES = (".conll", ".conllu", ".iob", ".bio")
_JSON = (".jsonl", ".json")
# fields of sentences in JSON; with a "label" the example is of another task
_TAGGED = (
    *({words, tags} for words in ("words", "tokens") for tags in ("tags", "labels", "ner_tags")),
    {"text", "entities"},
    {"text", "spans"},
)


def check_records(folder: pathlib.Path) -> Section:
    """Check a records folder: its manifest, every shard, the counts and the tokenizer."""
    section = Section(f"Records {folder}")
    with section.attempt("manifest"):
        manifest = read_manifest(folder, checked_splits=())
        objective = f"format version {manifest['format_version']}, objective {manifest['sentence_objective']}"
        section.add_ok("manifest", f"{objective}, sequences of {manifest['max_sequence_length']} tokens")
        nouns = ("document", "example", "record", "token")
        section.add_ok("counts", ", ".join(format_count(manifest[f"num_{noun}s"], noun) for noun in nouns))
        _check_shards(section, folder, manifest)
        with section.attempt("tokenizer"):
            spec = TokenizerSpec.from_arguments(TokenizerFolder(folder).settings(), None)
            if differences := list_tokenizer_differences(manifest, spec.identity, here="in the files"):
                text = f"the files in {folder} are of another tokenizer than its manifest ({'; '.join(differences)})"
                section.add_fault("tokenizer", text, "copy the whole folder again, or write the records again")
            else:
                section.add_ok("tokenizer", f"{len(spec.vocabulary):,} tokens, the vocabulary of the records")
        for warning in find_records_warnings(manifest):
            section.add_note("data", warning)
    return section


def _check_shards(section: Section, folder: pathlib.Path, manifest: Mapping) -> None:
    shards, num_bytes, wrong = manifest["shards"], 0, []
    for shard in shards:
        try:
            check_digest(folder / shard["name"], shard)
            _check_count(folder / shard["name"], shard["num_records"])
            num_bytes += shard["bytes"]
        except (InputError, OSError) as error:
            wrong.append(str(error))
    if not wrong:
        text = f"{format_count(len(shards), 'shard')}, {format_size(num_bytes)}, match their SHA-256 and counts"
        section.add_ok("shards", text)
    _add_faults(section, "shard", wrong, "further shards are missing or damaged")


def _add_faults(section: Section, name: str, texts: list[str], others: str, fix: str | None = None) -> None:
    """Add the first faults of a kind, and the number of the others."""
    for text in texts[:_MAX_LISTED]:
        section.add_fault(name, text, fix)
    if len(texts) > _MAX_LISTED:
        section.add_fault(name, f"{len(texts) - _MAX_LISTED:,} {others}")


def _check_count(path: pathlib.Path, expected: int) -> None:
    """Raise `InputError` unless a TFRecord file has the expected number of records. Only their headers are read."""
    count = 0
    with open(path, "rb") as file:
        while header := file.read(_HEADER_BYTES):
            file.seek(int.from_bytes(header[:8], "little") + _FOOTER_BYTES, 1)
            count += 1
    if count != expected:
        raise InputError(
            f"{path} has {count:,} records; the manifest counts {expected:,}: copy the folder again, or write the "
            "records again"
        )


def check_backups(folder: pathlib.Path) -> Section:
    """Check the backups of an interrupted training, `.OUT.training`."""
    from bert_keras.training.backups import BackupFolder

    section = Section(f"Backups {folder}")
    backups = BackupFolder(folder)
    for step in backups.steps():
        with section.attempt(f"step {step:,}"):
            arrays = format_count(len(backups.read(step).arrays), "array")
            section.add_ok(f"step {step:,}", f"{arrays}, match their SHA-256")
    if not any(item.mark == "ok" for item in section.items):
        section.add_fault("backups", "none can be read", "start the training again with --overwrite")
    elif any(item.mark == FAULT for item in section.items):
        section.add_note("resuming", "--resume takes the newest backup that is not damaged")
    for path in sorted(folder.glob(".step-*")):
        section.add_note("unfinished", f"{path.name} was not finished; the next training removes it")
    return section


def check_vocabulary_file(path: pathlib.Path) -> Section:
    """Check a `vocab.txt` and its settings."""
    section = Section(f"Vocabulary {path}")
    with section.attempt("vocabulary"):
        settings = read_vocabulary_and_settings(path)
        case = {True: ", uncased", False: ", cased", None: ""}[settings.get("lowercase")]
        section.add_ok(
            "vocabulary", f"{len(settings['vocabulary']):,} tokens{case}, no duplicates, BERT's special tokens"
        )
        if special := settings.get("additional_special_tokens"):
            section.add_ok("special tokens", format_names(special, most=8))
        with contextlib.suppress(OSError):
            if get_settings_path(path).is_file():
                section.add_ok("settings", f"{get_settings_path(path).name} belongs to this vocabulary")
    return section


def check_data_file(path: pathlib.Path) -> Section:
    """Read a data file for `finetune`, and count its examples and labels."""
    section = Section(f"Data file {path}")
    ending = pathlib.Path(path.name.lower().removesuffix(".gz")).suffix
    kinds = {"sentences": _check_words, "questions": _check_questions, "examples": _check_table}
    kind = "sentences" if ending in WORD_FILES else "examples"
    if ending in _JSON:
        with contextlib.suppress(InputError, OSError):  # the check of a table repeats it
            kind = _find_kind(path)
    with section.attempt(kind):
        kinds[kind](section, path)
    return section


def _find_kind(path: pathlib.Path) -> str:
    """Return what a JSON file contains, by the fields of its first valid example: questions, sentences or examples.

    Raises:
        InputError: the file cannot be read, or no example is valid.
    """
    from bert_keras.pipelines.readers.tables.json_examples import read_json_document
    from bert_keras.pipelines.readers.tables.raw_examples import get_file_ending
    from bert_keras.pipelines.readers.tables.tables import open_table

    if get_file_ending(path) == ".json":
        value = read_json_document(path)
        if isinstance(value, dict) and "data" in value:  # as in SQuAD, instead of a list of objects
            return "questions"
    with open_table(path) as table:
        fields = set(table.columns)
    if fields >= {"question", "context"} and fields & {"answers", "is_impossible"}:
        return "questions"
    is_tagged = any(fields >= one for one in _TAGGED) and "label" not in fields
    return "sentences" if is_tagged else "examples"


def _check_questions(section: Section, path: pathlib.Path) -> None:
    from bert_keras.pipelines.readers.questions import read_questions

    questions = read_questions(path)
    num_empty = sum(not question.answers for question in questions)
    section.add_ok("questions", f"{len(questions):,}, {num_empty:,} without an answer, for --task answer")


def _check_words(section: Section, path: pathlib.Path) -> None:
    from bert_keras.pipelines.readers.words.tagged_words import read_tagged_words

    sentences = read_tagged_words(path)
    tags = sorted({tag for sentence in sentences for tag in sentence.tags})
    num_words = sum(len(sentence.words) for sentence in sentences)
    section.add_ok("sentences", f"{len(sentences):,} with {num_words:,} words, for finetune --task tag")
    section.add_ok("tags", f"{len(tags)}: {format_names(tags, most=10)}")


def _check_table(section: Section, path: pathlib.Path) -> None:
    from bert_keras.pipelines.readers.tables.tables import open_table

    with open_table(path) as table:
        columns = list(table.columns)
        section.add_ok("columns", format_names(columns, most=10))
        errors = [example.error for example in table.read(columns)]
    wrong = [str(error) for error in errors if error is not None]
    _add_faults(section, "example", wrong, "more are invalid", "correct it, or skip such examples with --on-error skip")
    if not errors:
        section.add_fault("examples", f"{path} has no examples", "name another file")
    elif not wrong:
        section.add_ok("examples", f"{len(errors):,}, all readable")

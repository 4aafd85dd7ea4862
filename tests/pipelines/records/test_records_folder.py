"""Records folders are written atomically and reproducibly, describe themselves, and detect changed files."""

import collections
import hashlib
import itertools
import json
import pathlib
import pickle
import shutil

import pytest

from bert_keras.errors import InputError
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records import making_records
from bert_keras.pipelines.records.documents import FileText, is_held_out
from bert_keras.pipelines.records.making_records import write_records as write
from bert_keras.pipelines.records.manifest import QUALITY_COUNTS, list_shard_paths, read_manifest
from bert_keras.pipelines.records.settings import RecordSettings
from bert_keras.pipelines.text.portable_tokenizer import TokenizerSpec, write_settings
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.staging import LISTING
from tests.marks import slow, slow_except

SETTINGS = {"max_sequence_length": 29, "seed": 5, "block_bytes": 1000, "held_out_rate": 0.2}
DOCUMENTS = [["The unaffable a.", "Playing b, c."], ["", "\t"], ["a b c d", "", "the the"], ["playings", "d, d.", "c"]]


@pytest.fixture(scope="module")
def text(make_text):
    """Documents that fill seven blocks."""
    return make_text(70)


@pytest.fixture(scope="module")
def written(text, tiny_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "records"
    write(folder, text, tiny_tokenizer, **SETTINGS)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "records")


def read_content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def select_split(text, split, seed=5, rate=0.2):
    return [document for n, document in enumerate(text) if is_held_out(seed, n, rate) == (split == "held_out")]


def split_segments(record, tokenizer):
    """Split a record into the segments of its examples, without special tokens, and its labels."""
    position, parts = 0, []
    for first, second in record.lengths:
        ids = record.token_ids[position : position + first + second]
        assert ids[0] == tokenizer.cls_id
        assert ids[first - 1] == tokenizer.sep_id
        assert not second or ids[-1] == tokenizer.sep_id
        parts.append((ids[1 : first - 1], ids[first : first + second - 1]))
        position += first + second
    assert position == len(record.token_ids)
    return parts


def make_quality_counts(documents):
    """Return the quality counts of texts without unknown words."""
    words = [word for document in documents for sentence in document for word in sentence.split()]
    tokens = {"unable": 2, "playing": 2}
    num_characters = sum(map(len, words))
    return {
        "num_text_tokens": sum(tokens.get(word, 1) for word in words),
        "num_unknown_tokens": 0,
        "num_characters": num_characters,
        "num_known_characters": num_characters,
        "num_long_word_characters": 0,
    }


def count_tokens(examples):
    return collections.Counter(token for example in examples for part in example for token in part)


@pytest.mark.parametrize(
    ("objective", "packed"),
    slow_except(itertools.product(["nsp", "sop", "none"], [False, True]), quick=[("nsp", True), ("none", False)]),
)
def test_examples_fit_with_special_tokens(text, tiny_tokenizer, tmp_path, read_records, objective, packed):
    settings = {**SETTINGS, "sentence_objective": objective, "packed": packed, "max_examples_per_sequence": 3}
    manifest = write(tmp_path / "out", text, tiny_tokenizer, **settings)
    for split in ("train", "held_out"):
        records = read_records(tmp_path / "out", split)
        counts = manifest["splits"][split]
        assert records
        assert max(len(record.token_ids) for record in records) <= 29
        assert max(len(record.lengths) for record in records) <= (3 if packed else 1)
        examples = [example for record in records for example in split_segments(record, tiny_tokenizer)]
        assert all(len(record.sentence_labels) == (objective != "none") * len(record.lengths) for record in records)
        assert all((second == []) == (objective == "none") for _, second in examples)
        quality_counts = {name: counts.pop(name) for name in QUALITY_COUNTS}
        assert quality_counts == make_quality_counts(select_split(text, split))
        assert counts == {
            "num_documents": len(select_split(text, split)),
            "num_sentences": sum(map(len, select_split(text, split))),
            "num_examples": len(examples),
            "num_records": len(records),
            "num_tokens": sum(len(record.token_ids) for record in records),
            "num_positive_labels": sum(sum(record.sentence_labels) for record in records),
        }
        shards = [shard for shard in manifest["shards"] if shard["split"] == split]
        assert sum(shard["num_records"] for shard in shards) == len(records)
        assert sum(shard["num_examples"] for shard in shards) == len(examples)
        assert all(shard["num_records"] for shard in shards)


def test_packing_does_not_change_the_examples(text, tiny_tokenizer, tmp_path, read_records):
    examples = {}
    for packed in (False, True):
        write(tmp_path / str(packed), text, tiny_tokenizer, **SETTINGS, packed=packed)
        records = read_records(tmp_path / str(packed))
        examples[packed] = sorted(
            (*example, label)
            for record in records
            for example, label in zip(split_segments(record, tiny_tokenizer), record.sentence_labels, strict=True)
        )
    assert examples[True] == examples[False]
    assert read_manifest(tmp_path / "True")["num_records"] < read_manifest(tmp_path / "False")["num_records"]


@pytest.mark.parametrize(
    ("keep_apart", "packed"),
    slow_except(itertools.product([False, True], [False, True]), quick=[(False, False), (True, True)]),
)
def test_objective_none_writes_every_token_once(text, tiny_tokenizer, tmp_path, read_records, keep_apart, packed):
    settings = {**SETTINGS, "sentence_objective": "none", "keep_documents_apart": keep_apart, "packed": packed}
    write(tmp_path / "out", text, tiny_tokenizer, **settings)
    for split in ("train", "held_out"):
        counts = count_tokens(
            example
            for record in read_records(tmp_path / "out", split)
            for example in split_segments(record, tiny_tokenizer)
        )
        sentences = [sentence for document in select_split(text, split) for sentence in document]
        expected = count_tokens([tiny_tokenizer.tokenize(sentences).to_list()])
        assert (counts.pop(tiny_tokenizer.sep_id, 0) > 0) == (not keep_apart)  # between two documents
        assert counts == expected


def test_sentences_without_tokens_have_no_effect(text, tiny_tokenizer, tmp_path, read_records):
    with_empty = [[*document[:1], "\u200b", *document[1:], "\u200b"] for document in text]
    settings = {**SETTINGS, "block_bytes": 100_000}
    manifests = [write(tmp_path / name, t, tiny_tokenizer, **settings) for name, t in (("a", text), ("b", with_empty))]
    assert manifests[0]["splits"] == manifests[1]["splits"]
    for split in ("train", "held_out"):
        assert read_records(tmp_path / "a", split) == read_records(tmp_path / "b", split)


def test_held_out_text_is_never_in_training_records(tiny_tokenizer, tmp_path, read_records):
    """Every document has a unique word."""
    words = [f"w{number}" for number in range(300)]
    tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    documents = [[f"{word} {word} {word}"] * 6 for word in words]
    write(tmp_path / "out", documents, tokenizer, **SETTINGS)
    tokens = {
        split: {token for record in read_records(tmp_path / "out", split) for token in record.token_ids} - {2, 3}
        for split in ("train", "held_out")
    }
    held_out = {n + 5 for n in range(300) if is_held_out(5, n, 0.2)}
    assert tokens["train"] == {n + 5 for n in range(300)} - held_out
    borrowed = tokens["held_out"] - held_out  # the first held-out document, alone in its block
    assert tokens["held_out"] >= held_out
    assert len(borrowed) <= 10


@pytest.mark.parametrize("first_is_long", [False, *slow(True)])
def test_document_in_several_blocks_never_gets_itself_as_random_next(tmp_path, read_records, first_is_long):
    words = [f"w{number}" for number in range(4)]
    tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    lengths = [1, 3000, 1, 2000] if not first_is_long else [3000, 1, 1, 2000]
    documents = [[f"w{number} w{number}"] * length for number, length in enumerate(lengths)]
    manifest = write(tmp_path / "out", documents, tokenizer, **{**SETTINGS, "held_out_rate": 0.0})
    assert len(manifest["shards"]) > 10
    assert manifest["num_documents"] == 4
    assert manifest["num_sentences"] == 5002
    for record in read_records(tmp_path / "out"):
        for (first, second), label in zip(split_segments(record, tokenizer), record.sentence_labels, strict=True):
            assert len(set(first)) == len(set(second)) == 1
            assert (first[0] == second[0]) == (not label)


def test_duplicates_are_different(text, tiny_tokenizer, tmp_path, read_records):
    for duplicates in (1, 3):
        settings = {**SETTINGS, "duplicates": duplicates, "block_bytes": 100_000}
        write(tmp_path / str(duplicates), text, tiny_tokenizer, **settings)
    once, thrice = read_records(tmp_path / "1"), read_records(tmp_path / "3")
    assert thrice[: len(once)] == once
    assert 2.5 * len(once) < len(thrice) < 3.5 * len(once)
    assert len({tuple(record.token_ids) for record in thrice}) > 2 * len(once)
    assert read_manifest(tmp_path / "3")["num_documents"] == read_manifest(tmp_path / "1")["num_documents"]


@pytest.mark.slow  # the next test does the work of the processes in this one
@pytest.mark.parametrize("num_workers", [2, 8])
def test_number_of_workers_does_not_change_the_bytes(text, tiny_tokenizer, tmp_path, num_workers):
    check_workers(text, tiny_tokenizer, tmp_path, num_workers)


def test_what_worker_processes_receive_gives_the_same_bytes(text, tiny_tokenizer, tmp_path, monkeypatch):
    """Two workers get blocks alternately. They get pickled arguments and blocks, and return pickled shards."""

    def map_with_two_workers(items, make_worker, arguments, *, num_workers, task):
        arguments = pickle.dumps((make_worker, arguments))
        workers = []
        for _ in range(num_workers):
            make, received = pickle.loads(arguments)
            workers.append(make(*received, num_threads=None))
        for number, (key, item) in enumerate(items):
            work = workers[number % num_workers]
            yield key, None if item is None else pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(item)))))

    def map_blocks(*arguments, num_workers, **options):
        run = map_in_order if num_workers == 1 else map_with_two_workers
        return run(*arguments, num_workers=num_workers, **options)

    map_in_order = making_records.map_in_order
    monkeypatch.setattr(making_records, "map_in_order", map_blocks)
    check_workers(text, tiny_tokenizer, tmp_path, 2)


def check_workers(text, tokenizer, tmp_path, num_workers):
    settings = {**SETTINGS, "packed": True}
    write(tmp_path / "1", text, tokenizer, **settings)
    write(tmp_path / "n", iter(text), TokenizerSpec.from_tokenizer(tokenizer), **settings, num_workers=num_workers)
    assert read_content(tmp_path / "1") == read_content(tmp_path / "n")
    assert len(read_content(tmp_path / "1")) > 7


def test_seed_determines_the_bytes(text, tiny_tokenizer, folder, tmp_path):
    write(tmp_path / "repeated", text, tiny_tokenizer, **SETTINGS)
    assert read_content(tmp_path / "repeated") == read_content(folder)
    other = write(tmp_path / "other", text, tiny_tokenizer, **{**SETTINGS, "seed": 6})
    assert other["shards"] != read_manifest(folder)["shards"]


def test_packed_sequences_are_in_random_order(text, tiny_tokenizer, tmp_path, read_records):
    write(tmp_path / "out", text * 5, tiny_tokenizer, **{**SETTINGS, "block_bytes": 100_000}, packed=True)
    lengths = [len(record.token_ids) for record in read_records(tmp_path / "out")]
    assert sorted(lengths[: len(lengths) // 2]) != sorted(lengths)[len(lengths) // 2 :]
    assert lengths not in (sorted(lengths), sorted(lengths, reverse=True))


def test_manifest_has_settings_sources_and_shards(tiny_tokenizer, tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join("\n".join(document) for document in DOCUMENTS))
    text = FileText(find_sources(tmp_path / "a.txt"))
    written = write(tmp_path / "out", text, tiny_tokenizer, max_sequence_length=11, seed=5)
    manifest = read_manifest(tmp_path / "out", tokenizer=tiny_tokenizer)
    assert manifest == written
    [shard] = manifest["shards"]
    assert shard["name"] == "train-00000.tfrecord"
    assert list_shard_paths(tmp_path / "out", manifest) == [str(tmp_path / "out" / shard["name"])]
    assert list_shard_paths(tmp_path / "out", manifest, "held_out") == []
    content = (tmp_path / "a.txt").read_bytes()
    source = {"name": str(tmp_path / "a.txt"), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert manifest["sources"] == [source]
    assert (manifest["format_version"], manifest["num_documents"], manifest["num_sentences"]) == (
        3,
        4,
        7,
    )  # a blank line ends a document
    settings = RecordSettings(max_sequence_length=11, seed=5)
    assert {name: manifest[name] for name in vars(settings)} == vars(settings)
    assert manifest["sentences"] == "lines"
    assert (manifest["lowercase"], manifest["vocabulary_size"]) == (True, 18)
    names = {LISTING, "manifest.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", shard["name"]}
    assert set(read_content(tmp_path / "out")) == names
    with pytest.raises(InputError, match="split is 'dev'; expected one of train, held_out"):
        list_shard_paths(tmp_path / "out", manifest, "dev")


def test_running_text_is_split_into_sentences(tiny_tokenizer, tmp_path, read_records):
    (tmp_path / "a.txt").write_bytes("\ufeffUnable the. Playing\r\nthe a, b.\r\n\r\nPlay the.".encode())
    (tmp_path / "b.txt").write_text("C the. The d.")
    text = FileText(find_sources([tmp_path / "a.txt", tmp_path / "b.txt"]), sentences="split")
    manifest = write(tmp_path / "out", text, tiny_tokenizer, max_sequence_length=29, sentence_objective="none")
    assert (manifest["num_documents"], manifest["num_sentences"], manifest["sentences"]) == (2, 5, "split")
    [record] = read_records(tmp_path / "out")
    tokens = ["[SEP]" if i == 3 else tiny_tokenizer.vocabulary[i] for i in record.token_ids]
    assert tokens == "[CLS] un ##able the . play ##ing the a , b . play the . [SEP] c the . the d . [SEP]".split()


def test_records_folder_contains_its_tokenizer(folder):
    read_manifest(folder, tokenizer=BertTokenizer.from_checkpoint(folder))


def test_tokenizer_spec_gives_the_same_tokenizer_and_files(tiny_tokenizer, tmp_path):
    special = BertTokenizer(
        [*tiny_tokenizer.vocabulary, "[E1]"], lowercase=False, additional_special_tokens=["[E1]"], max_sequence_length=9
    )
    for tokenizer in (special, tiny_tokenizer, tiny_tokenizer.for_mediapipe()):
        spec = TokenizerSpec.from_tokenizer(tokenizer)
        assert TokenizerSpec.from_tokenizer(BertTokenizer(**spec.arguments)) == spec
        tokenizer.save(tmp_path / "one")
        write_settings(tmp_path / "two", spec)
        assert read_content(tmp_path / "one") == read_content(tmp_path / "two")


def test_progress_is_called_after_every_block(text, tiny_tokenizer, tmp_path):
    calls = []
    write(tmp_path / "out", text, tiny_tokenizer, **SETTINGS, progress=lambda *call: calls.append(call))
    num_bytes = sum(len(sentence) + 1 for document in text for sentence in document)
    assert len(calls) == len(list_shard_paths(tmp_path / "out", read_manifest(tmp_path / "out"))) == 7
    assert {call[1] for call in calls} == {None}
    assert all(previous[2] < current[2] for previous, current in itertools.pairwise(calls))
    assert 0.9 * num_bytes < calls[-1][2] < 1.1 * num_bytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": []}, "the text has no words; expected sentences"),
        ({"text": [["", " "], ["\u200b"]]}, "the text has no words"),
        ({"text": iter([["the a"] * 900, ["b"]])}, r"the text has 1 document\(s\), and no other one is available"),
        ({"text": DOCUMENTS[:2]}, r"the text has 1 document\(s\).*blank line between.*objective sop or none"),
        ({"max_sequence_length": 4}, "max_sequence_length is 4; expected at least 5 tokens"),
        ({"seed": 2**31}, "seed is 2147483648; expected an integer from 0 to 2,147,483,647"),
        ({"sentence_objective": "mlm"}, "sentence_objective is 'mlm'; expected one of nsp, sop, none"),
        ({"short_sequence_rate": 1.5}, r"short_sequence_rate is 1\.5; expected a share from 0 to 1"),
        ({"held_out_rate": 1}, "held_out_rate is 1; expected a share from 0 to below 1"),
        (
            {"duplicates": 0, "max_examples_per_sequence": 0},
            "duplicates is 0; .*; max_examples_per_sequence is 0; expected",
        ),
        ({"keep_documents_apart": True}, "keep_documents_apart is for sentence_objective 'none'; 'nsp' never joins"),
        ({"block_bytes": 10}, "block_bytes is 10; expected at least 1,000 bytes"),
        ({"num_workers": 0}, "num_workers is 0; expected an integer >= 1"),
    ],
)
def test_invalid_input_is_rejected_and_writes_nothing(tiny_tokenizer, tmp_path, changes, message):
    arguments = {
        "text": DOCUMENTS,
        "tokenizer": tiny_tokenizer,
        "max_sequence_length": 11,
        "block_bytes": 1000,
        **changes,
    }
    with pytest.raises(InputError, match=message):
        write(tmp_path / "out", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_vocabulary_without_mask_is_rejected(tiny_tokenizer):
    with pytest.raises(InputError, match=r"none of the 17 lines is \[MASK\]"):
        TokenizerSpec(tuple(token for token in tiny_tokenizer.vocabulary if token != "[MASK]"))


def test_one_document_is_enough_for_the_other_objectives(tiny_tokenizer, tmp_path):
    for objective in ("sop", "none"):
        manifest = write(
            tmp_path / objective, DOCUMENTS[:1], tiny_tokenizer, max_sequence_length=11, sentence_objective=objective
        )
        assert manifest["num_documents"] == 1
        assert manifest["num_examples"] >= 1


def test_folder_is_replaced_only_with_overwrite(text, tiny_tokenizer, folder):
    before = read_manifest(folder)
    with pytest.raises(InputError, match="exists and is not empty"):
        write(folder, text, tiny_tokenizer, max_sequence_length=9)
    assert read_manifest(folder) == before
    after = write(folder, text, tiny_tokenizer, max_sequence_length=9, overwrite=True)
    assert read_manifest(folder) == after != before


def change_manifest(path: pathlib.Path, **changes):
    manifest = json.loads(path.read_text())
    manifest.update(changes)
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value is not None}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), r"manifest\.json does not exist"),
        (lambda folder: (folder / "train-00001.tfrecord").unlink(), r"train-00001\.tfrecord is missing"),
        (lambda folder: (folder / "train-00002.tfrecord").write_bytes(b"x"), "bytes; expected .*truncated"),
        (
            lambda folder: change_manifest(folder / "manifest.json", format_version=1),
            "version 1; expected .* version 2 or 3",
        ),
        (
            lambda folder: change_manifest(folder / "manifest.json", format="other"),
            "format 'other', version 3; expected",
        ),
        (lambda folder: change_manifest(folder / "manifest.json", seed=None), "lacks seed: copy the folder again"),
    ],
)
def test_damaged_folder_is_rejected(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message):
        read_manifest(folder)


def test_flipped_bit_is_detected(folder):
    path = folder / "train-00000.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not match its recorded SHA-256"):
        read_manifest(folder)


def test_other_tokenizer_is_rejected_with_both_values(folder, tiny_tokenizer):
    with pytest.raises(InputError, match=r"another tokenizer \(lowercase True there, False here; strip_accents True"):
        read_manifest(folder, tokenizer=BertTokenizer(tiny_tokenizer.vocabulary, lowercase=False))
    with pytest.raises(InputError, match=r"vocabulary_size 18 there, 19 here; vocabulary_sha256 \w+ there, \w+ here"):
        read_manifest(folder, tokenizer=BertTokenizer([*tiny_tokenizer.vocabulary, "z"]))

"""Probe inputs of the parity check: few and well chosen by default, many where they are asked for."""

import contextlib
import json
import shutil

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from bert_keras.export import artifacts
from bert_keras.export.artifacts import load_reference
from bert_keras.export.parity import probe_inputs
from bert_keras.export.settings import ExportSettings
from bert_keras.export.tflite import tflite_artifact
from bert_keras.export.verify import verify
from tests.export.conftest import LENGTH


@pytest.fixture(scope="module")
def checkpoint(references, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "pairs"
    reference = references("pair_classifier")
    bk.save(reference.model, reference.tokenizer, folder, task=reference.task.settings())
    return folder


def test_the_default_sequences_are_short_long_single_paired_and_twins(references):
    reference = references("encoder")
    rows = probe_inputs.DEFAULT.sequences(reference.config, reference.tokenizer, 512)
    lengths = [len(row.token_ids) for row in rows]
    assert len(rows) == 24
    assert {1, 2, 3, 256, 511, 512} < set(lengths)
    assert sum(lengths) < 1700  # long ones are what costs
    pairs = [length for length, row in zip(lengths, rows, strict=True) if row.segment_ids.any()]
    assert {4, 512} < set(pairs)
    assert 9 <= len(pairs) <= 15
    assert probe_inputs.are_twins(*rows[-2:])
    assert all(row.token_ids.max() < reference.config.vocabulary_size for row in rows)
    short = probe_inputs.DEFAULT.sequences(reference.config, reference.tokenizer, 5)
    assert {len(row.token_ids) for row in short} == {1, 2, 3, 4, 5}


def test_default_sequences_are_padded_by_their_batch_mates(references):
    reference = references("encoder")
    lengths = [
        len(row.token_ids) for row in probe_inputs.DEFAULT.sequences(reference.config, reference.tokenizer, LENGTH)
    ]
    cut = probe_inputs.split_into_batches(len(lengths))
    assert [len(batch) for batch in cut] == [1, 2, 3, 5, 8, 5]
    assert all(len({lengths[number] for number in batch}) > 1 for batch in cut[1:])


def test_the_default_texts_are_odd_and_of_all_lengths(references):
    reference = references("encoder")
    texts = probe_inputs.DEFAULT.texts(reference.tokenizer, LENGTH)
    num_tokens = [len(ids) for ids in reference.tokenizer.tokenize(texts).to_list()]
    assert len(texts) == 16
    assert {"", "a", "x" * 300, "[MASK] and [SEP] are words here"} < set(texts)
    assert any(0 < number < LENGTH - 2 for number in num_tokens)
    assert max(num_tokens) > LENGTH


def test_words_of_the_vocabulary_are_found_by_its_own_rules_of_case_and_accents_alone(references):
    tokenizer = references("encoder").tokenizer
    text = probe_inputs.DEFAULT.texts(tokenizer, LENGTH)[10]
    assert not any(word in tokenizer.vocabulary for word in text.split())
    read = {}
    for lowercase in (True, False):
        for strip_accents in (True, False):
            other = bk.BertTokenizer(tokenizer.vocabulary, lowercase=lowercase, strip_accents=strip_accents)
            [ids] = other.tokenize([text]).to_list()
            read[lowercase, strip_accents] = tuple(ids)
    assert len(set(read.values())) == 4
    assert tokenizer.unk_id not in read[True, True]


def test_the_thorough_set_is_large(references):
    reference = references("encoder")
    rows = probe_inputs.THOROUGH.sequences(reference.config, reference.tokenizer, LENGTH)
    assert (len(rows), len(probe_inputs.THOROUGH.texts(reference.tokenizer, LENGTH))) == (200, 100)
    assert probe_inputs.are_twins(*rows[-2:])


def test_a_verdict_says_which_probes_were_used(checkpoint, onnx_file, tmp_path, in_this_process):
    shutil.copy(onnx_file("pair_classifier"), tmp_path / "model.onnx")
    for thorough, said in ((False, ("default", 24)), (True, ("thorough", 200))):
        [verdict] = verify(tmp_path / "model.onnx", checkpoint, thorough=thorough).values()
        assert (verdict["passed"], verdict["probes"], verdict["num_inputs"]) == (True, *said)


def test_export_compares_on_the_set_that_is_asked_for():
    assert ExportSettings().probes is probe_inputs.DEFAULT
    assert ExportSettings(thorough=True).probes is probe_inputs.THOROUGH


@pytest.mark.parametrize("options", [[], ["--thorough"]])
def test_the_command_line_asks_for_the_large_set(options, checkpoint, tmp_path, monkeypatch):
    given = {}

    def export(*_, **settings):
        given.update(settings)
        return {"artifacts": {}}

    monkeypatch.setattr(artifacts, "export_model", export)
    assert main(["export", str(checkpoint), str(tmp_path / "out"), *options]) == 0
    assert given["thorough"] == bool(options)


def test_verify_asks_for_the_large_set(checkpoint, tmp_path, monkeypatch, capsys):
    given = {}
    monkeypatch.setattr("bert_keras.export.verify.verify", lambda *_, **settings: given.update(settings) or {})
    (tmp_path / "model.onnx").touch()
    for options, thorough in (([], False), (["--thorough"], True)):
        assert main(["verify", str(tmp_path / "model.onnx"), str(checkpoint), *options]) == 0
        assert given == {"thorough": thorough}


def test_a_checkpoint_is_opened_once_where_files_are_scored(
    checkpoint, tflite_file, tmp_path, monkeypatch, in_this_process
):
    opened = []
    write_copy = lambda source, path, quantization: shutil.copy(tflite_file("pair_classifier"), path)  # noqa: E731
    monkeypatch.setattr(tflite_artifact, "trace_tflite_source", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(tflite_artifact, "write_tflite_from_source", write_copy)
    monkeypatch.setattr(artifacts, "load", lambda folder: opened.append(folder) or bk.load(folder))
    rows = ["text\tsecond_text\tlabel", "the cat\ta mat\trot", "a dog\tits hat\tblau"]
    (tmp_path / "dev.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    command = ["export", str(checkpoint), str(tmp_path / "out"), "--to", "tflite", "--quantize", "float32"]
    assert main([*command, "--eval", str(tmp_path / "dev.tsv")]) == 0
    assert len(opened) == 1
    [verdict] = json.loads((tmp_path / "out/parity.json").read_text())["artifacts"].values()
    assert set(verdict["scores"]) == {"score", "checkpoint", "file"}


def test_outputs_are_computed_once_for_all_artifacts(references, checkpoint):
    reference = load_reference(checkpoint)
    calls = []
    run = reference._run
    reference._run = lambda features: calls.append(features) or run(features)
    rows = probe_inputs.DEFAULT.sequences(reference.config, reference.tokenizer, LENGTH)
    first = [reference.compute_outputs(row) for row in rows]
    again = [reference.with_task(None).compute_outputs(row) for row in rows]
    assert len(calls) <= len(rows)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one["logits"], other["logits"])

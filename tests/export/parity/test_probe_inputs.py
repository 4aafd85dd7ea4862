"""Probe inputs of the parity check: a small selection by default, many in the thorough set."""

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
from tests.marks import slow_except


@pytest.fixture(scope="module")
def checkpoint(references, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "pairs"
    reference = references("pair_classifier")
    bk.save(reference.model, reference.tokenizer, folder, task=reference.task.settings())
    return folder


def test_default_sequences_include_short_and_long_texts_pairs_and_twins(references):
    reference = references("encoder")
    sequences = probe_inputs.DEFAULT_PROBES.sequences(reference.config, reference.tokenizer, 512)
    lengths = [len(sequence.token_ids) for sequence in sequences]
    assert len(sequences) == 24
    assert {1, 2, 3, 256, 511, 512} < set(lengths)
    assert sum(lengths) < 1700  # the check spends most of its time on long sequences
    pairs = [length for length, sequence in zip(lengths, sequences, strict=True) if sequence.segment_ids.any()]
    assert {4, 512} < set(pairs)
    assert 9 <= len(pairs) <= 15
    assert probe_inputs.are_twins(*sequences[-2:])
    assert all(sequence.token_ids.max() < reference.config.vocabulary_size for sequence in sequences)
    short = probe_inputs.DEFAULT_PROBES.sequences(reference.config, reference.tokenizer, 5)
    assert {len(sequence.token_ids) for sequence in short} == {1, 2, 3, 4, 5}


def test_default_batches_contain_sequences_of_different_lengths(references):
    reference = references("encoder")
    lengths = [
        len(sequence.token_ids)
        for sequence in probe_inputs.DEFAULT_PROBES.sequences(reference.config, reference.tokenizer, LENGTH)
    ]
    batches = probe_inputs.split_into_batches(len(lengths))
    assert [len(batch) for batch in batches] == [1, 2, 3, 5, 8, 5]
    assert all(len({lengths[number] for number in batch}) > 1 for batch in batches[1:])


def test_default_texts_are_unusual_and_of_many_lengths(references):
    reference = references("encoder")
    texts = probe_inputs.DEFAULT_PROBES.texts(reference.tokenizer, LENGTH)
    num_tokens = [len(ids) for ids in reference.tokenizer.tokenize(texts).to_list()]
    assert len(texts) == 16
    assert {"", "a", "x" * 300, "[MASK] and [SEP] are words here"} < set(texts)
    assert any(0 < number < LENGTH - 2 for number in num_tokens)
    assert max(num_tokens) > LENGTH


def test_one_text_depends_on_the_rules_for_case_and_accents(references):
    tokenizer = references("encoder").tokenizer
    text = probe_inputs.DEFAULT_PROBES.texts(tokenizer, LENGTH)[10]
    assert not any(word in tokenizer.vocabulary for word in text.split())
    ids_by_rules = {}
    for lowercase in (True, False):
        for strip_accents in (True, False):
            other = bk.BertTokenizer(tokenizer.vocabulary, lowercase=lowercase, strip_accents=strip_accents)
            [ids] = other.tokenize([text]).to_list()
            ids_by_rules[lowercase, strip_accents] = tuple(ids)
    assert len(set(ids_by_rules.values())) == 4
    assert tokenizer.unk_id not in ids_by_rules[True, True]


def test_thorough_set_has_200_sequences_and_100_texts(references):
    reference = references("encoder")
    sequences = probe_inputs.THOROUGH_PROBES.sequences(reference.config, reference.tokenizer, LENGTH)
    assert (len(sequences), len(probe_inputs.THOROUGH_PROBES.texts(reference.tokenizer, LENGTH))) == (200, 100)
    assert probe_inputs.are_twins(*sequences[-2:])


@pytest.mark.parametrize(
    ("thorough", "name", "num_inputs"),
    slow_except([(False, "default", 24), (True, "thorough", 200)], quick=[(False, "default", 24)]),
)
def test_parity_report_names_the_probe_inputs(
    thorough, name, num_inputs, checkpoint, onnx_file, tmp_path, in_this_process
):
    shutil.copy(onnx_file("pair_classifier"), tmp_path / "model.onnx")
    [report] = verify(tmp_path / "model.onnx", checkpoint, thorough=thorough).values()
    assert (report["passed"], report["probes"], report["num_inputs"]) == (True, name, num_inputs)


def test_thorough_setting_chooses_the_probe_inputs():
    assert ExportSettings().probes is probe_inputs.DEFAULT_PROBES
    assert ExportSettings(thorough=True).probes is probe_inputs.THOROUGH_PROBES


@pytest.mark.parametrize("options", [[], ["--thorough"]])
def test_thorough_is_an_option_of_the_export_command(options, checkpoint, tmp_path, monkeypatch):
    settings_used = {}

    def export(*_, **settings):
        settings_used.update(settings)
        return {"artifacts": {}}

    monkeypatch.setattr(artifacts, "export_model", export)
    assert main(["export", str(checkpoint), str(tmp_path / "out"), *options]) == 0
    assert settings_used["thorough"] == bool(options)


def test_thorough_is_an_option_of_the_verify_command(checkpoint, tmp_path, monkeypatch, capsys):
    settings_used = {}
    monkeypatch.setattr("bert_keras.export.verify.verify", lambda *_, **settings: settings_used.update(settings) or {})
    (tmp_path / "model.onnx").touch()
    for options, thorough in (([], False), (["--thorough"], True)):
        assert main(["verify", str(tmp_path / "model.onnx"), str(checkpoint), *options]) == 0
        assert settings_used == {"thorough": thorough}


def test_checkpoint_is_loaded_once_when_files_are_scored(
    checkpoint, tflite_file, tmp_path, monkeypatch, in_this_process
):
    loaded = []
    write_copy = lambda source, path, quantization: shutil.copy(tflite_file("pair_classifier"), path)  # noqa: E731
    monkeypatch.setattr(tflite_artifact, "trace_tflite_source", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(tflite_artifact, "write_tflite_from_source", write_copy)
    monkeypatch.setattr(artifacts, "load", lambda folder: loaded.append(folder) or bk.load(folder))
    lines = ["text\tsecond_text\tlabel", "the cat\ta mat\trot", "a dog\tits hat\tblau"]
    (tmp_path / "dev.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["export", str(checkpoint), str(tmp_path / "out"), "--to", "tflite", "--quantize", "float32"]
    assert main([*command, "--eval", str(tmp_path / "dev.tsv")]) == 0
    assert len(loaded) == 1
    [report] = json.loads((tmp_path / "out/parity.json").read_text())["artifacts"].values()
    assert set(report["scores"]) == {"score", "checkpoint", "file"}


def test_outputs_of_the_checkpoint_are_cached(references, checkpoint):
    reference = load_reference(checkpoint)
    calls = []
    run = reference._run
    reference._run = lambda features: calls.append(features) or run(features)
    sequences = probe_inputs.DEFAULT_PROBES.sequences(reference.config, reference.tokenizer, LENGTH)
    first = [reference.compute_outputs(sequence) for sequence in sequences]
    second = [reference.with_task(None).compute_outputs(sequence) for sequence in sequences]
    assert len(calls) <= len(sequences)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one["logits"], other["logits"])

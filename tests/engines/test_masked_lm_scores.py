"""Scores of masked LMs, on the masked positions of records and on each token of a text, equal those of transformers."""

import dataclasses
import json
import math
import pathlib

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.engines import masked_lm_scores
from bert_keras.engines.masked_lm_scores import FIXED_MASKS, drop_sentence_objective, score_records, score_texts
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records.making_records import write_records
from tests.marks import slow_except

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##ed".split()
TEXTS = ["The cat sat on a mat.", "", "cats and dogs", "hat", "a zebra ran off, and every dog sat."]
SIZES = {"num_layers": 2, "num_heads": 3, "hidden_dim": 24, "intermediate_dim": 40, "max_sequence_length": 16}
RECORDED = pathlib.Path(__file__).with_name("masked_lm_scores.json")  # scores of transformers' models
KINDS = {  # the keys are the classes that open the folders in transformers
    "BertForMaskedLM": lambda config: bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)),
    "BertForPreTraining": lambda config: bk.BertPretrainer(bk.BertEncoder(config)),
    "ElectraForMaskedLM": lambda config: bk.BertMaskedLM(
        bk.BertEncoder(dataclasses.replace(config, embedding_dim=12), pooler=False), head_act="gelu"
    ),
}


@pytest.fixture(scope="module")
def tokenizer():
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


@pytest.fixture(scope="module")
def make(tokenizer, perturb):
    """Function that makes a model of one of `KINDS` with random weights from a fixed seed."""

    def make_model(kind):
        model = KINDS[kind](bk.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **SIZES))
        perturb(model)
        return model

    return make_model


@pytest.fixture(scope="module")
def make_records(tokenizer, tmp_path_factory):
    """Function that writes records of length 16 and returns their folder."""
    rng = np.random.default_rng(0)
    stories = [[" ".join(rng.choice(WORDS[:15], rng.integers(2, 7))) for _ in range(6)] for _ in range(60)]

    def write(**settings):
        folder = tmp_path_factory.mktemp("records") / "records"
        write_records(folder, stories, tokenizer, **{"max_sequence_length": 16, "held_out_rate": 0.5, **settings})
        return folder

    return write


@pytest.fixture(scope="module")
def records(make_records):
    return make_records()


def make_batch(records, tokenizer, **settings):
    """Return the held-out records and their masks as one batch."""
    options = {"split": "held_out", "batch_size": 200, "drop_remainder": False, **FIXED_MASKS, **settings}
    [batch] = make_pretraining_batches(records, tokenizer, **options)
    return batch


@pytest.fixture
def eager(monkeypatch):
    """Run op by op, because tracing a graph takes a second."""
    monkeypatch.setattr(masked_lm_scores, "_compile", lambda function, spec: function)


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["BertForPreTraining"]))
def test_scores_equal_the_recorded_scores_of_transformers(kind, make, tokenizer, records):
    model, recorded = make(kind), json.loads(RECORDED.read_text())[kind]
    scores = score_records(model, tokenizer, records, batch_size=7)
    texts = score_texts(model, tokenizer, TEXTS)
    ours = {name: scores.get(name) for name in recorded} | {name: texts[name] for name in ("loss", "accuracy")}
    assert ours == pytest.approx(recorded, rel=2e-6)  # measured: 2.2e-7
    assert scores["perplexity"] == pytest.approx(math.exp(recorded["mlm_loss"]), rel=1e-4)
    assert texts["pseudo_perplexity"] == pytest.approx(math.exp(recorded["loss"]), rel=1e-4)
    assert (texts["texts"], texts["tokens"], texts["unknown_rate"]) == (4, 23, 1 / 23)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reproduces_the_recorded_scores(kind, make, tokenizer, records, tmp_path):
    bk.save(make(kind), tokenizer, tmp_path / "model")
    theirs = {**records_by_transformers(kind, tmp_path / "model", make_batch(records, tokenizer))}
    theirs |= texts_by_transformers(kind, tmp_path / "model")
    assert theirs == pytest.approx(json.loads(RECORDED.read_text())[kind], rel=1e-5)


def records_by_transformers(kind, folder, batch) -> dict:
    """Return the loss and the accuracy of transformers at the masked positions; other labels are -100."""
    import torch
    import transformers

    features, labels = ({name: value.numpy() for name, value in part.items()} for part in batch)
    targets = np.full_like(features["token_ids"], -100)
    used = labels["mask_weights"] == 1
    targets[np.nonzero(used)[0], features["mask_positions"][used]] = labels["mask_ids"][used]
    inputs = {
        "input_ids": features["token_ids"],
        "attention_mask": features["padding_mask"],
        "token_type_ids": features["segment_ids"],
    }
    inputs = {name: torch.tensor(value, dtype=torch.long) for name, value in inputs.items()}
    targets, sentences = torch.tensor(targets, dtype=torch.long), torch.tensor(labels["next_sentence_labels"])
    model = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        output = model(**inputs)
        logits = getattr(output, "prediction_logits", None)
        logits = output.logits if logits is None else logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
    is_right = (logits.argmax(-1) == targets)[targets != -100]
    scores = {"mlm_loss": loss.item(), "mlm_accuracy": is_right.float().mean().item()}
    if kind == "BertForPreTraining":
        sentence_logits = output.seq_relationship_logits
        scores["next_sentence_loss"] = torch.nn.functional.cross_entropy(sentence_logits, sentences.long()).item()
        scores["next_sentence_accuracy"] = (sentence_logits.argmax(-1) == sentences).float().mean().item()
    elif kind == "BertForMaskedLM":
        with torch.no_grad():
            assert model(**inputs, labels=targets).loss.item() == pytest.approx(loss.item(), rel=1e-6)
    return scores


def texts_by_transformers(kind, folder) -> dict:
    """Return the mean loss and the accuracy of transformers over all tokens, masking one token per forward pass."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()
    losses, right = [], []
    for text in filter(None, TEXTS):
        [ids] = tokenizer(text, return_tensors="pt")["input_ids"]
        for position in range(1, len(ids) - 1):
            masked = ids.clone()
            masked[position] = tokenizer.mask_token_id
            with torch.no_grad():
                output = model(input_ids=masked[None])
            logits = (output.prediction_logits if kind == "BertForPreTraining" else output.logits)[0, position]
            losses.append(-torch.log_softmax(logits, -1)[ids[position]].item())
            right.append(logits.argmax().item() == ids[position].item())
    return {"loss": float(np.mean(losses)), "accuracy": float(np.mean(right))}


@pytest.mark.slow
def test_scores_of_one_batch_equal_the_evaluation_of_pretraining(make, tokenizer, records, eager):
    model = make("BertForPreTraining")
    model.compile("sgd", run_eagerly=True, jit_compile=False)
    features, labels = make_batch(records, tokenizer)
    theirs = model.evaluate(features, labels, batch_size=200, return_dict=True, verbose=0)
    ours = score_records(model, tokenizer, records)
    for name in ("mlm", "next_sentence"):
        assert ours[f"{name}_loss"] == pytest.approx(theirs[f"{name}_logits_loss"], rel=1e-5)
        assert ours[f"{name}_accuracy"] == pytest.approx(theirs[f"{name}_logits_accuracy"], rel=1e-5)
    assert ours["sequences"] == len(features["token_ids"])
    assert ours["masked_tokens"] == labels["mask_weights"].numpy().sum()


def test_masks_depend_on_the_seed_only_and_limit_takes_the_first_sequences(make, tokenizer, records, eager):
    model = make("BertForMaskedLM")
    few = score_records(model, tokenizer, records, limit=5, batch_size=3)
    assert few == pytest.approx(score_records(model, tokenizer, records, limit=5, batch_size=2), rel=1e-5)
    assert few["sequences"] == 5
    assert score_records(model, tokenizer, records, limit=5, seed=1)["mlm_loss"] != few["mlm_loss"]
    assert "next_sentence_accuracy" not in few


@pytest.mark.slow
def test_packed_records_without_sentence_labels_are_scored_with_the_mlm_head_only(make, tokenizer, make_records, eager):
    folder = make_records(sentence_objective="none", packed=True)
    model = make("BertForPreTraining")
    scores = score_records(model, tokenizer, folder)
    assert "next_sentence_accuracy" not in scores
    features, labels = drop_sentence_objective(*make_batch(folder, tokenizer))
    alone = bk.BertMaskedLM(model.encoder)
    alone.mlm_head.set_weights(model.mlm_head.get_weights())
    alone.compile("sgd", run_eagerly=True, jit_compile=False)
    theirs = alone.evaluate(features, labels, batch_size=200, return_dict=True, verbose=0)
    assert scores["mlm_loss"] == pytest.approx(theirs["loss"], rel=1e-5)


def test_batch_size_does_not_change_scores_and_long_texts_are_split(make, tokenizer, monkeypatch, eager):
    model = make("BertForMaskedLM")
    long = " ".join(WORDS[:15] * 3)  # 45 tokens; the model accepts 14 in addition to [CLS] and [SEP]
    parts = [" ".join((WORDS[:15] * 3)[start : start + 14]) for start in range(0, 45, 14)]
    scores = score_texts(model, tokenizer, [long, "a cat"])
    assert (scores["texts"], scores["tokens"]) == (2, 47)
    monkeypatch.setattr(masked_lm_scores, "_TOKENS_PER_BATCH", 40)
    calls = []
    split = score_texts(model, tokenizer, [*parts, "a cat"], progress=lambda done, total: calls.append((done, total)))
    assert split["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    assert calls[0] == (2, 47)
    assert calls[-1] == (47, 47)


@pytest.mark.slow
def test_electra_pretrainer_is_scored_by_its_generator(tokenizer, records, perturb, eager):
    config = bk.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **SIZES)
    model = bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)
    perturb(model)
    assert score_records(model, tokenizer, records, limit=4) == score_records(
        model.generator, tokenizer, records, limit=4
    )


def test_invalid_models_and_data_are_rejected(make, tokenizer, make_records, eager):
    model = make("BertForMaskedLM")
    with pytest.raises(bk.InputError, match="a BertEncoder has no head; expected a masked-LM head"):
        score_texts(model.encoder, tokenizer, TEXTS)
    with pytest.raises(bk.InputError, match="none of 2 texts has a token"):
        score_texts(model, tokenizer, ["", " "])
    with pytest.raises(bk.InputError, match="no records in the split held_out: make records with a higher --held-out"):
        score_records(model, tokenizer, make_records(held_out_rate=0.0))
    with pytest.raises(bk.InputError, match="sequences of 24 tokens, and the model accepts up to 16: make rec"):
        score_records(model, tokenizer, make_records(max_sequence_length=24))
    model.mlm_head.bias.assign(np.full(tokenizer.vocabulary_size, np.nan))
    with pytest.raises(bk.InputError, match="the model has a loss of nan per token: its weights are damaged"):
        score_texts(model, tokenizer, TEXTS)

"""A masked LM scores as transformers' does: masked positions of records, and each token of a text in turn."""

import dataclasses
import json
import math
import pathlib

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches
from bert_keras.pipelines.records import write_records
from bert_keras.tasks import masked_lm_scores
from bert_keras.tasks.masked_lm_scores import FIXED_MASKS, drop_sentence_objective, score_records, score_texts
from tests.marks import slow_except

WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##ed".split()
TEXTS = ["The cat sat on a mat.", "", "cats and dogs", "hat", "a zebra ran off, and every dog sat."]
SIZES = {"num_layers": 2, "num_heads": 3, "hidden_dim": 24, "intermediate_dim": 40, "max_sequence_length": 16}
RECORDED = pathlib.Path(__file__).with_name("masked_lm_scores.json")  # what transformers' models gave
KINDS = {  # by the class that opens the folder in transformers
    "BertForMaskedLM": lambda config: bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)),
    "BertForPreTraining": lambda config: bk.BertPretrainer(bk.BertEncoder(config)),
    "ElectraForMaskedLM": lambda config: bk.BertMaskedLM(
        bk.BertEncoder(dataclasses.replace(config, embedding_dim=12), pooler=False), head_act="gelu"
    ),
}


@pytest.fixture(scope="module")
def words():
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


@pytest.fixture(scope="module")
def make(words, perturb):
    """A function that makes a model of one of `KINDS`, with random weights from a seed."""

    def make_model(kind):
        model = KINDS[kind](bk.BertConfig(vocabulary_size=words.vocabulary_size, **SIZES))
        perturb(model)
        return model

    return make_model


@pytest.fixture(scope="module")
def make_records(words, tmp_path_factory):
    """A function that writes records of length 16, and gives their folder."""
    rng = np.random.default_rng(0)
    stories = [[" ".join(rng.choice(WORDS[:15], rng.integers(2, 7))) for _ in range(6)] for _ in range(60)]

    def write(**settings):
        folder = tmp_path_factory.mktemp("records") / "records"
        write_records(folder, stories, words, **{"max_sequence_length": 16, "held_out_rate": 0.5, **settings})
        return folder

    return write


@pytest.fixture(scope="module")
def records(make_records):
    return make_records()


def make_batch(records, words, **settings):
    """The held-out records with their masks, as one batch."""
    options = {"split": "held_out", "batch_size": 200, "drop_remainder": False, **FIXED_MASKS, **settings}
    [batch] = make_pretraining_batches(records, words, **options)
    return batch


@pytest.fixture
def eager(monkeypatch):
    """Run op by op: to trace a graph takes a second."""
    monkeypatch.setattr(masked_lm_scores, "_compile", lambda function, spec: function)


@pytest.mark.parametrize("kind", slow_except(KINDS, quick=["BertForPreTraining"]))
def test_records_and_texts_score_as_recorded_of_transformers(kind, make, words, records):
    model, recorded = make(kind), json.loads(RECORDED.read_text())[kind]
    scores = score_records(model, words, records, batch_size=7)
    texts = score_texts(model, words, TEXTS)
    ours = {name: scores.get(name) for name in recorded} | {name: texts[name] for name in ("loss", "accuracy")}
    assert ours == pytest.approx(recorded, rel=2e-6)  # measured: 2.2e-7
    assert scores["perplexity"] == pytest.approx(math.exp(recorded["mlm_loss"]), rel=1e-4)
    assert texts["pseudo_perplexity"] == pytest.approx(math.exp(recorded["loss"]), rel=1e-4)
    assert (texts["texts"], texts["tokens"], texts["unknown_rate"]) == (4, 23, 1 / 23)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_what_was_recorded(kind, make, words, records, tmp_path):
    bk.save(make(kind), words, tmp_path / "twin")
    theirs = {**records_by_transformers(kind, tmp_path / "twin", make_batch(records, words))}
    theirs |= texts_by_transformers(kind, tmp_path / "twin")
    assert theirs == pytest.approx(json.loads(RECORDED.read_text())[kind], rel=1e-5)


def records_by_transformers(kind, folder, batch) -> dict:
    """The loss with labels of -100 where nothing is masked, and how often the label is the likeliest."""
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
        has_pairs = output.seq_relationship_logits
        scores["next_sentence_loss"] = torch.nn.functional.cross_entropy(has_pairs, sentences.long()).item()
        scores["next_sentence_accuracy"] = (has_pairs.argmax(-1) == sentences).float().mean().item()
    elif kind == "BertForMaskedLM":
        with torch.no_grad():
            assert model(**inputs, labels=targets).loss.item() == pytest.approx(loss.item(), rel=1e-6)
    return scores


def texts_by_transformers(kind, folder) -> dict:
    """The mean negative log-likelihood of every token, masked alone, one pass each."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()
    losses, right = [], []
    for text in filter(None, TEXTS):
        [ids] = tokenizer(text, return_tensors="pt")["input_ids"]
        for place in range(1, len(ids) - 1):
            masked = ids.clone()
            masked[place] = tokenizer.mask_token_id
            with torch.no_grad():
                output = model(input_ids=masked[None])
            logits = (output.prediction_logits if kind == "BertForPreTraining" else output.logits)[0, place]
            losses.append(-torch.log_softmax(logits, -1)[ids[place]].item())
            right.append(logits.argmax().item() == ids[place].item())
    return {"loss": float(np.mean(losses)), "accuracy": float(np.mean(right))}


def test_a_split_in_one_batch_scores_as_the_evaluation_of_pretraining(make, words, records, eager):
    model = make("BertForPreTraining")
    model.compile("sgd", run_eagerly=True, jit_compile=False)
    features, labels = make_batch(records, words)
    theirs = model.evaluate(features, labels, batch_size=200, return_dict=True, verbose=0)
    ours = score_records(model, words, records)
    for name in ("mlm", "next_sentence"):
        assert ours[f"{name}_loss"] == pytest.approx(theirs[f"{name}_logits_loss"], rel=1e-5)
        assert ours[f"{name}_accuracy"] == pytest.approx(theirs[f"{name}_logits_accuracy"], rel=1e-5)
    assert ours["sequences"] == len(features["token_ids"])
    assert ours["masked_tokens"] == labels["mask_weights"].numpy().sum()


def test_masks_are_fixed_by_the_seed_and_a_limit_takes_the_first_sequences(make, words, records, eager):
    model = make("BertForMaskedLM")
    few = score_records(model, words, records, limit=5, batch_size=3)
    assert few == pytest.approx(score_records(model, words, records, limit=5, batch_size=2), rel=1e-5)
    assert few["sequences"] == 5
    assert score_records(model, words, records, limit=5, seed=1)["mlm_loss"] != few["mlm_loss"]
    assert "next_sentence_accuracy" not in few


def test_packed_records_without_sentences_are_scored_by_a_model_with_a_sentence_head(make, words, make_records, eager):
    folder = make_records(sentence_objective="none", packed=True)
    model = make("BertForPreTraining")
    scores = score_records(model, words, folder)
    assert "next_sentence_accuracy" not in scores
    features, labels = drop_sentence_objective(*make_batch(folder, words))
    alone = bk.BertMaskedLM(model.encoder)
    alone.mlm_head.set_weights(model.mlm_head.get_weights())
    alone.compile("sgd", run_eagerly=True, jit_compile=False)
    theirs = alone.evaluate(features, labels, batch_size=200, return_dict=True, verbose=0)
    assert scores["mlm_loss"] == pytest.approx(theirs["loss"], rel=1e-5)


def test_the_size_of_batches_changes_nothing_and_long_texts_are_cut_into_parts(make, words, monkeypatch, eager):
    model = make("BertForMaskedLM")
    long = " ".join(WORDS[:15] * 3)  # 45 tokens; the model reads 14 and [CLS], [SEP]
    parts = [" ".join((WORDS[:15] * 3)[start : start + 14]) for start in range(0, 45, 14)]
    scores = score_texts(model, words, [long, "a cat"])
    assert (scores["texts"], scores["tokens"]) == (2, 47)
    monkeypatch.setattr(masked_lm_scores, "_TOKENS_PER_BATCH", 40)
    seen = []
    again = score_texts(model, words, [*parts, "a cat"], progress=lambda done, total: seen.append((done, total)))
    assert again["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    assert seen[0] == (2, 47)
    assert seen[-1] == (47, 47)


def test_an_electra_pretrainer_is_scored_by_its_generator(words, records, perturb, eager):
    config = bk.BertConfig(vocabulary_size=words.vocabulary_size, **SIZES)
    model = bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)
    perturb(model)
    assert score_records(model, words, records, limit=4) == score_records(model.generator, words, records, limit=4)


def test_what_cannot_be_scored_is_refused(make, words, make_records, eager):
    model = make("BertForMaskedLM")
    with pytest.raises(bk.InputError, match="a BertEncoder has no head; expected a masked-LM head"):
        score_texts(model.encoder, words, TEXTS)
    with pytest.raises(bk.InputError, match="none of 2 texts has a token"):
        score_texts(model, words, ["", " "])
    with pytest.raises(bk.InputError, match="no records in the split held_out: make records with a higher --held-out"):
        score_records(model, words, make_records(held_out_rate=0.0))
    with pytest.raises(bk.InputError, match="sequences of 24 tokens, and the model accepts up to 16: make rec"):
        score_records(model, words, make_records(max_sequence_length=24))
    model.mlm_head.bias.assign(np.full(words.vocabulary_size, np.nan))
    with pytest.raises(bk.InputError, match="the model has a loss of nan per token: its weights are damaged"):
        score_texts(model, words, TEXTS)

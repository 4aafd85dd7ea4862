"""Sentence embeddings and their losses equal sentence-transformers, on the packaged all-MiniLM-L6-v2."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bert_keras.architectures.losses import CosineError, GlobalBatchMean, InBatchContrast
from bert_keras.engines.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.embed import OBJECTIVES
from bert_keras.heads.embed.task import SentenceEmbedding

ULPS = 4.5e-16  # measured: 0; the limit is two ULPs
TEXTS = [
    "A naïve café owner in Zürich paid 1,234.56 for 3 coffee-machines!",
    "unaffable antidisestablishmentarianism",
    "",
    "東京は日本の首都です。",
    "so 😀 happy",
    "the bar keeper bought machines for making coffee",
]
PAIRS = [
    TextExample(TEXTS[first], TEXTS[second], score) for first, second, score in ((0, 5, 4.5), (1, 3, 0), (4, 2, 1))
]
LOSSES = {  # ours, sentence-transformers'
    "regression": (CosineError, "CosineSimilarityLoss"),
    "contrastive": (InBatchContrast, "MultipleNegativesRankingLoss"),
}


def their_loss(objective: str):
    """Return the loss of sentence-transformers; the import is here, because it loads torch."""
    from sentence_transformers.sentence_transformer import losses

    return getattr(losses, LOSSES[objective][1])(None)


@pytest.fixture(scope="module")
def predictor(minilm):
    """Predictor of the packaged model."""
    return Predictor.from_checkpoint(minilm)


@pytest.fixture(scope="module")
def theirs(minilm):
    """The model of sentence-transformers in the same folder."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(minilm), device="cpu")


def test_embeddings_equal_sentence_transformers(predictor, theirs):
    assert predictor.task == SentenceEmbedding(max_sequence_length=256)
    texts = [*TEXTS, "a fine film about the sea " * 30, "they say it rains in Berlin " * 60]  # truncated to 256 tokens
    embeddings = [answer["embedding"] for answer in predictor(texts)]
    np.testing.assert_allclose(embeddings, theirs.encode(texts), rtol=0, atol=2e-6)  # measured: 2.5e-7


def test_pair_predictions_are_the_cosines_of_the_embeddings(predictor, theirs):
    pairs = [(TEXTS[0], TEXTS[5]), (TEXTS[1], TEXTS[3])]
    cosines = [answer["cosine"] for answer in predictor(pairs)]
    expected = theirs.similarity_pairwise(*(theirs.encode(list(texts)) for texts in zip(*pairs, strict=True)))
    np.testing.assert_allclose(cosines, expected, rtol=0, atol=2e-7)  # measured: 2.9e-8


def test_texts_and_pairs_can_be_mixed(predictor):
    alone = predictor([TEXTS[1], TEXTS[3]])
    text, pair, other = predictor([TEXTS[1], (TEXTS[1], TEXTS[3]), TEXTS[3]])
    np.testing.assert_allclose(text["embedding"], alone[0]["embedding"], rtol=0, atol=6e-7)  # measured: 6.3e-8
    np.testing.assert_allclose(other["embedding"], alone[1]["embedding"], rtol=0, atol=6e-7)  # measured: 6.3e-8
    np.testing.assert_allclose(
        pair["cosine"], np.dot(text["embedding"], other["embedding"]), rtol=0, atol=1e-7
    )  # measured: 1.8e-8


def test_scores_are_correlations_with_the_labels(predictor):
    examples = [TextExample(TEXTS[index], TEXTS[-1 - index], index * 1.1) for index in (0, 1, 2, 4, 5)]
    answers = predictor(examples)
    task = SentenceEmbedding(highest_score=5.0)
    scores = task.score(answers, examples)
    cosines, truth = [answer["cosine"] for answer in answers], [example.label / 5 for example in examples]
    np.testing.assert_allclose(scores["pearson"], stats.pearsonr(truth, cosines).statistic, rtol=ULPS)
    np.testing.assert_allclose(scores["spearman"], stats.spearmanr(truth, cosines).statistic, rtol=ULPS)
    np.testing.assert_allclose(scores["rmse"], np.sqrt(np.mean(np.square(np.subtract(truth, cosines)))), rtol=ULPS)
    assert task.main_score == "spearman"


def test_texts_of_a_pair_stay_adjacent_in_shuffled_batches(tokenizer):
    words = [f"word {'very ' * number}one" for number in range(23)]
    examples = [TextExample(word, f"{word} two", number / 2) for number, word in enumerate(words)]
    task = SentenceEmbedding(highest_score=2.0)
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    assert labelled.num_batches(4) == 6
    first_texts = []
    for features, scores in labelled.batches(4, shuffle=True, seed=3):
        texts = tokenizer.detokenize(features["token_ids"]).numpy().astype(str)
        for first, second, score, second_score in zip(texts[::2], texts[1::2], scores[::2], scores[1::2], strict=True):
            assert second == f"{first} two"
            assert score == second_score == np.float32(words.index(first) / 4)
            first_texts.append(first)
    assert sorted(first_texts) == sorted(words)
    assert first_texts != words


def make_embeddings(num_pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 2, (2 * num_pairs, 13)).astype("float32"), rng.random(num_pairs).astype("float32")


@pytest.mark.parametrize("num_pairs", [1, 2, 9])
@pytest.mark.parametrize("objective", LOSSES)
def test_loss_and_gradient_equal_sentence_transformers(objective, num_pairs):
    import torch

    ours, _ = LOSSES[objective]
    vectors, scores = make_embeddings(num_pairs, seed=num_pairs)
    variable = tf.Variable(vectors)
    with tf.GradientTape() as tape:
        loss = GlobalBatchMean(ours(), "embedding")(np.repeat(scores, 2), variable)
    pair = [torch.tensor(part, requires_grad=True) for part in (vectors[::2], vectors[1::2])]
    expected = their_loss(objective).compute_loss_from_embeddings(pair, torch.tensor(scores))
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=0, atol=2e-6)  # measured: 4.8e-7, for losses up to 15
    gradient = np.stack([part.grad.numpy() for part in pair], axis=1).reshape(vectors.shape)
    np.testing.assert_allclose(tape.gradient(loss, variable), gradient, rtol=0, atol=2e-6)  # measured: 2.4e-7


@pytest.mark.parametrize("loss", [CosineError(name="mine"), InBatchContrast()], ids=["regression", "contrastive"])
def test_losses_survive_a_config_round_trip(loss):
    vectors, scores = make_embeddings(4, seed=5)
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert (type(restored), restored.name) == (type(loss), loss.name)
    values = loss(np.repeat(scores, 2), vectors)
    assert values.shape == (8,)
    np.testing.assert_array_equal(restored(np.repeat(scores, 2), vectors), values)


@pytest.mark.parametrize("objective", LOSSES)
def test_zero_vectors_have_a_finite_loss_and_gradient(objective):
    variable = tf.Variable(np.zeros((6, 5), "float32"))
    with tf.GradientTape() as tape:
        loss = GlobalBatchMean(LOSSES[objective][0](), "embedding")(np.ones(6, "float32"), variable)
    assert np.isfinite(loss)
    assert np.isfinite(tape.gradient(loss, variable)).all()


@pytest.mark.parametrize("objective", LOSSES)
def test_task_trains_with_the_loss_of_its_objective(objective, build, tokenizer):
    task = SentenceEmbedding(objective=objective, highest_score=5.0)
    model = build(task)
    model.compile("sgd", task.loss())
    labelled = task.add_labels(task.encode(tokenizer, PAIRS), PAIRS)
    [[*batch]] = labelled.batches(len(PAIRS))
    loss = model.test_on_batch(*batch, return_dict=True)["loss"]
    import torch

    vectors = torch.tensor(model(batch[0], training=False)["embedding"].numpy())
    scores = torch.tensor([example.label / 5 for example in PAIRS])
    expected = their_loss(objective).compute_loss_from_embeddings([vectors[::2], vectors[1::2]], scores)
    np.testing.assert_allclose(loss, expected, rtol=0, atol=2e-6)  # measured: 3.6e-7


def test_contrastive_pairs_need_no_scores(tokenizer):
    examples = [TextExample("a", "b"), TextExample("c", "d")]
    task = SentenceEmbedding(objective="contrastive")
    labelled = task.add_labels(task.encode(tokenizer, examples), examples)
    assert (labelled.group_size, labelled.labels.shape) == (2, (4,))


def test_batches_are_padded_except_for_contrastive_training():
    """A padding pair has weight 0, but contrastive training would compare the other pairs with it."""
    assert SentenceEmbedding().fills_batches
    assert not SentenceEmbedding(objective="contrastive").fills_batches
    vectors, _ = make_embeddings(3, seed=6)
    padded = np.concatenate([vectors, vectors[:2], vectors[:2]])
    weights = np.repeat(np.float32([1, 0]), [6, 4])
    for objective, is_same in (("regression", True), ("contrastive", False)):
        loss = GlobalBatchMean(LOSSES[objective][0](), "embedding")
        difference = abs(loss(np.ones(6), vectors) - loss(np.ones(10), padded, weights))
        assert (difference < 6e-7) == is_same  # measured: 6e-8 and 0.37


def test_single_texts_are_rejected_in_training(tokenizer):
    task, examples = SentenceEmbedding(), [PAIRS[0], TextExample("alone", None, 1.0)]
    with pytest.raises(InputError, match="1 of 2 examples do not have 2 texts; expected 2 for the objective"):
        task.add_labels(task.encode(tokenizer, examples), examples)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "triplets"}, "objective is 'triplets'; expected one of regression, contrastive"),
        ({"window_overlap": 3}, "sentence vectors do not use windows; expected no window_overlap: leave it out"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        SentenceEmbedding(**settings)


def test_answers_convert_to_json(predictor):
    text, pair = predictor([TEXTS[0], (TEXTS[0], TEXTS[5])])
    converted = json.loads(json.dumps(predictor.task.to_json(text)))
    assert converted == {"embedding": text["embedding"]}
    assert json.loads(json.dumps(predictor.task.to_json(pair))) == pair


def test_a_loss_of_another_number_of_texts_is_refused(monkeypatch):
    triples = dataclasses.replace(OBJECTIVES["contrastive"], name="triples", text_columns=("a", "b", "c"))
    monkeypatch.setitem(OBJECTIVES, "triples", triples)
    with pytest.raises(InputError, match="compares 2 texts, and the objective 'triples' has 3 columns of texts"):
        SentenceEmbedding(objective="triples").loss()

"""Distillations of tiny teachers: every task, kinds of students, resumed, on two devices, without labels."""

import dataclasses
import json
import pathlib
import types

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.loading import load_tokenizer
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.errors import InputError, InterruptedTrainingError
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.tag.task import TokenClassification
from bert_keras.heads.task import softmax
from bert_keras.training.config.finetuning_settings import Distillation
from bert_keras.training.distilling.distillation_data import DistillationData, read_distillation_data, read_teacher_task
from bert_keras.training.distilling.distilling_to_folder import (
    TeacherTraining,
    add_known_labels,
    fit_width,
    make_student_checkpoint,
    score_teacher,
)
from tests.marks import slow_except
from tests.training.distilling.distill_tiny import FAST, LOSSES, MAKERS, Losses, make_data
from tests.training.finetune_tiny import TASKS, TEXTS, digest
from tests.training.processes import finish, start

ALL_TASKS = slow_except(TASKS, quick=["tag"])


@pytest.fixture(scope="module")
def teachers(story_tokenizer, perturb, tmp_path_factory):
    """Function that returns the folder of a teacher of three layers for a task; all its weights are random."""
    folders = {}

    def make(name):
        if name not in folders:
            task, _ = MAKERS[name]()
            sizes = {"num_layers": 3, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 24}
            config = bk.BertConfig(vocabulary_size=story_tokenizer.vocabulary_size, max_sequence_length=24, **sizes)
            encoder = bk.BertEncoder(config, pooler=name == "classify")
            model = getattr(bk, task.head.model_name)(encoder, **task.head_arguments())
            perturb(model)
            folders[name] = tmp_path_factory.mktemp("teacher") / name
            bk.save(model, story_tokenizer, folders[name], task=task.settings())
        return folders[name]

    return make


@pytest.mark.parametrize("name", ALL_TASKS)
def test_a_student_of_every_task_learns_its_teacher_with_and_without_labels(name, teachers, tmp_path):
    data, losses = make_data(name, num_labelled=20), Losses()
    distilled = bk.distill(
        teachers(name), tmp_path / "out", train=data, num_layers=2, num_epochs=3, callbacks=[losses], **FAST
    )
    assert losses.values[-1] < 0.97 * losses.values[0]
    assert distilled.model.encoder.config.num_layers == 2
    loaded = bk.load(tmp_path / "out")
    for ours, theirs in zip(distilled.model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    score = distilled.task.main_score
    assert metrics[score] == distilled.scores[score]
    assert metrics["teacher"]["scores"] == pytest.approx(bk_scores(teachers(name), data), abs=1e-6)
    assert metrics["teacher"]["parameters"] == bk.load(teachers(name)).count_params() > metrics["parameters"]


def bk_scores(folder, data):
    """The scores of a model by `Predictor`."""
    predictor = bk.Predictor.from_checkpoint(folder)
    answers = predictor.answer(data.dev)
    task = predictor.task.calibrate(answers, data.dev)
    return task.score(task.apply_calibration(answers), data.dev)


STUDENTS = {
    "cut": {"num_layers": 1},
    "all losses": {"num_layers": 2, "hidden_weight": 1.0, "attention_weight": 0.5},
    "new and narrow": {"student": "tiny", "num_layers": 1, "hidden_dim": 8, "hidden_weight": 1.0},
    "trimmed": {"num_layers": 1, "trim_vocabulary": True, "hidden_weight": 0.1},
}


@pytest.mark.parametrize("kind", slow_except(STUDENTS, quick=["new and narrow"]))
def test_every_kind_of_student_trains(kind, teachers):
    data, losses = make_data("classify"), Losses()
    if kind == "trimmed":  # without the texts with "dog"
        kept = [example for example in data.train if "dog" not in example.text]
        data = dataclasses.replace(data, train=kept, dev=kept[::5], num_labelled=len(kept))
    distilled = bk.distill(teachers("classify"), train=data, num_epochs=2, callbacks=[losses], **FAST, **STUDENTS[kind])
    assert losses.values[-1] < losses.values[0]
    sizes = distilled.model.encoder.config
    if kind == "new and narrow":
        assert (sizes.hidden_dim, sizes.embedding_dim, sizes.num_layers) == (8, 8, 1)
    if kind == "trimmed":
        assert "dog" not in distilled.tokenizer.vocabulary
        assert sizes.vocabulary_size == distilled.tokenizer.vocabulary_size == 19


RESUMED = {"outputs given": {}, "teacher in each step": {"hidden_weight": 1.0}}


@pytest.mark.slow
@pytest.mark.parametrize("case", RESUMED)
def test_a_killed_distillation_resumes_to_the_same_bits(case, teachers, tmp_path):
    def run(out, **more):
        settings = {"num_layers": 2, "num_epochs": 2, **FAST, **RESUMED[case], **more}
        return bk.distill(teachers("classify"), tmp_path / out, train=make_data("classify", 40), **settings)

    whole = run("whole")
    with pytest.raises(InterruptedTrainingError):
        run("killed", callbacks=[Losses(stop_at=5)])
    assert not (tmp_path / "killed").exists()
    with pytest.raises(InputError, match=r"temperature was 2.0 and is 3.0"):
        run("killed", resume=True, temperature=3.0)
    resumed = run("killed", resume=True)
    assert digest(resumed.model) == digest(whole.model)
    assert resumed.scores == whole.scores


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["multi_label", "regression"])
def test_texts_without_labels_have_no_effect_if_only_labels_count(problem, teachers):
    data, digests = make_data(problem, num_labelled=20), []
    labelled, rest = data.train[:20], [example._replace(label=None) for example in data.train[20:]]
    others = [example._replace(text=" ".join(reversed(example.text.split()))) for example in rest]  # as long
    exchanged = [one._replace(label=other.label) for one, other in zip(labelled, reversed(labelled), strict=True)]
    for examples in ([*labelled, *rest], [*labelled, *others], [*exchanged, *rest]):
        given = dataclasses.replace(data, train=examples)
        settings = {"num_layers": 2, "num_epochs": 1, "label_weight": 1.0, **FAST}
        digests.append(digest(bk.distill(teachers(problem), train=given, **settings).model))
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.slow
@pytest.mark.parametrize("compared", LOSSES)
def test_a_distillation_in_bfloat16_follows_the_one_in_float32(compared, teachers):
    losses = {}
    for policy in ("float32", "mixed_bfloat16"):
        recorded = Losses()
        settings = {"num_layers": 2, "num_epochs": 2, "dtype_policy": policy, **LOSSES[compared], **FAST}
        distilled = bk.distill(teachers("classify"), train=make_data("classify", 20), callbacks=[recorded], **settings)
        assert {weight.dtype for weight in distilled.model.weights} == {"float32"}
        losses[policy] = recorded.values
    assert losses["mixed_bfloat16"] != losses["float32"]
    assert losses["mixed_bfloat16"] == pytest.approx(losses["float32"], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_micro_batches_and_gradient_checkpointing_change_nothing(name, teachers):
    losses = []
    for options in ({}, {"accumulation_steps": 2, "gradient_checkpointing": True}):
        losses.append(Losses())
        settings = {"num_layers": 2, "num_epochs": 2, **LOSSES["all"], **FAST, **options}
        bk.distill(teachers(name), train=make_data(name, 20), callbacks=[losses[-1]], **settings)
    assert losses[0].values == pytest.approx(losses[1].values, abs=2e-5)


def test_a_student_with_fewer_tokens_gets_what_its_teacher_computes_for_the_same_texts(teachers):
    teacher, data = read_checkpoint(teachers("classify")), make_data("classify")
    kept = [example for example in data.train if "dog" not in example.text]
    settings = Distillation(num_layers=1, trim_vocabulary=True)
    student, description = make_student_checkpoint(teacher, data.task, settings, kept)
    assert description == "layers 1 of the teacher's 3; 19 of 20 tokens"
    tokenizer = load_tokenizer(student)
    method = TeacherTraining(teacher, tokenizer, dataclasses.replace(data, train=kept, num_labelled=len(kept)))
    method.build_model(data.task, student, settings)
    labelled = method.add_labels(data.task, data.task.encode(tokenizer, kept), kept)
    answers = bk.Predictor.from_checkpoint(teachers("classify")).answer(kept)
    expected = [answer["probabilities"] for answer in answers]
    np.testing.assert_allclose(softmax(labelled.labels["teacher_logits"]), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("compared", LOSSES)
@pytest.mark.parametrize("name", TASKS)
def test_two_devices_distill_as_one(name, compared, teachers, tmp_path):
    reports = []
    for num_devices in (1, 2):
        out = tmp_path / f"{num_devices}.json"
        script = start("distilling/distill_tiny.py", teachers(name), out, name, num_devices, compared)
        reports.append(finish(script, out))
    assert reports[0]["losses"] == pytest.approx(reports[1]["losses"], abs=2e-5)
    assert reports[0]["scores"] == pytest.approx(reports[1]["scores"], abs=2e-5)


def test_an_embedder_needs_no_labels_at_all(teachers, tmp_path):
    options = {"num_layers": 2, "num_epochs": 1, **FAST}
    distilled = bk.distill(teachers("embed"), tmp_path / "out", unlabelled=TEXTS, **options)
    assert not distilled.data.is_dev_labelled
    assert distilled.teacher_scores["spearman"] == pytest.approx(1)
    card = (tmp_path / "out/README.md").read_text()
    assert "have no labels" in card
    assert "model-index" not in card


def test_vectors_of_another_width_keep_their_cosines():
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(40, 3)) @ rng.normal(size=(3, 12))).astype("float32")  # of rank 3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for width in (5, 12, 20):
        fitted = fit_width(vectors, width, normalize=True)
        assert fitted.shape == (40, width)
        np.testing.assert_allclose(fitted @ fitted.T, vectors @ vectors.T, atol=1e-5)


BAD_SETTINGS = [
    ({}, "neither student nor num_layers was given"),
    ({"num_layers": 1, "hidden_dim": 8}, "hidden_dim were given without student"),
    ({"student": "folder", "num_layers": 1}, "student is the folder folder, which determines the sizes"),
    ({"num_layers": 0}, "num_layers is 0: input should be greater"),
    ({"num_layers": 1, "label_weight": 1.5}, "label_weight is 1.5: input should be less"),
    ({"num_layers": 1, "temperature": 0}, "temperature is 0: input should be greater than 0"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_invalid_settings_are_reported(settings, message):
    with pytest.raises(InputError, match=message):
        Distillation(**settings)


def test_data_and_models_that_do_not_fit_are_refused(teachers, make_encoder, story_tokenizer, tmp_path):
    teacher = teachers("classify")
    examples = [(text, "none") for text in TEXTS[:12]]
    with pytest.raises(InputError, match="num_layers is 4 and the teacher has 3 layers"):
        bk.distill(teacher, train=examples, num_layers=4)
    with pytest.raises(InputError, match="the label 'bird' is not one of the model's"):
        bk.distill(teacher, train=[*examples, ("a bird", "bird")], num_layers=1)
    with pytest.raises(InputError, match="no training examples were named"):
        bk.distill(teacher, num_layers=1)
    with pytest.raises(InputError, match="there are no labels to score the task classify with"):
        bk.distill(teacher, unlabelled=TEXTS, num_layers=1)
    with pytest.raises(InputError, match="has no task head"):
        bk.distill(make_encoder(), train=examples, num_layers=1)
    options = {"student": "tiny", "hidden_dim": 8, "num_heads": 1, "attention_weight": 1.0}
    with pytest.raises(InputError, match="the student has 1 heads per layer and the teacher 2"):
        bk.distill(teacher, train=examples, **options)
    other = bk.BertTokenizer([*story_tokenizer.vocabulary[:-1], "bird"])
    bk.save(bk.load(teacher), other, tmp_path / "other")
    with pytest.raises(InputError, match="has another vocabulary than the teacher"):
        bk.distill(teacher, train=examples, student=str(tmp_path / "other"))


def test_wrong_arguments_are_reported_before_the_examples_are_read(teachers, tmp_path):
    for student in ("smal", tmp_path / "nothing"):
        with pytest.raises(InputError, match=r"does not exist; expected one of tiny, .*, or a checkpoint folder"):
            bk.distill(teachers("classify"), train="no such file", student=student)
    options = {"student": "tiny", "num_heads": 1, "attention_weight": 1.0}
    with pytest.raises(InputError, match="the student has 1 heads per layer"):
        bk.distill(teachers("classify"), train="no such file", **options)


def test_the_folder_of_the_student_is_not_overwritten(teachers, make_encoder):
    student = make_encoder(num_layers=1)
    with pytest.raises(InputError, match="is an input of this run and would be replaced"):
        bk.distill(teachers("classify"), student, train=make_data("classify"), student=str(student), overwrite=True)


def test_data_in_memory_are_checked(teachers):
    data = make_data("classify")
    for options in ({"dev": data.dev}, {"unlabelled": TEXTS}, {"max_sequence_length": 8}, {"text_column": "text"}):
        with pytest.raises(InputError, match="expected no arguments that say how to read examples"):
            bk.distill(teachers("classify"), train=data, num_layers=1, **options)
    with pytest.raises(InputError, match=r"train is for the task tag with the labels .* and the teacher for classify"):
        bk.distill(teachers("classify"), train=make_data("tag"), num_layers=1)
    with pytest.raises(TypeError, match="num_labelled"):
        DistillationData(data.task, data.train, data.dev, None, None, data.bad, ())


def test_scores_of_pairs_are_divided_by_the_highest(teachers):
    task = read_teacher_task(read_checkpoint(teachers("embed")))
    rows = [("the cat sat", "a cat", 10.0), ("a dog", "the dog", 4.0), ("a cat", "a hat", 0.5)]
    pairs = [{"text1": one, "text2": other, "label": score} for one, other, score in rows]
    data = read_distillation_data(dataclasses.replace(task, highest_score=1.0), pairs, pairs, None, FileOptions())
    assert data.task.highest_score == 10.0
    labelled = data.task.add_labels(data.task.encode(bk.load_tokenizer(teachers("embed")), data.train), data.train)
    assert labelled.labels.max() == 1.0


def test_examples_without_labels_in_memory(teachers):
    task = read_teacher_task(read_checkpoint(teachers("embed")))
    with pytest.raises(InputError, match=r"an example is \[1, 2\]; expected a text"):
        read_distillation_data(task, None, None, [[1, 2]], FileOptions())
    with pytest.raises(InputError, match="2 pairs of texts are held out; expected 3 or more"):
        read_distillation_data(task, None, None, TEXTS[:40], FileOptions())
    data = read_distillation_data(task, None, None, TEXTS[:59], FileOptions())
    assert (len(data.train) + len(data.dev), data.num_joined_texts) == (30, 59)


def test_a_tag_that_the_teacher_lacks_is_reported_with_its_line_or_skipped(tmp_path):
    task = TokenClassification(labels=("B-PET", "O"), scheme="IOB2")
    file, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    file.write_text("a O\ncat B-PET\n\nred B-PET\ndog I-PET\n\na O\n")
    dev.write_text("a O\ncat B-PET\n")
    with pytest.raises(InputError, match=r"train.conll, line \d+: the label 'I-PET' is not one of the model's"):
        read_distillation_data(task, str(file), str(dev), None, FileOptions())
    data = read_distillation_data(task, str(file), str(dev), None, FileOptions(), on_error="skip")
    assert (data.bad.num_bad, len(data.train)) == (1, 2)


def test_cosines_of_the_teacher_do_not_identify_the_data(teachers):
    teacher = read_checkpoint(teachers("embed"))
    data = read_distillation_data(read_teacher_task(teacher), None, None, TEXTS, FileOptions())
    scored = score_teacher(data, teacher)
    assert scored.teacher_scores["spearman"] == pytest.approx(1)
    assert [pair.label for pair in scored.dev] != [pair.label for pair in data.dev]
    settings = Distillation(num_layers=1)
    student, _ = make_student_checkpoint(teacher, data.task, settings, data.train)
    identities = []
    for one in (data, scored):
        method = TeacherTraining(teacher, load_tokenizer(student), one)
        method.build_model(data.task, student, settings)
        identities.append(method.identify())
    assert identities[0] == identities[1]
    assert "the held-out examples" in identities[0]


def test_balanced_classes_are_those_of_the_labelled_examples():
    task, examples = TASKS["classify"]()
    task = dataclasses.replace(task, class_weights="balanced")
    weights = add_known_labels(task, types.SimpleNamespace(examples=np.arange(len(examples))), examples, 20).weights
    expected = task.add_labels(types.SimpleNamespace(examples=np.arange(20)), examples[:20]).weights
    np.testing.assert_allclose(weights[:20], expected, rtol=1e-6)
    assert len(set(expected)) > 1
    assert (weights[20:] == 1).all()


def test_a_folder_with_the_same_vocabulary_can_be_the_student(teachers, make_encoder, untraced):
    student, data = pathlib.Path(make_encoder(num_layers=1)), make_data("classify")
    distilled = bk.distill(teachers("classify"), train=data, student=student, num_epochs=1, **FAST)
    assert distilled.model.encoder.config.intermediate_dim == 24
    assert distilled.model.encoder.config.num_layers == 1

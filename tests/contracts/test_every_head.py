"""The rules that every head keeps, driven by the records: a new head is tested without a change here.

Only `ARGUMENTS` and `TASK_SETTINGS` know names of arguments and tasks; a head without arguments of its own needs
neither.
"""

import dataclasses
import functools
import importlib
import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import bert_keras as bk
from bert_keras.analysis.cost_model.components import count_parameters
from bert_keras.analysis.cost_model.subjects import add_head as add_planned_head
from bert_keras.architectures.known_architectures import ARCHITECTURES
from bert_keras.checkpoints.adapters.adapter_files import build_adapter_files, count_trained_parameters, select_layers
from bert_keras.checkpoints.adapters.lora_layers import LoraModel
from bert_keras.checkpoints.building import get_encoder
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.checkpoints.task_loading import restore_task
from bert_keras.config import PROBLEMS
from bert_keras.export.ids_graph import HUGGINGFACE_NAMES, build_ids_function, call_model
from bert_keras.export.parity import parity_check
from bert_keras.export.parity.comparison import Comparison
from bert_keras.export.parity.expected_answers import expect_text_answers
from bert_keras.export.parity.probe_inputs import DEFAULT_PROBES, to_bytes_array
from bert_keras.export.parity.reference import Reference
from bert_keras.export.saved_model.to_saved_model import build_text_function
from bert_keras.features import to_huggingface_names
from bert_keras.heads import models
from bert_keras.heads.known_heads import HEADS, find_finetuned_head, get_head, get_task_head, list_finetuned_heads
from tests.contracts.tiny_models import (
    FEATURES,
    add_head,
    assert_close,
    assert_identical,
    find_architecture,
    make_arguments,
    make_config,
    make_encoder,
    make_labels,
    reads_masks,
)
from tests.marks import slow, slow_except

TOLERANCE = 1e-5  # of outputs under another padding or in a graph; measured: 3.4e-6
DECODED = 2e-5  # of answers of a graph; measured: 5.0e-6 for logits over the vocabulary

# a value that is not the default for each argument of the models; arguments of heads of tomorrow need an entry
ARGUMENTS = {
    "pooler": False,
    "num_classes": 6,
    "labels": ("a", "b", "c", "d", "e", "f"),
    "dropout_rate": 0.35,
    "pooling": ("max", "cls"),
    "normalize": False,
    "include_prompt": False,
    "prompts": {"query": "query: "},
    "default_prompt_name": "query",
    "similarity": "dot",
    "problem": "multi_label",
    "head_act": "gelu",
}
# layers that a model shares are not part of its config, because the model that owns them restores them
NOT_STORED = ("embeddings", "kwargs", "self")
OTHER_CONFIG = {
    "vocabulary_size": 61,
    "num_layers": 1,
    "num_heads": 3,
    "hidden_dim": 24,
    "intermediate_dim": 31,
    "max_sequence_length": 19,
    "type_vocabulary_size": 3,
    "embedding_dim": 18,
    "hidden_act": "relu",
    "position_type": "sinusoidal",
    "hidden_dropout_rate": 0.25,
    "attention_dropout_rate": 0.15,
    "layer_norm_epsilon": 1e-7,
    "initializer_range": 0.07,
    "model_type": "electra",
}
# settings of tasks under which the decoders are compared, besides the default ones; texts are split into windows
TASK_SETTINGS = {
    "classify": [{"has_pairs": True}, {"max_sequence_length": 11, "window_overlap": 3}],
    "tag": [{"max_sequence_length": 13, "window_overlap": 4}],
    "answer": [
        {"max_question_length": 5, "window_overlap": 2, "max_answer_length": 3, "allows_null": True},
    ],
}
WORDS = "the cat sat on a mat and every dog ran off with its red hat . , ##s ##un".split()
LENGTH = 19


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A head with a kind of problem, if the head has more than one."""

    head: object
    problem: str | None = None

    def __str__(self) -> str:
        return "-".join(filter(None, [self.head.model_name, self.problem]))


CASES = [Case(head, problem) for head in HEADS for problem in (PROBLEMS if head.has_problem else [None])]
FIRST_CASES = {case.head.model_name: case for case in reversed(CASES)}  # one for each head
by_record = pytest.mark.parametrize("head", HEADS, ids=lambda head: head.model_name)
by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_head = pytest.mark.parametrize("case", [FIRST_CASES[head.model_name] for head in HEADS], ids=str)


@pytest.fixture(scope="module")
def build(perturb):
    """A function that builds the model of a case with random weights."""

    def build_model(case: Case, **changes):
        architecture = find_architecture(case.head)
        config = make_config(architecture, **{"num_layers": 1, "embedding_dim": None, **changes})
        problem = {} if case.problem is None else {"problem": case.problem}
        encoder = make_encoder(architecture, case.head, config)
        model = add_head(case.head, encoder, **make_arguments(case.head, config, **problem))
        perturb(model)
        return model

    return build_model


@pytest.fixture(scope="module")
def make(build):
    """A function that builds the model of a case once; tests do not change it."""
    return functools.cache(build)


@pytest.fixture(scope="module")
def save(make, tmp_path_factory):
    """A function that returns the folder of a case's model, without a tokenizer; tests do not change it."""

    @functools.cache
    def save_model(case: Case):
        folder = tmp_path_factory.mktemp("saved") / "folder"
        bk.save(make(case), None, folder)
        return folder

    return save_model


@pytest.fixture
def use_policy():
    """A function that sets the global dtype policy until the end of the test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.fixture
def batch_of(make_batch):
    """A function that returns a batch with all features that a head reads."""

    def make_features(head, **options) -> dict:
        return make_batch(*FEATURES, *(["mask_positions"] if reads_masks(head) else []), **options)

    return make_features


# --- the record


def test_every_model_has_one_head():
    assert len({head.model_name for head in HEADS}) == len({head.name for head in HEADS}) == len(HEADS)
    assert set(models.__all__) <= {head.model_name for head in HEADS}


@by_record
def test_the_record_names_what_exists(head):
    """Heads that are fine-tuned name all parts."""
    for field in dataclasses.fields(head):
        value = getattr(head, field.name)
        if isinstance(value, str) and value.startswith(("bert_keras.", head.model.partition(":")[0])):
            assert callable(head.load(field.name)) or importlib.import_module(value.partition(":")[0]), field.name
    names = ("training_reader", "scoring_reader", "description", "comparison", "graph")
    given = {name for name in names if getattr(head, name) is not None}
    assert given == set(names) if head.is_finetuned else given <= {"graph", "description", "comparison"}
    assert ("graph" in given) == ("comparison" in given)


@by_record
def test_the_record_describes_its_model_and_its_task(head):
    assert get_head(head.model_name) is head
    parameters = inspect.signature(head.load("model")).parameters
    assert head.has_num_classes == ("num_classes" in parameters)
    assert head.has_problem == ("problem" in parameters)
    if head.task is not None:
        task = head.load("task")
        assert task.name == head.name
        assert get_task_head(task.name) is head


def test_only_heads_with_labelled_examples_are_fine_tuned():
    ours = [head.name for head in list_finetuned_heads() if head.model.startswith("bert_keras.")]
    assert ours == ["classify", "tag", "answer", "embed"]
    assert find_finetuned_head("BertMaskedLM") is find_finetuned_head("AnotherModel") is None


@pytest.mark.slow  # imports torch
@by_record
def test_peft_has_the_task_type(head):
    import peft

    assert head.peft is None or (head.is_finetuned and head.peft in peft.TaskType.__members__)


# --- the constructor


def make_other_model(head):
    """Return a model without a default value in any argument, and the arguments."""
    config = bk.BertConfig(**OTHER_CONFIG)
    has_pooler = head.model_name in ARCHITECTURES[config.model_type].needs_pooler
    values = {
        **ARGUMENTS,
        "config": config,
        "encoder": bk.BertEncoder(config, pooler=has_pooler),
        "generator_config": dataclasses.replace(config, num_layers=1, hidden_dim=9, num_heads=1),
    }
    arguments = {}
    for name, parameter in inspect.signature(head.load("model").__init__).parameters.items():
        if name not in NOT_STORED:
            assert name in values, f"{head.model_name} has a new argument {name}: add a value for it to `ARGUMENTS`"
            assert values[name] != parameter.default
            arguments[name] = values[name]
    encoder = arguments.pop("encoder", None) or arguments.pop("config")
    options = {"name": "a_name_of_its_own", "dtype": "mixed_bfloat16", "trainable": False}
    return head.load("model")(encoder, **arguments, **options), arguments


@by_record
def test_the_config_contains_every_argument_of_the_constructor(head):
    model, arguments = make_other_model(head)
    config = json.loads(json.dumps(model.get_config()))
    before = json.dumps(config)
    copy = type(model).from_config(config)
    assert json.dumps(config) == before, "from_config changed its argument"
    assert type(copy) is type(model)
    assert copy.get_config() == model.get_config()
    assert (copy.name, copy.dtype_policy.name, copy.trainable) == ("a_name_of_its_own", "mixed_bfloat16", False)
    for name, value in arguments.items():
        stored = getattr(copy, name)
        assert (stored is not None if name == "pooler" else stored) == value, name
    assert get_encoder(copy).config == get_encoder(model).config


def test_the_other_values_differ_from_the_defaults():
    defaults = bk.BertConfig().to_dict()
    assert set(OTHER_CONFIG) == set(defaults)
    assert not [name for name, value in OTHER_CONFIG.items() if value == defaults[name]]


@by_record
def test_a_folder_keeps_every_argument_of_the_constructor(head, tmp_path):
    model, arguments = make_other_model(head)
    bk.save(model, None, tmp_path / "folder")
    loaded = bk.load(tmp_path / "folder")
    for name, value in arguments.items():
        stored = getattr(loaded, name)
        assert (stored is not None if name == "pooler" else stored) == value, name
    assert get_encoder(loaded).config == get_encoder(model).config


# --- storage


# the constructors are tested above; this one has two encoders, which share a layer
WITH_GENERATOR = [case for case in FIRST_CASES.values() if case.head.objective and case.head.objective.has_generator]


@pytest.mark.parametrize("case", slow_except(FIRST_CASES.values(), quick=WITH_GENERATOR), ids=str)
def test_a_keras_file_restores_the_model(case, make, batch_of, run, tmp_path):
    model, batch = make(case), batch_of(case.head)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert_identical(run(loaded, batch), run(model, batch))


@by_case
def test_a_folder_restores_the_model_and_is_saved_again_with_the_same_bytes(case, make, save, batch_of, run, tmp_path):
    model, folder, batch = make(case), save(case), batch_of(case.head)
    loaded = bk.load(folder)
    assert type(loaded) is type(model)
    assert_identical(run(loaded, batch), run(model, batch))
    bk.save(loaded, None, tmp_path / "again")
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    assert names == [
        path.relative_to(tmp_path / "again") for path in sorted((tmp_path / "again").rglob("*")) if path.is_file()
    ]
    for name in names:
        if name.name != ".bert_keras.json":  # has the time
            assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


@by_head
def test_every_weight_is_in_the_folder(case, make, save):
    """The folder of a generator is complete, with its own copy of the shared embeddings."""
    model = make(case)
    stored = sum(value.size for path in save(case).rglob("*.safetensors") for value in load_file(path).values())
    num_copies = len([*save(case).rglob("*.safetensors")]) - 1
    assert stored == model.count_params() + num_copies * get_encoder(model).embeddings.count_params()


@by_head
def test_the_encoder_of_a_folder_can_be_loaded_alone(case, make, save, make_batch, run):
    encoder = type(get_encoder(make(case))).from_checkpoint(save(case))
    assert_identical(run(encoder, make_batch()), run(get_encoder(make(case)), make_batch()))


@pytest.mark.parametrize("head", [head for head in HEADS if head.peft], ids=lambda head: head.model_name)
def test_adapters_are_stored_and_opened(head, save, batch_of, run, tmp_path):
    base, batch = save(FIRST_CASES["BertEncoder"]), batch_of(head)
    arguments = make_arguments(head, make_config(find_architecture(head)))
    checkpoint = read_checkpoint(base)
    model = head.load("model").from_checkpoint(base, **arguments)
    lora = LoraModel(model, select_layers(head.model_name, checkpoint), 2, 3)
    rng = np.random.default_rng(6)
    for variable in lora.model.trainable_variables:
        variable.assign(rng.normal(0, 0.25, variable.shape))
    (tmp_path / "adapter").mkdir()
    for name, content in build_adapter_files(lora.read_adapter(), base).items():
        (tmp_path / "adapter" / name).write_bytes(content)
    assert json.loads((tmp_path / "adapter/adapter_config.json").read_text())["task_type"] == head.peft
    trained = sum(np.prod(variable.shape) for variable in lora.model.trainable_variables)
    stored = sum(value.size for value in load_file(tmp_path / "adapter/adapter_model.safetensors").values())
    merged, adapted = lora.merge(), run(lora.model, batch)
    counted = count_trained_parameters(head.model_name, checkpoint, 2, num_classes=arguments.get("num_classes"))
    assert counted == (trained, merged.count_params())
    assert stored == trained
    assert_close(run(merged, batch), adapted, TOLERANCE)
    loaded = bk.load(base, adapter=tmp_path / "adapter")
    if type(loaded) is not type(merged):  # a head without weights is not stored in an adapter
        assert merged.count_params() == merged.encoder.count_params()
        loaded = head.load("model")(loaded, **arguments)
    assert_close(run(loaded, batch), adapted, TOLERANCE)


# --- outputs


@by_head
def test_outputs_are_documented_and_have_the_shapes_that_are_computed(case, make, batch_of, make_batch, run):
    """The names are in the docstring of the model; shapes and dtypes are those of the symbolic outputs."""
    model = make(case)
    outputs, shapes = run(model, make_batch()), model.compute_output_shape()
    assert outputs.keys() == model.outputs.keys() == shapes.keys()
    for name, value in outputs.items():
        shape = shapes[name]
        assert len(shape) == value.ndim, name
        assert all(size in (None, real) for size, real in zip(shape, value.shape, strict=True)), name
        assert model.outputs[name].dtype == value.dtype == "float32", name
        assert np.abs(value).max() > 0, name
    assert_close(run(keras.Model(model.inputs, model.outputs), make_batch()), outputs, TOLERANCE)
    for name in run(model, batch_of(case.head)):
        assert f"`{name}`" in (type(model).__doc__ or f"`{name}`"), name
    assert set(case.head.outputs) <= set(to_huggingface_names(outputs))


@by_head
def test_padding_does_not_change_real_tokens(case, make, batch_of, run):
    model = make(case)
    batch = batch_of(case.head, lengths=(9, 9, 9), length=9)
    longer = {**batch, **{name: np.pad(batch[name], ((0, 0), (0, 8))) for name in FEATURES}}
    longer["token_ids"][:, 9:], longer["segment_ids"][:, 9:] = 41, 1  # tokens at padding must have no effect
    short, long = run(model, batch), run(model, longer)
    for name, value in short.items():
        index = tuple(slice(size) for size in value.shape)
        np.testing.assert_allclose(long[name][index], value, rtol=0, atol=TOLERANCE, err_msg=name)


@by_head
@pytest.mark.parametrize("policy", ["mixed_bfloat16", *slow("mixed_float16")])
def test_outputs_are_finite_in_half_precision_and_logits_float32(policy, case, build, batch_of, run, use_policy):
    """Even for a sequence of padding alone."""
    use_policy(policy)
    model = build(case)
    assert model.dtype_policy.name == policy
    for name, value in run(model, batch_of(case.head, lengths=(13, 0, 4))).items():
        expected = "float32" if hasattr(model, "encoder") else policy.removeprefix("mixed_")
        assert value.dtype == ("int32" if name.endswith("_ids") else expected), name
        assert np.isfinite(value.astype("float32")).all(), name


@by_head
def test_the_graph_of_ids_computes_the_same(case, make, make_batch, run):
    model, batch = make(case), make_batch()
    graph = build_ids_function(model)
    inputs = {theirs: tf.constant(batch[name]) for name, theirs in HUGGINGFACE_NAMES.items()}
    outputs = {name: value.numpy() for name, value in graph(**inputs).items()}
    assert_close(outputs, to_huggingface_names(run(model, batch)), TOLERANCE)
    if case.head.task is None:
        return
    task, dimensions = restore_task(None, model), model.encoder.config.hidden_dim
    described = {spec.name: (spec.dtype, spec.shape) for spec in task.describe_ids_signature(dimensions)}
    actual = {
        name: (value.dtype.name, tuple(-1 if size is None else size for size in value.shape))
        for name, value in graph.structured_outputs.items()
    }
    assert described.keys() == actual.keys()
    for name, (dtype, shape) in described.items():  # a task without a vocabulary leaves its size open
        assert (dtype, len(shape)) == (actual[name][0], len(actual[name][1])), name
        assert all(size in (-1, real) for size, real in zip(shape, actual[name][1], strict=True)), name


# --- training


@pytest.mark.parametrize("case", [case for case in CASES if case.head.labels or case.head.is_finetuned], ids=str)
def test_a_step_lowers_the_loss_and_changes_every_trainable_weight(case, build, batch_of):
    head = case.head
    model = build(case, hidden_dropout_rate=0.0, attention_dropout_rate=0.0)
    x = batch_of(head, lengths=(13, 9, 4, 11))
    y = make_labels(head, model, x)
    model.compile("sgd", "auto" if head.labels else head.load("task")().loss())

    def compute_loss() -> tf.Tensor:
        return model.compute_loss(x, y, model(x, training=False))  # inference draws no random tokens

    variables = [weight.value for weight in model.trainable_weights]
    with tf.GradientTape() as tape:
        loss = compute_loss()
    gradients = [tf.convert_to_tensor(0.0 if one is None else one).numpy() for one in tape.gradient(loss, variables)]
    still = [weight.path for weight, one in zip(model.trainable_weights, gradients, strict=True) if not one.any()]
    assert not [path for path in still if not path.endswith("key/bias")]  # which the softmax cancels
    rate = 0.01 * loss / sum(np.square(one, dtype=np.float64).sum() for one in gradients)  # 1 % less, if it is linear
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(np.float32(rate) * gradient)
    assert 0 < 1 - compute_loss() / loss < 0.02


# --- answers to texts


def list_decoded() -> list:
    """Return the cases with the changes of their tasks' settings; the first one of each decoder is quick."""
    decoded, seen = [], set()
    for case in CASES:
        if case.head.graph is not None:
            settings = TASK_SETTINGS.get(case.head.name, []) if case.problem in (None, "single_label") else []
            for one in [*settings, {}]:
                marks = [pytest.mark.slow] if case.head.graph in seen else []
                seen.add(case.head.graph)
                decoded.append(pytest.param(case, one, id="-".join([str(case), *one]), marks=marks))
    return decoded


@pytest.fixture(scope="module")
def tokenizer():
    return bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], max_sequence_length=LENGTH)


@pytest.fixture(scope="module")
def refer(build, tokenizer):
    """A function that returns the model of a case with its tokenizer and its task."""

    @functools.cache
    def make_reference(case: Case) -> Reference:
        model = build(case, vocabulary_size=tokenizer.vocabulary_size, max_sequence_length=LENGTH)
        task = restore_task(None, model, tokenizer) if case.head.is_finetuned else None
        return Reference(model, tokenizer, task)

    return make_reference


@pytest.mark.parametrize(("case", "settings"), list_decoded())
def test_the_decoder_in_the_graph_answers_as_the_one_in_numpy(case, settings, refer, monkeypatch):
    reference = refer(case)
    if reference.task is not None:
        reference = reference.with_task(dataclasses.replace(reference.task, **settings))
    model, task, tokenizer = reference.model, reference.task, reference.tokenizer

    monkeypatch.setattr(get_encoder(model), "unpad_in_inference", True)  # as in a SavedModel
    function = build_text_function(model, functools.partial(call_model, model), tokenizer, task)
    texts = parity_check._choose_texts(reference, DEFAULT_PROBES, function.inputs)
    columns = {name: to_bytes_array([one[place] for one in texts]) for place, name in enumerate(function.inputs)}
    answers = {
        name: value.numpy()
        for name, value in function.answer(*(tf.constant(columns[name]) for name in columns)).items()
    }
    comparison = Comparison(DECODED)
    expect_text_answers(reference, texts)(comparison, parity_check._split_answers([answers], [range(len(texts))]))
    report = comparison.report()
    assert report["passed"], report
    if task is not None:
        check_signature(reference, texts, answers)


def check_signature(reference: Reference, texts: list, answers: dict) -> None:
    """Check that a task describes the outputs of the graph, and computes them from logits alone."""
    task, tokenizer = reference.task, reference.tokenizer
    assert task.input_names == tuple(build_text_function(reference.model, None, tokenizer, task).inputs)
    described = {spec.name: spec for spec in task.describe_signature(get_encoder(reference.model).config.hidden_dim)}
    examples = [task.make_example(*parts) for parts in texts]
    encoded = task.encode_truncated(tokenizer, examples)
    computed = task.compute_signature(encoded, reference.compute_task_outputs(encoded), examples)
    assert described.keys() == answers.keys() == computed.keys()
    for name, spec in described.items():
        graph, numpy = answers[name], computed[name]
        assert ("string" if graph.dtype == object else graph.dtype.name) == spec.dtype, name
        assert (graph.dtype.kind, graph.shape) == (numpy.dtype.kind, numpy.shape), name
        assert len(spec.shape) == graph.ndim, name
        assert all(size in (-1, real) for size, real in zip(spec.shape, graph.shape, strict=True)), name
        if graph.dtype.kind == "f":
            np.testing.assert_allclose(numpy, graph, rtol=0, atol=DECODED, err_msg=name)


# --- the cost model


@by_head
def test_plan_counts_the_parameters(case, make):
    model = make(case)
    assert sum(component.parameters for component in count_parameters(model)) == model.count_params()
    if case.head.plan_name is not None:
        assert type(add_planned_head(get_encoder(model), case.head.plan_name)) is type(model)

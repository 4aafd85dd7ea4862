"""Counts of built models against published numbers, transformers, and TensorFlow's profiler."""

import warnings
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras as bk
from bert_keras.analysis.cost_model import planning, workloads
from bert_keras.analysis.cost_model.components import count_flops_by_part, count_parameters, list_forward_steps
from bert_keras.analysis.cost_model.subjects import HEADS, add_head, build_subject
from bert_keras.analysis.cost_model.workloads import BatchShape, Workload, trace_graph
from bert_keras.architectures.layers import zero_initialization
from bert_keras.errors import InputError
from tests.marks import slow, slow_except

BASE_BLOCK = {
    "QKV": 452_984_832,
    "scores": 25_165_824,
    "context": 25_165_824,
    "attention output": 150_994_944,
    "feed-forward": 1_207_959_552,
}


PRODUCTS = {
    *("queries", "keys", "values", "scores", "context", "output", "feed-forward in", "feed-forward out", "pooler"),
    *("transform", "classes", "starts and ends", "next sentence", "logits", "projection", "replaced"),
}


def plan(subject, **shape):
    """Plan without the memory and time of training, which test_step_memory.py and test_step_time.py test."""
    return planning.plan(subject, quick=True, **shape)


@pytest.fixture(scope="module")
def base_encoder():
    with zero_initialization():
        return bk.BertEncoder(bk.BertConfig.from_preset("base"))


@pytest.fixture(scope="module")
def base(base_encoder):
    return plan(base_encoder)


def test_base_has_the_parameters_of_the_paper(base):
    counted = {component.name: (component.parameters, component.num_layers) for component in base.parameters}
    assert counted == {
        "token embeddings": (30522 * 768, 1),
        "segment embeddings": (2 * 768, 1),
        "position embeddings": (512 * 768, 1),
        "embedding norm": (2 * 768, 1),
        **dict.fromkeys(
            ("attention Q", "attention K", "attention V", "attention output"), (12 * (768 * 768 + 768), 12)
        ),
        "attention norm": (12 * 2 * 768, 12),
        "feed-forward in": (12 * (768 * 3072 + 3072), 12),
        "feed-forward out": (12 * (3072 * 768 + 768), 12),
        "feed-forward norm": (12 * 2 * 768, 12),
        "pooler": (768 * 768 + 768, 1),
    }
    assert base.num_parameters == 109_482_240


def test_other_published_numbers_differ_as_documented(base):
    counted = {component.name: component.parameters for component in base.parameters}
    blocks = sum(number for name, number in counted.items() if name.startswith(("attention", "feed-forward")))
    assert blocks == 85_054_464  # "85 million"
    assert base.num_parameters + 12 * 3072 == 109_519_104


@pytest.mark.slow  # needs 3 GB
def test_large_has_335_million_parameters():
    planned = plan("large", length=8)
    assert planned.num_parameters == 335_141_888
    assert planned.num_parameters + 24 * 4096 == 335_240_192  # another published number


# head -> the class of transformers and its `num_parameters` with the sizes of "tiny"
TRANSFORMERS = {
    None: ("BertModel", 4_385_920),
    "classification": ("BertForSequenceClassification", 4_386_178),
    "masked_lm": ("BertForMaskedLM", 4_416_698),
    "pretraining": ("BertForPreTraining", 4_433_468),
}


@pytest.mark.parametrize("head", TRANSFORMERS)
def test_models_have_as_many_parameters_as_those_of_transformers(head):
    encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny"), pooler=head != "masked_lm")
    model = encoder if head is None else add_head(encoder, head)
    num_parameters = sum(component.parameters for component in count_parameters(model))
    assert num_parameters == model.count_params() == TRANSFORMERS[head][1]


@pytest.mark.slow
def test_the_recorded_numbers_are_those_of_transformers():
    import transformers

    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    for name, number in TRANSFORMERS.values():
        assert getattr(transformers, name)(transformers.BertConfig(**sizes)).num_parameters() == number


def test_the_flops_of_a_block_of_base_follow_from_its_shapes(base):
    block = {flops.part: flops.forward for flops in base.block_flops}
    assert {part: block[part] for part in BASE_BLOCK} == BASE_BLOCK
    assert sum(BASE_BLOCK.values()) == 1_862_270_976
    whole = {flops.part: flops.forward for flops in base.forward_flops}
    assert {part: whole[part] for part in BASE_BLOCK} == {part: 12 * flops for part, flops in BASE_BLOCK.items()}
    assert whole["pooler"] == 2 * 768 * 768


@pytest.mark.slow  # tracing base again needs 0.3 GB
def test_attention_scores_of_base_at_512_tokens_are_151_megabytes(base_encoder):
    planned = plan(base_encoder, length=512)
    assert planned.score_bytes == [12_582_912] * 12
    assert sum(planned.score_bytes) == 150_994_944


@pytest.fixture(scope="module")
def one_block():
    """Pretraining of a model with one block."""
    config = bk.BertConfig.from_preset("tiny", num_layers=1)
    return Workload(bk.BertPretrainer(bk.BertEncoder(config)), BatchShape(3, 128, 20))


def test_the_profiler_of_tensorflow_counts_the_same_flops(one_block):
    compare_with_profiler(one_block)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["tiny", "mini", "base"])
def test_the_profiler_of_tensorflow_counts_the_same_flops_in_several_blocks(preset):
    encoder = bk.BertEncoder(bk.BertConfig.from_preset(preset))
    compare_with_profiler(Workload(bk.BertPretrainer(encoder), BatchShape(3, 128, 20)))


def compare_with_profiler(workload: Workload):
    graphs = []

    def trace(*arguments):
        graphs.append(trace_graph(*arguments))
        return graphs[-1]

    with mock.patch.object(workloads, "trace_graph", trace):
        forward = Workload(workload.encoder, BatchShape(3, 128)).forward
        training = Workload(workload.model, workload.shape).training
    for operations, graph in zip((forward, training), graphs, strict=True):
        ours, theirs = sum(operation.flops for operation in operations), profile(graph)
        assert ours == pytest.approx(theirs, rel=0.02)  # measured: 0.1 to 0.4 %


def profile(graph) -> int:
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tf.compat.v1.profiler.profile(graph, options=options).total_float_ops


def test_the_backward_pass_has_twice_the_flops_of_products(one_block):
    counted = {flops.part: flops for flops in count_flops_by_part(one_block.training)}
    for part in (*BASE_BLOCK, "pooler", "next sentence", "masked-LM head"):
        assert counted[part].backward == 2 * counted[part].forward > 0


def test_checkpointing_computes_each_block_twice():
    def sum_flops():
        counted = count_flops_by_part(Workload(model, BatchShape(1, 32)).training)
        blocks = [flops for flops in counted if flops.part in BASE_BLOCK]
        return sum(flops.forward for flops in blocks), sum(flops.backward for flops in blocks)

    model = bk.BertClassifier(bk.BertEncoder(bk.BertConfig.from_preset("tiny", num_layers=1)), 2)
    _, backward = sum_flops()
    assert not model.compiled  # counting does not change the model
    model.compile("sgd", gradient_checkpointing=True)
    forward, backward_with_checkpointing = sum_flops()
    assert backward_with_checkpointing == backward + forward


def test_the_steps_of_base_have_their_shapes(base):
    steps = {(step.layer, step.name): step for step in base.steps}
    assert len(base.steps) == 6 + 12 * 20 + 2
    assert [step.name for step in base.steps[:5]] == [
        "token embeddings",
        "segment embeddings",
        "sum",
        "position embeddings",
        "sum",
    ]
    query = steps["block_3/attention/query", "queries"]
    assert (query.inputs, query.weights, query.output) == (((128, 768),), ((768, 768), (768,)), (128, 768))
    for letter in "QKV":
        assert steps["block_3/attention", f"split heads of {letter}"].output == (1, 12, 128, 64)
    assert steps["block_3/attention", "scores"].output == (1, 12, 128, 128)
    assert steps["block_3/attention", "context"].output == (1, 12, 128, 64)
    assert steps["block_3/intermediate", "feed-forward in"].output == (128, 3072)
    assert steps["block_11/feed_forward_norm", "norm"].weights == ((768,), (768,))
    assert steps["pooler", "pooler"].output == (1, 768)


@pytest.mark.parametrize(
    ("head", "hidden_act"),
    slow_except(
        [(head, act) for head in (None, *HEADS) for act in ("gelu", "gelu_tanh", "relu")],
        quick=[(None, "relu"), ("tagging", "gelu_tanh"), ("pretraining", "gelu")],
    ),
)
def test_every_matrix_product_and_norm_is_a_step(head, hidden_act):
    config = bk.BertConfig.from_preset("tiny", hidden_act=hidden_act, position_type="sinusoidal")
    model = bk.BertEncoder(config) if head is None else add_head(bk.BertEncoder(config), head, 3)
    workload = Workload(model, BatchShape(2, 9))
    steps = list_forward_steps(workload.forward)
    names = [step.name for step in steps]
    products = [operation for operation in workload.forward if operation.is_matrix_product]
    assert sum(name in PRODUCTS for name in names) == len(products)
    flops = [step.flops for step in steps if step.name in PRODUCTS]
    assert all(step >= product.flops for step, product in zip(flops, products, strict=True))
    assert names.count("norm") == 1 + 2 * 2 + (head in ("masked_lm", "pretraining"))
    residuals = [step.output[-1] for step in steps if step.name == "residual"]
    assert residuals == 4 * [config.hidden_dim]
    assert ("tanh" in names) == (head in (None, "classification", "pretraining"))


def test_the_head_of_electra_is_among_the_steps():
    encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny"), pooler=False)
    names = [step.name for step in plan(bk.ElectraPretrainer(encoder), length=9).steps]
    assert names[-3:] == ["transform", "GELU", "replaced"]


@pytest.mark.slow
def test_training_electra_counts_both_encoders():
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=100)
    alone = bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False))
    both = bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False), generator_config=config)
    assert plan(alone, length=9).training_flops is None
    counted = {flops.part: flops for flops in plan(both, length=9).training_flops}
    one = {
        flops.part: flops
        for flops in plan(bk.BertMaskedLM(bk.BertEncoder(config, pooler=False)), length=9).training_flops
    }
    assert counted["masked-LM head"] == one["masked-LM head"]
    assert counted["scores"].forward > one["scores"].forward
    assert counted["replaced"].backward == 2 * counted["replaced"].forward


@pytest.fixture
def tiny_recipe(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        '[model]\npreset = "tiny"\nnum_layers = 1\nobjective = "mlm"\n[records]\nmax_sequence_lengths = [24]\n'
        "[batches]\nbatch_size = 12\naccumulation_steps = 4\n[budget]\nsteps = 50\n"
    )
    return file


@pytest.mark.slow
def test_the_recipe_bert_is_planned_with_its_own_model_and_batch():
    planned = plan("bert")
    assert (planned.model, planned.num_parameters) == ("BertPretrainer", 110_106_428)
    assert (planned.length, planned.batch_size) == (128, 256)


@pytest.mark.slow
def test_a_recipe_is_planned_with_its_own_phases(tiny_recipe):
    planned = planning.plan(tiny_recipe, memory_limit=2_000_000_000)
    (phase,) = planned.phases
    assert (phase.batch_size, phase.num_steps, phase.tokens) == (12, 50, 50 * 12 * 24)
    assert phase.seconds == pytest.approx(50 * phase.step_seconds)
    assert phase.largest_batch > 3


@pytest.mark.slow
def test_pretraining_without_dropout_is_planned_with_fewer_activations(tiny_recipe):
    with_dropout = planning.plan(tiny_recipe).memory[0].activations
    tiny_recipe.write_text(tiny_recipe.read_text().replace("[model]", "[model]\npretraining_dropout = false"))
    assert planning.plan(tiny_recipe).memory[0].activations < with_dropout


def test_a_budget_in_epochs_is_rejected(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[budget]\nepochs = 2\n")
    with pytest.raises(InputError, match=r"run.toml has a budget in epochs, .* set one of them"):
        plan(file)


def test_a_recipe_determines_the_model_the_batch_and_the_number_of_masked_positions(tiny_recipe):
    planned = plan(tiny_recipe)
    assert (planned.model, planned.length, planned.batch_size) == ("BertMaskedLM", 24, 3)
    flops = planned.training_flops
    assert flops == plan(tiny_recipe, num_masked=4).training_flops  # 15 % of 24 tokens
    assert flops != plan(tiny_recipe, num_masked=3).training_flops


@pytest.mark.parametrize("quick", [True, *slow(False)])
def test_a_short_model_is_planned_at_its_maximum_length(quick):
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=50, num_layers=1, max_sequence_length=24)
    encoder = bk.BertEncoder(config)
    planned = planning.plan(encoder if quick else bk.BertMaskedLM(encoder), quick=quick)
    assert planned.length == 24
    assert {one.length for one in planned.memory_by_shape} == (set() if quick else {24})


def test_shapes_of_steps_are_those_of_a_real_pass():
    encoder = bk.BertEncoder(bk.BertConfig.from_preset("tiny", vocabulary_size=50))
    ids = np.ones((3, 7), np.int32)
    outputs = encoder({"token_ids": ids, "padding_mask": ids}, return_attention_scores=True, return_hidden_states=True)
    steps = {(step.layer, step.name): step for step in plan(encoder, batch_size=3, length=7).steps}
    for number, (scores, hidden) in enumerate(
        zip(outputs["attention_scores"], outputs["hidden_states"][1:], strict=True)
    ):
        assert steps[f"block_{number}/attention", "attention"].output == scores.shape
        assert np.prod(steps[f"block_{number}/feed_forward_norm", "norm"].output) == np.prod(hidden.shape)


def test_a_folder_is_planned_with_its_own_head(tmp_path):
    tokenizer = bk.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"])
    config = bk.BertConfig.from_preset("tiny", vocabulary_size=tokenizer.vocabulary_size, num_layers=1)
    bk.save(bk.BertClassifier(bk.BertEncoder(config), 3, labels=list("abc")), tokenizer, tmp_path / "model")
    planned = plan(tmp_path / "model", length=9)
    assert (planned.model, planned.parameters[-1].parameters) == ("BertClassifier", 128 * 3 + 3)
    assert type(build_subject(tmp_path / "model", None, "masked_lm", 2)) is bk.BertMaskedLM


def test_a_model_without_its_own_loss_has_no_training_flops():
    planned = plan(bk.BertEmbedder(bk.BertEncoder(bk.BertConfig.from_preset("tiny"))), length=9)
    assert planned.training_flops is None
    assert planned.to_dict()["config"]["hidden_dim"] == 128


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"subject": "huge"},
            "huge is neither a folder nor a preset or recipe; expected a BERT folder, a TOML file of "
            "pretraining, or one of tiny, mini",
        ),
        ({"subject": "tiny", "head": "poet"}, "there is no head 'poet'; expected one of classification, tagging"),
        (
            {"subject": "bert", "head": "tagging"},
            "head is 'tagging', but bert is a recipe, which has its own head: leave the head out",
        ),
        ({"subject": "nowhere.toml"}, "nowhere.toml"),
        ({"subject": "tiny", "batch_size": 0}, "batch_size is 0; expected an integer >= 1"),
        (
            {"subject": bk.BertEncoder(bk.BertConfig.from_preset("tiny"), pooler=False), "head": "pretraining"},
            "needs an encoder with a pooler",
        ),
        ({"subject": keras.Sequential([])}, "the model is a Sequential; expected a model of bert_keras"),
        (
            {"subject": "tiny", "length": 513},
            "length is 513; the model accepts at most 512 tokens",
        ),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(InputError, match=message):
        plan(**arguments)

"""Sources of settings and their precedence, error messages, recipes compared with the papers, and plans."""

import dataclasses
import itertools
import subprocess
import sys

import pytest

import bert_keras as bk
from bert_keras.config import PRESETS
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.config.sources import get_recipe_path, known_keys, upgrade_settings
from bert_keras.training.config.tables import (
    RECIPES,
    SIZE_FIELDS,
    BatchesSettings,
    BudgetSettings,
    ModelSettings,
    OptimizerSettings,
    PhaseSettings,
    RecordsSettings,
    RunSettings,
)

HOUR = 3600


def write(folder, text, name="run.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_options_override_the_file_the_file_the_recipe_and_the_recipe_the_defaults(tmp_path):
    file = write(tmp_path, 'recipe = "bert"\n[optimizer]\nbeta_1 = 0.8\nlearning_rate = 3e-4\n')
    run = Pretraining.resolve(file, overrides={"optimizer.learning_rate": 7e-4})
    assert run.optimizer.learning_rate == 7e-4  # flag
    assert run.optimizer.beta_1 == 0.8  # file
    assert run.optimizer.warmup_ratio == 0.01  # recipe
    assert run.speed.jit_compile == "auto"  # default


def test_a_recipe_option_overrides_the_recipe_in_the_file(tmp_path):
    file = write(tmp_path, 'recipe = "bert"\nseed = 5\n')
    for run in (Pretraining.resolve(file, "roberta"), Pretraining.resolve(file, overrides={"recipe": "roberta"})):
        assert (run.recipe, run.seed, run.records.sentence_objective) == ("roberta", 5, "none")


def test_an_override_of_none_is_ignored():
    assert (
        Pretraining.resolve(recipe="bert", overrides={"budget.hours": None, "model.preset": None}).budget.steps == 10**6
    )


def test_an_integer_is_a_valid_float():
    rate = Pretraining.resolve(overrides={"optimizer.learning_rate": 1}).optimizer.learning_rate
    assert (rate, type(rate)) == (1.0, float)  # Keras accepts no int as a learning rate


def test_a_run_without_sources_has_the_defaults():
    assert Pretraining.resolve() == Pretraining()


def test_all_problems_are_reported_at_once_with_their_source_and_key(tmp_path):
    file = write(tmp_path, '[optimizer]\nlearning_rte = 1e-4\nbeta_1 = "0.9"\n[batch]\nbatch_size = 3\n')
    flags = {"batches.batch_size": 2.5, "mask_rate": 0.1, "model.preset": "huge", "seed": True}
    with pytest.raises(bk.InputError) as raised:
        Pretraining.resolve(file, overrides=flags)
    faults = str(raised.value).replace("; did you mean", ", did you mean").split("; ")
    assert sorted(faults) == sorted(
        [
            f"{file}: batch.batch_size is not a setting, did you mean batches.batch_size?",
            f"{file}: optimizer.learning_rte is not a setting, did you mean optimizer.learning_rate?",
            f"{file}: optimizer.beta_1 is '0.9': input should be a valid number",
            "the options: mask_rate is not a setting, did you mean batches.mask_rate?",
            "the options: seed is True: input should be a valid integer",
            "the options: model.preset is 'huge': input should be 'tiny', 'mini', 'small', 'medium', 'base' or 'large'",
            "the options: batches.batch_size is 2.5: input should be a valid integer",
        ]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = ", r"run.toml is not TOML \(Invalid value"),
        ("model = 3", "run.toml: model is 3: input should be a table of settings"),
        ("phases = 3", "run.toml: phases is 3: input should be a list"),
        ("[[phases]]\nshaer = 1", r"run.toml: phases\[0\].shaer is not a setting; did you mean phases.share\?"),
        (
            'recipe = "brt"',
            "run.toml: recipe is 'brt': input should be 'bert', 'roberta', 'electra-small', '24h', 'cramming' or "
            "'fast'",
        ),
        ("qqqq = 1", "run.toml: qqqq is not a setting$"),
        ("[batches]\nreplace_rates = [0.8]", "batches.replace_rates is .0.8.: tuple should have at least 2 items"),
        (
            "[batches]\nreplace_rates = [0.8, 1.5]",
            r"replace_rates\[1\] is 1.5: input should be less than or equal to 1",
        ),
        ("[records]\nmax_sequence_lengths = []", r"max_sequence_lengths is \[\]: tuple should have at least 1 item"),
        ("[records]\npacked = 1", "records.packed is 1: input should be a valid boolean"),
        ("[speed]\njit_compile = 'no'", "speed.jit_compile is 'no': input should be True, False or 'auto'"),
        ("[speed]\njit_compile = 1", "speed.jit_compile is 1: input should be True, False or 'auto'"),
        ("[optimizer]\nlearning_rate = nan", "optimizer.learning_rate is nan: input should be a finite number"),
        ("[optimizer]\nlearning_rate = 0", "optimizer.learning_rate is 0: input should be greater than 0"),
        ("[model]\nstart_from = 3", "model.start_from is 3: input should be a valid string"),
        # settings that do not fit together
        (
            "[budget]\nsteps = 3\nhours = 2",
            r"\[budget\] sets steps, hours; expected exactly one of steps, epochs, hours",
        ),
        ("[batches]\nreplace_rates = [0.8, 0.3]", r"batches.replace_rates \[0.8, 0.3\] sum to more than 1"),
        ('[records]\nsentence_objective = "none"', "model.objective 'bert' needs sentence pairs"),
        ("[records]\nkeep_documents_apart = true", "records.keep_documents_apart requires sentence_objective 'none'"),
        ('[optimizer]\nschedule = "inverse_sqrt"\nwarmup_rate = 0', "set optimizer.warmup_ratio above 0"),
        ("[batches]\naccumulation_steps = 5", "batch_size 32 is no multiple of batches.accumulation_steps 5"),
        ("[model]\nnum_heads = 3", r"\[model\] BertConfig.*hidden_dim 128 is not divisible by num_heads 3"),
        ("[[phases]]\nshare = 0.5", r"the shares of \[\[phases\]\] sum to 0.5; expected 1"),
        ("[[phases]]\nrecords = 1", "phase 1 uses records 1, counted from 0.*has 1: add its length"),
        (
            "[batches]\naccumulation_steps = 4\n[[phases]]\nbatch_size = 6",
            "batch_size 6 is no multiple of batches.acc",
        ),
    ],
)
def test_a_file_is_validated_strictly(text, message, tmp_path):
    file = write(tmp_path, text)
    with pytest.raises(bk.InputError, match=message) as raised:
        Pretraining.resolve(file)
    assert "run.toml" in str(raised.value)


def test_conflicting_settings_are_reported_with_all_their_sources(tmp_path):
    file = write(tmp_path, 'recipe = "bert"\n[records]\nsentence_objective = "nsp"\n')
    with pytest.raises(bk.InputError, match=r"^recipe 'roberta' \+ .*run.toml \+ the options: .*batch_size 8192 is no"):
        Pretraining.resolve(file, "roberta", {"batches.accumulation_steps": 3})


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(bk.InputError, match=r"nothing.toml cannot be read .*expected a TOML file: check the path"):
        Pretraining.resolve(tmp_path / "nothing.toml")


def test_tables_made_in_python_are_validated():
    with pytest.raises(
        bk.InputError, match=r"invalid OptimizerSettings: beta_2 is 1: input should be less than 1; epsilon is 0"
    ):
        OptimizerSettings(beta_2=1, epsilon=0)


OVERRIDES = [
    {},
    {"model.preset": "tiny", "budget.steps": 77, "records.max_sequence_lengths": [64]},
    {"budget.hours": 0.25, "optimizer.name": "lamb", "optimizer.epsilon": 1e-12, "seed": 2**31 - 1},
    {
        "budget.epochs": 3,
        "model.start_from": 'a "quoted" \\ folder\nä',
        "model.num_layers": 3,
        "speed.jit_compile": False,
    },
    {"phases": [], "batches.max_predictions": 5, "batches.replace_rates": [1, 0]},
    {
        "records.max_sequence_lengths": [32, 64],
        "phases": [{"share": 0.25}, {"records": 1, "share": 0.75, "rewarm": True}],
    },
]


@pytest.mark.parametrize(("recipe", "overrides"), list(itertools.product([None, *RECIPES], OVERRIDES)))
def test_a_run_survives_to_toml_and_resolve(recipe, overrides, tmp_path):
    run = Pretraining.resolve(recipe=recipe, overrides=overrides)
    again = Pretraining.resolve(write(tmp_path, run.to_toml(), "pretraining.toml"))
    assert again == run
    assert again.to_toml() == run.to_toml()


def test_a_preset_replaces_only_the_sizes_of_the_recipe():
    small, tiny = (Pretraining.resolve(recipe="electra-small", overrides={"model.preset": p}) for p in (None, "tiny"))
    assert small.model.num_layers == 12
    assert tiny.model.bert_config(97, 128) == bk.BertConfig.from_preset(
        "tiny", vocabulary_size=97, max_sequence_length=128, model_type="electra"
    )
    crammed = Pretraining.resolve(recipe="cramming", overrides={"model.preset": "tiny"}).model
    assert (crammed.num_layers, crammed.position_type, crammed.pretraining_dropout) == (None, "sinusoidal", False)
    assert set(SIZE_FIELDS) >= set(PRESETS["tiny"])


def test_the_model_table_has_every_config_field_that_does_not_depend_on_the_data():
    fields = {field.name for field in dataclasses.fields(bk.BertConfig)} - {"vocabulary_size", "max_sequence_length"}
    own = {"objective", "preset", "generator_size", "dtype_policy", "start_from", "output_bias", "pretraining_dropout"}
    assert {field.name for field in dataclasses.fields(ModelSettings)} == fields | own


def test_each_override_of_the_config_reaches_it():
    values = {
        "num_layers": 3, "num_heads": 5, "hidden_dim": 30, "intermediate_dim": 44, "embedding_dim": 18,
        "type_vocabulary_size": 3, "hidden_act": "relu", "position_type": "sinusoidal", "hidden_dropout_rate": 0.2,
        "attention_dropout_rate": 0.3, "layer_norm_epsilon": 1e-5, "initializer_range": 0.01,
    }  # fmt: skip
    config = ModelSettings(**values).bert_config(97, 17).to_dict()
    assert config == {**values, "vocabulary_size": 97, "max_sequence_length": 17, "model_type": "bert"}


@pytest.mark.parametrize(
    ("preset", "size", "shape"),  # num_layers, num_heads, hidden_dim, intermediate_dim; electra/util/training_utils.py
    [("base", 1 / 3, (12, 4, 256, 1024)), ("large", 0.25, (24, 4, 256, 1024)), ("tiny", 0.25, (2, 1, 32, 128))],
)
def test_the_generator_is_as_deep_and_narrower(preset, size, shape):
    settings = ModelSettings(preset=preset, generator_size=size)
    config = settings.generator_config(settings.bert_config(97, 17))
    assert (config.num_layers, config.num_heads, config.hidden_dim, config.intermediate_dim) == shape
    assert config.embedding_dim == settings.bert_config(97, 17).embedding_dim  # the embeddings are shared


# the values in the papers and their code; warm-up in steps, or in hours for a budget in hours
OF_PAPERS = tuple(recipe for recipe in RECIPES if recipe != "fast")
SOURCES = {
    "": OF_PAPERS,
    "objective": ("bert", "mlm", "electra", "mlm", "mlm"),
    "layers": (12, 12, 12, 24, 16),
    "width": (768, 768, 256, 1024, 768),
    "heads": (12, 12, 4, 16, 12),
    "embedding": (768, 768, 128, 1024, 768),
    "dropout": (0.1, 0.1, 0.1, 0.1, 0.0),
    "sentences": ("nsp", "none", "none", "none", "none"),
    "lengths": ((128, 512), (512,), (128,), (128,), (128,)),
    "masked positions": ([20, 77], [77], [20], [20], [20]),
    "batch": (256, 8192, 128, 4096, 4096),
    "masking": ("static", "dynamic", "dynamic", "static", "dynamic"),
    "replace": ((0.8, 0.1), (0.8, 0.1), (0.85, 0.0), (0.8, 0.1), (0.8, 0.1)),
    "rate": (1e-4, 6e-4, 5e-4, 1e-3, 1e-3),
    "schedule": ("linear", "linear", "linear", "linear", "one_cycle"),
    "warmup": (10_000, 24_000, 10_000, 1.44, 18.0),
    "beta_2": (0.999, 0.98, 0.999, 0.98, 0.98),
    "epsilon": (1e-6, 1e-6, 1e-6, 1e-6, 1e-12),
    "clip": (1.0, 0.0, 1.0, 0.0, 0.5),
    "budget": (1_000_000, 500_000, 1_000_000, 24.0, 24.0),
    "phases": ([900_000, 100_000], [500_000], [1_000_000], [None], [None]),
}


@pytest.mark.parametrize("recipe", OF_PAPERS)
def test_a_recipe_has_the_numbers_of_its_source(recipe):
    run, column = Pretraining.resolve(recipe=recipe), OF_PAPERS.index(recipe)
    config, optimizer = run.model.bert_config(30522, max(run.records.max_sequence_lengths)), run.optimizer
    budget = run.budget.steps or run.budget.hours
    assert {
        "": run.recipe,
        "objective": run.model.objective,
        "layers": config.num_layers,
        "width": config.hidden_dim,
        "heads": config.num_heads,
        "embedding": config.embedding_dim,
        "dropout": config.hidden_dropout_rate if run.model.pretraining_dropout else 0.0,
        "sentences": run.records.sentence_objective,
        "lengths": run.records.max_sequence_lengths,
        "batch": run.batches.batch_size,
        "masking": run.batches.masking,
        "replace": run.batches.replace_rates,
        "masked positions": [plan.max_predictions for plan in run.plan()],
        "rate": optimizer.learning_rate,
        "schedule": optimizer.schedule,
        "warmup": budget * optimizer.warmup_ratio,
        "beta_2": optimizer.beta_2,
        "epsilon": optimizer.epsilon,
        "clip": optimizer.clip_norm,
        "budget": budget,
        "phases": [plan.num_steps for plan in run.plan()],
    } == {name: values[column] for name, values in SOURCES.items()}
    assert (optimizer.name, optimizer.beta_1, optimizer.weight_decay) == ("adamw", 0.9, 0.01)
    assert run.batches.mask_rate == 0.15
    assert run.records.duplicates == (10 if run.batches.masking == "static" else 1)
    assert config.attention_dropout_rate == config.hidden_dropout_rate == 0.1  # also after pretraining without dropout
    assert config.intermediate_dim == 4 * config.hidden_dim
    assert "arXiv" in run.source


def test_the_fast_recipe_changes_the_training_and_not_the_function():
    run = Pretraining.resolve(recipe="fast")
    config = run.model.bert_config(30522, 128)
    assert config == bk.BertConfig.from_preset("mini", max_sequence_length=128)
    assert (run.optimizer.name, run.model.output_bias, run.model.pretraining_dropout) == (
        "muon",
        "token_frequency",
        False,
    )
    batches = run.batches
    assert (batches.batch_size, batches.mask_rate, batches.num_predictions(128)) == (16, 0.3, 39)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_can_be_scaled_down(recipe):
    run = Pretraining.resolve(
        recipe=recipe, overrides={"model.preset": "tiny", "budget.steps": 50, "batches.batch_size": 8}
    )
    assert run.num_steps() == 50
    assert run.model.bert_config(97, 128).hidden_dim == 128


def test_a_recipe_can_be_read_and_copied(tmp_path):
    assert {get_recipe_path(name).name for name in RECIPES} == {
        path.name for path in get_recipe_path("bert").parent.glob("recipe_*.toml")
    }
    copy = Pretraining.resolve(write(tmp_path, get_recipe_path("bert").read_text("utf-8")))
    assert dataclasses.replace(copy, recipe="bert") == Pretraining.resolve(recipe="bert")
    with pytest.raises(bk.InputError, match="there is no recipe 'brt'; expected one of bert"):
        get_recipe_path("brt")


def test_make_records_accepts_the_command_of_every_recipe():
    import argparse

    from bert_keras.cli.commands.make_records import add_arguments
    from bert_keras.cli.options.declaring import Options

    parser = argparse.ArgumentParser()
    add_arguments(Options(parser))
    for recipe in RECIPES:
        records = Pretraining.resolve(recipe=recipe, overrides={"records.packed": True}).records
        taken = parser.parse_args(records.command(0).split()[2:])
        assert taken.max_sequence_length == records.max_sequence_lengths[0]
        assert taken.duplicates == records.duplicates


def test_the_steps_of_the_phases_sum_to_the_budget():
    phases = tuple(PhaseSettings(share=0.1) for _ in range(10))  # which sum to a little less than 1
    for steps in (10, 100, 101, 1_000_003):
        run = Pretraining(budget=BudgetSettings(steps=steps), phases=phases)
        assert sum(plan.num_steps for plan in run.plan()) == run.num_steps() == steps


def test_accumulation_does_not_change_the_batch_size_of_a_step():
    run = Pretraining(
        batches=BatchesSettings(batch_size=48, accumulation_steps=4), phases=(PhaseSettings(batch_size=24),)
    )
    assert [plan.batch_size for plan in run.plan()] == [24]


def test_a_budget_in_epochs_counts_records():
    run = Pretraining(
        records=RecordsSettings(max_sequence_lengths=(128, 512)),
        batches=BatchesSettings(batch_size=10),
        budget=BudgetSettings(epochs=4),
        phases=(PhaseSettings(share=0.75), PhaseSettings(records=1, share=0.25, batch_size=7)),
    )
    assert [plan.num_steps for plan in run.plan([1005, 70])] == [301, 10]
    assert run.num_steps([1005, 70]) == 311
    with pytest.raises(bk.InputError, match=r"num_records has 1 items; expected 2, one for each"):
        run.plan([1005])
    with pytest.raises(
        bk.InputError, match=r"gives the phases \[301, 0\] steps of \[10, 7\] sequences; expected one or more"
    ):
        run.plan([1005, 6])


def test_a_budget_in_hours_is_divided_in_seconds():
    run = Pretraining(budget=BudgetSettings(hours=2), phases=(PhaseSettings(share=0.75), PhaseSettings(share=0.25)))
    assert [plan.seconds for plan in run.plan()] == [1.5 * HOUR, 0.5 * HOUR]
    assert run.num_steps() is None
    assert run.schedules() == [(1e-3, 2 * HOUR)]


def test_a_phase_with_its_own_warm_up_starts_a_schedule():
    def schedules(**second):
        phases = (PhaseSettings(share=0.9), PhaseSettings(share=0.1, **second))
        return Pretraining(budget=BudgetSettings(steps=1000), phases=phases).schedules()

    assert schedules() == [(1e-3, 1000)]
    assert schedules(rewarm=True) == [(1e-3, 900), (1e-3, 100)]
    assert schedules(learning_rate=4e-4) == [(1e-3, 900), (4e-4, 100)]


def test_records_with_other_settings_are_rejected_with_the_right_command():
    records = RecordsSettings(sentence_objective="none", packed=True, max_sequence_lengths=(64, 256), duplicates=3)
    manifest = {**records.manifest_settings(1), "num_records": 7}
    records.check_manifest(manifest, 1, "my/records")
    with pytest.raises(bk.InputError) as raised:
        records.check_manifest({**manifest, "packed": False, "duplicates": 1}, 1, "my/records")
    assert str(raised.value) == (
        "my/records was made with different settings (packed is False there and True in the run; duplicates is 1 there "
        "and 3 in the run): change [records] of the run, or make it again with  bert-keras make-records my/records "
        "my/records_again --text TEXT --max-sequence-length 256 --objective none --pack --duplicates 3"
    )


def test_masked_positions_per_sequence_match_the_batches():
    from bert_keras.pipelines.batches.masking import get_default_max_predictions

    for length, rate in itertools.product((8, 100, 128, 512), (0.07, 0.15, 0.4)):
        assert BatchesSettings(mask_rate=rate).num_predictions(length) == get_default_max_predictions(length, rate)
    assert BatchesSettings(max_predictions=5).num_predictions(128) == 5


def test_known_keys_has_every_field_of_every_table():
    run = RunSettings(phases=(PhaseSettings(),))
    for field in dataclasses.fields(RunSettings):
        value = getattr(run, field.name)
        table = value[0] if isinstance(value, tuple) else value
        names = [f".{inner.name}" for inner in dataclasses.fields(table)] if dataclasses.is_dataclass(table) else [""]
        assert {field.name + name for name in names} <= set(known_keys())


def test_keys_and_values_of_the_last_release_are_still_accepted(tmp_path):
    """In a file, in --set and in the settings of a backup."""
    file = write(tmp_path, '[optimizer]\nwarmup_rate = 0.25\n[batches]\nmask_unit = "piece"\n')
    flags = {"optimizer.warmup_rate": 0.25, "batches.mask_unit": "piece"}
    for run in (Pretraining.resolve(file, "bert"), Pretraining.resolve(recipe="bert", overrides=flags)):
        assert (run.optimizer.warmup_ratio, run.batches.mask_unit) == (0.25, "token")
    today = run.to_dict()
    old = today | {"optimizer": dict(today["optimizer"]), "batches": {**today["batches"], "mask_unit": "piece"}}
    old["optimizer"]["warmup_rate"] = old["optimizer"].pop("warmup_ratio")
    assert upgrade_settings(old) == today
    old_task = {"task": {"labelled_pieces": "all", "of_pairs": False}}  # of a fine-tuning
    assert upgrade_settings(old_task) == {"task": {"labelled_tokens": "all", "has_pairs": False}}


def test_an_old_key_next_to_its_new_name_is_rejected():
    flags = {"optimizer.warmup_rate": 0.25, "optimizer.warmup_ratio": 0.5}
    with pytest.raises(bk.InputError, match=r"optimizer.warmup_rate is not a setting; did you mean optimizer.warmup_r"):
        Pretraining.resolve(overrides=flags)


def test_recipes_import_no_tensorflow():
    code = (
        "import sys; from bert_keras.training import Pretraining; Pretraining.resolve(recipe='bert').to_toml(); "
        "sys.exit(sorted({'tensorflow', 'keras', 'torch', 'jax'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""`pretrain`: a complete run in a process, and errors."""

import json
import re
import shlex
import shutil
import sys

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.checkpoints.reading import read_checkpoint
from bert_keras.cli.commands.pretrain import resolve_settings
from bert_keras.cli.main import main, parser
from bert_keras.pipelines.corpus.text_sources import find_sources
from bert_keras.pipelines.records.documents import FileText
from bert_keras.pipelines.records.making_records import write_records
from bert_keras.pipelines.records.manifest import read_manifest
from bert_keras.training.config.recipes import Pretraining
from bert_keras.training.continued_pretraining import check_start_tokenizer, resolve_start
from tests.marks import slow_except

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STORIES = [[" ".join([word] * 5)] * 6 for word in "the cat sat on a mat and every dog ran".split() * 2]
SMALL = """
seed = 3
[model]
num_layers = 1
num_heads = 2
hidden_dim = 16
intermediate_dim = 24
[batches]
batch_size = 4
mask_unit = "whole_word"
[budget]
steps = 9
[evaluation]
every_steps = 6
[speed]
jit_compile = false
"""


TINY = [f"--set=model.{size}" for size in ("num_layers=1", "num_heads=2", "hidden_dim=16", "intermediate_dim=24")]


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    """Records folder with next-sentence pairs, some of them held out."""
    folder = tmp_path_factory.mktemp("pretrain") / "records"
    write_records(folder, STORIES, tokenizer, max_sequence_length=16, held_out_rate=0.3)
    return folder


@pytest.fixture
def small_file(tmp_path):
    """TOML file with the settings of a tiny run."""
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


def test_pretrain_writes_a_checkpoint_with_its_log_and_settings(records, small_file, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    arguments = ["--config", str(small_file), "--steps", "12", "--tensorboard", "events", "--json"]
    assert main(["pretrain", str(records), "out", *arguments]) == 0
    printed = capfd.readouterr()
    result = json.loads(printed.out)
    assert 0 < result["held_out_mlm_loss"] < 10
    for text in (
        "before the first step, held out: loss",
        "1 layers, hidden size 16",
        "12 steps of 4 on",
        "masks of whole words",
        "12/12",
        "tokens/s",
        "mlm_accuracy",
    ):
        assert text in printed.err
    for noise in ("mlm_logits", "Warning", "Traceback", "WARNING"):
        assert noise not in printed.err
    out = tmp_path / "out"
    assert type(bk.load(out)) is bk.BertPretrainer
    assert "Pretrained on" in (out / "README.md").read_text()
    log = [json.loads(line) for line in (out / "training_log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "held_out_loss" in line] == [0, 6, 12]
    [events] = (tmp_path / "events").glob("events.out.tfevents.*")
    assert b"filled masks, held-out sequences" in events.read_bytes()


@pytest.mark.slow
def test_stored_settings_reproduce_the_run(records, small_file, tmp_path):
    outs = [tmp_path / "first", tmp_path / "again"]
    assert main(["pretrain", str(records), str(outs[0]), "--config", str(small_file), "--seed", "5"]) == 0
    stored = outs[0] / "pretraining.toml"
    run = Pretraining.resolve(stored)
    assert (run.seed, run.budget.steps, run.batches.mask_unit) == (5, 9, "whole_word")
    assert set(tomllib.loads(stored.read_text())) >= {"model", "records", "batches", "optimizer", "budget"}
    assert main(["pretrain", str(records), str(outs[1]), "--config", str(stored)]) == 0
    ours, theirs = (bk.load(out).weights for out in outs)
    for one, other in zip(ours, theirs, strict=True):
        if "seed" not in one.path:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "optimizer.leaning_rate=1"], "optimizer.leaning_rate is not a setting; did you mean optimizer.le"),
        (["--set", "seed"], "--set 'seed' has no value; expected KEY=VALUE"),
        (["--steps", "5", "--hours", "1"], "[budget] sets steps, hours; expected exactly one of steps, epochs, hours"),
        (
            ["--recipe", "albert"],
            "recipe is 'albert': input should be 'bert', 'roberta', 'electra-small', '24h', 'cramming' or 'fast'",
        ),
        (
            ["--recipe", "bert"],
            "the run has records of 2 lengths [128, 512]; expected one folder for each length, made with",
        ),
        (["--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["--batch-size", "9", "--accumulation-steps", "2"], "is no multiple of batches.accumulation_steps 2"),
        (["--batch-size", "9999", *TINY], "fewer than one batch of 9999"),
        (["--objective", "electra", "--start-from", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_prints_one_sentence(arguments, message, records, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = [] if {"--recipe", "--config"} & set(arguments) else ["--no-xla"]
    assert main(["pretrain", str(records), "out", *arguments, *small]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def starts(tokenizer, tmp_path_factory):
    """Folder with start checkpoints, some of which do not match the tokenizer of the records."""
    folder = tmp_path_factory.mktemp("starts")
    sizes = {"num_layers": 2, "num_heads": 3, "hidden_dim": 18, "intermediate_dim": 20, "max_sequence_length": 16}
    config = bk.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **sizes)
    words = list(tokenizer.vocabulary)
    others = {
        "swapped": bk.BertTokenizer([*words[:-2], words[-1], words[-2]]),
        "cased": bk.BertTokenizer(words, lowercase=False),
        "accents": bk.BertTokenizer(words, strip_accents=False),
        "special": bk.BertTokenizer(words, additional_special_tokens=["hat"]),
    }
    encoder = bk.BertEncoder(config)
    for name, other in {"encoder": tokenizer, **others}.items():
        bk.save(encoder, other, folder / name)
    bk.save(bk.BertMaskedLM(encoder), tokenizer, folder / "masked_lm")
    bk.save(bk.BertPretrainer(encoder), tokenizer, folder / "pretrainer")
    bk.save(bk.ElectraPretrainer(bk.BertEncoder(config, pooler=False)), tokenizer, folder / "electra")
    short = bk.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **{**sizes, "max_sequence_length": 9})
    bk.save(bk.BertEncoder(short), tokenizer, folder / "short")
    shutil.copytree(folder / "encoder", folder / "mute", ignore=shutil.ignore_patterns("*token*", "vocab.txt", "SHA*"))
    (folder / "wide.toml").write_text('[model]\nhidden_dim = 32\npreset = "base"')
    return folder


STARTS = {
    "different vocabulary of the same size": (
        "swapped",
        "",
        r"swapped has another tokenizer than the records \S+ \(2 tokens differ, token 22 is '##ed' and '##s' in the "
        r"records\); expected the same, .*: make the records again with  bert-keras make-records \S+swapped "
        r"\S+records_again --text TEXT ",
    ),
    "different casing": (
        "cased",
        "",
        r"\(lowercase is False and True; strip_accents is False and True in the records\)"
        r".*  bert-keras make-records \S+cased \S+records_again --text TEXT --max-sequence-length 16 "
        r"--held-out-rate 0.3",
    ),
    "different accents": ("accents", "", r"\(strip_accents is False and True in the records\)"),
    "different special tokens": ("special", "", r"additional_special_tokens is \['hat'\] and \[\] in the records"),
    "no vocabulary": (
        "mute",
        "",
        r"mute has no vocabulary; expected a checkpoint folder with tokenizer\.json or vocab\.txt, to compare",
    ),
    "a preset": (
        "encoder",
        "--preset mini",
        r"model.preset is 'mini', but \S+encoder determines the model: remove the preset",
    ),
    "sizes in a file": (
        "encoder",
        "--config {starts}/wide.toml",
        r"model.preset is 'base', .*; model.hidden_dim is 32, but \S+encoder has 18: remove the setting, or train",
    ),
    "sizes by --set": ("encoder", "--set model.num_layers=3", r"model.num_layers is 3, but \S+encoder has 2"),
    "dropout by --set": ("encoder", "--set model.hidden_dropout_rate=0", r"model.hidden_dropout_rate is 0.0, but"),
    "generator size without a generator": (
        "encoder",
        "--set model.generator_size=0.5",
        r"model.generator_size is 0.5, but no generator is trained: remove the setting",
    ),
    "an output bias": (
        "encoder",
        "--set model.output_bias=token_frequency",
        r"model.output_bias is 'token_frequency', but \S+encoder has its own bias: remove the setting",
    ),
    "records too long": (
        "short",
        "",
        r"sequences of 16 tokens, and \S+short accepts up to 9: make them again with",
    ),
    "different kind of model": (
        "pretrainer",
        "--objective electra",
        r"pretrainer contains a BertPretrainer; expected an ElectraPretrainer for the objective electra: choose",
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_incompatible_start_checkpoint_is_rejected_before_loading_tensorflow(
    case, starts, records, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(
        "bert_keras.cli.commands.pretrain.load_tensorflow", lambda: pytest.fail("TensorFlow was loaded")
    )
    folder, options, message = STARTS[case]
    options = options.format(starts=starts).split()
    assert main(["pretrain", str(records), str(tmp_path / "out"), "--start-from", str(starts / folder), *options]) == 2
    stderr = capsys.readouterr().err
    assert re.search(message, stderr), stderr
    assert not (tmp_path / "out").exists()


class ChecksPassedError(Exception):
    """Raised in place of the training, after all checks of the command have passed."""


def _stop_after_checks():
    raise ChecksPassedError


def parse_fix(printed: str) -> list[str]:
    """Return the command at the end of a message, split as by a shell."""
    [fix] = re.findall(r"bert-keras (make-records .*)\n", printed)
    return shlex.split(fix)


@pytest.mark.parametrize("other", slow_except(["cased", "accents", "special"], quick=["special"]))
def test_suggested_fix_for_another_tokenizer_works(other, starts, tokenizer, tmp_path, capsys, monkeypatch):
    """Runs the suggested command unchanged: same text, same settings, new folder."""
    monkeypatch.setattr("bert_keras.cli.commands.pretrain.load_tensorflow", _stop_after_checks)
    text = tmp_path / "my text.txt"
    text.write_text("\n\n".join(". ".join(story) for story in STORIES))
    settings = {"max_sequence_length": 14, "sentence_objective": "sop", "seed": 3, "held_out_rate": 0.2}
    records = tmp_path / "records"
    before = write_records(records, FileText(find_sources(text), sentences="split"), tokenizer, **settings)
    bytes_before = {path: path.read_bytes() for path in records.iterdir()}
    command = ["pretrain", str(records), str(tmp_path / "out"), "--start-from", str(starts / other)]
    assert main(command) == 2
    assert main(parse_fix(capsys.readouterr().err)) == 0
    assert {path: path.read_bytes() for path in records.iterdir()} == bytes_before
    new_folder = str(tmp_path / "records_again")
    after = read_manifest(new_folder)
    compared_settings = (*settings, "sentences", "sources", "short_sequence_rate", "num_documents")
    assert {name: after[name] for name in compared_settings} == {name: before[name] for name in compared_settings}
    with pytest.raises(ChecksPassedError):
        main([command[0], new_folder, *command[2:]])


def test_suggested_fix_contains_settings_missing_from_a_bare_vocabulary(records, tokenizer, tmp_path):
    """For example the vocabulary of Google's folders, where the casing is inferred from the vocabulary."""
    google = tmp_path / "google"
    google.mkdir()
    (google / "bert_config.json").write_text("{}")
    (google / "vocab.txt").write_text("\n".join([*tokenizer.vocabulary, "The"]))
    with pytest.raises(bk.InputError) as error:
        check_start_tokenizer(str(google), [records])
    fix = parse_fix(f"{error.value}\n")
    text = fix.index("TEXT")
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(story) for story in STORIES))
    out = tmp_path / "again"
    assert main([fix[0], fix[1], str(out), *fix[3:text], str(tmp_path / "text.txt"), *fix[text + 1 :]]) == 0
    check_start_tokenizer(str(google), [out])
    with pytest.raises(bk.InputError, match=r"than the records \S+/pretrain\S*/records "):
        check_start_tokenizer(str(google), [out, records])


@pytest.mark.parametrize(
    ("folder", "options", "parts"),
    [
        ("encoder", [], "its encoder, pooler; new: masked-LM head, next-sentence head"),
        ("masked_lm", [], "its encoder, masked-LM head; new: pooler, next-sentence head"),
        ("masked_lm", ["--objective", "mlm"], "its encoder, masked-LM head"),
        ("pretrainer", [], "its encoder, masked-LM head, pooler, next-sentence head"),
        ("electra", ["--objective", "electra"], "its encoder, replaced-token head; new: generator"),
    ],
)
def test_reused_and_new_weights_are_listed(folder, options, parts, starts, records):
    command = ["pretrain", str(records), "out", "--start-from", str(starts / folder), "--recipe", "cramming"]
    as_the_records_are = ["--set", "records.sentence_objective=nsp", "--set", "records.max_sequence_lengths=[16]"]
    arguments = parser().parse_args([*command, *as_the_records_are, *(options or ["--objective", "bert"])])
    settings, _ = resolve_settings(arguments)
    start = resolve_start(settings, read_checkpoint(starts / folder))
    assert str(start) == f"{starts / folder}: {parts}"
    assert (start.run.model.num_layers, start.run.model.hidden_dropout_rate) == (2, 0.1)  # the recipe has 16 layers
    assert (start.run.optimizer.learning_rate, start.run.model.pretraining_dropout) == (1e-3, False)  # from the recipe
    assert resolve_start(start.run, read_checkpoint(starts / folder)) == start


def test_missing_dropout_and_the_output_bias_are_shown(records, tmp_path, monkeypatch, capfd):
    def stop(*_, **__):
        raise ChecksPassedError

    monkeypatch.setattr("bert_keras.training.pretraining.run_pretraining", stop)
    as_the_records_are = ["--set", "records.sentence_objective=nsp", "--set", "records.max_sequence_lengths=[16]"]
    with pytest.raises(ChecksPassedError):
        main(["pretrain", str(records), str(tmp_path / "out"), "--recipe", "fast", *as_the_records_are])
    printed = capfd.readouterr().err
    assert re.search(r"model +mlm, 4 layers, .*, float32, no dropout, output bias from token frequencies\n", printed)
    assert re.search(r"optimizer +muon, peak learning rate 0\.003, linear schedule, 6% warm-up\n", printed)


@pytest.fixture
def continue_training(starts, records, small_file, tmp_path):
    """Function that continues the training of a masked LM and returns the output folder."""

    def run():
        small_file.write_text("[batches]\nbatch_size = 4\n[budget]\nsteps = 2\n[speed]\njit_compile = false")
        arguments = ["--start-from", str(starts / "masked_lm"), "--config", str(small_file)]
        assert main(["pretrain", str(records), str(tmp_path / "out"), *arguments]) == 0
        return tmp_path / "out"

    return run


def test_start_checkpoint_is_described_in_the_settings(continue_training, starts, monkeypatch, capfd):
    def stop(*_, **__):
        raise ChecksPassedError

    monkeypatch.setattr("bert_keras.training.pretraining.run_pretraining", stop)
    with pytest.raises(ChecksPassedError):
        continue_training()
    printed = capfd.readouterr().err
    assert re.search(r"model +bert, 2 layers, hidden size 18, 24 tokens, float32\n", printed)
    parts = "its encoder, masked-LM head; new: pooler, next-sentence head"
    assert re.search(rf"start from +{starts / 'masked_lm'}: {parts}\n", printed)
    assert re.search(r"batches +4 sequences per step, dynamic masks of tokens, at most \d+ masked positions", printed)
    assert re.search(r"optimizer +adamw, peak learning rate 5e-05, linear schedule, 6% warm-up\n", printed)


@pytest.mark.slow
def test_the_output_describes_its_start_checkpoint_and_has_similar_weights(continue_training, starts):
    out = continue_training()
    stored = tomllib.loads((out / "pretraining.toml").read_text())
    assert {"num_layers": 2, "hidden_dim": 18, "num_heads": 3}.items() <= stored["model"].items()
    assert "preset" not in stored["model"]
    assert json.loads((out / "config.json").read_text())["num_hidden_layers"] == 2
    run = Pretraining.resolve(out / "pretraining.toml")
    assert resolve_start(run, read_checkpoint(starts / "masked_lm")).run == run  # the run can be repeated
    trained, begun = bk.load(out), bk.load(starts / "masked_lm")
    for ours, theirs in zip(begun.mlm_head.weights, trained.mlm_head.weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4)  # two steps with learning rates up to 5e-5
    assert ", continued from " in (out / "README.md").read_text()


def test_help_groups_the_options_by_table_of_the_settings(capsys):
    with pytest.raises(SystemExit):
        main(["pretrain", "--help"])
    printed = capsys.readouterr().out
    groups = ("model:.*--preset", "budget:.*--steps", "batches:.*--mask-unit", "optimizer:.*--learning-rate")
    assert re.search(".*\n".join(["", *groups, "devices and backups:.*--resume"]), printed, re.DOTALL)


@pytest.mark.slow
def test_pretraining_resumes_only_with_the_same_settings(records, small_file, tmp_path, monkeypatch, capfd):
    def fail(*_):
        raise OSError(28, "No space left on device")

    command = ["pretrain", str(records), str(tmp_path / "out"), "--config", str(small_file), "--backup-every", "4"]
    with monkeypatch.context() as patched:
        patched.setattr("bert_keras.checkpoints.saving.write_json", fail)
        assert main(command) == 2
    assert re.search(r"the state after step \d is in .* train again with --resume", capfd.readouterr().err)
    assert main([*command, "--resume", "--learning-rate", "0.5"]) == 2
    message = "accept the changes with --allow-changes, or start over with --overwrite"
    assert message in capfd.readouterr().err
    assert main([*command, "--resume"]) == 0


@pytest.mark.slow
def test_pretraining_continues_from_a_checkpoint(starts, records, cli, tmp_path):
    options = ["--start-from", starts / "pretrainer", "--steps", "1", "--batch-size", "4", "--no-xla"]
    done = cli("pretrain", records, tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    assert "masked-LM accuracy" in done.stdout


@pytest.mark.slow
def test_nan_loss_leaves_no_output(records, small_file, tmp_path, capsys):
    arguments = ["--config", str(small_file), "--learning-rate", "1e30", "--set", "optimizer.clip_norm=0"]
    assert main(["pretrain", str(records), str(tmp_path / "out"), *arguments]) == 2
    assert "at step" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_folder_without_records_is_rejected_before_any_work(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["pretrain", str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 2
    assert "nowhere does not exist; expected a records folder from make-records" in capsys.readouterr().err
    assert main(["pretrain", str(tmp_path / "empty"), str(tmp_path / "out")]) == 2
    assert "manifest.json" in capsys.readouterr().err


OTHER_TOKENIZERS = {
    "different vocabulary": (
        lambda words: ([*words[:5], "a", "##b"], {}),
        r"vocabulary_size 7 there, 24 in .*; vocabulary_s",
    ),
    "different accents": (
        lambda words: (words, {"strip_accents": False}),
        r"strip_accents False there, True in \S+records\)",
    ),
    "different special tokens": (
        lambda words: (words, {"additional_special_tokens": ["hat"]}),
        r"additional_special_tokens \['hat'\] there, \[\] in",
    ),
    "different splitting of Chinese": (
        lambda words: (words, {"tokenize_chinese_chars": False}),
        "tokenize_chinese_chars",
    ),
}


@pytest.mark.parametrize("case", slow_except(OTHER_TOKENIZERS, quick=["different vocabulary"]))
def test_records_of_another_tokenizer_are_rejected_before_any_work(
    case, records, tokenizer, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("bert_keras.cli.commands.pretrain.load_tensorflow", _stop_after_checks)
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(story) for story in STORIES))
    make, message = OTHER_TOKENIZERS[case]
    words, options = make(list(tokenizer.vocabulary))
    other = tmp_path / "other"
    text = FileText(find_sources(tmp_path / "text.txt"))
    write_records(other, text, bk.BertTokenizer(words, **options), max_sequence_length=32, held_out_rate=0.0)
    arguments = ["--set", "phases=[{records=0, share=0.5}, {records=1, share=0.5}]", "--no-xla", "--steps", "2"]
    assert main(["pretrain", str(records), str(other), str(tmp_path / "out"), *arguments]) == 2
    stderr = capsys.readouterr().err
    assert re.search(rf"other was made with another tokenizer \(.*{message}", stderr)
    assert main(parse_fix(stderr)) == 0
    with pytest.raises(ChecksPassedError):
        main(["pretrain", str(records), f"{other}_again", str(tmp_path / "out"), *arguments])

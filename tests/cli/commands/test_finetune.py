"""`finetune`: the output folder, printed settings and results, and one-sentence errors."""

import json
import re
import shutil

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.cli.main import main
from tests.marks import slow, slow_except

TASKS = slow_except(("classify", "tag", "answer", "embed"), quick=["classify"])


class PlannedError(Exception):
    """Raised in place of the training."""


@pytest.fixture
def planned(monkeypatch):
    """Task and examples (task, train, dev) of each training; `PlannedError` ends the training before it starts."""
    trainings = []

    def plan(task, checkpoint, train, dev, *_, **__):
        trainings.append((task, train, dev))
        raise PlannedError

    monkeypatch.setattr("bert_keras.training.finetuning_to_folder.run_finetuning", plan)
    return trainings


@pytest.mark.parametrize("task", TASKS)
def test_folder_contains_model_task_and_history(task, tuned):
    out = tuned(task).out
    config = json.loads((out / "config.json").read_text())
    assert config["bert_keras"]["task"]["name"] == task
    names = {path.name for path in out.iterdir()}
    expected = {"model.safetensors", "vocab.txt", "SHA256SUMS", "README.md", "metrics.json", "training_log.jsonl"}
    assert expected <= names
    assert ("confusion_matrix.png" in names) == (task == "classify")
    assert not [path for path in out.parent.iterdir() if path != out], (
        "finetune left other files next to the output folder"
    )


@pytest.mark.parametrize(("task", "labels"), [("classify", ("cat", "dog")), *slow(("tag", ("O", "B-PET", "I-PET")))])
def test_labels_come_from_the_training_file_in_order(task, labels, tuned):
    config = json.loads((tuned(task).out / "config.json").read_text())
    assert config["id2label"] == {str(number): label for number, label in enumerate(labels)}


def test_confusion_matrix_is_drawn(tuned):
    assert (tuned("classify").out / "confusion_matrix.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("task", TASKS)
def test_metrics_and_log_have_every_epoch_and_standard_output_contains_only_json(task, tuned):
    done = tuned(task)
    metrics = json.loads((done.out / "metrics.json").read_text())
    printed = json.loads(done.stdout)
    assert printed == {"out": str(done.out), **metrics, "warnings": printed["warnings"]}
    assert len(metrics["epochs"]) == 2
    best = metrics["epochs"][metrics["epoch"] - 1]
    assert {name: metrics[name] for name in best} == best
    log = [json.loads(line) for line in (done.out / "training_log.jsonl").read_text().splitlines()]
    held_out = [{name.removeprefix("held_out_"): value for name, value in line.items()} for line in log]
    assert [line for line in held_out if line.keys() >= best.keys()] == [
        {**epoch, "step": line["step"], "seconds": line["seconds"]}
        for epoch, line in zip(
            metrics["epochs"], [line for line in held_out if line.keys() >= best.keys()], strict=True
        )
    ]


def test_model_card_lists_data_settings_and_scores(tuned):
    done = tuned("classify")
    card = (done.out / "README.md").read_text()
    metrics = json.loads((done.out / "metrics.json").read_text())
    for line in (
        "- checkpoint: perturbed",
        "- task: classify, single_label",
        "- train: classify_train.csv (17 examples)",
        "- dev: classify_dev.csv (9 examples)",
        "- columns: text 'text', label 'label'",
        "- sequences: at most 19 tokens, longer texts truncated",
        "- epochs: 2; the best by accuracy is kept",
        "- batches: 8 sequences per step",
        "- learning rate: 0.005, 10% warm-up",
        "- seed: 0",
        f"## Scores on the held-out examples (epoch {metrics['epoch']} of 2)",
        f"- accuracy: {metrics['accuracy']:.4g}",
        f"- loss: {metrics['loss']:.4g}",
    ):
        assert line in card.splitlines()
    assert str(done.train.parent) not in card, "the model card must not contain local paths"


def test_resolved_settings_and_one_line_per_epoch_are_printed(tuned):
    printed = tuned("classify").stderr
    assert re.search(r"^bert-keras finetune\n  checkpoint     \S+\n  out            \S+\n", printed)
    assert "\n  columns        text 'text', label 'label'\n" in printed
    assert "\n  labels         2: cat, dog\n" in printed
    assert "\n  baseline       accuracy 0.5556 (always dog)\n" in printed
    assert "\n  sequences      at most 19 tokens, longer texts truncated\n" in printed
    assert "\n  batches        8 sequences per step\n" in printed
    scores = r"accuracy \S+, macro_f1 \S+, micro_f1 \S+, matthews \S+, loss \S+"
    assert len(re.findall(rf"^  step \d, held out: {scores}$", printed, re.MULTILINE)) == 2
    table = printed[printed.index("  epoch  ") :].splitlines()
    assert table[0].split() == ["epoch", "accuracy", "macro_f1", "micro_f1", "matthews", "loss"]
    assert [row.split()[0] for row in table[1:]] == ["1", "2"]


# for 19 tokens: a quarter for tags, as 32 of 128; a third for answers, as 128 of 384
@pytest.mark.parametrize(("task", "overlap"), [("tag", 4), ("answer", 6)])
def test_window_overlap_is_proportional_to_the_sequence_length(task, overlap, checkpoint, task_files, planned, capsys):
    train, dev = map(str, task_files(task))
    with pytest.raises(PlannedError):
        main(["finetune", str(checkpoint), "out", "--task", task, "--train", train, "--dev", dev])
    assert f"at most 19 tokens, longer texts split into windows that overlap by {overlap}\n" in capsys.readouterr().err
    assert planned[0][0].window_overlap == overlap


def test_embedder_keeps_its_pooling(untrained, planned, tmp_path):
    done = untrained("embed")
    out = shutil.copytree(done.out, tmp_path / "out")
    config = json.loads((out / "config.json").read_text())
    del config["bert_keras"]  # otherwise the folder is not one of sentence-transformers
    (out / "config.json").write_text(json.dumps(config))
    (out / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    modules = json.loads((out / "modules.json").read_text())
    (out / "modules.json").write_text(json.dumps([one for one in modules if "Normalize" not in one["type"]]))
    options = ["--task", "embed", "--train", str(done.train), "--dev", str(done.dev)]
    for folder, expected in ((done.out, ("mean", True)), (out, ("cls", False))):
        with pytest.raises(PlannedError):
            main(["finetune", str(folder), str(tmp_path / "new"), *options])
        task, *_ = planned[-1]
        assert (task.pooling, task.normalize) == expected


def test_prompt_used_in_training_becomes_the_default(untrained, planned, tmp_path, capsys):
    done = untrained("embed")
    folder = shutil.copytree(done.out, tmp_path / "with_prompts")
    prompts = {"query": "every ", "passage": "a dog "}
    settings = {"prompts": prompts, "default_prompt_name": "passage", "similarity_fn_name": "dot"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    command = ["finetune", str(folder), str(tmp_path / "new"), "--task", "embed"]
    command += ["--train", str(done.train), "--dev", str(done.dev)]
    for options, expected in (
        ([], ("a dog ", "passage", prompts)),
        (["--prompt", "query"], ("every ", "query", prompts)),
        (["--prompt", ""], ("", None, prompts)),
    ):
        with pytest.raises(PlannedError):
            main([*command, *options])
        task, *_ = planned[-1]
        assert (task.prompt_text, task.default_prompt_name, task.head_arguments()["prompts"]) == expected
        assert ("before each text" in capsys.readouterr().err) == bool(expected[0])
    assert main([*command, "--prompt", "qery"]) == 2
    assert "there is no prompt 'qery'; expected one of query, passage" in capsys.readouterr().err


@pytest.mark.slow
def test_sentence_transformers_gets_the_maximum_sequence_length(tuned):
    limits = json.loads((tuned("embed").out / "sentence_bert_config.json").read_text())
    assert limits["max_seq_length"] == 19


@pytest.mark.slow
def test_transformers_loads_the_folder_and_makes_the_same_predictions(tuned, capsys):
    import transformers

    transformers.utils.logging.disable_progress_bar()
    out = tuned("classify").out
    pipeline = transformers.pipeline("text-classification", model=str(out), tokenizer=str(out))
    texts = ["the red cat", "every dog ran", "a hat"]
    theirs = pipeline(texts)
    ours = bk.Predictor.from_checkpoint(out)(texts)
    assert [one["label"] for one in theirs] == [one["label"] for one in ours]
    # measured: 3e-8
    np.testing.assert_allclose(
        [one["score"] for one in theirs], [one["probability"] for one in ours], rtol=0, atol=3e-7
    )


WITH_OPTIONS = (
    "finetune shallow out --train dev.csv --dev dev.csv --batch-size 4 --epochs 1 --accumulation-steps 2 "
    "--weight-decay 0.1 --class-weights balanced --keep-last --max-sequence-length 9"
).split()


def test_resolved_settings_are_printed_before_the_training(workplace, planned, capsys):
    with pytest.raises(PlannedError):
        main(WITH_OPTIONS)
    printed = capsys.readouterr()
    for line in (
        "dev            dev.csv (9 examples), the same file as --train: the scores will be too high",
        "sequences      at most 9 tokens, longer texts truncated",
        "class weights  balanced",
        "epochs         1; the last is kept",
        "batches        4 sequences per step = 1 replicas x 2 micro-batches x 2",
        "weight decay   0.1",
    ):
        assert f"\n  {line}\n" in printed.err
    assert planned[0][0].settings()["class_weights"] == "balanced"


@pytest.mark.slow
def test_result_lists_the_main_scores_and_the_epoch(workplace, capsys):
    assert main(WITH_OPTIONS) == 0
    assert re.fullmatch(
        r"wrote out: accuracy \S+, macro_f1 \S+, matthews \S+ on 9 held-out examples \(epoch 1 of 1\)\n",
        capsys.readouterr().out,
    )
    assert json.loads((workplace / "out/config.json").read_text())["bert_keras"]["task"]["class_weights"] == "balanced"


def test_fine_tuning_resumes_only_with_the_same_settings(workplace, monkeypatch, capsys, untraced):
    """Also tests the result that is printed without `--json`."""
    import bert_keras.checkpoints.saving as folder

    def fail(*_):
        raise OSError(28, "No space left on device")

    command = ["finetune", "shallow", "out", "--train", "train.csv", "--dev", "dev.csv", "--batch-size", "8"]
    command += ["--epochs", "2", "--backup-every", "1", "--class-weights", "balanced"]
    with monkeypatch.context() as patched:
        patched.setattr(folder, "write_json", fail)
        assert main(command) == 2
    assert "the state after step 5 is in" in capsys.readouterr().err
    assert sorted(path.name for path in workplace.iterdir() if "out" in path.name) == [".out.training"]

    assert main(command) == 2
    assert "continue with --resume, or start over with --overwrite" in capsys.readouterr().err
    assert main([*command, "--resume", "--learning-rate", "1e-3"]) == 2
    last_line = capsys.readouterr().err.strip().split("\n")[-1]
    assert re.search(r"is of another run \(learning_rate was 3e-05 and is 0\.001\).*--allow-changes, or", last_line)
    assert not (workplace / "out").exists()

    assert main([*command, "--resume"]) == 0
    printed = capsys.readouterr()
    assert "\n  resuming from step 5\n" in printed.err
    assert re.fullmatch(
        r"wrote out: accuracy \S+, macro_f1 \S+, matthews \S+ on 9 held-out examples \(epoch \d of 2\)\n", printed.out
    )
    assert json.loads((workplace / "out/config.json").read_text())["bert_keras"]["task"]["class_weights"] == "balanced"
    assert sorted(path.name for path in workplace.iterdir() if "out" in path.name) == ["out"]


def test_dev_share_holds_out_examples_and_reports_bad_lines(workplace, planned, capsys):
    """One run tests a semicolon-separated file without --dev, with a bad line."""
    options = write_odd_examples(workplace)
    with pytest.raises(PlannedError):
        main(["finetune", "shallow", "out", "--train", "all.csv", *options])
    check_printed_examples(capsys.readouterr().err)
    [(_, train, dev)] = planned
    assert (len(train), len(dev)) == (31, 8)


HELD_OUT = "8 examples of all.csv: 0.2 of the texts held out with seed 3, each class in proportion"


def write_odd_examples(folder):
    """Write examples with a bad line and labels that differ in case; return the options that they need."""
    dogs = ["dog"] * 10 + ["Dog"] * 10
    rows = "".join(f"the cat sat on mat, {number};cat\na dog ran {number};{dog}\n" for number, dog in enumerate(dogs))
    (folder / "all.csv").write_text("text;label\n" + rows.replace("cat\n", "cat;\n", 1), encoding="utf-8")
    return ["--dev-share", "0.2", "--on-error", "skip", "--epochs", "1", "--batch-size", "16", "--seed", "3"]


def check_printed_examples(printed):
    for line in (
        "train          all.csv (31 examples)",
        f"dev            {HELD_OUT}",
        "skipped        1 of 40 examples is bad: all.csv, line 2: the row has 3 fields but there are 2 columns; "
        "expected the same: quote fields that contain a semicolon",
        "delimiter      semicolon",
    ):
        assert f"\n  {line}\n" in printed


@pytest.mark.slow
def test_skips_and_warnings_are_in_the_result(workplace, capsys):
    options = write_odd_examples(workplace)
    assert main(["finetune", "shallow", "out", "--train", "all.csv", *options, "--json"]) == 0
    printed = capsys.readouterr()
    held_out = {"share": 0.2, "seed": 3, "unit": "texts", "is_stratified": True, "examples": 8}
    metrics = json.loads((workplace / "out/metrics.json").read_text())
    assert (metrics["held_out"], metrics["skipped"]) == (held_out, 1)
    warning = (
        "all.csv: the labels 'Dog' (10) and 'dog' (10) differ only by case or spaces: spell them the same way if they "
    )
    warning += "are one class"
    assert json.loads(printed.out) == {"out": "out", **metrics, "warnings": [warning]}
    assert f"\nwarning: {warning}\n" in printed.err
    check_printed_examples(printed.err)
    assert f"- dev: {HELD_OUT}" in (workplace / "out/README.md").read_text().splitlines()


FAULTS = {
    "--dev and --dev-share": (
        "checkpoint out --train train.csv --dev dev.csv --dev-share 0.2",
        r"--dev dev\.csv and --dev-share 0\.2 were both given; expected one of them: leave the other out",
    ),
    "invalid share": (
        "checkpoint out --train train.csv --dev-share 1.5",
        r"the held-out share is 1\.5; expected a number between 0 and 1",
    ),
    "one class per text": (
        "checkpoint out --train few.csv",
        r"few\.csv: each of the 2 texts has its own class \(cat, dog\); .*, or name held-out examples with --dev",
    ),
    "too many bad examples": (
        "checkpoint out --train worse.csv --dev dev.csv",
        r"^bert-keras finetune: 6 of 17 examples are bad: worse\.csv, line 3: .*line 4: .*; and 1 more: correct them",
    ),
    "delimiter for a file other than .csv": (
        "checkpoint out --train words.tsv --dev dev.csv --delimiter semicolon",
        r"words\.tsv is read as tsv, and a delimiter is for csv: leave it out",
    ),
    "several problems at once": (
        "nothing out --train no.csv --dev dev.csv --task tag --class-weights equal --label-column x --warmup-ratio 2",
        r"nothing does not exist; .*; no\.csv does not exist; .*; --class-weights is for classify, and the task is tag"
        r": leave it out; --label-column is for classify or embed, .*warmup_ratio is 2\.0: input should",
    ),
    "missing column": (
        "checkpoint out --train train.csv --dev dev.csv --text-column words",
        r"train\.csv, line 1: there is no column 'words'; the columns are 'text', 'label': name",
    ),
    "extra field": ("checkpoint out --train ragged.csv --dev dev.csv", r"ragged\.csv, line 3: the row has 3 fields"),
    "extra field in dev": (
        "checkpoint out --train train.csv --dev ragged.csv",
        r"ragged\.csv, line 3: the row has 3 fields but there are 2 columns; expected the same: quote fields",
    ),
    "label missing from the training data": (
        "checkpoint out --train train.csv --dev odd.csv",
        r"odd\.csv, line 3: the label 'bird' is not in train\.csv, which has 'cat', 'dog'",
    ),
    "single class": (
        "checkpoint out --train one.csv --dev dev.csv",
        r"one\.csv: every text has the label 'cat'; expected two or more labels",
    ),
    "empty text": (
        "checkpoint out --train empty_text.csv --dev dev.csv",
        r"empty_text\.csv, line 3: the column 'text' is empty; expected a text: correct the row",
    ),
    "empty file": (
        "checkpoint out --train empty.csv --dev dev.csv",
        r"empty\.csv is empty; expected a line of column names",
    ),
    "file without examples": (
        "checkpoint out --train header.csv --dev dev.csv",
        r"header\.csv has no examples; expected",
    ),
    "not UTF-8": (
        "checkpoint out --train latin.csv --dev dev.csv",
        r"latin\.csv, line 3: byte 0xe9 at column 6 is not UTF-8: save the text as UTF-8",
    ),
    "answer at the wrong position": (
        "checkpoint out --task answer --train shifted.json --dev shifted.json",
        r"shifted\.json, data\[0\]\.paragraphs\[0\]\.qas\[0\], question 'q0': answers\[0\] is 'cat' at character 5, "
        r"where the context has 'at '; expected the same text, which is at 4",
    ),
    "different numbers of words and tags": (
        "checkpoint out --task tag --train words.jsonl --dev words.jsonl",
        r"words\.jsonl, line 2: there are 2 words and 1 tag; expected one tag per word: correct the record",
    ),
    "--format overrides the extension": (
        "checkpoint out --task tag --train words.json --dev words.json --format jsonl",
        r"words\.json, line 2: there are 2 words and 1 tag",
    ),
    "word without a tag": (
        "checkpoint out --task tag --train words.conll --dev words.conll",
        r"words\.conll, line 2: the line has 1 column, where line 1 has 2",
    ),
    "words instead of numbers": (
        "checkpoint out --train train.csv --dev dev.csv --problem regression",
        r"train\.csv, line 2: the column 'label' has the value 'cat'; expected a finite number such as 3\.5: correct",
    ),
    "file of tags for classification": (
        "checkpoint out --train words.conll --dev dev.csv",
        r"words\.conll is a file for the task tag, and the task is classify: name another file or task",
    ),
    "table for tagging": (
        "checkpoint out --train train.csv --dev dev.csv --task tag",
        r"train\.csv ends in '\.csv'; expected \.conll",
    ),
    "class weights for multi_label": (
        "checkpoint out --train train.csv --dev dev.csv --problem multi_label --class-weights balanced",
        r"class weights are for single_label, and the problem is multi_label: leave them out",
    ),
    "windows for sentence vectors": (
        "checkpoint out --train train.csv --dev dev.csv --task embed --window-overlap 3",
        r"--window-overlap is for classify or tag or answer, and the task is embed: leave it out",
    ),
    "warm-up longer than training": (
        "checkpoint out --train train.csv --dev dev.csv --warmup-ratio 2",
        r"warmup_ratio is 2\.0: input should be less than 1",
    ),
    "decay rates out of range": (
        "checkpoint out --train train.csv --dev dev.csv --layer-decay 0 --weight-decay -1",
        r"weight_decay is -1\.0: input should .*layer_decay is 0\.0: input should be greater than 0",
    ),
    "seed too large": (
        "checkpoint out --train train.csv --dev dev.csv --seed 5000000000",
        r"seed is 5000000000: input should",
    ),
    "more frozen blocks than the model has": (
        "checkpoint out --train train.csv --dev dev.csv --freeze-blocks 99",
        r"99 blocks cannot be frozen, because the model has 2",
    ),
    "overlap as long as a window": (
        "checkpoint out --train train.csv --dev dev.csv --window-overlap 17",
        r"window_overlap is 17, and a window holds 17 tokens; expected fewer.* lower window_overlap",
    ),
    "sequences too short for text": (
        "checkpoint out --train train.csv --dev dev.csv --max-sequence-length 2",
        r"max_sequence_length is 2; expected an integer >= 3",
    ),
    "indivisible batch": (
        "checkpoint out --train train.csv --dev dev.csv --batch-size 8 --accumulation-steps 3",
        r"a batch of 8 sequences cannot be divided among 1 replicas with 3 micro-batches each: make it a multiple of 3",
    ),
    "output folder contains an input": (
        "checkpoint full --train full/train.csv --dev dev.csv --overwrite",
        r"full/train\.csv is an input of this run and would be replaced by full: write to another path",
    ),
}


@pytest.fixture
def workplace(tmp_path, checkpoint, shallow_checkpoint, task_files, monkeypatch):
    """Folder with two checkpoints, and with good and bad files."""
    (tmp_path / "checkpoint").symlink_to(checkpoint)
    (tmp_path / "shallow").symlink_to(shallow_checkpoint)
    shutil.copytree(checkpoint, tmp_path / "bare")
    for name in ("vocab.txt", "tokenizer.json", "SHA256SUMS"):
        (tmp_path / "bare" / name).unlink()
    for path, name in zip(task_files("classify"), ("train.csv", "dev.csv"), strict=True):
        shutil.copy(path, tmp_path / name)
    (tmp_path / "full").mkdir()
    shutil.copy(tmp_path / "train.csv", tmp_path / "full")
    for name, content in BAD_FILES.items():
        (tmp_path / name).write_bytes(content.encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


SHIFTED = {"id": "q0", "question": "every dog", "answers": [{"text": "cat", "answer_start": 5}]}
BAD_FILES = {
    "ragged.csv": "text,label\nthe cat,cat\na dog,dog,x\n",
    "odd.csv": "text,label\nthe cat,cat\na bird,bird\n",
    "one.csv": "text,label\nthe cat,cat\na cat,cat\n",
    "empty_text.csv": 'text,label\nthe cat,cat\n" ",dog\n',
    "empty.csv": "",
    "header.csv": "text,label\n",
    "latin.csv": "text,label\nthe cat,cat\na café,dog\n",
    "shifted.json": json.dumps({"data": [{"paragraphs": [{"context": "the cat sat", "qas": [SHIFTED]}]}]}),
    "words.jsonl": '{"words": ["the"], "tags": ["O"]}\n{"words": ["a", "cat"], "tags": ["O"]}\n',
    "words.conll": "the O\ncat\n",
    "words.tsv": "text\tlabel\na\tb\n",
    "few.csv": "text,label\nthe cat,cat\na dog,dog\n",
    "worse.csv": "text,label\nthe cat,cat\na\nb\n,dog\n" + "c,\n" * 3 + "a dog,dog\n",
}
BAD_FILES["words.json"] = BAD_FILES["words.jsonl"]


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_prints_one_sentence_with_status_2_and_writes_nothing(fault, workplace, capsys):
    arguments, message = FAULTS[fault]
    before = sorted(workplace.rglob("*"))
    assert main(["finetune", *arguments.split()]) == 2
    printed = capsys.readouterr()
    last_line = printed.err.strip().split("\n")[-1]
    assert last_line.startswith("bert-keras finetune: ")
    assert re.search(message, last_line)
    assert printed.out == ""
    assert sorted(workplace.rglob("*")) == before

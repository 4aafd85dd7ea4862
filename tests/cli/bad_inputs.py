"""Cases of bad input, and a process that runs all of them.

Run as `python -m tests.cli.bad_inputs FOLDER`: it prints a JSON object with the exit status, standard output and
standard error of each case, the files that it changed, and the TensorFlow modules loaded by then.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import unittest.mock

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the cat sat on a mat and every dog ran off".split()]
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 10,
    "max_position_embeddings": 19,
    "type_vocab_size": 2,
}
TASK = ["--train", "train.csv", "--dev", "dev.csv"]

# name: (command line, pattern of the message)
CASES = {
    # model folders, once per command
    "predict: missing folder": ("predict nothing", r"nothing does not exist; expected a checkpoint folder"),
    "evaluate: missing folder": ("evaluate nothing dev.csv", r"nothing does not exist"),
    "fill-mask: missing folder": ("fill-mask nothing [MASK]", r"nothing does not exist"),
    "finetune: missing folder": ("finetune nothing out --train train.csv --dev dev.csv", r"nothing does not"),
    "export: missing folder": ("export nothing out", r"nothing does not exist"),
    "verify: missing folder": ("verify artifact nothing", r"nothing does not exist"),
    "serve: missing folder": ("serve nothing", r"nothing does not exist; expected a folder that export wrote"),
    "serve: no model": ("serve", r"there is no model to serve; expected the folder of one"),
    "serve: folder without a model": ("serve no_config", r"no_config has no model; expected an output folder"),
    "serve: no 8-bit file": ("serve good --quantized", r"model_quantized\.onnx does not exist; expected an artifact"),
    "serve: wrong --model": ("serve --model good", r"--model is 'good'; expected NAME=FOLDER"),
    "serve: two models of one name": ("serve good --model good=good", r"there are two models good; .* --model"),
    "serve: wrong label": ("serve good --label a/b=1", r"--label is 'a/b=1'; expected NAME/LABEL=VERSION .* good"),
    "serve: half of TLS": ("serve good --tls-cert train.csv", r"TLS needs a certificate and a key; .* --tls-key"),
    "serve: missing TLS file": ("serve good --tls-cert no.pem --tls-key no.pem", r"no\.pem does not exist; expected a"),
    "serve: empty key": ("serve good --api-key-file empty.csv", r"empty\.csv is empty; expected the API key"),
    "convert: missing folder": ("convert nothing out", r"nothing does not exist"),
    "inspect: missing folder": ("inspect nothing cat --out out", r"nothing does not exist"),
    "doctor: missing path": ("doctor nothing", r"nothing does not exist; expected a checkpoint, a records folder"),
    "doctor: path of no kind": (
        "doctor texts.doc",
        r"texts\.doc is no folder or file that doctor can check",
    ),
    "plan: missing folder": ("plan nothing", r"nothing is neither a folder nor a preset"),
    "completion: unknown shell": ("completion fish", r"argument SHELL: invalid choice: 'fish'"),
    "distill: missing folder": ("distill nothing out --train train.csv --dev dev.csv --layers 1", r"nothing does not"),
    "distill: no student": ("distill good out --train train.csv --dev dev.csv", r"neither student nor num_layers was"),
    "distill: a misspelled preset": (
        "distill good out --train train.csv --dev dev.csv --student smal",
        r"student is smal, which does not exist; expected one of tiny",
    ),
    "finetune: no examples": ("finetune good out", r"no training examples were named; expected a file: add --train"),
    "finetune: unknown key in --config": (
        "finetune good out --train train.csv --config bad.toml",
        r"bad\.toml: model\.nonsense is not a setting",
    ),
    "finetune: callback without a name": (
        "finetune good out --train train.csv --callback mlflow",
        r"--callback 'mlflow' has another form; expected MODULE:NAME",
    ),
    "finetune: callback of an unknown package": (
        "finetune good out --train train.csv --callback no_such_package:Callback",
        r"there is no module no_such_package; expected an installed package",
    ),
    "finetune: TensorBoard's folder is a file": (
        "finetune good out --train train.csv --tensorboard train.csv",
        r"--tensorboard train\.csv is a file; expected a folder",
    ),
    "pretrain: missing folder": ("pretrain nothing out", r"nothing does not exist"),
    "push: missing folder": ("push nothing me/model --dry-run", r"nothing does not exist; expected a checkpoint"),
    "push: wrong repository": ("push good model --dry-run", r"the repository is 'model'; expected USER/NAME"),
    "push: wrong license": ("push good me/model --dry-run --license MIT", r"license is 'MIT'; expected an identifier"),
    "push: no parity report": (
        "push good me/model --dry-run --artifacts artifact",
        r"artifact has no parity\.json, so nothing shows",
    ),
    "push: offline": ("push good me/model", r"HF_HUB_OFFLINE is set, and push needs the Hugging Face Hub: unset it"),
    "hub: wrong name": ("predict hf://model", r"hf://model is not the name of a model .* expected hf://ORG/NAME"),
    "hub: offline": ("predict hf://me/none", r"hf://me/none is not in the cache, and HF_HUB_OFFLINE is set"),
    "hub: offline server": ("serve --model a=hf://me/none", r"hf://me/none is not in the cache, and HF_HUB_OFFLINE"),
    "hub: training curves": ("inspect hf://me/none --training --out out", r"--training reads files that are not"),
    "file instead of a folder": ("predict train.csv", r"train\.csv is not a folder"),
    "folder without a config": ("predict no_config", r"no_config is not a checkpoint .* expected config\.json"),
    "truncated config": ("predict cut_config", r"cut_config.config\.json is not readable JSON"),
    "config that is a list": ("predict list_config", r"list_config.config\.json holds a JSON list"),
    "config without sizes": ("predict bare_config", r"bare_config.config\.json lacks vocab_size, .*hidden_size"),
    "config of a different model type": ("predict roberta", r"roberta.config\.json has model_type 'roberta'"),
    "unsupported architecture": ("predict choice", r"has the architecture 'BertForMultipleChoice'"),
    "missing weights": ("predict no_weights", r"no_weights has no model\.safetensors"),
    "truncated weights": ("predict cut", r"model\.safetensors has [\d,]+ bytes; expected [\d,]+, as in its header"),
    "weights without a header": ("predict no_header", r"model\.safetensors is not a safetensors file"),
    "truncated header": ("predict cut_header", r"model\.safetensors is not a safetensors file"),
    "pickled weights": ("predict pickled", r"pytorch_model\.bin', a pickle"),
    "missing tensor": (
        "predict no_tensor",
        r"no_tensor lacks 1 of the \d+ tensors of BertClassifier \(bert\.encoder\.layer\.0\.output\.dense\.bias\)",
    ),
    "tensor with the wrong shape": (
        "evaluate other_shape dev.csv",
        r"tensor bert\.encoder\.layer\.0\.output\.dense\.bias, read as .*, has shape \(7,\); expected \(6,\)",
    ),
    "missing head": ("convert no_head out", r"no_head lacks 2 of .* tensors of BertClassifier \(classifier\."),
    "missing shard": ("export no_shard out", r"model-2\.safetensors is missing"),
    "no vocabulary: predict": (
        "predict no_vocab",
        r"no_vocab has no vocabulary, neither tokenizer\.json nor vocab\.txt",
    ),
    "no vocabulary: fill-mask": ("fill-mask no_vocab [MASK]", r"no_vocab has no vocabulary"),
    "no vocabulary: finetune": ("finetune no_vocab out --train train.csv --dev dev.csv", r"no_vocab has no vocabulary"),
    "no vocabulary: export": ("export no_vocab out", r"no_vocab has no vocabulary"),
    "no vocabulary: inspect": ("inspect no_vocab cat --out out", r"no_vocab has no vocabulary"),
    "vocabulary of a different size": (
        "predict long_vocab",
        r"vocab\.txt has 17 tokens, the model's token table 16 rows",
    ),
    "modified vocabulary": ("predict changed_vocab", r"vocab\.txt does not match its recorded SHA-256"),
    "unsupported tokenizer": ("predict other_rules", r"has word_tokenizer_type 'mecab'"),
    "task setting of a later version": (
        "predict other_task",
        r"has the task setting new_setting, which this version does not know",
    ),
    "setting of a later version": ("predict other_setting", r"has new_setting under 'bert_keras'"),
    # heads
    "predict: encoder": ("predict encoder", r"encoder holds a BertEncoder, which has no task head"),
    "evaluate: encoder": (
        "evaluate encoder dev.csv",
        r"encoder holds a BertEncoder, which has no task head; expected one of BertClassifier, .*: fine-tune it first",
    ),
    "fill-mask: a classifier": (
        "fill-mask good [MASK]",
        r"a BertClassifier has a classification head; expected a mask",
    ),
    # texts
    "fill-mask: no mask": ("fill-mask mlm cat", r"text 1 \('cat'\) has no \[MASK\]; expected at least one"),
    "fill-mask: too many predictions": (
        "fill-mask mlm [MASK] --top-k 17",
        r"top_k is 17; expected an integer from 1 to 16",
    ),
    "fill-mask: no standard input": ("fill-mask mlm -", r"standard input has no text"),
    "predict: three texts": ("predict good a b c", r"there are 3 texts; expected a file, one text or a pair"),
    "predict: missing file": ("predict good no.csv", r"no\.csv does not exist; expected a file of texts"),
    "inspect: no text": ("inspect good --out out", r"there are 0 texts"),
    "inspect: layer out of range": (
        "inspect good cat --out out --layer 1",
        r"there is no layer 1; the model has only layer 0",
    ),
    "inspect: head out of range": (
        "inspect good cat --out out --head 2",
        r"there is no head 2; the model has heads 0 to 1",
    ),
    "inspect: no records": ("inspect good --training --out out", r"has no training history"),
    # data files
    "missing column": ("predict good train.csv --text-column body", r"there is no column 'body'"),
    "no text column": ("predict good odd.csv", r"no column has a usual name for texts"),
    "empty table": ("predict good empty.csv", r"empty\.csv is empty; expected a line of column names"),
    "not UTF-8": ("predict good latin.txt", r"latin\.txt, line 1: byte 0xe9 at column 4 is not UTF-8"),
    "bad first line": ("predict good blank.txt", r"blank\.txt, line 1: the line is empty"),
    "invalid file of questions": ("predict good questions.json", r"questions\.json is a JSON object; expected a list"),
    "unsupported extension": ("predict good texts.doc", r"texts\.doc ends in '\.doc'; expected"),
    "evaluate: unknown label": (
        "evaluate good other.csv",
        r"other\.csv, line 2: the label 'bird' is not one of the model's",
    ),
    "evaluate: no labels": ("evaluate good texts.csv", r"texts\.csv, line 1: no column has a usual name for labels"),
    "evaluate: file of tags": ("evaluate good tags.conll", r"tags\.conll is a file for the task tag"),
    "evaluate: option of another task": ("evaluate good dev.csv --word-column 1", r"--word-column is for tag"),
    "evaluate: one output file for two options": (
        "evaluate good dev.csv --out x --plot x",
        r"--out and --plot are both x",
    ),
    "finetune: label only in dev": (
        "finetune good out --train train.csv --dev other.csv",
        r"other\.csv, line 2: .*'bird'",
    ),
    "finetune: no label column": (
        "finetune good out --train texts.csv --dev dev.csv",
        r"no column has a usual name for labels",
    ),
    "finetune: missing field": ("finetune good out --train short.csv --dev dev.csv", r"short\.csv, line 3"),
    "finetune: invalid JSON line": ("finetune good out --train bad.jsonl --dev dev.csv", r"bad\.jsonl, line 1"),
    "finetune: tags": (
        "finetune good out --task tag --train bad.conll --dev tags.conll",
        r"bad\.conll, line 2",
    ),
    "finetune: questions": (
        "finetune good out --task answer --train questions.json --dev questions.json",
        r"questions\.json",
    ),
    "finetune: learning rate of 0": (
        "finetune good out --train train.csv --dev dev.csv --learning-rate 0",
        r"'0' is not a number above 0",
    ),
    "finetune: option of another task": (
        "finetune good out --train train.csv --dev dev.csv --max-answer-length 3",
        r"--max-answer-length is for answer",
    ),
    "finetune: separator for single_label": (
        "finetune good out --train train.csv --separator ;",
        r"--separator is for the problem multi_label, and the problem is single_label: leave it out",
    ),
    "evaluate: separator for single_label": (
        "evaluate good dev.csv --separator ;",
        r"--separator is for the problem multi_label, and the problem is single_label: leave it out",
    ),
    "finetune: workers and no label column": (
        "finetune good out --train texts.csv --dev dev.csv --workers 2",
        r"no column has a usual name for labels",
    ),
    # output paths
    "predict: OUT exists": ("predict good train.csv --out dev.csv", r"dev\.csv exists: name another file"),
    "evaluate: OUT exists": ("evaluate good dev.csv --out train.csv", r"train\.csv exists"),
    "predict: OUT is a device": ("predict good train.csv --out /dev/null --overwrite", r"/dev/null is a device or a"),
    "finetune: OUT exists": (
        "finetune good encoder --train train.csv --dev dev.csv",
        r"encoder exists and is not empty",
    ),
    "export: OUT exists": ("export good encoder", r"encoder contains config\.json and no artifacts"),
    "convert: OUT exists": ("convert good encoder", r"encoder exists and is not empty; nothing was written"),
    "inspect: OUT exists": ("inspect good cat --out encoder", r"encoder exists and is not empty"),
    "plan: OUT exists": ("plan tiny --pictures encoder", r"encoder exists and is not empty"),
    "pretrain: OUT exists": ("pretrain no_config encoder", r"encoder exists and is not empty"),
    "make-records: OUT exists": ("make-records good/vocab.txt encoder", r"encoder exists and is not empty"),
    "learn-vocab: OUT exists": ("learn-vocab train.csv", r"train\.csv exists: name another file"),
    "demo: OUT exists": ("demo encoder", r"encoder exists and is not empty"),
    # other arguments
    "verify: no artifact": ("verify encoder good", r"encoder contains no artifact"),
    "plan: sequences too long": (
        "plan tiny --length 600",
        r"length is 600; the model accepts at most 512 tokens",
    ),
    "plan: invalid recipe": ("plan bad.toml", r"bad\.toml"),
    "plan: missing recipe": ("plan no.toml", r"no\.toml"),
    "pretrain: no records": ("pretrain no_config out", r"no_config"),
    "pretrain: damaged records": ("pretrain bad_records out", r"bad_records.manifest\.json"),
    "make-records: no vocabulary": ("make-records no.txt out", r"no\.txt does not exist"),
    "make-records: not a vocabulary": ("make-records train.csv out", r"train\.csv"),
    "make-records: invalid setting": (
        "make-records good/vocab.txt out --max-sequence-length 2",
        r"max_sequence_length|2",
    ),
    "make-records: no text": ("make-records good/vocab.txt out --text no.txt", r"no\.txt"),
    "learn-vocab: no text": ("learn-vocab out.txt --text no.txt", r"no\.txt does not exist"),
    "learn-vocab: size too small": ("learn-vocab out.txt --size 5", r"a vocabulary of 5 tokens has no room"),
    # missing packages and environment variables
    "export: no LiteRT": (
        "without=ai_edge_litert export good out --to tflite",
        r"--to tflite needs the package 'ai-edge-litert', .* pip install 'bert-keras\[tflite\]'",
    ),
    "export: no tf2onnx": ("without=tf2onnx export good out --to onnx", r"--to onnx needs the package 'tf2onnx'"),
    "export: no onnxruntime": ("without=onnxruntime export good out --to onnx", r"needs the package 'onnxruntime'"),
    "export: several missing packages": (
        "without=tf2onnx without=ai_edge_litert export good out --to onnx tflite",
        r"'tf2onnx', which .*; .*'ai-edge-litert', which",
    ),
    "export: unknown label": ("export good out --to tflite --eval other.csv", r"other\.csv, line 2: the label 'bird'"),
    "export: too many bad examples": (
        "export good out --to tflite --eval worse.csv",
        r"2 of 4 examples are bad: .* skip them with --on-error skip",
    ),
    "export: skipped bad examples": (
        "export good out --to tflite --eval worse.csv --on-error skip --tflite-length 20",
        r"TFLite files is 20; expected 3 to 19",
    ),
    "export: options of another format": (
        "export good out --eval dev.csv --tolerance 1 --quantize float32 --tflite-length 9 --tflite-lengths 8",
        r"--quantize, --eval, --tolerance is for --to tflite or onnx, and --to is saved_model: leave it out, or add "
        r"tflite; --tflite-length, --tflite-lengths is for --to tflite, and --to is saved_model: leave it out",
    ),
    "export: calibration without a search": (
        "export good out --to onnx --calibrate train.csv",
        r"texts to calibrate on were given, which only the quantization auto uses: leave them out, or choose auto",
    ),
    "export: missing file of texts": (
        "export good out --to onnx --quantize auto --eval dev.csv --calibrate no.txt",
        r"no\.txt does not exist; expected a file of texts: check the path",
    ),
    "export: missing texts to trim the vocabulary for": (
        "export good out --trim-vocabulary no.txt",
        r"no\.txt does not exist; expected a UTF-8 text file or a folder there: check the name",
    ),
    "export: precision of an ONNX file": (
        "export good out --to onnx --quantize float16",
        r"the quantization of onnx is 'float16'; expected auto: an ONNX folder always has a float32 and an 8-bit file",
    ),
    "export: options of the SavedModel": (
        "export good out --to onnx --min-serving 2.13 --model-name a --no-pairs",
        r"--min-serving, --pairs is for --to saved_model, and --to is onnx: leave it out, or add saved_model",
    ),
    "export: file options without --eval": (
        "export good out --to tflite --text-column text --on-error skip",
        r"--text-column, --on-error is for the file of --eval: leave it out, or name a file",
    ),
    "evaluate: masked LM with a prompt": (
        "evaluate mlm latin.txt --prompt query",
        r"--prompt is not for a masked LM on a file of texts: leave it out",
    ),
    "evaluate: masked LM with a bad line": ("evaluate mlm latin.txt", r"latin\.txt, line 1: byte 0xe9"),
    "evaluate: masked LM with only bad lines": (
        "evaluate mlm latin.txt --on-error skip",
        r"latin\.txt has no good examples, 1 of 1 examples is bad: latin\.txt, line 1: byte 0xe9",
    ),
    "predict: file options with a text": (
        ["predict", "good", "the cat", "--format", "csv", "--text-column", "text"],
        r"--format, --text-column is for files, and a text was given: leave it out",
    ),
    "predict: option of another task": (
        "predict good train.csv --word-column text",
        r"--word-column is for tag, and the task is classify: leave it out",
    ),
    "export: no task": (
        "export mlm out --to tflite --eval dev.csv",
        r"mlm has no task head, so it cannot be evaluated",
    ),
    "export: auto without examples": ("export good out --to tflite --quantize auto", r"auto excludes others and needs"),
    "export: tolerance without auto": (
        "export good out --to tflite --eval dev.csv --tolerance 1",
        r"a tolerance of 1\.0 points was given, which only the quantization auto uses: leave it out",
    ),
    "export: unknown release": ("export good out --min-serving 1.0", r"Serving 1\.0 is not in the table of ops"),
    "export: invalid model name": (
        "export good out --model-name a/b",
        r"the model's name is 'a/b'; expected letters",
    ),
    "export: length out of range": (
        "export good out --to tflite --tflite-length 20",
        r"TFLite files is 20; expected 3 to 19",
    ),
    "export: one of several lengths out of range": (
        "export good out --to tflite --tflite-lengths 9 2",
        r"TFLite files is 2; expected 3",
    ),
    "export: parity report of another program": (
        "export good third_party",
        r"third_party.parity\.json is not a parity report of bert-keras",
    ),
    "verify: no LiteRT": ("without=ai_edge_litert verify lite good", r"checking a tflite file needs the package"),
    "verify: no onnxruntime": ("without=onnxruntime verify artifact good", r"needs the package 'onnxruntime'"),
    "evaluate: no matplotlib": (
        "without=matplotlib evaluate good dev.csv --plot plot.png",
        r"drawing figures needs the package 'matplotlib', .* pip install 'bert-keras\[plots\]'",
    ),
    "inspect: no matplotlib": ("without=matplotlib inspect good cat --out out", r"needs the package 'matplotlib'"),
    "inspect: no matplotlib for training curves": (
        "without=matplotlib inspect good --training --out out",
        r"needs the package 'matplotlib'",
    ),
    "plan: no matplotlib": ("without=matplotlib plan tiny --pictures out", r"needs the package 'matplotlib'"),
    "make-records: no Beam": (
        "without=apache_beam make-records good/vocab.txt out --beam=--runner=DirectRunner",
        r"--beam needs the package 'apache-beam', .* pip install 'bert-keras\[beam\]'",
    ),
    "no JAX": ("without=jax KERAS_BACKEND=jax predict good dev.csv", r"KERAS_BACKEND=jax needs the package 'jax'"),
    **{
        f"{command.split()[0]}: on JAX": (
            f"KERAS_BACKEND=jax {command}",
            f"{command.split()[0]} needs the TensorFlow backend, and KERAS_BACKEND is 'jax': unset it",
        )
        for command in (
            "finetune good out --train train.csv --dev dev.csv",
            "distill good out --train train.csv --dev dev.csv --layers 1",
            "export good out",
            "verify artifact good",
            "plan tiny",
            "demo out",
        )
    },
    "unsupported backend": (
        "KERAS_BACKEND=torch predict good dev.csv",
        r"KERAS_BACKEND is 'torch'; expected tensorflow or jax",
    ),
    "finetune: no TF_CONFIG": (
        "finetune good out --train train.csv --dev dev.csv --strategy multi-worker",
        r"TF_CONFIG is not set; expected",
    ),
    "pretrain: invalid TF_CONFIG": (
        "TF_CONFIG={} pretrain bad_records out --strategy multi-worker",
        r"TF_CONFIG is '\{\}'; expected",
    ),
    # training data
    "finetune: label only in dev, as JSON": (
        "finetune good out --train train.csv --dev other.json",
        r"other\.json\[0\]: the label 'bird' is not in train\.csv",
    ),
    "finetune: --dev and --dev-share": (
        "finetune good out --train train.csv --dev dev.csv --dev-share 0.1",
        r"--dev dev\.csv and --dev-share 0\.1 were both given",
    ),
    "finetune: UTF-16": ("finetune good out --train utf16.csv", r"utf16\.csv is UTF-16; expected UTF-8"),
    "finetune: too many bad examples": (
        "finetune good out --train worse.csv",
        r"2 of 4 examples are bad: worse\.csv, line 3: ",
    ),
    "evaluate: too many bad examples": (
        "evaluate good worse.csv",
        r"2 of 4 examples are bad: worse\.csv, line 3: .*line 4: ",
    ),
    "unknown option": ("predict good --nonsense", r"unrecognized arguments: --nonsense"),
    "unknown command": ("foretell good", r"invalid choice: 'foretell'"),
}


def main(folder: str) -> None:
    """Write the folders and files to `folder`, run each case there, and print the results."""
    os.chdir(folder)
    write_inputs()
    results = {}
    files = list_files()
    for name, (command, _) in CASES.items():
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(command.split() if isinstance(command, str) else command)
        loaded = sorted({"tensorflow", "keras", "torch"} & set(sys.modules))
        results[name] = {"status": status, "out": out.getvalue(), "err": err.getvalue(), "loaded": loaded}
        results[name]["changed"] = sorted(set(list_files().items()) ^ set(files.items()))
    print(json.dumps(results))


def list_files() -> dict[str, int]:
    """Return the modification time of each file and folder, keyed by path."""
    return {str(path): path.lstat().st_mtime_ns for path in pathlib.Path().rglob("*")}


def run(command: list[str]) -> int:
    """Run a command as a shell would, with empty standard input.

    The command may start with environment variables, `NAME=VALUE`, and packages to hide, `without=PACKAGE`.
    """
    from bert_keras.cli.main import main

    sys.stdin = io.TextIOWrapper(io.BytesIO())
    num_before = next(index for index, word in enumerate(command) if "=" not in word)
    before = [word.split("=", 1) for word in command[:num_before]]
    missing = [value for name, value in before if name == "without"]
    with (
        hidden_packages(missing),
        unittest.mock.patch.dict(os.environ, [pair for pair in before if pair[0] != "without"]),
    ):
        try:
            return main(command[num_before:])
        except SystemExit as stopped:  # raised by argparse
            return stopped.code


@contextlib.contextmanager
def hidden_packages(packages: list[str]):
    """Hide packages inside the block, as if they were not installed."""
    hidden = {package: sys.modules.get(package) for package in packages}
    sys.modules.update(dict.fromkeys(packages))  # importing a module set to None raises ModuleNotFoundError
    yield
    for package, module in hidden.items():
        del sys.modules[package]
        if module is not None:
            sys.modules[package] = module


def write_inputs() -> None:
    """Write a valid folder of each kind, and a broken copy for each fault."""
    write_model("good", "BertForSequenceClassification", {"classifier.weight": (2, 6), "classifier.bias": (2,)})
    write_model("mlm", "BertForMaskedLM", MASKED_LM)
    write_model("encoder", "BertModel", {})
    for name, spoil in FAULTS.items():
        shutil.copytree("good", name)
        spoil(pathlib.Path(name))
    for name, content in FILES.items():
        pathlib.Path(name).write_bytes(content.encode("latin-1"))
    pathlib.Path("bad_records").mkdir()
    pathlib.Path("bad_records/manifest.json").write_text("{")
    for name in ("artifact", "lite"):
        pathlib.Path(name).mkdir()
    pathlib.Path("third_party").mkdir()
    pathlib.Path("third_party/parity.json").write_text('{"artifacts": [1]}')
    pathlib.Path("lite/model.tflite").write_bytes(b"")
    pathlib.Path("artifact/model.onnx").write_bytes(b"")


def write_model(name: str, architecture: str, head: dict) -> None:
    """Write a model folder with weights of 0."""
    import numpy as np
    from safetensors.numpy import save_file

    prefix = "" if architecture == "BertModel" else "bert."
    shapes = {prefix + key: shape for key, shape in ENCODER.items()} | head
    folder = pathlib.Path(name)
    folder.mkdir()
    labels = {"id2label": {"0": "cat", "1": "dog"}} if "classifier.bias" in head else {}
    (folder / "config.json").write_text(
        json.dumps({**SIZES, **labels, "architectures": [architecture], "model_type": "bert"})
    )
    save_file({key: np.zeros(shape, "float32") for key, shape in shapes.items()}, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def dense(name: str, inputs: int, outputs: int) -> dict:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str) -> dict:
    return {f"{name}.weight": (6,), f"{name}.bias": (6,)}


LAYER = "encoder.layer.0."
ENCODER = {
    "embeddings.word_embeddings.weight": (len(WORDS), 6),
    "embeddings.position_embeddings.weight": (19, 6),
    "embeddings.token_type_embeddings.weight": (2, 6),
    **norm("embeddings.LayerNorm"),
    **dense(f"{LAYER}attention.self.query", 6, 6),
    **dense(f"{LAYER}attention.self.key", 6, 6),
    **dense(f"{LAYER}attention.self.value", 6, 6),
    **dense(f"{LAYER}attention.output.dense", 6, 6),
    **norm(f"{LAYER}attention.output.LayerNorm"),
    **dense(f"{LAYER}intermediate.dense", 6, 10),
    **dense(f"{LAYER}output.dense", 10, 6),
    **norm(f"{LAYER}output.LayerNorm"),
    **dense("pooler.dense", 6, 6),
}
MASKED_LM = {
    **dense("cls.predictions.transform.dense", 6, 6),
    **norm("cls.predictions.transform.LayerNorm"),
    "cls.predictions.bias": (len(WORDS),),
}


def edit_config(folder: pathlib.Path, **changes) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))


def edit_tensors(folder: pathlib.Path, change) -> None:
    from safetensors.numpy import load_file, save_file

    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def cut(path: pathlib.Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def shard(folder: pathlib.Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    shards = {"weight_map": {"classifier.bias": "model-1.safetensors", "classifier.weight": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(shards))


def without(*endings: str):
    return lambda tensors: {name: value for name, value in tensors.items() if not name.endswith(endings)}


def change_vocabulary(folder: pathlib.Path) -> None:
    from bert_keras.files import write_checksums

    write_checksums(folder, ["vocab.txt"])
    path = folder / "vocab.txt"
    path.write_text(path.read_text().replace("mat", "hat"))


BIAS = "encoder.layer.0.output.dense.bias"
OURS = {"format": 1, "model": "BertClassifier", "position_type": "learned", "settings": {}}
FAULTS = {
    "no_config": lambda folder: (folder / "config.json").unlink(),
    "cut_config": lambda folder: cut(folder / "config.json", 20),
    "list_config": lambda folder: (folder / "config.json").write_text("[]"),
    "bare_config": lambda folder: (folder / "config.json").write_text("{}"),
    "roberta": lambda folder: edit_config(folder, model_type="roberta"),
    "choice": lambda folder: edit_config(folder, architectures=["BertForMultipleChoice"]),
    "no_weights": lambda folder: (folder / "model.safetensors").unlink(),
    "cut": lambda folder: cut(folder / "model.safetensors", -9),
    "no_header": lambda folder: (folder / "model.safetensors").write_bytes(b"no weights at all"),
    "cut_header": lambda folder: cut(folder / "model.safetensors", 90),
    "pickled": lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
    "no_tensor": lambda folder: edit_tensors(folder, without(BIAS)),
    "other_shape": lambda folder: edit_tensors(
        folder, lambda tensors: {**tensors, f"bert.{BIAS}": tensors["classifier.weight"].reshape(-1)[:7]}
    ),
    "no_head": lambda folder: edit_tensors(folder, without("classifier.weight", "classifier.bias")),
    "no_shard": shard,
    "no_vocab": lambda folder: (folder / "vocab.txt").unlink(),
    "long_vocab": lambda folder: (folder / "vocab.txt").write_text("\n".join([*WORDS, "more"]) + "\n"),
    "changed_vocab": change_vocabulary,
    "other_rules": lambda folder: (folder / "tokenizer_config.json").write_text('{"word_tokenizer_type": "mecab"}'),
    "other_task": lambda folder: edit_config(
        folder, bert_keras={**OURS, "task": {"name": "classify", "new_setting": 1}}
    ),
    "other_setting": lambda folder: edit_config(folder, bert_keras={**OURS, "settings": {"new_setting": 1}}),
}
FILES = {
    "train.csv": "text,label\nthe cat sat,cat\na dog ran,dog\n",
    "dev.csv": "text,label\nthe cat,cat\n",
    "other.csv": "text,label\nthe bird,bird\n",
    "other.json": '[{"text": "the bird", "label": "bird"}]',
    "utf16.csv": "\xff\xfet\0e\0",
    "worse.csv": "text,label\nthe cat,cat\na dog\n,dog\na dog ran,dog\n",
    "texts.csv": "text,number\nthe cat,1\n",
    "odd.csv": "number,place\n1,2\n",
    "short.csv": "text,label\nthe cat,cat\na dog\n",
    "empty.csv": "",
    "latin.txt": "caf\xe9\n",
    "blank.txt": "\nthe cat\n",
    "questions.json": "{}",
    "texts.doc": "the cat\n",
    "bad.jsonl": "{\n",
    "tags.conll": "the O\ncat B-PET\n",
    "bad.conll": "the O\ncat\n",
    "bad.toml": "[model]\nnonsense = 1\n",
}


if __name__ == "__main__":
    main(sys.argv[1])

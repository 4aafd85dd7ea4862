# %% [markdown]
# # Classify texts and ship the model
#
# From labelled texts to a model that answers requests. You learn a vocabulary, pretrain a tiny BERT on raw text,
# fine-tune it to classify passages, look at its scores and mistakes, export it as SavedModel, ONNX and TFLite, read
# the report that compares each file with the model, and ask the ONNX file without TensorFlow and through a server.
# Nothing is downloaded: the text is the prose that ships with Python. The last cell prints how long it took.
#
# Install with `pip install 'bert-keras[onnx,plots,serve,tflite]'`.

# %%
import collections
import json
import os
import subprocess
import sys
import time
import urllib.request

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no log lines of TensorFlow

import tensorflow as tf
from IPython.display import Image, display

import bert_keras as bk

tf.get_logger().setLevel("ERROR")

started = time.monotonic()

# %% [markdown]
# The settings of this page. More steps give a better model.

# %%
VOCABULARY_SIZE = 8000
PRETRAINING_STEPS = 600
EPOCHS = 4
LENGTH = 64  # tokens per sequence

# %% [markdown]
# ## Texts and labels
#
# Each example is a passage of one to three sentences from Python's manual and docstrings. Its label is the part of
# Python that the passage is about. With your own data, use a list of `(text, label)` pairs like this one, or the path
# of a CSV file.

# %%
from bert_keras.pipelines.corpus.default_corpus import make_labelled_passages

passages = make_labelled_passages()
test = passages[::5]  # every fifth passage is held out
train = [passage for index, passage in enumerate(passages) if index % 5]

print(f"{len(train):,} passages to train on, {len(test):,} held out")
print(dict(collections.Counter(label for _, label in train)))
for text, label in train[::900][:4]:
    print(f"\n{label}: {text}")

# %% [markdown]
# ## A vocabulary
#
# BERT reads tokens: frequent words are one token, others are split into several. Without an argument,
# `learn_vocabulary` and `make_records` read all of Python's prose, of which the passages are a part; pass files or
# `sentences=` for your own text.

# %%
learned = bk.learn_vocabulary(out="vocab.txt", size=VOCABULARY_SIZE)
print(f"{len(learned.tokens):,} tokens, learned from {learned.num_words:,} words")

tokenizer = bk.BertTokenizer.from_vocabulary("vocab.txt")
ids = tokenizer.tokenize(["The with statement wraps a coroutine of an asynchronous generator."])[0]
print(*[tokenizer.vocabulary[number] for number in ids])

# %% [markdown]
# ## Pretraining
#
# The model first learns from raw text: it predicts masked tokens, and whether two passages follow each other.
# `make_records` prepares the sequences, `pretrain` trains on them and writes a folder that Hugging Face's
# transformers can open too.

# %%
manifest = bk.make_records("vocab.txt", "records", max_sequence_length=LENGTH)
print(f"{manifest['num_records']:,} sequences with {manifest['num_tokens']:,} tokens")

settings = {"model.preset": "tiny", "budget.steps": PRETRAINING_STEPS}
settings["speed.jit_compile"] = False  # compiling takes longer than it saves in so few steps
pretrained = bk.pretrain("records", "pretrained", settings=settings)
print(f"{pretrained.model.count_params():,} parameters")

# %%
model, tokenizer = bk.load("pretrained"), bk.load_tokenizer("pretrained")
for filling in bk.fill_mask(model, tokenizer, ["The [MASK] statement wraps a block."], top_k=3)[0][0]:
    print(f"{filling.probability:.0%} {filling.text}")

# %% [markdown]
# ## Fine-tuning
#
# `finetune` puts a new classification layer on the pretrained model and trains all weights. The learning rate is
# higher than the 3e-5 that is usual for larger models, because this one is tiny. The model is scored after each
# epoch, and the best epoch is kept. Here the held-out passages choose it, which flatters the score a little; use a
# third part of the data if you have enough.

# %%
tuned = bk.finetune(
    "pretrained",
    "classifier",
    train=train,
    dev=test,
    num_epochs=EPOCHS,
    learning_rate=5e-4,
    max_sequence_length=LENGTH,
)

# %% [markdown]
# ## How good is it?
#
# A score means little alone. Two baselines: always the same label, and logistic regression on TF-IDF of words, which
# takes a second to train.

# %%
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

texts, labels = zip(*train, strict=True)
test_texts, test_labels = zip(*test, strict=True)
words = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=1000, C=10)).fit(texts, labels)

accuracy = bk.evaluate("classifier", test)["accuracy"]
most_frequent = collections.Counter(test_labels).most_common(1)[0][1] / len(test)
print(f"always the same label  {most_frequent:.1%}")
print(f"TF-IDF of words        {words.score(test_texts, test_labels):.1%}")
print(f"this model             {accuracy:.1%}")

# %% [markdown]
# TF-IDF is better here. Both learn mostly from single words, and a few thousand passages are not much for a BERT that
# was pretrained for two minutes. Pretraining on more text, or starting from a public BERT, makes the difference on
# real data. `finetune` has drawn the confusion matrix:

# %% alt="Confusion matrix of the four labels on the held-out passages: most passages are on the diagonal."
display(Image("classifier/confusion_matrix.png", width=560))

# %% [markdown]
# The mistakes of which the model is most certain are worth reading: they often show wrong labels, or texts that fit
# several labels.

# %%
predictor = bk.Predictor.from_checkpoint("classifier")
answers = predictor(test_texts, top=1)
mistakes = [
    (answer["probability"], answer["label"], label, text)
    for answer, (text, label) in zip(answers, test, strict=True)
    if answer["label"] != label
]
for probability, predicted, label, text in sorted(mistakes, reverse=True)[:3]:
    print(f"{probability:.0%} {predicted}, but the label is {label}:\n  {text[:150]}")

# %% [markdown]
# ## Ship it
#
# Each exported file is opened again in its own runtime and compared with the model, on texts of several lengths and
# scripts. A file that differs is not published. The report is `parity.json`:

# %%
report = bk.export_model("classifier", "artifacts", formats=["saved_model", "onnx", "tflite"], tflite_length=LENGTH)
print(f"{'file':34} {'parity':7} {'largest difference':19} {'MB':>5}")
for name, result in report["artifacts"].items():
    difference = max(output["max"] for output in result["outputs"].values())
    print(f"{name:34} {'passed' if result['passed'] else 'failed':7} {difference:<19.1e} {result['bytes'] / 1e6:5.1f}")

# %% [markdown]
# `saved_model` is for TensorFlow Serving and takes raw strings, `onnx` for servers without TensorFlow, `tflite` for
# phones and browsers; the 8-bit files are smaller and differ more. Whether they still classify as well, `export`
# measures with labelled examples (`--eval`).
#
# ## Answers without TensorFlow
#
# A new process reads the ONNX file. It imports neither TensorFlow nor Keras. The texts are about the language,
# concurrency and the network, in this order; not every answer has to be right.

# %%
program = """
import sys
from bert_keras import Predictor

predictor = Predictor.from_artifact("artifacts/onnx")
for text in sys.argv[1:]:
    [answer] = predictor([text], top=2)
    print(", ".join(f"{best['label']} {best['probability']:.0%}" for best in answer["best"]), "-", text)
print("TensorFlow was imported:", "tensorflow" in sys.modules)
"""
questions = [
    "The with statement wraps a block of code with methods of a context manager.",
    "A thread waits until another one has released the lock.",
    "Connect to the mail server and send the message.",
]
print(subprocess.run([sys.executable, "-c", program, *questions], capture_output=True, text=True, check=True).stdout)

# %% [markdown]
# ## Serve it
#
# `bert-keras serve` answers in the protocols of TensorFlow Serving, KServe and others, and on its own pages. Here it
# runs in the background and gets one request.

# %%
command = ["bert-keras", "serve", "artifacts/onnx", "--port", "0", "--no-grpc", "--json"]  # 0: any free port
server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
try:
    port = json.loads(server.stdout.readline())["http"]
    request = json.dumps({"text": questions[1], "top": 2}).encode()
    with urllib.request.urlopen(f"http://localhost:{port}/classify", request, timeout=30) as response:
        print(response.read().decode())
finally:
    server.terminate()
    print("the server ended with exit status", server.wait(timeout=60))

# %%
minutes, cpu_minutes = (time.monotonic() - started) / 60, time.process_time() / 60
print(f"This page took {minutes:.1f} minutes; its own process used {cpu_minutes:.1f} minutes of one core.")

# %% [markdown]
# ## What next
#
# - [Fine-tuning](../guide/finetuning.md): several labels per text, pairs, regression, your own files
# - [Pretraining](../guide/pretraining.md) and [domain adaptation](../guide/domain_adaptation.md): better models
#   before fine-tuning
# - [Export](../guide/export.md): 8-bit files, parity reports, TensorFlow Serving; [phones](../guide/phone.md) and
#   [browsers](../guide/browser.md)
# - [Serving](../guide/serving.md): protocols, new versions, metrics

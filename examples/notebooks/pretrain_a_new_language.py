# %% [markdown]
# # Pretrain a BERT for a new language
#
# No BERT exists for your language, or for the language of your domain? Then you train one on raw text. The "language"
# of this page is Python source code, because every machine has some: the standard library. You learn a vocabulary and
# compare it with an English one, make records, plan the cost, pretrain a tiny model for a few minutes, look at its
# loss and its predictions, and compare it with a baseline. Nothing is downloaded. The last cell prints how long it
# took.
#
# Install with `pip install 'bert-keras[plots]'`.

# %%
import collections
import json
import os
import pathlib
import sysconfig
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no log lines of TensorFlow

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import bert_keras as bk

tf.get_logger().setLevel("ERROR")
started = time.monotonic()

# %% [markdown]
# The settings of this page. With a thousand times as many steps and a larger model, this is how real models are made.

# %%
VOCABULARY_SIZE = 4000
STEPS = 800
BATCH_SIZE = 64
LENGTH = 32  # tokens per sequence

# %% [markdown]
# ## Text
#
# A document is a list of sentences; here a file is a document and a line is a sentence. Every tenth file is kept
# aside to measure on. For text in files, pass names such as `"books/**/*.txt"` in place of lists.

# %%
library = pathlib.Path(sysconfig.get_path("stdlib"))
paths = sorted(path for path in library.glob("*.py") if path.stat().st_size > 1000)
documents = [
    [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    for path in paths
]
measured_on = [line for document in documents[::10] for line in document]
documents = [document for index, document in enumerate(documents) if index % 10]
size = sum(len(line) for document in documents for line in document)
print(f"{len(documents)} files, {sum(map(len, documents)):,} lines, {size / 1e6:.1f} MB")
print(*max(documents, key=len)[1000:1004], sep="\n")

# %% [markdown]
# ## Vocabulary
#
# Capital letters matter in code, so they are kept. A vocabulary fits a language if its words are few tokens (longer
# texts fit into a sequence, and there is less to compute) and if none is unknown. The comparison: a vocabulary of the
# same size, learned from English prose about Python.

# %%
code = bk.learn_vocabulary(
    sentences=(line for document in documents for line in document),
    out="code.txt",
    size=VOCABULARY_SIZE,
    lowercase=False,
)
english = bk.learn_vocabulary(out="english.txt", size=VOCABULARY_SIZE, lowercase=False)  # prose that ships with Python

tokenizer = bk.BertTokenizer.from_vocabulary("code.txt")
english_tokenizer = bk.BertTokenizer.from_vocabulary("english.txt")
line = "def get_default_encoding(self, errors=None):"
for one in (tokenizer, english_tokenizer):
    print(*(one.vocabulary[token_id] for token_id in one.tokenize([line])[0]))


# %%
def measure(tokenizer, texts):
    """Return tokens per word, and the share of [UNK]; words are split at white space."""
    ids = tokenizer.tokenize(texts).flat_values.numpy()
    return len(ids) / sum(len(text.split()) for text in texts), np.mean(ids == tokenizer.unk_id)


from bert_keras.pipelines.corpus.default_corpus import read_python_lines

texts = {
    "code": measured_on,
    "English": [line for line in read_python_lines() if line][::20],
    "Finnish": ["Metsässä kasvaa paljon marjoja ja sieniä.", "Lapsi lukee kirjaa puutarhassa."],
    "Georgian": ["ბავშვი კითხულობს წიგნს ბაღში."],
}
rates = {}
for text_name, lines in texts.items():
    for name, one in (("code", tokenizer), ("English", english_tokenizer)):
        rate, unknown = rates[text_name, name] = measure(one, lines)
        print(f"{text_name:8} text, {name:7} vocabulary: {rate:.2f} tokens per word, {unknown:.1%} of them unknown")

# %% alt="Bars of tokens per word: code and English take few tokens with both vocabularies, Finnish takes many."
figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
shown = ["code", "English", "Finnish"]
for index, (name, color) in enumerate((("code", "#1f5fae"), ("English", "#c2571a"))):
    places = [place + 0.38 * index for place in range(len(shown))]
    axes.barh(places, [rates[text, name][0] for text in shown], 0.36, color=color, label=f"vocabulary of {name}")
axes.set_yticks([place + 0.19 for place in range(len(shown))], shown)
axes.invert_yaxis()
axes.set_xlabel("tokens per word (fewer is better)")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# Code and English about code share most of their words, so the two vocabularies differ little there. Another language
# shows why it needs its own: Finnish words fall apart into many tokens, and of the Georgian sentence only the full
# stop is known.
#
# ## Records
#
# Records are token sequences on disk, ready for training. The objective `none` fills each sequence with whole lines
# and predicts masked tokens only (as RoBERTa does); `nsp` would add BERT's next-sentence prediction. The manifest
# warns of unknown tokens and other problems of the text.

# %%
manifest = bk.make_records(
    "code.txt",
    "records",
    documents=documents,
    sentence_objective="none",
    max_sequence_length=LENGTH,
    held_out_rate=0.05,
)
print(f"{manifest['num_records']:,} sequences, {manifest['num_tokens']:,} tokens")
print(json.dumps({name: value for name, value in manifest["quality"].items() if value is not None}, indent=1))

# %% [markdown]
# ## What will it cost?
#
# `bk.plan` builds the model and counts; the time is an estimate for the machine that runs this page. For the real
# thing, plan `base` with your number of steps before you start.

# %%
config = bk.BertConfig.from_preset("tiny", vocabulary_size=len(code.tokens), max_sequence_length=LENGTH)
planned = bk.plan(config, head="masked_lm", length=LENGTH, batch_size=BATCH_SIZE)
flops = sum(part.forward + part.backward for part in planned.training_flops)
print(f"parameters        {planned.num_parameters:,}")
print(f"FLOPs per step    {flops / 1e9:.1f} billion")
print(f"memory            {planned.memory[0].process / 1e9:.1f} GB")
print(f"predicted time    {planned.step_seconds * STEPS / 60:.1f} minutes for {STEPS:,} steps")

# %% [markdown]
# ## Pretrain

# %%
lines = []
before = time.monotonic()
pretrained = bk.pretrain(
    "records",
    "pretrained",
    settings={
        "model.preset": "tiny",
        "model.objective": "mlm",
        "batches.batch_size": BATCH_SIZE,
        "optimizer.learning_rate": 2e-3,  # tiny models need higher rates than 1e-4, which base was trained with
        "budget.steps": STEPS,
        "evaluation.every_steps": STEPS // 8,
    },
    listeners=[lines.append],
)
print(f"measured time     {(time.monotonic() - before) / 60:.1f} minutes for {STEPS:,} steps")

# %% alt="Loss and masked-LM accuracy by step, in training and held out: the loss falls, the accuracy rises."
training = [line for line in lines if "loss" in line]
evaluated = [line for line in lines if "held_out_loss" in line]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
for axes, name, title in ((left, "loss", "masked-LM loss"), (right, "mlm_accuracy", "masked-LM accuracy")):
    axes.plot([line["step"] for line in training], [line[name] for line in training], color="#1f5fae", label="training")
    axes.plot(
        [line["step"] for line in evaluated],
        [line[f"held_out_{name}"] for line in evaluated],
        "o-",
        color="#c2571a",
        label="held-out files",
    )
    axes.set_xlabel("step")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# Both curves still move: the model would learn more from more steps. If only the held-out loss rises, the text is too
# small.
#
# ## How good is it?
#
# The accuracy is the share of masked tokens that the model predicts as most probable. The baseline predicts the most
# frequent token of the training text everywhere.

# %%
from bert_keras.engines.masked_lm_scores import score_records
from bert_keras.pipelines.batches.pretraining_batches import make_pretraining_batches

model, tokenizer = bk.load("pretrained"), bk.load_tokenizer("pretrained")
scores = score_records(model, tokenizer, "records")

options = {"batch_size": 32, "masking": "static", "shuffle": False, "drop_remainder": False}
counts = {"train": collections.Counter(), "held_out": collections.Counter()}
for split, counted in counts.items():
    for _, labels in make_pretraining_batches("records", tokenizer, split=split, **options):
        counted.update(labels["mask_ids"].numpy()[labels["mask_weights"].numpy() > 0].tolist())
[(most_frequent, _)] = counts["train"].most_common(1)
baseline = counts["held_out"][most_frequent] / counts["held_out"].total()
print(f"always {tokenizer.vocabulary[most_frequent]!r}:  {baseline:.1%} of the masked tokens")
print(f"this model:  {scores['mlm_accuracy']:.1%} of {scores['masked_tokens']:,} masked tokens")
print(f"perplexity:  {scores['perplexity']:.1f}")

# %% [markdown]
# ## What does it know?

# %%
masked = [
    "def [MASK](self):",
    "for i in [MASK](len(names)):",
    "import [MASK]",
    "if __name__ == '__[MASK]__':",
    "except [MASK]:",
    "raise [MASK]('expected a string')",
    "with open(filename, '[MASK]') as file:",
    "return [MASK]",
]
for text, [fillings] in zip(masked, bk.fill_mask(model, tokenizer, masked, top_k=4), strict=True):
    print(f"{text:42}", ", ".join(f"{one.token} {one.probability:.0%}" for one in fillings))

# %%
minutes, cpu_minutes = (time.monotonic() - started) / 60, time.process_time() / 60
print(f"This page took {minutes:.1f} minutes; its own process used {cpu_minutes:.1f} minutes of one core.")

# %% [markdown]
# ## What to change for a real language
#
# - **Text**: the more the better; some hundred megabytes at least. Files with one sentence per line, or
#   `sentences="split"` for running text. [Records](../guide/records.md)
# - **Vocabulary**: 30,000 tokens; look up the options of your language's script: case, accents, Chinese characters,
#   spaces. [Languages](../guide/languages.md), [Vocabulary](../guide/vocabulary.md)
# - **Model and cost**: `mini` to `base`, sequences of 128 and then 512 tokens, a recipe such as `recipe="bert"`.
#   [Pretraining](../guide/pretraining.md), [Planning](../guide/planning.md)
# - **Machine**: a GPU or several; backups with `backup_every`. [Training](../guide/training.md)
# - **Is there a BERT for a similar language or domain?** Training it further is cheaper. [Domain
#   adaptation](../guide/domain_adaptation.md)

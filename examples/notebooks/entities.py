# %% [markdown]
# # Find entities in text
#
# A tagger marks the names in a sentence: here modules, functions, exceptions, keywords and versions in prose about
# Python. You make labelled sentences with rules, hold out *names* so that the test shows whether the model recognizes
# names it has never seen, pretrain and fine-tune a tiny BERT, score it by class, look at its mistakes and its
# attention, and tag sentences of your own. Nothing is downloaded: the sentences ship with Python. The last cell
# prints how long it took.
#
# Install with `pip install 'bert-keras[plots]'`.

# %%
import collections
import html
import keyword
import os
import pathlib
import random
import re
import sys
import sysconfig
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no log lines of TensorFlow

import matplotlib.pyplot as plt
import tensorflow as tf
from IPython.display import HTML, Image, display

import bert_keras as bk

tf.get_logger().setLevel("ERROR")
started = time.monotonic()

# %% [markdown]
# The settings of this page. More steps give a better model.

# %%
VOCABULARY_SIZE = 4000
PRETRAINING_STEPS = 400
EPOCHS = 4
LENGTH = 64  # tokens per sequence

# %% [markdown]
# ## Labels by rule
#
# People label data by hand; this page has to do without them, so patterns find the names. Some patterns use a sign in
# the text that gives the answer away: a function is followed by parentheses, a keyword is in quotes. The model would
# only learn to look for the sign, so parentheses and quotes are removed from the sentence after they have been used.
# "Call len()" becomes "Call len", with a label.
#
# Labels made by rule are not the truth. The rules miss names without a sign ("returns what read returned"), and a
# model that finds such a name is then counted as wrong. Scores on this page say how well the model predicts *the
# rules*.

# %%
library = pathlib.Path(sysconfig.get_path("stdlib"))
files = [path for pattern in ("*.py", "*/*.py") for path in sorted(library.glob(pattern))]
parts = [path.relative_to(library).with_suffix("").parts for path in files]
dotted = "|".join(re.escape(".".join(names)) for names in parts if len(names) == 2)  # such as collections.abc
modules = "|".join(sorted(sys.stdlib_module_names - {"this"}))  # "this module" is not about the module this
keywords = "|".join(word for word in keyword.kwlist if word.islower())
functions = {
    name
    for path in files
    for name in re.findall(r"\bdef (\w+_\w*)\(", path.read_text(encoding="utf-8", errors="replace"))
}

RULES = re.compile(
    rf"""\b(?P<EXCEPTION>[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Iteration))\b
    | \b(?P<FUNCTION>[A-Za-z_][\w.]+)\((?!e?s\))[^()]*\)  # but not "file(s)"
    | \b(?P<FUNCTION_2>\w+_\w*)\b  # if it is the name of a function
    | ["'](?P<KEYWORD>{keywords})["']
    | \b(?P<KEYWORD_2>{keywords})\b(?=[ ](?:statement|clause|keyword|loop|expression)s?\b)
    | \b(?P<MODULE>{modules})\b(?=[ "](?:module|package)\b)
    | (?:(?<=module[ ])|(?<=import[ ]))(?P<MODULE_2>{modules})\b(?!["]?[ ](?:is|of|a|the)\b)
    | \b(?P<MODULE_3>{dotted})\b(?![.(])
    | (?:(?<=Python[ ])|(?<=ersion[ ])|(?<=since[ ]))(?P<VERSION>\d+(?:\.\d+)+)
    """,
    re.VERBOSE,
)
CLASSES = ["MODULE", "FUNCTION", "EXCEPTION", "KEYWORD", "VERSION"]
WORD = re.compile(r"\w+(?:\.\w+)*|[^\w\s]")  # os.path and __init__ are one word


def label_by_rule(sentence):
    """Return the words of a sentence, without parentheses after functions and without quotes, and their tags."""
    words, tags, end = [], [], 0
    for match in RULES.finditer(sentence):
        label, name = match.lastgroup, match[match.lastgroup]
        if label == "FUNCTION_2" and name not in functions:
            continue
        before = WORD.findall(sentence[end : match.start()].replace('"', ""))
        words += [*before, name]
        tags += ["O"] * len(before) + ["B-" + label.split("_")[0]]
        end = match.end()
    rest = WORD.findall(sentence[end:].replace('"', ""))
    return {"words": words + rest, "tags": tags + ["O"] * len(rest)}


print(label_by_rule("Use the 'with' statement and call close() of the shelve module."))

# %%
from bert_keras.pipelines.corpus.default_corpus import read_python_documents

documents = list(read_python_documents())
sentences = dict.fromkeys(sentence for document in documents for sentence in document)
labelled = [label_by_rule(sentence) for sentence in sentences]
with_names = [example for example in labelled if set(example["tags"]) != {"O"}]
without_names = [example for example in labelled if set(example["tags"]) == {"O"}]
print(f"{len(with_names):,} sentences have names, {len(without_names):,} have none")


def get_names(example):
    """Return the (class, name) pairs of a labelled sentence."""
    pairs = zip(example["words"], example["tags"], strict=True)
    return [(tag[2:], word) for word, tag in pairs if tag != "O"]


counts = collections.Counter(pair for example in with_names for pair in get_names(example))
for label in CLASSES:
    names = collections.Counter({name: count for (one, name), count in counts.items() if one == label})
    frequent = ", ".join(name for name, _ in names.most_common(6))
    print(f"{label:9} {len(names):4} names, {names.total():5,} times: {frequent}")

# %% [markdown]
# ## Hold out names, not only sentences
#
# With a random split, the test would mostly contain names that the model was trained on, and remembering them would
# be enough. Here every fifth name of each class is held out: all sentences with such a name are in the test. The
# other sentences are for training, and a tenth of them shows how well the model does on names that it knows.
# Sentences without names belong to the data too, otherwise the model would find names everywhere.

# %%
draw = random.Random(0)
held_out = {pair for pair in sorted(counts) if draw.random() < 0.2}
test = [example for example in with_names if held_out.intersection(get_names(example))]
known = [example for example in with_names if not held_out.intersection(get_names(example))]
known += draw.sample(without_names, min(len(known), len(without_names)))
draw.shuffle(known)
dev, train = known[: len(known) // 10], known[len(known) // 10 :]
print(f"{len(train):,} sentences to train on, {len(dev):,} with known names, {len(test):,} with held-out names")

# %% [markdown]
# ## Pretrain
#
# Capital letters tell names apart, so the vocabulary keeps them (`lowercase=False`). The model is pretrained on all
# sentences without labels, those of the test too: it may have read a held-out name, but never its class.

# %%
texts = [[" ".join(label_by_rule(sentence)["words"]) for sentence in document] for document in documents]
bk.learn_vocabulary(
    sentences=(text for document in texts for text in document),
    out="vocab.txt",
    size=VOCABULARY_SIZE,
    lowercase=False,
)
manifest = bk.make_records("vocab.txt", "records", documents=texts, max_sequence_length=LENGTH)
settings = {"model.preset": "tiny", "optimizer.learning_rate": 2e-3, "budget.steps": PRETRAINING_STEPS}
settings["speed.jit_compile"] = False  # compiling takes longer than it saves in so few steps
pretrained = bk.pretrain("records", "pretrained", settings=settings)
print(f"{manifest['num_records']:,} sequences with {manifest['num_tokens']:,} tokens")
print(f"{pretrained.metrics['held_out_mlm_accuracy']:.0%} of the masked tokens predicted")

# %% [markdown]
# ## Fine-tune
#
# A tagger gives each word a tag: `B-FUNCTION` begins a name, `I-FUNCTION` would continue it, `O` is no name. Here
# each name is one word, because words are split so that `os.path` and `__init__` stay whole. A word of several tokens
# is predicted at its first one.

# %%
tuned = bk.finetune(
    "pretrained",
    "tagger",
    train=train,
    dev=dev,
    task="tag",
    num_epochs=EPOCHS,
    learning_rate=1e-3,
    max_sequence_length=LENGTH,
)
print(f"entity F1 on known names: {tuned.scores['f1']:.1%} (epoch {tuned.best + 1})")

# %% [markdown]
# ## Score by class
#
# A name counts as correct if its word has the right tag. For comparison, a dictionary: it tags each word that was a
# name in at least half of its appearances in the training sentences, with its most frequent class.

# %%
predictor = bk.Predictor.from_checkpoint("tagger")


def predict(examples):
    """Return the tags of each sentence."""
    return [answer["tags"] for answer in predictor([example["words"] for example in examples])]


tags_of_word = collections.defaultdict(collections.Counter)
for example in train:
    for word, tag in zip(example["words"], example["tags"], strict=True):
        tags_of_word[word][tag] += 1
dictionary = {
    word: max((tag for tag in counted if tag != "O"), key=counted.get)
    for word, counted in tags_of_word.items()
    if counted["O"] * 2 <= counted.total()
}


def look_up(examples):
    """Return the tags that the dictionary gives to each sentence."""
    return [[dictionary.get(word, "O") for word in example["words"]] for example in examples]


def compute_f1(examples, found, label=None):
    """Return the F1 of the names of one class, or of all."""
    truth = [tag for example in examples for tag in example["tags"]]
    predicted = [tag for tags in found for tag in tags]
    wanted = {"B-" + name for name in (CLASSES if label is None else [label])}
    num_correct = sum(one == other and one in wanted for one, other in zip(truth, predicted, strict=True))
    return 2 * num_correct / max(sum(tag in wanted for tag in [*truth, *predicted]), 1)


columns = {
    "dictionary, known names": (dev, look_up(dev)),
    "model, known names": (dev, predict(dev)),
    "dictionary, held-out names": (test, look_up(test)),
    "model, held-out names": (test, predict(test)),
}
table = {name: [compute_f1(*column, label) for label in [*CLASSES, None]] for name, column in columns.items()}
print(f"{'F1':27}" + "".join(f"{label:>10}" for label in [*CLASSES, "all"]))
for name, values in table.items():
    print(f"{name:27}" + "".join(f"{value:10.0%}" for value in values))

# %% alt="Bars of the F1 of each class: the dictionary and the model, on known names and on held-out names."
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
for index, (name, color) in enumerate(zip(table, ["#b9c4cc", "#7aa6d6", "#5f6b73", "#1f5fae"], strict=True)):
    axes.bar([place + 0.2 * index for place in range(len(CLASSES) + 1)], table[name], 0.2, label=name, color=color)
axes.set_xticks([place + 0.3 for place in range(len(CLASSES) + 1)], [*CLASSES, "all"])
axes.set_ylabel("entity F1")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
plt.show()

# %% [markdown]
# The sentences with held-out names also contain known ones. Counting only the held-out names:

# %%
for name in ("dictionary, held-out names", "model, held-out names"):
    hits = [
        tag == predicted
        for example, tags in zip(*columns[name], strict=True)
        for word, tag, predicted in zip(example["words"], example["tags"], tags, strict=True)
        if (tag[2:], word) in held_out
    ]
    share = sum(hits) / len(hits)
    print(f"{name.split(',')[0]:10} finds {sum(hits)} of {len(hits)} held-out names with their class: {share:.0%}")

# %% [markdown]
# On known names, remembering is about as good as reading. The dictionary cannot know the held-out names; what the
# model finds of them, it finds by their form and their context. Most are missed after so little training.
#
# ## Look at answers and mistakes
#
# Sentences with held-out names. Names have the color of the class that the model predicts, or of the rule if the
# model missed them; a red frame marks what differs from the rules.

# %%
COLORS = dict(zip(CLASSES, ["#cfe3f7", "#d8efd3", "#f7d6cf", "#eadcf5", "#f5ecc4"], strict=True))


def mark(words, tags, rule_tags=None):
    """Return HTML of a sentence with marked names."""
    parts = []
    for word, tag, rule_tag in zip(words, tags, rule_tags or tags, strict=True):
        label = (rule_tag if tag == "O" else tag)[2:]
        border = "transparent" if tag == rule_tag else "#c00000"
        style = (
            f"background:{COLORS.get(label)};color:#111111;border:2px solid {border};border-radius:4px;padding:0 3px"
        )
        text = html.escape(word)
        parts.append(f'<span style="{style}">{text} <small>{label}</small></span>' if label else text)
    return "<p>" + re.sub(r" ([.,;:)])", r"\1", " ".join(parts)) + "</p>"


sentences_shown = [
    (example["words"], tags, example["tags"]) for example, tags in zip(*columns["model, held-out names"], strict=True)
]
display(HTML("".join(mark(*one) for one in sentences_shown[:: len(test) // 8])))

# %% [markdown]
# What it confuses most, from the class of the rules to the predicted class; `-` is no name:

# %%
confusions = collections.Counter(
    (rule_tag[2:] or "-", tag[2:] or "-")
    for _, tags, rule_tags in sentences_shown
    for tag, rule_tag in zip(tags, rule_tags, strict=True)
    if tag != rule_tag
)
for (right, wrong), count in confusions.most_common(5):
    print(f"{count:4} {right} -> {wrong}")

# %% [markdown]
# ## What it attends to
#
# `bk.inspect` computes attention, vectors and predictions for one sentence, and writes a page with figures. Each map
# is one head: rows are the tokens that attend, columns the tokens that they attend to.

# %%
inspection = bk.inspect("tagger", "Raises LookupError if the codec module is missing.")
print(*inspection.tokens)
for head in inspection.heads:
    place = f"layer {head.layer}, head {head.head}"
    print(f"{place}: {head.kind}, entropy {head.entropy:.1f} bits, distance {head.distance:.1f} tokens")

# %% alt="Attention maps of the four heads of the tagger on the sentence."
inspection.save("inspection")
display(Image("inspection/attention.png", width=420))

# %% [markdown]
# ## Your own sentences
#
# These names are not in the training sentences, and some do not exist.

# %%
own = [
    "The frobnicate module was added in Python 3.9.",
    "Call load_settings before you open the file, or it raises SettingsError.",
    "The match statement compares a value with patterns.",
]
words = [WORD.findall(text) for text in own]
answers = predictor(words)
for answer in answers:
    print([(entity["label"], entity["text"], round(entity["probability"], 2)) for entity in answer["entities"]])
display(HTML("".join(mark(*one) for one in zip(words, [answer["tags"] for answer in answers], strict=True))))

# %%
minutes, cpu_minutes = (time.monotonic() - started) / 60, time.process_time() / 60
print(f"This page took {minutes:.1f} minutes; its own process used {cpu_minutes:.1f} minutes of one core.")

# %% [markdown]
# ## What next
#
# - [Fine-tuning](../guide/finetuning.md): tagging from CoNLL and JSON files, windows over long texts
# - [Inspecting](../guide/inspecting.md): the page that `inspect` writes
# - [Domain adaptation](../guide/domain_adaptation.md): start from a public BERT and train it further on your texts
# - [In the browser](../guide/browser.md): entities in a web page, without a server

# %% [markdown]
# # Answer questions from a text
#
# Extractive question answering marks the part of a text that answers a question, or says that there is none. You make
# questions about the functions of Python's standard library, hold out modules for the test, pretrain and fine-tune a
# tiny BERT, score its answers by exact match and F1, show them in the text, and let it read texts that are longer
# than a sequence. Nothing is downloaded. The last cell prints how long it took.
#
# Install with `pip install 'bert-keras[plots]'`.

# %%
import ast
import collections
import html
import os
import pathlib
import random
import re
import sysconfig
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no log lines of TensorFlow

import matplotlib.pyplot as plt
import tensorflow as tf
from IPython.display import HTML, display

import bert_keras as bk

tf.get_logger().setLevel("ERROR")
started = time.monotonic()

# %% [markdown]
# The settings of this page. More steps and questions give a better model.

# %%
VOCABULARY_SIZE = 4000
PRETRAINING_STEPS = 350
QUESTIONS = 4000
EPOCHS = 3
LENGTH = 80  # tokens per sequence: question and context

# %% [markdown]
# ## Passages
#
# The standard library documents its functions. A passage describes two functions of one module, each with its name
# and the first words of its docstring. Every fifth module is held out.


# %%
def read_functions(path):
    """Return the (name, description) pairs of the documented functions and classes of a source file."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # a template named .py
        return []
    found = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            docstring := ast.get_docstring(node)
        ):
            words = docstring.split()[:WORDS]
            if len(words) >= 5:
                found[node.name] = f"{node.name}: {' '.join(words)}"
    return list(found.items())


WORDS = 20  # of a docstring
library = pathlib.Path(sysconfig.get_path("stdlib"))
skipped = {
    "test",
    "tests",
    "site-packages",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "encodings",
    "pydoc_data",
    "turtledemo",
}
paths = [path for path in sorted(library.rglob("*.py")) if not skipped.intersection(path.relative_to(library).parts)]
modules = [functions for path in paths if len(functions := read_functions(path)) >= 4]
random.Random(0).shuffle(modules)
test_modules, train_modules = modules[::5], [module for index, module in enumerate(modules) if index % 5]
for use, part in (("train", train_modules), ("test", test_modules)):
    print(f"{sum(map(len, part)):,} descriptions from {len(part)} files to {use} on")

# %% [markdown]
# ## Questions and answers by rule
#
# People write questions by reading; this page has to do without them. A pattern finds the answer to each kind of
# question, and several forms of a question ask for it, so that the model has to read both. Scores on this page say
# how well the model predicts these rules in text of modules that it has not seen. A question is about one function of
# the passage, and the other one has no answer of that kind. Every fifth question has no answer in its passage.

# %%
END = r"(?=[.;:,()]|$| if | or | when | unless | else )"
KINDS = {  # a pattern of the answer, and forms of the question
    "result": (
        rf"\b[Rr]eturns? (?!code|value|type)([^.;:,()]+?){END}",
        ["What does {} return?", "What is the result of {}?"],
    ),
    "true": (rf"\b[Tt]rue (?:if|when) ([^.;:,()]+?){END}", ["When does {} return True?", "What makes {} true?"]),
    "error": (
        r"\b[Rr]ais(?:es?|ing) (?:an? )?((?:[a-z]+\.)*[A-Z]\w*(?:Error|Exception|Warning|Exit|Iteration))",
        ["Which exception does {} raise?", "What error can happen in {}?"],
    ),
    "purpose": (rf"\bused (?:to|for|by) ([^.;:,()]+?){END}", ["What is {} used for?", "What is the purpose of {}?"]),
    "condition": (rf"\bmust be ([^.;:,()]+?){END}", ["What must the arguments of {} be?", "What does {} require?"]),
    "same": (
        rf"\b(?:[Ee]quivalent to|[Ss]ame as) ([^.;:,()]+?){END}",
        ["What is {} equivalent to?", "What is the same as {}?"],
    ),
}


def find_answer(kind, description):
    """Return the first answer of a kind in a description as a regular-expression match, or None."""
    return re.search(KINDS[kind][0], description.partition(": ")[2])


def make_question(draw, module, kind, function=None):
    """Return a question about a function, or one without an answer; None if the module has too few functions."""
    others = [one for one in module if one != function and not find_answer(kind, one[1])]
    if len(others) < 2:
        return None
    chosen = draw.sample(others, 2)
    asked = chosen[0] if function is None else function
    if function is not None:
        chosen[0] = function
    draw.shuffle(chosen)
    context, answers = "\n".join(description for _, description in chosen), []
    if function is not None:
        match = find_answer(kind, function[1])
        offset = context.index(function[1]) + function[1].index(": ") + 2
        answers = [{"text": match[1], "answer_start": offset + match.start(1)}]
    question = draw.choice(KINDS[kind][1]).format(asked[0])
    return {"question": question, "context": context, "answers": answers, "kind": kind if answers else "no answer"}


def list_answerable(modules):
    """Return, for each kind, the (module, function) pairs whose description answers it."""
    return {
        kind: [(module, one) for module in modules for one in module if find_answer(kind, one[1])] for kind in KINDS
    }


draw, answerable, train = random.Random(1), list_answerable(train_modules), []
while len(train) < QUESTIONS:
    kind = draw.choice([*KINDS, "result", "result"])
    module, function = draw.choice(answerable[kind])
    if question := make_question(draw, module, kind, None if draw.random() < 0.2 else function):
        train.append(question)

test = [  # each answer of the other modules once, and a question without an answer for every fifth
    question
    for kind, pairs in list_answerable(test_modules).items()
    for index, (module, function) in enumerate(pairs)
    for one in ([function, None] if index % 5 == 0 else [function])
    if (question := make_question(draw, module, kind, one))
]
for use, part in (("train", train), ("test", test)):
    print(f"{len(part):,} questions to {use} on: {dict(collections.Counter(one['kind'] for one in part))}")
for one in test[::150][:3]:
    print(f"\n{one['question']} -> {one['answers'][0]['text'] if one['answers'] else 'no answer'}\n{one['context']}")

# %% [markdown]
# ## Vocabulary and pretraining
#
# The text is Python's prose, without labels.

# %%
bk.learn_vocabulary(out="vocab.txt", size=VOCABULARY_SIZE)
manifest = bk.make_records("vocab.txt", "records", max_sequence_length=LENGTH)
settings = {"model.preset": "tiny", "optimizer.learning_rate": 2e-3, "budget.steps": PRETRAINING_STEPS}
settings["speed.jit_compile"] = False  # compiling takes longer than it saves in so few steps
pretrained = bk.pretrain("records", "pretrained", settings=settings)
print(f"{manifest['num_records']:,} sequences with {manifest['num_tokens']:,} tokens")
print(f"{pretrained.metrics['held_out_mlm_accuracy']:.0%} of the masked tokens predicted")

# %% [markdown]
# ## Fine-tune
#
# The model predicts the first and the last token of the answer. Without an answer both are [CLS]; the threshold
# between an answer and none is calibrated on held-out questions, here a tenth of the passages.

# %%
tuned = bk.finetune(
    "pretrained",
    "answerer",
    train=train,
    task="answer",
    num_epochs=EPOCHS,
    learning_rate=1e-3,
    max_sequence_length=LENGTH,
    window_overlap=32,
)

# %% [markdown]
# ## Score it on other modules
#
# Exact match counts answers that equal the right one, apart from case, punctuation and articles. F1 counts the words
# that both have. Both are in percent, as in SQuAD. The baseline always answers with the first sentence of the
# passage, without the function's name.

# %%
predictor = bk.Predictor.from_checkpoint("answerer")
answers = predictor([(one["question"], one["context"]) for one in test])

from bert_keras.metrics.squad import exact_match, f1


def score(examples, texts):
    """Return exact match and F1 in percent, of answers to examples."""
    pairs = [(text, [answer["text"] for answer in one["answers"]]) for one, text in zip(examples, texts, strict=True)]
    return tuple(100 * sum(measure(*pair) for pair in pairs) / len(pairs) for measure in (exact_match, f1))


first_sentences = [re.split(r"[.;:,] |\n", one["context"].partition(": ")[2])[0] for one in test]
print("baseline:   exact match {:.1f}, F1 {:.1f}".format(*score(test, first_sentences)))
print("this model: exact match {:.1f}, F1 {:.1f}".format(*score(test, [answer["answer"] for answer in answers])))

by_kind = collections.defaultdict(list)
for one, answer in zip(test, answers, strict=True):
    by_kind[one["kind"]].append((one, answer["answer"]))
scores = {kind: score(*zip(*pairs, strict=True)) for kind, pairs in by_kind.items()}
for kind, (exact, overlap) in scores.items():
    print(f"{kind:10} {len(by_kind[kind]):4} questions: exact match {exact:5.1f}, F1 {overlap:5.1f}")

# %% alt="Bars of exact match and F1 for each kind of question."
figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
places = range(len(scores))
for offset, label, color, values in ((-0.2, "F1", "#1f5fae", 1), (0.2, "exact match", "#c2571a", 0)):
    axes.bar(
        [place + offset for place in places], [one[values] for one in scores.values()], 0.38, color=color, label=label
    )
axes.set_xticks(places, scores)
axes.set_ylabel("percent")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
plt.show()

# %% [markdown]
# ## Read the answers
#
# Green is the right answer, yellow a wrong one; the right answer to a wrong one is in the line of the question.


# %%
def show(one, answer):
    """Return HTML of a passage with the model's answer."""
    context, right = one["context"], [gold["text"] for gold in one["answers"]]
    title = f"<b>{html.escape(one['question'])}</b>"
    is_right = bool(exact_match(answer["answer"], right))
    if not is_right:
        title += " (" + html.escape(right[0] if right else "no answer") + ")"
    start, end = (0, 0) if answer["start"] is None else (answer["start"], answer["end"])
    style = f"background:{'#cdebc5' if is_right else '#f7e3a1'};color:#111111;border-radius:4px;padding:1px 3px"
    marked = f'<span style="{style}">{html.escape(context[start:end]) or "no answer"}</span>'
    parts = [html.escape(part).replace("\n", "<br>") for part in (context[:start], context[end:])]
    return f"<p>{title}<br>{(' ' if end == 0 else '').join([parts[0] + marked, parts[1]])}</p>"


picked = [
    next(i for i, one in enumerate(test) if one["kind"] == kind)
    for kind in ("result", "error", "condition", "no answer")
]
wrong = [
    i
    for i, (one, answer) in enumerate(zip(test, answers, strict=True))
    if not f1(answer["answer"], [gold["text"] for gold in one["answers"]])
]
display(HTML("".join(show(test[i], answers[i]) for i in picked + wrong[:2])))

# %% [markdown]
# ## What it has not learned
#
# In these passages only one function answers each kind of question, so the model can do well without the function's
# name. Does it read the name? Passages in which *two* functions have a result tell: a model that ignores names picks
# the right one in half of the cases.

# %%
both = []
for module in test_modules:
    functions = [one for one in module if find_answer("result", one[1])]
    for first, second in zip(functions[::2], functions[1::2], strict=False):
        asked, other = draw.sample((first, second), 2)
        context = "\n".join(draw.sample((first[1], second[1]), 2))
        both.append((f"What does {asked[0]} return?", context, context.index(asked[1]), len(asked[1])))
found = predictor([(question, context) for question, context, *_ in both])
hits = [
    start <= answer["start"] < start + length
    for (*_, start, length), answer in zip(both, found, strict=True)
    if answer["answer"]
]
print(f"it answers from the right function in {sum(hits) / len(hits):.0%} of {len(hits)} cases")

# %% [markdown]
# Finding a word of the question in the text takes more training than two minutes. A model that is pretrained longer,
# or a public BERT, has learned it.
#
# ## Long texts
#
# A text that does not fit into a sequence is read in windows that overlap (by 32 tokens here). The best answer of all
# windows wins.

# %%
module = max(test_modules, key=lambda one: sum(bool(find_answer("error", text)) for _, text in one))
text = "\n".join(description for _, description in module)
question = "Which exception does it raise?"
[answer] = predictor([(question, text)], top=3)
print(f"{len(text.split()):,} words, {len(predictor.tokenizer.tokenize([text])[0]):,} tokens")
for best in answer["best"]:
    place = text[: best["start"]].count("\n")
    print(f"{best['probability']:.0%} {best['answer']}, in: {text.splitlines()[place][:110]}")

# %%
minutes, cpu_minutes = (time.monotonic() - started) / 60, time.process_time() / 60
print(f"This page took {minutes:.1f} minutes; its own process used {cpu_minutes:.1f} minutes of one core.")

# %% [markdown]
# ## What next
#
# - [Fine-tuning](../guide/finetuning.md): SQuAD's files, windows, the threshold for "no answer"
# - [Prediction](../guide/prediction.md): answer many questions, or without TensorFlow
# - [Pretraining](../guide/pretraining.md) and [domain adaptation](../guide/domain_adaptation.md): better models to
#   start from
# - [In the browser](../guide/browser.md) and [on the phone](../guide/phone.md): answers without a server

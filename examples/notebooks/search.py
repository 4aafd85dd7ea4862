# %% [markdown]
# # Search by meaning
#
# A sentence embedder turns texts into vectors, so that texts with similar meaning are close. You make pairs of a
# summary and its passage from docstrings, train a tiny embedder on them with a contrastive loss, search passages of
# modules that it has never seen, compare it honestly with TF-IDF, export it to ONNX, and time its answers. Nothing is
# downloaded: the docstrings are those of Python's standard library. The last cell prints how long it took.
#
# Install with `pip install 'bert-keras[onnx,plots]'`.

# %%
import ast
import itertools
import os
import pathlib
import random
import sysconfig
import textwrap
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no log lines of TensorFlow

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import bert_keras as bk

tf.get_logger().setLevel("ERROR")
started = time.monotonic()

# %% [markdown]
# The settings of this page. More steps give a better model.

# %%
VOCABULARY_SIZE = 5000
PRETRAINING_STEPS = 150
EPOCHS = 5
BATCH_SIZE = 128  # pairs; each summary is compared with all passages of its batch
LENGTH = 48  # tokens per sequence

# %% [markdown]
# ## Pairs
#
# The first paragraph of a docstring is a summary of one line, and the rest explains it. The summary is the query, the
# rest is the passage that a search should find. Every fifth module is held out, with all its docstrings.


# %%
def read_docstrings(path):
    """Yield the paragraphs of each docstring of a source file."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):  # a template named .py
        return
    for node in nodes:
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_documented and (docstring := ast.get_docstring(node)):
            yield [" ".join(paragraph.split()) for paragraph in docstring.split("\n\n")]


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
random.Random(0).shuffle(paths)

pairs = {"train": {}, "test": {}}  # summaries, keyed by passage
followers = []  # two paragraphs in a row, for training too
for index, path in enumerate(paths):
    split = "train" if index % 5 else "test"
    for summary, *others in read_docstrings(path):
        passage = " ".join(" ".join(others).split()[:40])
        if 4 <= len(summary.split()) <= 25 and len(passage.split()) >= 10:
            pairs[split].setdefault(passage, summary)
        if split == "train":
            followers += [pair for pair in itertools.pairwise(others) if min(len(text.split()) for text in pair) >= 6]

test = [(summary, passage) for passage, summary in pairs["test"].items() if passage not in pairs["train"]]
train = [(summary, passage) for passage, summary in pairs["train"].items()]
print(f"{len(train):,} pairs and {len(followers):,} neighbouring paragraphs to train on; {len(test):,} pairs to search")
for query, passage in test[:: len(test) // 3][:3]:
    print(f"\n{query}\n  -> {textwrap.shorten(passage, 160)}")

# %% [markdown]
# ## Search, and how to measure it
#
# For each query all passages are ranked by the cosine of their vectors. `recall@k` is the share of queries whose
# passage is among the first k, MRR the mean of 1 / rank. The first competitor is TF-IDF: it weights words by how rare
# they are and needs no training. It is hard to beat where queries and passages share their words, as they often do
# here.

# %%
from sklearn.feature_extraction.text import TfidfVectorizer

queries, passages = (list(texts) for texts in zip(*test, strict=True))


def score(similarities):
    """Return the scores of a search, from the similarities of queries and passages; passage i answers query i."""
    ranks = 1 + (similarities > np.diag(similarities)[:, None]).sum(axis=1)
    return {**{f"recall@{k}": np.mean(ranks <= k) for k in (1, 5, 10)}, "MRR": np.mean(1 / ranks)}, ranks


results = {}


def report(name, similarities):
    """Print and keep the scores of a search."""
    scores, results[name] = score(similarities)
    print(f"{name:34}", "  ".join(f"{key} {value:.1%}" for key, value in scores.items()))


words = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit(
    [text for pair in train for text in pair] + passages
)
by_words = (words.transform(queries) @ words.transform(passages).T).toarray()
report("TF-IDF", by_words)

# %% [markdown]
# ## Vocabulary and pretraining
#
# As for every task: learn a vocabulary, make records, pretrain. All of Python's prose is read, that of the held-out
# modules too, but none of their pairs. `finetune` would also start from any BERT or sentence-transformers folder.

# %%
bk.learn_vocabulary(out="vocab.txt", size=VOCABULARY_SIZE)
bk.make_records("vocab.txt", "records", max_sequence_length=LENGTH)
settings = {"model.preset": "tiny", "optimizer.learning_rate": 2e-3, "budget.steps": PRETRAINING_STEPS}
settings["speed.jit_compile"] = False  # compiling takes longer than it saves in so few steps
pretrained = bk.pretrain("records", "pretrained", settings=settings)
tokenizer = pretrained.tokenizer


def embed(predictor, texts):
    """Return the vectors of texts, `(N, D)`."""
    return np.array([answer["embedding"] for answer in predictor(texts)])


untrained = bk.Predictor(bk.BertEmbedder.from_checkpoint("pretrained"), tokenizer)
report("mean of the pretrained vectors", embed(untrained, queries) @ embed(untrained, passages).T)

# %% [markdown]
# A pretrained BERT is no search engine: nothing has taught it that vectors of similar texts should be close.
#
# ## Contrastive training
#
# The loss compares each summary with all passages of its batch and raises the similarity with its own. So pairs are
# all the labels it needs. Neighbouring paragraphs of one docstring are more pairs for free. After each epoch the
# model is scored on pairs that it was not trained on: a tenth of the training modules' pairs, half of them with a
# wrong passage.

# %%
draw = random.Random(1)
draw.shuffle(train)
dev, train_pairs = train[: len(train) // 10], train[len(train) // 10 :] + followers
half = len(dev) // 2
right = [{"text1": summary, "text2": passage, "score": 1} for summary, passage in dev[:half]]
wrong = [
    {"text1": one[0], "text2": other[1], "score": 0} for one, other in zip(dev[half:], dev[half + 1 :], strict=False)
]
tuned = bk.finetune(
    "pretrained",
    "embedder",
    train=[{"text1": first, "text2": second} for first, second in train_pairs],
    dev=right + wrong,
    task="embed",
    objective="contrastive",
    num_epochs=EPOCHS,
    batch_size=BATCH_SIZE,
    learning_rate=1e-3,
    max_sequence_length=LENGTH,
)

# %%
predictor = bk.Predictor.from_checkpoint("embedder")
vectors = embed(predictor, passages)
by_meaning = embed(predictor, queries) @ vectors.T
report("contrastive embedder", by_meaning)

# %% [markdown]
# Do the two know different things? Their similarities can be added. The weight of the embedder is chosen on the tenth
# of the training modules' pairs that it was not trained on, never on the test.

# %%
dev_queries, dev_passages = (list(texts) for texts in zip(*dev, strict=True))
dev_words = (words.transform(dev_queries) @ words.transform(dev_passages).T).toarray()
dev_meaning = embed(predictor, dev_queries) @ embed(predictor, dev_passages).T
weights = (0, 0.1, 0.2, 0.3, 0.5, 1)
mean_ranks = {weight: score(dev_words + weight * dev_meaning)[0]["MRR"] for weight in weights}
weight = max(weights, key=mean_ranks.get)
print(f"weight of the embedder: {weight}")
report("weighted sum", by_words + weight * by_meaning)

# %% alt="Recall at 1 to 50 of TF-IDF, of the embedder before and after the contrastive training, and of both together."
figure, axes = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
cutoffs = np.arange(1, 51)
for (name, ranks), color in zip(results.items(), ["#5f6b73", "#8c6d1f", "#1f5fae", "#c2571a"], strict=True):
    axes.plot(cutoffs, [np.mean(ranks <= k) for k in cutoffs], color=color, label=name)
axes.set_xlabel("k")
axes.set_ylabel("recall@k")
axes.set_ylim(0, 1)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8)
plt.show()

# %%
first, second = results["TF-IDF"], results["contrastive embedder"]
print(f"TF-IDF has the better rank in {np.mean(first < second):.0%} of the queries")
print(f"the embedder has the better rank in {np.mean(second < first):.0%}")

# %% [markdown]
# TF-IDF wins on this page. Summaries repeat the rare words of their passages, which is what TF-IDF counts, and the
# embedder saw four thousand pairs for a minute or two; embedders for real use see hundreds of millions. The training
# has multiplied the scores of the pretrained vectors, and where a query shares no word with its passage, TF-IDF has
# nothing to count. Always compare with TF-IDF before you deploy an embedder.
#
# ## Your own queries

# %%
own = ["wait until several threads have finished", "convert text to bytes", "delete a folder and everything in it"]
own_words = (words.transform(own) @ words.transform(passages).T).toarray()
own_meaning = embed(predictor, own) @ vectors.T
for index, query in enumerate(own):
    print(f"\n{query}")
    for name, similarities in (("TF-IDF", own_words[index]), ("embedder", own_meaning[index])):
        for place in np.argsort(-similarities)[:2]:
            print(
                f"  {name:8} {similarities[place]:.2f} {textwrap.shorten(f'{queries[place]} {passages[place]}', 100)}"
            )

# %% [markdown]
# ## Export and speed
#
# The ONNX file answers without TensorFlow. Its vectors are compared with those of the model before it is published.

# %%
parity = bk.export_model("embedder", "artifacts", formats=["onnx"])
fast = bk.Predictor.from_artifact("artifacts/onnx")
print(f"largest difference from the model's vectors: {np.abs(embed(fast, passages) - vectors).max():.1e}")
for name, one in (("Keras", predictor), ("ONNX", fast)):
    one(queries[:1])  # the first call is slower
    before = time.perf_counter()
    for query in queries[:100]:
        np.argmax(vectors @ one([query])[0]["embedding"])
    print(f"{name:5} {(time.perf_counter() - before) * 10:5.1f} ms for a query among {len(passages):,} passages")

# %%
minutes, cpu_minutes = (time.monotonic() - started) / 60, time.process_time() / 60
print(f"This page took {minutes:.1f} minutes; its own process used {cpu_minutes:.1f} minutes of one core.")

# %% [markdown]
# ## What next
#
# - [Fine-tuning](../guide/finetuning.md): scored pairs, prompts, poolings; start from a public embedder of
#   sentence-transformers
# - [Domain adaptation](../guide/domain_adaptation.md): pretrain a public BERT further on your texts first
# - [Export](../guide/export.md) and [serving](../guide/serving.md): `/v1/embeddings` and `/embed` for clients of
#   OpenAI and Text Embeddings Inference
# - [In the browser](../guide/browser.md): search in a web page, without a server

"""The README.md of a checkpoint folder: what the model is, for people."""

from bert_keras import __version__
from bert_keras.checkpoints.building import get_encoder


def build_model_card(model, tokenizer=None, *, history: str | None = None) -> str:
    """Returns a short model card in Markdown: kind, sizes, labels, and how to load it; `history`: how it came to be."""
    config, name = get_encoder(model).config, type(model).__name__
    lines = [
        "---",
        "library_name: keras",
        "tags: [bert, bert-keras]",
        "---",
        "",
        f"# {name}",
        "",
        f"{config.num_layers} layers, {config.hidden_dim} wide, {config.num_heads} heads, "
        f"{config.vocabulary_size:,} tokens, at most {config.max_sequence_length} tokens a text: "
        f"{model.count_params():,} parameters.",
    ]
    if tokenizer is not None:
        lines += ["", f"The tokenizer {'lower-cases' if tokenizer.lowercase else 'keeps the case'}."]
    if labels := getattr(model, "labels", None):
        lines += ["", "Labels: " + ", ".join(labels) + "."]
    if history:
        lines += ["", history]
    lines += [
        "",
        "```python",
        "import bert_keras as bk",
        "",
        'model = bk.load("this folder")',
        "```",
        "",
        f"Written by bert-keras {__version__}; the folder also opens in transformers.",
        "",
    ]
    return "\n".join(lines)

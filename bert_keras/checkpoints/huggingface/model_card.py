"""The model card: `README.md` of a checkpoint folder."""

from bert_keras import __version__
from bert_keras.checkpoints.building import get_encoder
from bert_keras.modeling.base import BertModel
from bert_keras.pipelines.text.tokenizer import BertTokenizer


def build_model_card(model: BertModel, tokenizer: BertTokenizer | None = None, *, history: str | None = None) -> str:
    """Return a short model card in Markdown: the model's class, sizes and labels, and how to load it.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        history: a paragraph about its training.
    """
    config, name = get_encoder(model).config, type(model).__name__
    lines = [
        "---",
        "library_name: keras",
        "tags: [bert, bert-keras]",
        "---",
        "",
        f"# {name}",
        "",
        f"{config.num_layers} layers, hidden size {config.hidden_dim}, {config.num_heads} heads, a vocabulary of "
        f"{config.vocabulary_size:,} tokens, sequences of up to {config.max_sequence_length} tokens: "
        f"{model.count_params():,} parameters.",
    ]
    if tokenizer is not None:
        lines += ["", f"The tokenizer is {'uncased' if tokenizer.lowercase else 'cased'}."]
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
        f"Written by bert-keras {__version__}; transformers can load this folder too.",
        "",
    ]
    return "\n".join(lines)

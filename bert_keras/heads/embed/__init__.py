"""One vector per text, compared by cosine, and the objectives with which `finetune` trains it.

The record of the head is in this file; start with `task.py`.
"""

import dataclasses

from bert_keras.errors import InputError
from bert_keras.heads.head import Head


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingObjective:
    """What an embedder learns from examples of one or more texts.

    Attributes:
        name: its name in `finetune --objective`.
        loss: its loss, a `ColumnLoss` of `architectures/losses.py`, created without arguments; `module:attribute`.
        text_columns: the usual names of the columns of texts, one for each text of an example. A pair can have other
            names, see `guess_columns`.
        has_scores: whether each example has a score.
        compares_examples: whether the loss compares the examples of a batch with each other, so that a batch cannot be
            divided among replicas or micro-batches.
    """

    name: str
    loss: str
    text_columns: tuple[str, ...]
    has_scores: bool = False
    compares_examples: bool = False


OBJECTIVES: dict[str, EmbeddingObjective] = {}  # keyed by name; the first one is the default


def register_objective(objective: EmbeddingObjective) -> None:
    """Add an objective, for example one of another package; see `load_plugins` in `bert_keras.extras`.

    Raises:
        InputError: there is an objective of this name.
    """
    if objective.name in OBJECTIVES:
        raise InputError(f"there is an objective {objective.name!r} of embedders already: choose another name")
    OBJECTIVES[objective.name] = objective


register_objective(
    EmbeddingObjective(
        name="regression",
        loss="bert_keras.architectures.losses:CosineError",
        text_columns=("text1", "text2"),
        has_scores=True,
    )
)
register_objective(
    EmbeddingObjective(
        name="contrastive",
        loss="bert_keras.architectures.losses:InBatchContrast",
        text_columns=("text1", "text2"),
        compares_examples=True,
    )
)

HEAD = Head(
    name="embed",
    model="bert_keras.heads.embed.model:BertEmbedder",
    task="bert_keras.heads.embed.task:SentenceEmbedding",
    is_finetuned=True,
    training_reader="bert_keras.heads.embed.examples:read_to_embed",
    scoring_reader="bert_keras.heads.embed.examples:read_pairs_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_cosine",
    pipeline_tag="sentence-similarity",
    peft="FEATURE_EXTRACTION",
    outputs=("sentence_embedding",),
    graph="bert_keras.heads.embed.graph:build_embedder",
    endpoint=None,  # `/embed` is in `text_embeddings_inference.py`
    served_as="vectors",
    kept_settings=("pooling", "normalize", "include_prompt", "prompts", "default_prompt_name"),
    comparison="bert_keras.export.parity.expected_answers:expect_embeddings",
    readme="tflite/vectors.md",
    options=("objective", "prompt", "text_column", "second_text_column", "label_column", "columns", "delimiter"),
    javascript="feature-extraction",
    exports_hidden_states=True,
    keeps_pooler=True,
    has_modules=True,
    keras_hub="BertTextEmbedder",
    keras_hub_lacks={
        "include_prompt": bool,
        "prompts": dict[str, str],
        "default_prompt_name": str,
        "similarity": str,
    },
    widget=({"source_sentence": "How is the weather?", "sentences": ["It is raining.", "She was born in London."]},),
    snippets="bert_keras.checkpoints.huggingface.model_card:show_vectors",
    has="an embedding head",
    use="It turns a text into a vector; vectors of texts with similar meanings have a high cosine.",
)

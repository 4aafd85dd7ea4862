"""One vector per text, compared by cosine."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="embed",
    model="bert_keras.modeling.embedder:BertEmbedder",
    task="bert_keras.tasks.sentence_embedding:SentenceEmbedding",
    is_finetuned=True,
    training_reader="bert_keras.tasks.examples.pair_data:read_to_embed",
    scoring_reader="bert_keras.tasks.examples.pair_data:read_pairs_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_cosine",
    pipeline_tag="sentence-similarity",
    peft="FEATURE_EXTRACTION",
    outputs=("sentence_embedding",),
    graph="bert_keras.export.saved_model.answers.vectors:build_embedder",
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
    snippets="bert_keras.checkpoints.huggingface.card_snippets:show_vectors",
    has="an embedding head",
    use="It turns a text into a vector; vectors of texts with similar meanings have a high cosine.",
)

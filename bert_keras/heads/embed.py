"""One vector per text, compared by cosine."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="embed",
    model="bert_keras.modeling.embedder:BertEmbedder",
    task="bert_keras.tasks.sentence_embedding:SentenceEmbedding",
    is_finetuned=True,
    pipeline_tag="sentence-similarity",
    peft="FEATURE_EXTRACTION",
    outputs=("sentence_embedding",),
    keeps_pooler=True,
    has="an embedding head",
    use="It turns a text into a vector; vectors of texts with similar meanings have a high cosine.",
)

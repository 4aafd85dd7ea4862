"""The encoder without a head."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="encode",
    model="bert_keras.architectures.encoder:BertEncoder",
    huggingface="Model",
    pipeline_tag="feature-extraction",
    graph="bert_keras.heads.embed.graph:build_encoder",
    comparison="bert_keras.export.parity.expected_answers:expect_encoder_outputs",
    keeps_pooler=True,
    snippets="bert_keras.checkpoints.huggingface.model_card:show_encoding",
    has="no head",
    use="It turns a text into a vector for each token, and is made to be fine-tuned for a task.",
)

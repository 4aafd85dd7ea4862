"""A tag for each word of a text, such as entities or parts of speech."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="tag",
    model="bert_keras.modeling.classification:BertTokenClassifier",
    task="bert_keras.tasks.token_classification:TokenClassification",
    is_finetuned=True,
    huggingface="ForTokenClassification",
    pipeline_tag="token-classification",
    peft="TOKEN_CLS",
    outputs=("logits",),
    has_num_classes=True,
    reads_windows=True,
    ignores_pooler=True,
    plan_name="tagging",
    has="a token-classification head",
    use="It assigns a tag to each word of a text.",
)

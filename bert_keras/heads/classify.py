"""Classification and regression of texts and pairs of texts."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="classify",
    model="bert_keras.modeling.classification:BertClassifier",
    task="bert_keras.tasks.text_classification:TextClassification",
    is_finetuned=True,
    huggingface="ForSequenceClassification",
    pipeline_tag="text-classification",
    peft="SEQ_CLS",
    outputs=("logits",),
    has_num_classes=True,
    plan_name="classification",
    has="a classification head",
    use="It assigns labels or a number to a text or a pair of texts.",
)

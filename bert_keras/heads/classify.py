"""Classification and regression of texts and pairs of texts."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="classify",
    model="bert_keras.modeling.classification:BertClassifier",
    task="bert_keras.tasks.text_classification:TextClassification",
    is_finetuned=True,
    training_reader="bert_keras.tasks.examples.text_data:read_to_classify",
    scoring_reader="bert_keras.tasks.examples.text_data:read_texts_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_classes",
    huggingface="ForSequenceClassification",
    pipeline_tag="text-classification",
    peft="SEQ_CLS",
    outputs=("logits",),
    graph="bert_keras.export.saved_model.answers.classes:build_classifier",
    comparison="bert_keras.export.parity.expected_answers:compare_classes",
    endpoint="bert_keras.serving.protocols.tasks:CLASSES",
    served_as="scores",
    options=(
        "problem",
        "class_weights",
        "window_overlap",
        "text_column",
        "second_text_column",
        "label_column",
        "columns",
        "delimiter",
        "separator",
    ),
    labels=((None, "", "int32"),),  # multiple labels or numbers: see `Workload`
    has_num_classes=True,
    has_problem=True,
    google="output_weights",
    keras_hub="BertTextClassifier",
    keras_hub_lacks={"problem": str, "labels": list[str], "dropout_rate": float},
    widget=({"text": "The weather was a pleasant surprise."},),
    snippets="bert_keras.checkpoints.huggingface.card_snippets:show_classification",
    plan_name="classification",
    has="a classification head",
    use="It assigns labels or a number to a text or a pair of texts.",
)

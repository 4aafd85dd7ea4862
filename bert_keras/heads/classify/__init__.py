"""Classification and regression of texts and pairs of texts.

The record of the head is in this file; start with `task.py`.
"""

from bert_keras.heads.head import Head

HEAD = Head(
    name="classify",
    model="bert_keras.heads.classify.model:BertClassifier",
    task="bert_keras.heads.classify.task:TextClassification",
    is_finetuned=True,
    training_reader="bert_keras.heads.classify.examples:read_to_classify",
    scoring_reader="bert_keras.heads.classify.examples:read_texts_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_classes",
    huggingface="ForSequenceClassification",
    pipeline_tag="text-classification",
    peft="SEQ_CLS",
    outputs=("logits",),
    graph="bert_keras.heads.classify.graph:build_classifier",
    endpoint="bert_keras.serving.protocols.tasks:CLASSES",
    served_as="scores",
    comparison="bert_keras.export.parity.expected_answers:expect_classes",
    file_outputs="bert_keras.export.tflite.output_conversion:ClassOutputs",
    readme="tflite/classes.md",
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
    javascript="text-classification",
    takes_pairs=True,
    has_num_classes=True,
    has_problem=True,
    google="output_weights",
    keras_hub="BertTextClassifier",
    keras_hub_lacks={"problem": str, "labels": list[str], "dropout_rate": float},
    snippets="bert_keras.checkpoints.huggingface.model_card:show_classification",
    plan_name="classification",
    has="a classification head",
    use="It assigns labels or a number to a text or a pair of texts.",
)

"""Classification and regression of texts and pairs of texts."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="classify",
    model="bert_keras.modeling.classification:BertClassifier",
    task="bert_keras.tasks.text_classification:TextClassification",
    is_finetuned=True,
    training_reader="bert_keras.tasks.examples.training_data:read_to_classify",
    scoring_reader="bert_keras.tasks.examples.scoring_data:read_texts_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_classes",
    huggingface="ForSequenceClassification",
    pipeline_tag="text-classification",
    peft="SEQ_CLS",
    outputs=("logits",),
    graph="bert_keras.export.saved_model.answers.classes:build_classifier",
    comparison="bert_keras.export.parity.expected_answers:expect_classes",
    file_outputs="bert_keras.export.tflite.output_conversion:ClassOutputs",
    readme="bert_keras.export.client_bundle.task_texts:describe_classes",
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
    javascript="text-classification",
    takes_pairs=True,
    has_num_classes=True,
    plan_name="classification",
    has="a classification head",
    use="It assigns labels or a number to a text or a pair of texts.",
)

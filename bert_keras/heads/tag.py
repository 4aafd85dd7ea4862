"""A tag for each word of a text, such as entities or parts of speech."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="tag",
    model="bert_keras.modeling.classification:BertTokenClassifier",
    task="bert_keras.tasks.token_classification:TokenClassification",
    is_finetuned=True,
    training_reader="bert_keras.tasks.examples.training_data:read_to_tag",
    scoring_reader="bert_keras.tasks.examples.scoring_data:read_words_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_tags",
    huggingface="ForTokenClassification",
    pipeline_tag="token-classification",
    peft="TOKEN_CLS",
    outputs=("logits",),
    graph="bert_keras.export.saved_model.answers.tags:build_tagger",
    comparison="bert_keras.export.parity.expected_answers:expect_tags",
    readme="bert_keras.export.client_bundle.task_texts:describe_tags",
    options=("labelled_tokens", "window_overlap", "word_column", "tag_column"),
    javascript="token-classification",
    has_num_classes=True,
    reads_windows=True,
    ignores_pooler=True,
    plan_name="tagging",
    has="a token-classification head",
    use="It assigns a tag to each word of a text.",
)

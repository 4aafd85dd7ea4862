"""A tag for each word of a text, such as entities or parts of speech."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="tag",
    model="bert_keras.modeling.classification:BertTokenClassifier",
    task="bert_keras.tasks.token_classification:TokenClassification",
    is_finetuned=True,
    training_reader="bert_keras.tasks.examples.word_data:read_to_tag",
    scoring_reader="bert_keras.tasks.examples.word_data:read_words_to_score",
    prediction_reader="bert_keras.tasks.examples.word_data:WordReader",
    description="bert_keras.analysis.inspection.head_outputs:describe_tags",
    huggingface="ForTokenClassification",
    pipeline_tag="token-classification",
    peft="TOKEN_CLS",
    outputs=("logits",),
    graph="bert_keras.export.saved_model.answers.tags:build_tagger",
    comparison="bert_keras.export.parity.expected_answers:compare_tags",
    endpoint="bert_keras.serving.protocols.tasks:TAGS",
    options=("labelled_tokens", "window_overlap", "word_column", "tag_column"),
    labels=((None, "S", "int32"),),
    file_endings=(".conll", ".conllu", ".iob", ".bio"),
    has_num_classes=True,
    widget=({"text": "Ada Lovelace was born in London."},),
    snippets="bert_keras.checkpoints.huggingface.card_snippets:show_tagging",
    has_word_lists=True,
    reads_windows=True,
    ignores_pooler=True,
    plan_name="tagging",
    has="a token-classification head",
    use="It assigns a tag to each word of a text.",
)

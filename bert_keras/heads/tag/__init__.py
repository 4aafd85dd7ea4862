"""A tag for each word of a text, such as entities or parts of speech.

The record of the head is in this file; start with `task.py`.
"""

from bert_keras.heads.head import Head

HEAD = Head(
    name="tag",
    model="bert_keras.heads.tag.model:BertTokenClassifier",
    task="bert_keras.heads.tag.task:TokenClassification",
    is_finetuned=True,
    training_reader="bert_keras.heads.tag.examples:read_to_tag",
    scoring_reader="bert_keras.heads.tag.examples:read_words_to_score",
    prediction_reader="bert_keras.heads.tag.examples:WordReader",
    description="bert_keras.analysis.inspection.head_outputs:describe_tags",
    huggingface="ForTokenClassification",
    pipeline_tag="token-classification",
    peft="TOKEN_CLS",
    outputs=("logits",),
    graph="bert_keras.heads.tag.graph:build_tagger",
    endpoint="bert_keras.serving.protocols.tasks:TAGS",
    labels=((None, "S", "int32"),),
    file_endings=(".conll", ".conllu", ".iob", ".bio"),
    comparison="bert_keras.export.parity.expected_answers:expect_tags",
    readme="tflite/tags.md",
    options=("labelled_tokens", "window_overlap", "word_column", "tag_column"),
    javascript="token-classification",
    has_num_classes=True,
    widget=({"text": "Ada Lovelace was born in London."},),
    snippets="bert_keras.checkpoints.huggingface.model_card:show_tagging",
    has_word_lists=True,
    reads_windows=True,
    ignores_pooler=True,
    plan_name="tagging",
    has="a token-classification head",
    use="It assigns a tag to each word of a text.",
)

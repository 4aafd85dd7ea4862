"""Answers to questions, extracted from a context.

The record of the head is in this file; start with `task.py`.
"""

from bert_keras.heads.head import Head

HEAD = Head(
    name="answer",
    model="bert_keras.heads.answer.model:BertQuestionAnswerer",
    task="bert_keras.heads.answer.task:QuestionAnswering",
    is_finetuned=True,
    training_reader="bert_keras.heads.answer.examples:read_to_answer",
    scoring_reader="bert_keras.heads.answer.examples:read_questions_to_score",
    prediction_reader="bert_keras.heads.answer.examples:QuestionReader",
    description="bert_keras.analysis.inspection.head_outputs:describe_answers",
    huggingface="ForQuestionAnswering",
    pipeline_tag="question-answering",
    peft="QUESTION_ANS",
    outputs=("start_logits", "end_logits"),
    graph="bert_keras.heads.answer.graph:build_question_answerer",
    endpoint="bert_keras.serving.protocols.tasks:SPANS",
    reads_json=True,
    labels=(("start_positions", "", "int32"), ("end_positions", "", "int32")),
    comparison="bert_keras.export.parity.expected_answers:expect_spans",
    readme="tflite/spans.md",
    options=("max_answer_length", "window_overlap"),
    example=("Where was she born?", "Ada Lovelace was born in London."),
    inputs=("question", "context"),
    reads_windows=True,
    google="cls/squad/output_weights",
    widget=({"text": "Where was she born?", "context": "Ada Lovelace was born in London."},),
    snippets="bert_keras.checkpoints.huggingface.model_card:show_answering",
    ignores_pooler=True,
    plan_name="answers",
    has="a question-answering head",
    use="It finds the answer to a question in a text; it cannot answer without the text.",
)

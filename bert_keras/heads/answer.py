"""Answers to questions, extracted from a context."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="answer",
    model="bert_keras.modeling.question_answering:BertQuestionAnswerer",
    task="bert_keras.tasks.answer_extraction:QuestionAnswering",
    is_finetuned=True,
    training_reader="bert_keras.tasks.examples.training_data:read_to_answer",
    scoring_reader="bert_keras.tasks.examples.scoring_data:read_questions_to_score",
    description="bert_keras.analysis.inspection.head_outputs:describe_answers",
    huggingface="ForQuestionAnswering",
    pipeline_tag="question-answering",
    peft="QUESTION_ANS",
    outputs=("start_logits", "end_logits"),
    graph="bert_keras.export.saved_model.answers.spans:build_question_answerer",
    comparison="bert_keras.export.parity.expected_answers:expect_spans",
    readme="bert_keras.export.client_bundle.task_texts:describe_spans",
    options=("max_answer_length", "window_overlap"),
    example=("Where was she born?", "Ada Lovelace was born in London."),
    inputs=("question", "context"),
    reads_windows=True,
    ignores_pooler=True,
    plan_name="answers",
    has="a question-answering head",
    use="It finds the answer to a question in a text; it cannot answer without the text.",
)

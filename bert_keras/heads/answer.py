"""Answers to questions, extracted from a context."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="answer",
    model="bert_keras.modeling.question_answering:BertQuestionAnswerer",
    task="bert_keras.tasks.answer_extraction:QuestionAnswering",
    is_finetuned=True,
    huggingface="ForQuestionAnswering",
    pipeline_tag="question-answering",
    peft="QUESTION_ANS",
    outputs=("start_logits", "end_logits"),
    reads_windows=True,
    ignores_pooler=True,
    plan_name="answers",
    has="a question-answering head",
    use="It finds the answer to a question in a text; it cannot answer without the text.",
)

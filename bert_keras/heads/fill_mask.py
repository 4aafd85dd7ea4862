"""The masked-LM head: the most probable tokens at each [MASK] of a text."""

from bert_keras.heads.head import Head

HEAD = Head(
    name="fill-mask",
    model="bert_keras.modeling.masked_lm:BertMaskedLM",
    task="bert_keras.tasks.mask_filling_task:MaskFilling",
    huggingface="ForMaskedLM",
    pipeline_tag="fill-mask",
    outputs=("logits",),
    graph="bert_keras.export.saved_model.answers.fillings:build_mask_filler",
    comparison="bert_keras.export.parity.expected_answers:expect_fillings",
    example=("Paris is the [MASK] of France.",),
    javascript="fill-mask",
    fills_masks=True,
    ignores_pooler=True,
    plan_name="masked_lm",
    has="a masked-LM head",
    use="It predicts masked tokens, and is made to be fine-tuned for a task.",
)

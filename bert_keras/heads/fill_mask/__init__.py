"""The masked-LM head: the most probable tokens at each [MASK] of a text.

The record of the head is in this file; start with `task.py`.
"""

from bert_keras.heads.head import Head, Objective

MASKED_LM = ("masked-LM head", "mlm_head.")

HEAD = Head(
    name="fill-mask",
    model="bert_keras.heads.fill_mask.model:BertMaskedLM",
    task="bert_keras.heads.fill_mask.task:MaskFilling",
    huggingface="ForMaskedLM",
    pipeline_tag="fill-mask",
    outputs=("logits",),
    graph="bert_keras.heads.fill_mask.graph:build_mask_filler",
    endpoint="bert_keras.serving.protocols.tasks:FILLINGS",
    labels=(("mask_ids", "M", "int32"), ("mask_weights", "M", "float32")),
    comparison="bert_keras.export.parity.expected_answers:expect_fillings",
    example=("Paris is the [MASK] of France.",),
    javascript="fill-mask",
    ignores_pooler=True,
    google="cls/predictions/output_bias",
    snippets="bert_keras.checkpoints.huggingface.model_card:show_masks",
    objective=Objective(name="mlm", parts=(MASKED_LM,)),
    plan_name="masked_lm",
    has="a masked-LM head",
    use="It predicts masked tokens, and is made to be fine-tuned for a task.",
)

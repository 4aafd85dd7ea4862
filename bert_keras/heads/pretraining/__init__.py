"""The heads that are used for pretraining alone: masked tokens with next sentences, and replaced tokens.

The records of the heads are in this file; start with `electra.py`.
"""

from bert_keras.heads.fill_mask import MASKED_LM
from bert_keras.heads.head import Head, Objective

_MASKED = (("mask_ids", "M", "int32"), ("mask_weights", "M", "float32"))

NEXT_SENTENCE = Head(
    name="pretrain",
    model="bert_keras.heads.fill_mask.model:BertPretrainer",
    huggingface="ForPreTraining",
    pipeline_tag="fill-mask",
    description="bert_keras.analysis.inspection.head_outputs:describe_next_sentence",
    graph="bert_keras.heads.fill_mask.graph:build_mask_filler",
    labels=(*_MASKED, ("next_sentence_labels", "", "int32")),
    objective=Objective(
        name="bert",
        parts=(MASKED_LM, ("pooler", "encoder.pooler."), ("next-sentence head", "next_sentence.")),
        reads_pairs=True,
    ),
    comparison="bert_keras.export.parity.expected_answers:expect_fillings",
    example=("Paris is the [MASK] of France.",),
    plan_name="pretraining",
    google="cls/seq_relationship/output_weights",
    snippets="bert_keras.checkpoints.huggingface.model_card:show_masks",
    has="a masked-LM head and a next-sentence head",
    use="It predicts masked tokens and next sentences, and is made to be fine-tuned for a task.",
)

REPLACED_TOKENS = Head(
    name="detect replaced tokens",
    model="bert_keras.heads.pretraining.electra:ElectraPretrainer",
    pipeline_tag="feature-extraction",
    description="bert_keras.analysis.inspection.head_outputs:describe_replaced_tokens",
    labels=_MASKED,
    ignores_pooler=True,
    snippets="bert_keras.checkpoints.huggingface.model_card:show_encoding",
    objective=Objective(
        name="electra", parts=(("replaced-token head", "replaced."),), has_generator=True, model_type="electra"
    ),
    has="ELECTRA's head for replaced tokens and no generator",
    use="It detects replaced tokens, and is made to be fine-tuned for a task.",
)

"""The heads that are used for pretraining alone: masked tokens with next sentences, and replaced tokens."""

from bert_keras.heads.head import Head

NEXT_SENTENCE = Head(
    name="pretrain",
    model="bert_keras.modeling.masked_lm:BertPretrainer",
    huggingface="ForPreTraining",
    pipeline_tag="fill-mask",
    graph="bert_keras.export.saved_model.answers.fillings:build_mask_filler",
    comparison="bert_keras.export.parity.expected_answers:expect_fillings",
    example=("Paris is the [MASK] of France.",),
    fills_masks=True,
    plan_name="pretraining",
    has="a masked-LM head and a next-sentence head",
    use="It predicts masked tokens and next sentences, and is made to be fine-tuned for a task.",
)

REPLACED_TOKENS = Head(
    name="detect replaced tokens",
    model="bert_keras.modeling.electra:ElectraPretrainer",
    pipeline_tag="feature-extraction",
    ignores_pooler=True,
    has="ELECTRA's head for replaced tokens and no generator",
    use="It detects replaced tokens, and is made to be fine-tuned for a task.",
)

"""The heads that are used for pretraining alone: masked tokens with next sentences, and replaced tokens."""

from bert_keras.heads.fill_mask import MASKED_LM
from bert_keras.heads.head import Head, Objective

NEXT_SENTENCE = Head(
    name="pretrain",
    model="bert_keras.modeling.masked_lm:BertPretrainer",
    huggingface="ForPreTraining",
    pipeline_tag="fill-mask",
    graph="bert_keras.export.saved_model.answers.fillings:build_mask_filler",
    objective=Objective(
        name="bert",
        parts=(MASKED_LM, ("pooler", "encoder.pooler."), ("next-sentence head", "next_sentence.")),
        reads_pairs=True,
    ),
    plan_name="pretraining",
    has="a masked-LM head and a next-sentence head",
    use="It predicts masked tokens and next sentences, and is made to be fine-tuned for a task.",
)

REPLACED_TOKENS = Head(
    name="detect replaced tokens",
    model="bert_keras.modeling.electra:ElectraPretrainer",
    pipeline_tag="feature-extraction",
    ignores_pooler=True,
    objective=Objective(name="electra", parts=(("replaced-token head", "replaced."),), has_generator=True),
    has="ELECTRA's head for replaced tokens and no generator",
    use="It detects replaced tokens, and is made to be fine-tuned for a task.",
)

"""Our classes are registered with Keras, whichever module is imported first."""

import subprocess
import sys

import pytest

from tests.marks import slow

FIRST = ["bert_keras.architectures.losses"]
OTHERS = [
    *("bert_keras.heads.tag.model", "bert_keras.heads.models", "bert_keras.architectures.distillation"),
    *("bert_keras.training.optimizers.update_rules", "bert_keras.training.optimizers.schedules"),
    *("bert_keras.distribution", "keras", "tensorflow"),
]
NAMES = ("BertClassifier", "BertEncoder", "BertAdamW", "CosineError")


@pytest.mark.parametrize("first", [*FIRST, *slow(*OTHERS)])
def test_all_classes_are_registered_after_the_import_of(first):
    code = f"import bert_keras, {first}, keras; "
    code += f"print(all(keras.saving.get_registered_object('bert_keras>' + name) for name in {NAMES}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True"], done.stderr[-2000:]

"""Without dropout, fine-tuning matches transformers with PyTorch's optimizer step by step."""

import keras
import numpy as np
import pytest

import bert_keras as bk
from bert_keras.training import FineTuning, run_finetuning
from bert_keras.training.callbacks import choose_window_steps
from bert_keras.training.optimizers.schedules import WarmupDecay
from tests.training.finetune_tiny import TASKS

SETTINGS = FineTuning(
    num_epochs=5, batch_size=8, learning_rate=5e-3, weight_decay=0.1, warmup_ratio=0.2, keep_best=False
)
HEADS = {
    "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
}


class Course(keras.callbacks.Callback):
    """Save the initial model, and record the logs of each step: the mean loss over the current window."""

    def __init__(self, tokenizer, folder):
        super().__init__()
        self.losses = []
        self._save = lambda model: bk.save(model, tokenizer, folder)

    def on_train_begin(self, logs=None):
        if not self.losses:
            self._save(self.model)

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


@pytest.mark.slow  # optimizers/test_adamw_and_lamb.py compares with torch's optimizer, tests/checkpoints the models
@pytest.mark.parametrize("name", HEADS)
def test_every_step_matches_transformers(name, make_encoder, story_tokenizer, tmp_path):
    calm_encoder = make_encoder(hidden_dropout_rate=0.0, attention_dropout_rate=0.0)
    task, examples = TASKS[name]()
    ours = Course(story_tokenizer, tmp_path / "begun")
    run_finetuning(task, calm_encoder, examples, examples[::5], SETTINGS, callbacks=[ours])
    sequences = task.add_labels(task.encode(story_tokenizer, examples), examples)
    order = {"shuffle": True, "sort_by_length": False, "seed": SETTINGS.seed, "epochs": SETTINGS.num_epochs}
    batches = list(sequences.batches(SETTINGS.batch_size, **order).as_numpy_iterator())
    losses = steps_of_transformers(HEADS[name], tmp_path / "begun", batches)
    assert len(ours.losses) == len(batches) > 20
    assert ours.losses[-1] < 0.8 * ours.losses[0]
    # Adam scales every gradient to the learning rate, even one of rounding errors, so they add up; measured: 4.2e-4
    assert ours.losses == pytest.approx(means_so_far(losses, choose_window_steps(len(losses))), rel=1e-3)


def means_so_far(losses: list[float], window: int) -> list[float]:
    """Return for each step the mean of the losses from the first step of its window."""
    return [np.mean(losses[step - step % window : step + 1]) for step in range(len(losses))]


def steps_of_transformers(head: str, folder, batches: list) -> list[float]:
    """Train the transformers model as its Trainer does, and return the losses of the steps."""
    import torch
    import transformers

    model = getattr(transformers, head).from_pretrained(folder)
    groups = [
        {"params": [value], "weight_decay": 0.0 if "bias" in name or "LayerNorm" in name else SETTINGS.weight_decay}
        for name, value in model.named_parameters()
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, eps=1e-8)
    schedule = WarmupDecay("linear", SETTINGS.learning_rate, len(batches), int(SETTINGS.warmup_ratio * len(batches)))
    losses = []
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = float(schedule(step))
        given = as_transformers_reads(*batch)
        outputs = model.train()(**given)
        loss = loss_of_spans(given, outputs) if head == HEADS["answer"] else outputs.loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def loss_of_spans(given: dict, outputs):
    """Compute the outputs of transformers, but exclude padding from the answer positions."""
    import torch

    return sum(
        torch.nn.functional.cross_entropy(
            outputs[f"{end}_logits"].masked_fill(given["attention_mask"] == 0, -torch.inf), given[f"{end}_positions"]
        )
        for end in ("start", "end")
    ).div(2)


def as_transformers_reads(features: dict, labels, *_) -> dict:
    import torch

    names = {"token_ids": "input_ids", "padding_mask": "attention_mask", "segment_ids": "token_type_ids"}
    batch = {names[name]: values for name, values in features.items()}
    batch |= labels if isinstance(labels, dict) else {"labels": labels}
    return {name: torch.from_numpy(values.astype(np.int64)) for name, values in batch.items()}

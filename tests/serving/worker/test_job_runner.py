"""`JobRunner` with a model whose engine fails, waits or counts; the answers themselves are compared elsewhere."""

import dataclasses
import queue
import threading
import time

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.engines.engine import Engine
from bert_keras.errors import InputError
from bert_keras.serving.worker.job_runner import JobRunner
from bert_keras.serving.worker.jobs import ANSWERS, EXPIRED, FAILED, IDS, INVALID, OK, TOO_LONG, Job

POISON = "red"  # the engine fails on batches with this word
SECONDS = 60


class FailingEngine(Engine):
    """Engine that waits for `may_run`, keeps its batches, and fails where a batch contains `POISON`."""

    shortest_share = 0.0

    def __init__(self, engine, poison_id):
        self._engine, self._poison_id = engine, poison_id
        self.may_run, self.batches = threading.Event(), []
        self.may_run.set()
        self.max_length = engine.max_length

    def run(self, features, *, once=False):
        self.may_run.wait(SECONDS)
        self.batches.append(features["token_ids"].shape)
        if (features["token_ids"] == self._poison_id).any():
            raise InputError("the model outputs NaN")
        return self._engine.run(features)


@pytest.fixture
def runner(artifacts):
    """A runner with its engine and the queue of its results."""
    predictor = bk.Predictor.from_artifact(artifacts["classifier"])
    poison_id = predictor.tokenizer.vocabulary.index(POISON)
    engine = predictor.engine = FailingEngine(predictor.engine, poison_id)
    results = queue.Queue()
    return JobRunner(predictor, lambda found: [results.put(one) for one in found]), engine, results


def make_job(number, texts, seconds=SECONDS, kind=ANSWERS, **options):
    return Job(number, kind, texts, options, time.monotonic() + seconds)


def collect(results, number):
    found = [results.get(timeout=SECONDS) for _ in range(number)]
    return {result.id: result for result in found}


def hold(runner, engine, results):
    """Let the engine wait with a job in it, so that others queue; return the number of that job."""
    engine.may_run.clear()
    runner.submit(make_job(0, ["dog"]))
    while not runner._running:
        time.sleep(0.01)
    time.sleep(0.1)
    return 0


def test_a_text_on_which_the_model_fails_fails_no_other_job(runner):
    runner, engine, results = runner
    hold(runner, engine, results)
    for number, text in enumerate(["the cat", f"a {POISON} hat", "a dog"], 1):
        runner.submit(make_job(number, [text]))
    time.sleep(0.2)
    engine.may_run.set()
    found = collect(results, 4)
    assert {number: result.status for number, result in found.items()} == {0: OK, 1: OK, 2: FAILED, 3: OK}
    assert found[2].value == "the model outputs NaN"
    assert max(rows for rows, _ in engine.batches) == 3, "the jobs must have shared a batch"


def test_an_answer_that_cannot_be_made_fails_no_other_job(artifacts):
    predictor = bk.Predictor.from_artifact(artifacts["classifier"])
    task, sizes, results = predictor.task, [], queue.Queue()

    class FailingTask(type(task)):
        def decode(self, sequences, outputs, examples):
            sizes.append(len(examples))
            if any(example.text == "a hat" for example in examples):
                raise ValueError("no answer")
            return super().decode(sequences, outputs, examples)

    predictor.task = FailingTask(**{field.name: getattr(task, field.name) for field in dataclasses.fields(task)})
    engine = predictor.engine = FailingEngine(predictor.engine, -1)
    runner = JobRunner(predictor, lambda found: [results.put(one) for one in found])
    hold(runner, engine, results)
    for number, text in enumerate(["the cat", "a hat", "a dog"], 1):
        runner.submit(make_job(number, [text], top=1))
    time.sleep(0.2)
    engine.may_run.set()
    found = collect(results, 4)
    assert {number: result.status for number, result in found.items()} == {0: OK, 1: OK, 2: FAILED, 3: OK}
    assert found[2].value == "the model failed (ValueError: no answer)"
    assert sizes == [1, 3, 1, 1, 1], "together, then one by one"
    assert found[1].value == predictor(["the cat"], top=1)


def test_wrong_jobs_are_told_apart_from_failures(runner):
    runner, _, results = runner
    runner.submit(make_job(1, [("a", "b", "c")]))
    runner.submit(make_job(2, ["the cat " * 20], truncate=False))
    runner.submit(make_job(3, ["the cat"], top="many"))
    ids = np.array([[1]], np.int32)
    runner.submit(make_job(4, {"input_ids": ids, "attention_mask": ids, "no_such_input": ids}, kind=IDS))
    statuses = {number: result.status for number, result in collect(results, 4).items()}
    assert statuses == {1: INVALID, 2: TOO_LONG, 3: INVALID, 4: FAILED}
    runner.submit(make_job(5, ["dog"]))
    assert collect(results, 1)[5].status == OK, "the runner must go on"


def test_cancelled_and_expired_jobs_are_not_computed(runner):
    runner, engine, results = runner
    hold(runner, engine, results)
    runner.submit(make_job(1, ["the cat"] * 5))
    runner.submit(make_job(2, ["a mat"], seconds=0.05))
    time.sleep(0.2)
    runner.cancel(1)
    engine.may_run.set()
    found = collect(results, 2)
    assert {number: result.status for number, result in found.items()} == {0: OK, 2: EXPIRED}
    assert len(engine.batches) == 1
    with pytest.raises(queue.Empty):
        results.get(timeout=0.2)


def test_timings_add_up(runner):
    runner, _, results = runner
    runner.submit(make_job(1, ["the cat sat", "dog"]))
    timings = collect(results, 1)[1].timings
    assert timings.num_tokens == 5 + 3
    assert timings.batch_tokens >= timings.num_tokens
    assert 0 < timings.compute <= timings.inference

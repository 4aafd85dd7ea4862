"""The printed table of parity reports."""

from bert_keras.cli.console.parity_table import format_parity_table, format_scores, format_trimmed_vocabulary

EQUAL = {
    "passed": True,
    "measure": "max",
    "outputs": {"ids/logits": {"max": 1.5e-7, "mean_relative": 9.0}, "logits": {"max": 2.4e-6, "mean_relative": 0.0}},
    "labels": {"ids/logits": {"compared": 1000, "differ": 0}, "label": {"compared": 300, "differ": 0}},
    "num_inputs": 1300,
    "bytes": 90_400_000,
    "load_s": 0.52,
    "latency_ms": 12.34,
}
OTHER = {
    **EQUAL,
    "passed": False,
    "measure": "mean_relative",
    "outputs": {"logits": {"max": 3.0, "mean_relative": 0.25}},
    "labels": {},
}


def test_each_artifact_has_one_line_with_aligned_columns():
    header, first, second = format_parity_table({"saved_model/12": EQUAL, "tflite/m": OTHER}).split("\n")
    assert header.split() == "artifact parity inputs difference different labels size load time latency".split()
    assert first.split() == "saved_model/12 equal 1,300 2.4e-06 (max) 0 of 1,300 90.4 MB 0.5 s 12.3 ms".split()
    assert second.split() == ("tflite/m DIFFERS 1,300 2.5e-01 (mean, relative) no labels 90.4 MB 0.5 s 12.3 ms".split())
    assert len({line.index(end) + len(end) for line, end in ((header, "latency"), (first, "ms"), (second, "ms"))}) == 1


def test_scores_list_rejected_candidates_and_the_loss_with_mediapipe():
    tried = [
        {"quantization": "dynamic_int8", "bytes": 23_000_000, "score": 88.0, "drop": 3.25},
        {"quantization": "float16", "bytes": 45_000_000, "score": 91.5, "drop": -0.25, "passed": True},
        {"quantization": "static", "bytes": 23_000_000, "score": 91.0, "drop": 0.25, "passed": False},
    ]
    scores = {"score": "accuracy", "checkpoint": 91.25, "file": 91.5, "with_mediapipe_tokenizer": 90.0, "tried": tried}
    assert format_scores({"saved_model/1": EQUAL, "model.tflite": {**EQUAL, "scores": scores}}) == [
        "model.tflite: accuracy 91.50, checkpoint 91.25",
        "  tried dynamic_int8, 23.0 MB: 88.00, +3.25 points lost",
        "  tried float16, 45.0 MB: 91.50, -0.25 points lost",
        "  tried static, 23.0 MB: 91.00, +0.25 points lost, differs too much on random ids",
        "  warning: with MediaPipe's tokenizer, which splits text differently, the score is 90.00 (-1.50 points): "
        "fine-tune with MediaPipe's tokenization rules",
    ]


def test_equal_mediapipe_score_causes_no_warning():
    scores = {"score": "accuracy", "checkpoint": 91.25, "file": 91.25}
    assert len(format_scores({"a": {**EQUAL, "scores": scores}})) == 1
    assert len(format_scores({"a": {**EQUAL, "scores": {**scores, "with_mediapipe_tokenizer": 91.25}}})) == 1


def test_a_trimmed_vocabulary_has_one_line_for_all_artifacts():
    trimmed = {"num_tokens_before": 30522, "num_tokens_after": 6400, "num_texts": 1, "removed_parameters": 0.4081}
    line = "vocabulary: 6,400 of 30,522 tokens kept for 1 text, 40.8% of the parameters removed"
    reports = {name: {**EQUAL, "trimmed_vocabulary": trimmed} for name in ("a", "b")}
    assert format_trimmed_vocabulary(reports) == [line]
    trimmed |= {"num_examples": 3080, "num_changed_examples": 12}
    assert format_trimmed_vocabulary(reports) == [f"{line}; 12 of 3,080 labelled examples have other tokens"]
    assert format_trimmed_vocabulary({"a": EQUAL}) == []

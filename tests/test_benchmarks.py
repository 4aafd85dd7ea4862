"""The benchmarks use names that exist; most of them take too long to run in tests."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn.neighbors

from benchmarks import accelerator, inference
from benchmarks.finetuning import ROWS
from benchmarks.inference_artifacts import read_column
from benchmarks.inference_peers import encode_sorted
from benchmarks.pretraining_step import make_transformers_config
from benchmarks.result_lines import read_results, run_and_append


def test_a_row_of_the_finetuning_benchmark_starts_with_its_predecessors():
    assert ROWS["squad2"].with_predecessors() == [ROWS["squad"], ROWS["squad2"]]
    assert ROWS["sst2"].with_predecessors() == [ROWS["sst2"]]


def test_equal_neighbours_are_those_of_scikit_learn():
    vectors = np.random.default_rng(0).normal(size=(60, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    _, expected = sklearn.neighbors.NearestNeighbors(n_neighbors=2).fit(vectors).kneighbors(vectors)
    np.testing.assert_array_equal(inference.find_neighbours(vectors), expected[:, 1])
    changed = vectors.copy()
    changed[:30] = changed[30:]  # each of these has its copy as nearest vector, and the copies each other
    assert inference.compare_neighbours(vectors, vectors) == 1
    assert inference.compare_neighbours(changed, vectors) < 0.2


def test_sorted_texts_get_vectors_in_their_order():
    texts = ["four", "a", "three", "sixsix", "to"]
    vectors = encode_sorted(texts, lambda batch: np.array([[len(text)] for text in batch]), batch_size=2)
    assert vectors[:, 0].tolist() == [4, 1, 5, 6, 2]


def test_a_process_that_fails_gives_the_last_line_of_its_error():
    seconds, peak, error = inference.run_process([sys.executable, "-c", "raise ValueError('no model')"])
    assert error == "ValueError: no model"
    assert seconds > 0
    assert peak > 1e6  # bytes
    assert inference.run_process([sys.executable, "-c", "pass"])[2] == ""


def test_sides_follow_the_files_of_a_folder(tmp_path):
    folder = tmp_path / "artifacts" / "onnx" / "onnx"
    folder.mkdir(parents=True)
    for name in ("model.onnx", "model_int8.xml", "model_int8.bin"):
        (folder / name).touch()
    ids = inference.list_sides("ids", tmp_path)
    assert ids[:2] == ["onnxruntime model.onnx", "saved_model"]
    assert "openvino model_int8.xml f32" in ids
    assert not [side for side in ids if "onnxruntime model_int8.xml" in side or ".bin" in side]
    assert inference.choose(ids, ["bf16"]) == ["onnxruntime model.onnx", "openvino model.onnx bf16"]


def test_the_last_line_of_each_run_is_appended_and_a_failed_run_leaves_the_file(tmp_path):
    script, results = tmp_path / "script.py", tmp_path / "results.jsonl"
    assert read_results(results) == []
    script.write_text("import sys; print('log'); print('{\"seed\": %d}' % (6 / int(sys.argv[1])))")
    assert run_and_append(str(script), [3], results) == {"seed": 2}
    with pytest.raises(subprocess.CalledProcessError):
        run_and_append(str(script), [0], results)
    run_and_append(str(script), [2], results)
    assert read_results(results) == [{"seed": 2}, {"seed": 3}]


def test_tables_are_read_with_their_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"one, two",x\n')
    (tmp_path / "a.tsv").write_text('text\tlabel\nsay "one\t1\n')
    assert read_column(tmp_path / "a.csv") == ["one, two"]
    assert read_column(tmp_path / "a.tsv", delimiter="\t") == ['say "one']


@pytest.mark.slow
def test_operations_are_those_that_pytorch_counts():
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    model = transformers.BertModel(make_transformers_config("tiny"), add_pooling_layer=False)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=torch.ones((3, 40), dtype=torch.long))
    assert accelerator.count_flops("inference", "3x40", "tiny") == counter.get_total_flops()


@pytest.mark.slow
@pytest.mark.parametrize("part", accelerator.PARTS)
def test_the_benchmark_of_accelerators_runs_on_a_cpu(part):
    command = [sys.executable, accelerator.__file__, "--preset", "tiny", "--shapes", "2x16", "--rounds", "1"]
    command += ["--precision", "float32", "--parts", part, "--sides", "jax", "tensorflow", "torch"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith(("| jax", "| tensorflow", "| torch"))]
    assert len(rows) == 3, printed
    assert rows[0][2] == "1.00 x"
    assert all(float(row[1].replace(",", "")) > 0 for row in rows)

"""Metrics import no deep learning library, and import slow libraries only when they are called."""

import subprocess
import sys

MODULES = "classes confusion_figure regression squad tag_schemes".split()


def list_loaded_modules(code: str) -> set[str]:
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_metrics_loads_no_slow_library():
    loaded = list_loaded_modules("\n".join(f"import bert_keras.metrics.{module}" for module in MODULES))
    assert {f"bert_keras.metrics.{module}" for module in MODULES} <= loaded
    assert not {"tensorflow", "keras", "torch", "jax", "sklearn", "scipy", "matplotlib"} & loaded


def test_figure_is_drawn_without_pyplot():
    loaded = list_loaded_modules(
        "from bert_keras.metrics.confusion_figure import render_confusion_matrix\n"
        "render_confusion_matrix([[1, 0], [0, 1]], ['a', 'b'])"
    )
    assert "matplotlib.figure" in loaded
    assert "matplotlib.pyplot" not in loaded

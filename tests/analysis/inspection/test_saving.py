"""The folder of an inspection is written completely or not at all, with or without figures."""

import sys

import numpy as np
import pytest
from matplotlib import image

from bert_keras.analysis.inspection.inspection_figures import draw_attention
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.figures import FigureSection, create_figure, render_figure
from bert_keras.staging import LISTING
from tests.marks import slow

TEXT = "The cats sat on a mat."
FIGURES = ("attention", "heads", "scores", "similarity", "positions", "activations", "parameters", "memory")


def test_a_folder_has_the_page_the_numbers_and_each_figure_as_png_and_svg(inspect_tiny, tmp_path, fake_figures):
    section = FigureSection("mine", "Mine", "", create_figure())
    names = inspect_tiny("classifier", TEXT).save(tmp_path / "out", sections=[section])
    figures = (*FIGURES, "mine")
    expected = ["index.html", "inspection.json", *(f"{name}.{ending}" for name in figures for ending in ("png", "svg"))]
    assert names == expected
    assert sorted(path.name for path in tmp_path.glob("out/*")) == [LISTING, *sorted(names)]
    for name in figures:
        for ending in ("png", "svg"):
            assert (tmp_path / "out" / f"{name}.{ending}").read_text() == ending
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert '<section id="parameters">' in page
    assert '<section id="memory">' in page
    assert '<section id="mine">' in page


@pytest.mark.slow
def test_each_figure_is_a_large_png_and_an_svg_with_paths(inspect_tiny, tmp_path):
    names = inspect_tiny("classifier", TEXT).save(tmp_path / "out")
    expected = ["index.html", "inspection.json", *(f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg"))]
    assert names == expected
    assert sorted(path.name for path in tmp_path.glob("out/*")) == [LISTING, *sorted(names)]
    for name in FIGURES:
        height, width, _ = image.imread(tmp_path / "out" / f"{name}.png").shape
        assert min(height, width) > 200
        svg = (tmp_path / "out" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.count("<path") > 10
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert '<section id="parameters">' in page
    assert '<section id="memory">' in page


@pytest.mark.parametrize(
    ("layer", "head", "num_maps", "name"),
    [
        *slow(
            (None, None, 15, "attention.png"),
            (1, None, 5, "attention_layer_1.png"),
            (None, 4, 3, "attention_head_4.png"),
        ),
        (2, 0, 1, "attention_layer_2_head_0.png"),
    ],
)
def test_layer_and_head_select_the_maps_in_the_figure_of_attention(
    inspect_tiny, tmp_path, fake_figures, layer, head, num_maps, name
):
    inspection = inspect_tiny("encoder", TEXT, layer=layer, head=head)
    maps = [axes for axes in draw_attention(inspection).axes if axes.get_images() and axes.get_label() != "<colorbar>"]
    assert len(maps) == num_maps
    [image_of_map] = maps[0].get_images()
    assert image_of_map.get_clim()[0] == 0, "white must be attention 0"
    expected = inspection.attention[layer or 0, head or 0]
    np.testing.assert_allclose(image_of_map.get_array(), expected if num_maps == 1 else expected**0.5, rtol=1e-6)
    assert name in inspection.save(tmp_path / "out")


def test_both_axes_are_labelled_with_tokens(inspect_tiny):
    [axes, _] = draw_attention(inspect_tiny("encoder", "the $ cat $", layer=0, head=0)).axes
    expected = "[CLS] the $ cat $ [SEP]".split()
    assert [label.get_text() for label in axes.get_xticklabels()] == expected
    assert [label.get_text() for label in axes.get_yticklabels()] == expected


def test_figures_are_reproducible(inspect_tiny):
    inspection = inspect_tiny("encoder", TEXT, layer=0, head=0)
    for ending in ("png", "svg"):
        assert render_figure(draw_attention(inspection), ending) == render_figure(draw_attention(inspection), ending)


def test_without_matplotlib_nothing_is_written(inspect_tiny, tmp_path, monkeypatch):
    inspection = inspect_tiny("encoder", TEXT)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"'matplotlib', which is not .* pip install 'bert-keras\[plots\]'"):
        inspection.save(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    assert inspection.save(tmp_path / "out", pictures=False) == ["index.html", "inspection.json"]


def test_a_failure_leaves_no_folder(inspect_tiny, tmp_path, monkeypatch, fake_figures):
    monkeypatch.setattr("bert_keras.analysis.inspection.inspection_figures.draw_scores", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        inspect_tiny("encoder", TEXT).save(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_replaced_only_with_overwrite(inspect_tiny, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not empty"):
        inspect_tiny("encoder", TEXT).save(tmp_path, pictures=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    inspect_tiny("encoder", TEXT).save(tmp_path / "out", pictures=False)
    before = (tmp_path / "out/index.html").stat().st_ino
    inspect_tiny("encoder", TEXT).save(tmp_path / "out", pictures=False, overwrite=True)
    assert (tmp_path / "out/index.html").stat().st_ino != before

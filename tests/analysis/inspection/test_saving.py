"""The folder of an inspection: whole or not at all, with its pictures or without."""

import sys

import numpy as np
import pytest
from matplotlib import image

from bert_keras.analysis.inspection.inspection_figures import attention_figure
from bert_keras.errors import InputError, MissingExtraError
from bert_keras.figures import FigureSection, create_figure, render_figure
from bert_keras.staging import LISTING

TEXT = "The cats sat on a mat."
PICTURES = ("attention", "heads", "scores", "similarity", "positions", "activations", "parameters", "memory")


def test_a_folder_has_the_page_the_numbers_and_each_picture_twice(see, tmp_path):
    names = see("classifier", TEXT).save(tmp_path / "out")
    expected = ["index.html", "inspection.json", *(f"{one}.{kind}" for one in PICTURES for kind in ("png", "svg"))]
    assert names == expected
    assert sorted(path.name for path in tmp_path.glob("out/*")) == [LISTING, *sorted(names)]
    for name in PICTURES:
        height, width, _ = image.imread(tmp_path / "out" / f"{name}.png").shape
        assert min(height, width) > 200
        svg = (tmp_path / "out" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.count("<path") > 10
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Where the parameters sit" in page
    assert "Memory by length" in page


def test_pictures_from_elsewhere_are_saved_too(see, tmp_path, fake_figures):
    section = FigureSection("mine", "Mine", "", create_figure())
    names = see("encoder", TEXT).save(tmp_path / "out", sections=[section])
    assert names[-2:] == ["mine.png", "mine.svg"]


@pytest.mark.parametrize(
    ("layer", "head", "num_maps", "name"),
    [
        (None, None, 15, "attention.png"),
        (1, None, 5, "attention_layer_1.png"),
        (None, 4, 3, "attention_head_4.png"),
        (2, 0, 1, "attention_layer_2_head_0.png"),
    ],
)
def test_layer_and_head_choose_what_the_picture_of_attention_shows(
    see, tmp_path, fake_figures, layer, head, num_maps, name
):
    seen = see("encoder", TEXT, layer=layer, head=head)
    maps = [axes for axes in attention_figure(seen).axes if axes.get_images() and axes.get_label() != "<colorbar>"]
    assert len(maps) == num_maps
    [map_of_one] = maps[0].get_images()
    assert map_of_one.get_clim()[0] == 0, "white is no attention at all"
    shown = map_of_one.get_array()
    expected = seen.attention[layer or 0, head or 0]
    np.testing.assert_allclose(shown, expected if num_maps == 1 else expected**0.5, rtol=1e-6)
    assert name in seen.save(tmp_path / "out")


def test_the_tokens_stand_at_both_axes(see):
    [axes, _] = attention_figure(see("encoder", "the $ cat $", layer=0, head=0)).axes
    expected = "[CLS] the $ cat $ [SEP]".split()
    assert [label.get_text() for label in axes.get_xticklabels()] == expected
    assert [label.get_text() for label in axes.get_yticklabels()] == expected


def test_a_picture_is_drawn_alike_twice(see):
    seen = see("encoder", TEXT, layer=0, head=0)
    for kind in ("png", "svg"):
        assert render_figure(attention_figure(seen), kind) == render_figure(attention_figure(seen), kind)


def test_a_missing_matplotlib_is_told_and_nothing_is_written(see, tmp_path, monkeypatch):
    seen = see("encoder", TEXT)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"'matplotlib', which is not .* pip install 'bert-keras\[plots\]'"):
        seen.save(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    assert seen.save(tmp_path / "out", pictures=False) == ["index.html", "inspection.json"]


def test_what_fails_leaves_no_half_of_a_folder(see, tmp_path, monkeypatch):
    monkeypatch.setattr("bert_keras.analysis.inspection.inspection_figures.scores_figure", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        see("encoder", TEXT).save(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_kept_unless_it_may_be_replaced(see, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not empty"):
        see("encoder", TEXT).save(tmp_path, pictures=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    see("encoder", TEXT).save(tmp_path / "out", pictures=False)
    before = (tmp_path / "out/index.html").stat().st_ino
    see("encoder", TEXT).save(tmp_path / "out", pictures=False, overwrite=True)
    assert (tmp_path / "out/index.html").stat().st_ino != before

"""Plots show the curves, repeat to the byte, and touch no global state."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from eval import Curves, plot_precision_recall

CURVE = Curves(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 0.25]), np.zeros(3))
SIGNATURE = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml"}


@pytest.fixture
def drawn(monkeypatch):
    """Collect the figures that are saved."""
    figures = []
    save = Figure.savefig

    def keep(figure, *arguments, **settings):
        figures.append(figure)
        return save(figure, *arguments, **settings)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def legend(figure):
    (axes,) = figure.axes
    return [text.get_text() for text in axes.get_legend().get_texts()]


def coloured(figure):
    """The lines of the curves: grey is for all else."""
    (axes,) = figure.axes
    return [line for line in axes.lines if line.get_color().startswith("#")]


def draw_all(path):
    plot_precision_recall({"one": CURVE, "other": CURVE}, path)
    first = path.read_bytes()
    plot_precision_recall({"one": CURVE}, path)
    return first, path.read_bytes()


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
@pytest.mark.slow
def test_equal_figures_give_equal_bytes(tmp_path, suffix):
    path = tmp_path / f"a plot{suffix}"
    once = draw_all(path)
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "other", "lines.linewidth": 9}):
        again = draw_all(path)
    assert once == again
    assert once[0] != once[1]
    assert all(content.startswith(SIGNATURE[suffix.lower()]) for content in once)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.slow
def test_settings_and_pyplot_are_left_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    draw_all(tmp_path / "plot.png")
    assert dict(matplotlib.rcParams) == before
    script = (
        "import sys, eval\nassert 'matplotlib' not in sys.modules\n"
        "eval.plot_precision_recall({}, sys.argv[1])\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "plot.png"], check=True)


def test_the_best_f1_of_a_curve_is_marked(tmp_path, drawn):
    plot_precision_recall({"a": CURVE, "none": Curves(*np.zeros((3, 2)))}, tmp_path / "plot.svg")
    (figure,) = drawn
    curve, dot, nothing = coloured(figure)
    assert np.transpose(curve.get_data()).tolist() == [[0.5, 1.0], [1.0, 0.25]]  # without recall, no point
    assert [float(*value) for value in dot.get_data()] == [0.5, 1.0]
    assert len(nothing.get_xdata()) == 0
    assert legend(figure) == ["a (F1 0.667)", "none"]


def test_names_are_text(tmp_path, drawn):
    names = ["$\\frac", "_hidden", "<script>&", "two\nlines", "\x1b[2J", "=cmd()"]
    for path in (tmp_path / "plot.svg", tmp_path / "plot.png"):
        plot_precision_recall(dict.fromkeys(names, CURVE), path)
    expected = ["$\\frac", "_hidden", "<script>&", "two lines", "\\x1b[2J", "=cmd()"]
    for figure in drawn:
        assert legend(figure) == [f"{name} (F1 0.667)" for name in expected]
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert not [element for element in root.iter() if element.tag.endswith("script")]

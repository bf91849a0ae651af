"""Plots of curves, as PNG or SVG; equal figures give equal bytes.

matplotlib is loaded when something is plotted; its interactive part, pyplot, is never loaded.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eval.arrays import FloatArray
from eval.table import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


Legend: TypeAlias = "list[tuple[Line2D, str]]"

FORMATS: dict[str, dict[str, Any]] = {".png": {"Software": "arbo"}, ".svg": {"Creator": "arbo", "Date": None}}
"""Formats of plots by suffix, and their metadata, which name the maker, but no date and version."""
# The colours of Okabe and Ito, which colour-blind readers can distinguish, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
_STYLE: dict[str, Any] = {
    "agg.path.chunksize": 20_000,  # a curve can have a million points
    "axes.axisbelow": True,
    "axes.edgecolor": "0.5",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11.0,
    "grid.color": "0.9",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "eval",  # otherwise ids are random
}


def plot_precision_recall(curves: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Plot precision against recall, with lines of equal F1, and mark the best F1 of each curve.

    ``curves`` maps names to curves, such as `ThresholdCurve` or `Curves`, with their points in the order of the
    thresholds. Points with recall 0 are left out, since their precision is 0 or 0/0. Lines between points only guide
    the eye. The file is `.png` or `.svg`. Raise ValueError for another suffix, ImportError if matplotlib is not
    installed, and OSError if the file cannot be written.
    """

    def draw(axes: Axes) -> Legend:
        for level in (0.2, 0.4, 0.6, 0.8):
            half = np.linspace(level, 1, 50)
            mirrored = level * half / (2 * half - level)  # 2 r p / (r + p) is the level, and symmetric
            axes.plot([*mirrored[::-1], *half], [*half[::-1], *mirrored], color="0.8", linewidth=0.8, zorder=0.5)
            axes.text(1.015, mirrored[-1], f"F1 {level}", color="0.5", fontsize=8, verticalalignment="center")
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1), box_aspect=1)
        return [_curve(axes, i, name, of.recall, of.precision) for i, (name, of) in enumerate(curves.items())]

    plot(draw, path)


def _curve(axes: Axes, i: int, name: str, recall: FloatArray, precision: FloatArray) -> tuple[Line2D, str]:
    shown = recall > 0
    recall, precision = recall[shown], precision[shown]
    color, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
    (line,) = axes.plot(recall, precision, clip_on=False, color=color, linestyle=dash)
    if not len(recall):
        return line, name
    f1 = 2 * recall * precision / (recall + precision)
    best = int(np.argmax(f1))
    axes.plot(recall[best], precision[best], "o", color=line.get_color(), markeredgecolor="white", clip_on=False)
    return line, f"{name} (F1 {f1[best]:.3f})"


def plot(draw: Callable[[Axes], Legend], path: str | os.PathLike[str]) -> None:
    """Plot the lines that ``draw`` draws, with a legend; errors as in `plot_precision_recall`."""
    if (suffix := Path(path).suffix.lower()) not in FORMATS:
        raise ValueError(f"{path} must end in one of {', '.join(FORMATS)}")
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    content = io.BytesIO()
    with style.context(["default", _STYLE]):  # independent of the user's settings, and only in this block
        figure = Figure(figsize=(6.4, 4.8))
        axes = figure.add_subplot()
        lines = draw(axes)
        handles, blank = [line for line, _ in lines], [""] * len(lines)
        legend = axes.legend(handles, blank, loc="upper left", bbox_to_anchor=(1.1, 1), borderaxespad=0)
        for text, (_, name) in zip(legend.get_texts(), lines, strict=True):
            text.set_parse_math(False)  # a name is not a formula, and may begin with an underscore
            text.set_text(plain(name))
        figure.savefig(content, format=suffix[1:], dpi=150, bbox_inches="tight", metadata=FORMATS[suffix])
    Path(path).write_bytes(content.getvalue())


def plot_steps(
    at: npt.NDArray[Any], curves: Mapping[str, npt.ArrayLike], path: Path, *, xlabel: str, ylabel: str
) -> None:
    """Plot scores as steps to a .png or .svg file: each is valid from its place, ascending, up to the next."""

    def draw(axes: Any) -> Any:
        axes.set(xlabel=xlabel, ylabel=ylabel)
        return [
            (axes.step(at, np.asarray(values), where="post", color=color, linestyle=dashes)[0], name)
            for (name, values), color, dashes in zip(curves.items(), cycle(COLOURS), cycle(DASHES), strict=False)
        ]

    plot(draw, path)

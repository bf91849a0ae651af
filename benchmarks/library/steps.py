"""Plots of scores against a threshold."""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eval import plots


def plot_steps(
    at: npt.NDArray[Any], curves: Mapping[str, npt.ArrayLike], path: Path, *, xlabel: str, ylabel: str
) -> None:
    """Plot scores as steps to a .png or .svg file: each is valid from its place, ascending, up to the next."""

    def draw(axes: Any) -> Any:
        axes.set(xlabel=xlabel, ylabel=ylabel)
        return [
            (axes.step(at, np.asarray(values), where="post", color=color, linestyle=dashes)[0], name)
            for (name, values), color, dashes in zip(
                curves.items(), cycle(plots.COLOURS), cycle(plots.DASHES), strict=False
            )
        ]

    plots.plot(draw, path)

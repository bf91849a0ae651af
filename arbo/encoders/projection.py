"""Projections: linear layers after a transformer, and their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from arbo.encoders.pretrained import first_line
from arbo.errors import DataError

if TYPE_CHECKING:
    import torch


def load_linear(file: Path) -> torch.nn.Linear:
    """Read a linear layer, such as a projection.

    Raises:
        DataError: the file is not a linear layer.
    """
    from safetensors.torch import load_file

    try:
        weights = load_file(file)
        if "weight" not in weights or weights["weight"].ndim != 2:
            raise ValueError("the projection has no matrix `weight`")
        return linear_of(weights)
    except Exception as error:  # of the file, of safetensors, of torch
        raise DataError(f"cannot load the projection: {first_line(error)}", file=str(file)) from error


def load_projection(file: Path, hidden: int) -> torch.nn.Linear | None:
    """Read the projection of vectors of this length; None if the model has no projection."""
    if not file.is_file():
        return None
    linear = load_linear(file)
    if linear.in_features != hidden:
        raise DataError(
            f"the projection needs vectors of {linear.in_features} numbers, but the model returns {hidden}",
            file=str(file),
        )
    return linear


def linear_of(weights: Mapping[str, torch.Tensor]) -> torch.nn.Linear:
    """Make a linear layer from its weights, in float32."""
    import torch

    out, into = weights["weight"].shape
    linear = torch.nn.Linear(into, out, bias="bias" in weights, device="meta")
    linear.load_state_dict(weights, assign=True)
    return linear.float().eval()

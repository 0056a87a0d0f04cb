"""Errors for which a model, or a node, is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from ...graph.json_format import MAX_NDIM, MAX_TENSOR_BYTES
from ...words import counted
from .node import OnnxNode

REMEDY = "there are no ops on it; export the model in float32"
_SHOWN = 50
# errors that a model's constants may cause
FAULTS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def quietly() -> np.errstate:
    """Returns the context in which nodes are built: a model's constants may overflow, as infinite results show."""
    return np.errstate(all="ignore")


class NeedsSizes(UnsupportedError):
    """Raised for a node that can be built once the sizes are known."""


def fault(node: OnnxNode, error: Exception) -> InvalidArgumentError:
    """Returns such an error as an error of the package."""
    return InvalidArgumentError(f"{node.where}: {type(error).__name__}: {error}")


def check_size(shape: Sequence[int | None], itemsize: int, where: str) -> None:
    """Raises for sizes that only a broken or hostile model has."""
    if len(shape) > MAX_NDIM:
        raise ShapeError(f"{where}: {counted(len(shape), 'axis')}, but at most {MAX_NDIM} are possible")
    known = [dim for dim in shape if dim]
    if known and min(known) < 0:
        raise ShapeError(f"{where}: shape {tuple(shape)} has a negative size")
    if math.prod(known) * itemsize > MAX_TENSOR_BYTES:
        raise ShapeError(f"{where}: shape {tuple(shape)} is more than {MAX_TENSOR_BYTES} bytes")


def refusal(where: str, problems: Sequence[str]) -> str:
    """Returns an error that lists all unsupported nodes."""
    unique = list(dict.fromkeys(problems))
    lines = [f"{where}: {counted(len(unique), 'part')} of the model cannot be expressed:"]
    lines += [f"  {problem}" for problem in unique[:_SHOWN]]
    if len(unique) > _SHOWN:
        lines.append(f"  and {len(unique) - _SHOWN} more")
    return "\n".join(lines)

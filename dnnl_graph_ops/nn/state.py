"""Reading and writing the parameters of a module as a dict of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dtypes import canonical
from ..errors import InvalidArgumentError, ShapeError

Array = np.ndarray[Any, Any]


def check_parameter(value: Any, like: Array, where: str) -> Array:
    """`value` as an array that may stand in for the parameter `like`.

    Raises:
        TypeError: not a NumPy array.
        ShapeError, InvalidArgumentError: another shape or dtype.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{where}: must be a NumPy array, got {type(value).__name__}")
    if value.shape != like.shape:
        raise ShapeError(
            f"{where}: has shape {value.shape}, the module needs {like.shape}; "
            f"dgo.convert_weights(array, source, 'megengine') reorders weights"
        )
    if value.dtype != like.dtype:
        want = canonical(like.dtype)
        raise InvalidArgumentError(
            f"{where}: has dtype {value.dtype}, the module computes in {want}; "
            f"convert it with array.astype({like.dtype.name!r}) or make the module with another dtype"
        )
    return value


def save(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """Copies, so that later steps of training do not change them."""
    return {name: array.copy() for name, array in parameters.items()}


def load(parameters: Mapping[str, Array], state: Any, where: str) -> None:
    """Copy the arrays of `state` into the parameters; nothing changes if one of them does not fit."""
    if not isinstance(state, Mapping):
        raise TypeError(f"{where}: needs a mapping of names to arrays, got {type(state).__name__}")
    missing = [name for name in parameters if name not in state]
    unexpected = [str(name) for name in state if name not in parameters]
    if missing or unexpected:
        named = (("misses", missing), ("has no place for", unexpected))
        parts = [f"{what} {', '.join(names)}" for what, names in named if names]
        raise InvalidArgumentError(f"{where}: {'; '.join(parts)}; the keys must be {', '.join(parameters)}")
    checked = {name: check_parameter(state[name], array, f"{where}: {name!r}") for name, array in parameters.items()}
    for name, array in checked.items():
        np.copyto(parameters[name], array)

"""Loads the parameters of a module from a dict of arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import canonical
from ..errors import InvalidArgumentError, ShapeError
from ..runtime.arrays import as_array
from ..schema.arguments import suggest

Array = np.ndarray[Any, Any]


class Parameter(NamedTuple):
    """An array of a module, PyTorch's shape for the same elements, and advice for a message on another shape."""

    array: Array
    pytorch: tuple[int, ...]
    remedy: str = ""


def check_parameter(value: Any, parameter: Parameter, where: str, other: str = "") -> Array:
    """Returns `value` as an array of the parameter's shape and dtype; `other`: other accepted shapes, for messages.

    Raises:
        TypeError: not a NumPy array.
        ShapeError, InvalidArgumentError: another shape or dtype.
    """
    like = parameter.array
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{where}: must be a NumPy array, got {type(value).__name__}")
    if value.shape != like.shape:
        raise ShapeError(f"{where}: has shape {value.shape}, the module needs {like.shape}{other}{parameter.remedy}")
    if value.dtype != like.dtype:
        want = canonical(like.dtype)
        raise InvalidArgumentError(
            f"{where}: has dtype {value.dtype}, the module computes in {want}; "
            f"convert it with array.astype({like.dtype.name!r}) or make the module with another dtype"
        )
    return value


def load(parameters: Mapping[str, Parameter], state: Any, where: str) -> None:
    """Copies the arrays of `state` into the parameters; changes none if one does not fit."""
    if not isinstance(state, Mapping):
        hint = "; pass its state_dict()" if hasattr(state, "state_dict") else ""
        hint = "; read the file, torch.load(path) or np.load(path)" if isinstance(state, str | os.PathLike) else hint
        raise TypeError(f"{where}: needs a mapping of names to arrays, got {type(state).__name__}{hint}")
    missing = [name for name in parameters if name not in state]
    unexpected = [str(name) for name in state if name not in parameters]
    if missing or unexpected:
        named = (("misses", missing), ("has no place for", unexpected))
        parts = [f"{what} {', '.join(names)}" for what, names in named if names]
        raise InvalidArgumentError(
            f"{where}: {'; '.join(parts)}; the keys must be {', '.join(parameters)}{_remedy(missing, unexpected)}"
        )
    checked = {name: _fitted(state[name], each, f"{where}: {name!r}") for name, each in parameters.items()}
    for name, array in checked.items():
        np.copyto(parameters[name].array, array)


def _remedy(missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """Returns advice for a message on unexpected keys, from the keys' names."""
    if [*missing, *unexpected] == ["bias"]:
        return f"; make the module with bias={bool(unexpected)}"
    prefixes = [name.removesuffix(key) for key in missing for name in unexpected if name.endswith(f".{key}")]
    if prefixes:
        return (
            f"; pass one layer's part of a model's state, keys that begin with {prefixes[0]!r}, without that beginning"
        )
    return suggest(unexpected[0], missing) if unexpected else ""


def _fitted(value: Any, parameter: Parameter, where: str) -> Array:
    """Returns `value`, an array or a tensor in CPU memory, in the shape of the parameter."""
    if not isinstance(value, np.ndarray):
        if not hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            raise TypeError(f"{where}: must be a NumPy array or a tensor, got {type(value).__name__}")
        value = value.detach() if hasattr(value, "detach") else value
        value = as_array(value, where) if hasattr(value, "__dlpack__") else np.asarray(value)
    shape = parameter.array.shape
    if value.shape == parameter.pytorch:
        value = value.reshape(shape)
    other = "" if parameter.pytorch == shape else f" or PyTorch's {parameter.pytorch}"
    return check_parameter(value, parameter, where, other)

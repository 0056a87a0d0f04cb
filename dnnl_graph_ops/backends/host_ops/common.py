"""Helps the NumPy ops: they compute in float64, and round once to the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import dtypes

Array = np.ndarray[Any, Any]
# attributes, inputs in float64, shape of the first output -> results
Rule = Callable[[Mapping[str, Any], Sequence[Array], tuple[int, ...]], Sequence[Any]]
Shape = tuple[int, ...]
# attributes, shapes of the inputs, shape of the first output -> a rule that has precomputed all that depends on these
Maker = Callable[[Mapping[str, Any], Sequence[Shape], Shape], Rule]

_RANGES = {
    "s8": (-128, 127),
    "u8": (0, 255),
    "s4": (-8, 7),
    "u4": (0, 15),
    "s32": (-(2**31), 2**31 - 1),
}


def always(rules: Mapping[str, Rule]) -> dict[str, Maker]:
    """Returns makers of rules that precompute nothing: each returns its rule whatever the attributes and shapes."""
    return {kind: lambda attrs, shapes, shape, rule=rule: rule for kind, rule in rules.items()}  # type: ignore[misc]


def plain(function: Callable[..., Any]) -> Rule:
    """Returns the rule of an op whose only result is a function of its inputs."""

    def rule(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        return (function(*inputs),)

    return rule


def with_attrs(function: Callable[..., Any]) -> Rule:
    """Returns the rule of an op whose only result is a function of its attributes and inputs."""

    def rule(attrs: Mapping[str, Any], inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        return (function(attrs, *inputs),)

    return rule


def store(target: Array, values: Any) -> None:
    """Writes values to `target` in its dtype; floats become integers to nearest even, saturated, and NaN becomes 0."""
    name = dtypes.canonical(target.dtype)
    values = np.asarray(values)
    if name in _RANGES and values.dtype.kind == "f":
        low, high = _RANGES[name]
        values = np.clip(np.nan_to_num(np.rint(values), nan=0.0, posinf=high, neginf=low), low, high).astype(np.int64)
    target[...] = values if values.dtype == target.dtype else values.astype(target.dtype)


def channel_axis(rank: int, data_format: str) -> int:
    return rank - 1 if data_format == "NXC" else 1


def first_spatial(attrs: Mapping[str, Any]) -> int:
    return 1 if attrs["data_format"] == "NXC" else 2


def spatial_sizes(attrs: Mapping[str, Any], shape: Shape) -> Shape:
    first = first_spatial(attrs)
    return shape[first : first + len(shape) - 2]


def along(vector: Array, rank: int, axis: int) -> Array:
    """Reshapes a vector to `rank` axes, all of size 1 but `axis`, so that it broadcasts along `axis`."""
    return vector.reshape([-1 if a == axis else 1 for a in range(rank)])

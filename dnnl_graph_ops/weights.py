"""Weights between the orders that frameworks and papers use."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidArgumentError, ShapeError
from .shapes.attributes import WEIGHTS_FORMATS, choice, integer

Array = np.ndarray[Any, Any]


# The axes of each format out of G, I, O and X (all of the kernel); two letters are one merged axis.
_FORMATS: dict[str, tuple[str, ...]] = {
    "iox": ("GI", "O", "X"),
    "xoi": ("X", "O", "GI"),
    "oix": ("O", "GI", "X"),
    "xio": ("X", "GI", "O"),
    "pytorch": ("GI", "O", "X"),
    "onnx": ("GI", "O", "X"),
    "keras": ("X", "O", "GI"),
    "documented_iox": ("I", "GO", "X"),
    "documented_xoi": ("X", "GO", "I"),
    "documented_oix": ("GO", "I", "X"),
    "documented_xio": ("X", "I", "GO"),
}
NAMES = (*WEIGHTS_FORMATS, *(name for name in _FORMATS if name.upper() not in WEIGHTS_FORMATS), "megengine")


def convert_weights(array: Any, source: str, target: str, *, groups: int = 1) -> Array:
    """Reorder weights of a transposed convolution; a view where strides can express it, else a copy.

    Args:
        array: weights in the format `source`.
        source, target: IOX (IC, OC/g, k...), XOI (k..., OC/g, IC), OIX (OC/g, IC, k...), XIO (k..., IC, OC/g),
            "pytorch" and "onnx" (= IOX), "keras" (= XOI), "megengine" (g, IC/g, OC/g, k...; without the leading g
            for groups=1), and the grouped shapes that oneDNN's pages print: "documented_iox" (IC/g, OC, k...),
            "documented_xoi" (k..., OC, IC/g), "documented_oix" (OC, IC/g, k...), "documented_xio" (k..., IC/g, OC);
            in any case.
        groups: number of groups.

    Raises:
        InvalidArgumentError: an unknown format, groups below 1.
        ShapeError: a rank or channels that do not fit the format and the groups.
        TypeError: not an array.
    """
    where = "convert_weights"
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{where}: 'array' must be a NumPy array, got {type(array).__name__}")
    groups = integer(groups, "groups", where)
    if groups < 1:
        raise InvalidArgumentError(f"{where}: 'groups' must be at least 1, got {groups}")
    read, write = (
        _axes(choice(value, name, NAMES, where).lower(), groups)
        for value, name in ((source, "source"), (target, "target"))
    )
    return _write(_read(array, read, groups, source), write)


def _axes(name: str, groups: int) -> tuple[str, ...]:
    if name == "megengine":
        return ("I", "O", "X") if groups == 1 else ("G", "I", "O", "X")
    return _FORMATS[name]


def _read(array: Array, axes: tuple[str, ...], groups: int, source: str) -> Array:
    """The array as (G, I, O, k...): always a view."""
    rank = array.ndim - (len(axes) - 1)
    if not 1 <= rank <= 3:
        raise ShapeError(
            f"convert_weights: {source} weights with groups={groups} have {len(axes)} to {len(axes) + 2} axes, "
            f"got shape {array.shape}"
        )
    shape: list[int] = []
    letters: list[str] = []
    position = 0
    for axis in axes:
        if axis == "X":
            shape += array.shape[position : position + rank]
            letters += [f"X{i}" for i in range(rank)]
            position += rank
            continue
        size = array.shape[position]
        if axis == "G" and size != groups:
            raise ShapeError(f"convert_weights: the first axis of {source} weights is {size}, but groups={groups}")
        if len(axis) == 2:
            if size % groups:
                raise ShapeError(
                    f"convert_weights: axis {position} of size {size} does not divide into {groups} groups"
                )
            shape += [groups, size // groups]
            letters += ["G", axis[1]]
        else:
            shape.append(size)
            letters.append(axis)
        position += 1
    split = array.reshape(shape)
    if "G" not in letters:
        split, letters = split[None], ["G", *letters]
    return split.transpose([letters.index(letter) for letter in ("G", "I", "O", *(f"X{i}" for i in range(rank)))])


def _write(array: Array, axes: tuple[str, ...]) -> Array:
    """(G, I, O, k...) in the axes of a format; merging axes may copy."""
    rank = array.ndim - 3
    index = {"G": 0, "I": 1, "O": 2}
    order: list[int] = []
    shape: list[int] = []
    if not any("G" in axis for axis in axes):
        array = array[0]
        index = {"I": 0, "O": 1}
    first = len(index)
    for axis in axes:
        if axis == "X":
            order += range(first, first + rank)
            shape += array.shape[first:]
        else:
            order += [index[letter] for letter in axis]
            size = 1
            for letter in axis:
                size *= array.shape[index[letter]]
            shape.append(size)
    return array.transpose(order).reshape(shape)

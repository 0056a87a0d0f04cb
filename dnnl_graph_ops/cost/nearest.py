"""Corrects estimates of algorithms by factors that were fitted to recorded times of layers of similar shapes.

`benchmarks/nearest.py` fits the logarithm of measured by estimated seconds to a few features of a layer (a Gaussian
process). The fitted rows are files next to the constants in `fits`, one for each dtype, and correct
those constants only. A factor is 1 for layers far from all rows, and for algorithms that were not recorded.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, log2, prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .. import dtypes
from .._core import similar_sums
from ..convolution.problem import ConvProblem, is_channels_last
from ..ir.env import Env
from ..once import answered
from . import fits

# feature -> the distance of two layers whose feature differs by 1: the base-2 logarithm of a size, or a flag
SCALES = {
    "positions": 0.125, "row": 0.25, "taps": 0.4, "taps of a row": 0.6, "strides": 0.2, "in": 0.3, "out": 0.15,
    "in blocks": 0.3, "out blocks": 0.6, "groups": 0.15, "batch": 0.1, "rank": 0.4, "channels first": 1.0,
    "constant": 0.7, "narrow": 1.0, "elsewhere": 0.5,
}  # fmt: skip
BLOCK = 16  # channels
_NUMBER = np.dtype("<i2")  # of a row in a file: hundredths
_LINE = 3840  # characters of a file's line


class Rows(NamedTuple):
    """The fitted rows of one direction: `hundredths` (rows, len(SCALES) + len(forms)) of layers' features and weights.

    `forms`: names of algorithms, one for each column of weights.
    """

    forms: tuple[str, ...]
    hundredths: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """The layers' features (rows, len(SCALES))."""
        return self.hundredths[:, : len(SCALES)] / 100

    @property
    def weights(self) -> np.ndarray:
        """The weights (rows, len(forms))."""
        return self.hundredths[:, len(SCALES) :] / 100


def features(problem: ConvProblem, env: Env, elsewhere: bool = False) -> list[float]:
    """Returns the features of a layer, scaled by SCALES, so that similar layers have close features.

    `elsewhere`: the layer was measured on another machine than the one that the constants were fitted on.
    """
    g = problem.geometry
    channels = (g.y_channels // g.groups, g.x_channels // g.groups)
    blocks = [-(-n // BLOCK) * BLOCK / max(n, 1) for n in channels]
    sizes = (
        g.batch * prod(g.y), g.y[-1], prod(g.kernel), g.kernel[-1], prod(g.strides), *channels, *blocks, g.groups,
        g.batch,
    )  # fmt: skip
    apart = ((not is_channels_last(problem.y)) + (not is_channels_last(problem.x))) / 2
    narrow = dtypes.itemsize(problem.dtype) < dtypes.itemsize(env.compute_dtype(problem.dtype))
    values = (*[log2(n) if n > 1 else 0.0 for n in sizes], len(g.y), apart, problem.w.is_constant, narrow, elsewhere)
    return [value * scale for value, scale in zip(values, SCALES.values(), strict=True)]


def near(rows: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Returns the similarity of each row of features to a layer's features `place`: 1 for equal ones, 0 far away.

    This is the Matern kernel of order 3/2, as native code has it.
    """
    distance = np.sqrt(3 * np.square(rows - place).sum(1))
    weight: np.ndarray = (1 + distance) * np.exp(-distance)
    return weight


def factors(problem: ConvProblem, env: Env) -> Mapping[str, float]:
    """Returns, by name of an algorithm, the factor of its estimate; algorithms that were not recorded are left out."""
    if not env.engine.on_host:
        return {}
    dtype = env.compute_dtype(problem.dtype)
    named = answered(env.answers, (fits.recorded, dtype), lambda: fits.recorded(env.isa, env.release, dtype))
    rows = None if named is None else read(*named, problem.direction)
    if rows is None:
        return {}

    def regressed() -> Mapping[str, float]:
        return dict(zip(rows.forms, map(exp, similar_sums(rows.hundredths, features(problem, env))), strict=True))

    g = problem.geometry
    # layers that differ in dilations or post-ops alone have equal features
    layer = (
        g.batch, g.y, g.kernel, g.strides, g.y_channels, g.x_channels, g.groups, is_channels_last(problem.y),
        is_channels_last(problem.x), problem.w.is_constant, problem.dtype,
    )  # fmt: skip
    return answered(env.answers, (factors, named, problem.direction, layer), regressed)


def package_file(key: str, dtype: str) -> Path:
    """Returns the path of the rows that correct the constants of `key` in one dtype."""
    return fits.package_file(key).with_name(f"{key}_{dtype}_rows.txt")


@cache
def read(key: str, dtype: str, direction: str) -> Rows | None:
    """Returns the rows of a direction; None if there are none."""
    try:
        file = package_file(key, dtype).open("rb")
    except FileNotFoundError:
        return None
    with file:
        return _rows(file, direction)


def forget() -> None:
    """Forgets the files."""
    read.cache_clear()


def _rows(file: BinaryIO, direction: str) -> Rows | None:
    """Returns the rows of a direction from an open file, and reads no other rows: few nets have several directions."""
    before = 0
    for name, (count, *forms) in json.loads(file.readline())["directions"].items():
        width = len(SCALES) + len(forms)
        characters = -(-count * width * _NUMBER.itemsize // 3) * 4
        length = characters + -(-characters // _LINE)
        if name == direction:
            file.seek(before, 1)
            return Rows(tuple(forms), np.frombuffer(a2b_base64(file.read(length)), _NUMBER).reshape(count, width))
        before += length
    return None


def written(told: Any, directions: Mapping[str, tuple[Sequence[str], np.ndarray]]) -> bytes:
    """Returns the content of a file: a line of JSON, then the rows of each direction as lines of base64.

    Args:
        told: says where the rows are from.
        directions: by direction, the names of algorithms, and rows of features and weights in hundredths.
    """
    for _, rows in directions.values():
        if np.abs(rows).max(initial=0) > np.iinfo(_NUMBER).max:
            raise ValueError("a number of 328 or more")
    counted = {name: [len(rows), *forms] for name, (forms, rows) in directions.items()}
    head = json.dumps({"rows": told, "directions": counted})
    texts = [b2a_base64(rows.astype(_NUMBER).tobytes(), newline=False) for _, rows in directions.values()]
    lines = [text[at : at + _LINE] for text in texts for at in range(0, len(text), _LINE)]
    return b"\n".join([head.encode(), *lines, b""])

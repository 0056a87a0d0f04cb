"""Corrects estimates of algorithms by factors that were fitted to recorded times of layers of similar shapes.

`benchmarks/nearest.py` fits the logarithm of measured by estimated seconds to a few features of a layer (a Gaussian
process). The fitted rows are files next to the constants in `fits`, one for each dtype, and correct
those constants only. A factor is 1 for layers far from all rows, and for algorithms that were not recorded.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import log2, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import dtypes
from ..convolution.problem import ConvProblem, is_channels_last
from ..ir.env import Env
from ..once import answered
from ..runtime import cache_files
from . import fits

# feature -> the distance of two layers whose feature differs by 1: the base-2 logarithm of a size, or a flag
SCALES = {
    "positions": 0.125, "row": 0.25, "taps": 0.4, "taps of a row": 0.6, "strides": 0.2, "in": 0.3, "out": 0.15,
    "in blocks": 0.3, "out blocks": 0.6, "groups": 0.15, "batch": 0.1, "rank": 0.4, "channels first": 1.0,
    "constant": 0.7, "narrow": 1.0, "elsewhere": 0.5,
}  # fmt: skip
BLOCK = 16  # channels
_NUMBER = "<i2"  # of a row in a file: hundredths
_AT_ONCE = 40  # rows


class Rows(NamedTuple):
    """The fitted rows of one direction: layers' `features` (rows, len(SCALES)), and `weights` (rows, len(forms)).

    `forms`: names of algorithms, one for each column of `weights`.
    """

    forms: tuple[str, ...]
    features: np.ndarray
    weights: np.ndarray


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

    This is the Matern kernel of order 3/2.
    """
    difference = rows - place
    distance = np.sqrt(3 * np.einsum("...i,...i->...", difference, difference))
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
    place = answered(problem.answers, (features, env), lambda: features(problem, env))

    def regressed() -> Mapping[str, float]:
        factor = np.exp(near(rows.features, np.array(place)) @ rows.weights)
        return dict(zip(rows.forms, factor.tolist(), strict=True))

    # layers that differ in dilations or post-ops alone have equal features
    return answered(env.answers, (factors, named, problem.direction, *place), regressed)


def package_file(key: str, dtype: str) -> Path:
    """Returns the path of the rows that correct the constants of `key` in one dtype."""
    return fits.package_file(f"{key}_{dtype}_rows")


@cache
def read(key: str, dtype: str, direction: str) -> Rows | None:
    """Returns the rows of a direction; None if there are none."""
    path = package_file(key, dtype)
    # a direction alone is parsed: few nets have several
    item = cache_files.item(path.read_bytes().decode(), direction) if path.exists() else None
    return None if item is None else _rows(**item)


def forget() -> None:
    """Forgets the files."""
    read.cache_clear()


def _rows(forms: Sequence[str], rows: Sequence[str]) -> Rows:
    count = len(SCALES)
    width = count + len(forms)
    hundredths = np.frombuffer(a2b_base64("".join(rows)), _NUMBER).reshape(-1, width + -width % 3)
    return Rows(tuple(forms), hundredths[:, :count] / 100, hundredths[:, count:width] / 100)


def written(hundredths: np.ndarray) -> Iterator[str]:
    """Yields the text of some rows at a time: base64, which is read in a tenth of the time that decimal numbers take.

    Columns of zeros fill a row up to three bytes, so that all texts can be decoded as one.
    """
    if np.abs(hundredths).max(initial=0) > np.iinfo(_NUMBER).max:
        raise ValueError("a number of 328 or more")
    filled = np.pad(hundredths.astype(_NUMBER), ((0, 0), (0, -hundredths.shape[1] % 3)))
    for start in range(0, len(filled), _AT_ONCE):
        yield b2a_base64(filled[start : start + _AT_ONCE].tobytes(), newline=False).decode()

"""What recorded layers say of the estimates of those near them in shape: a factor for each form.

`python -m dnnl_graph_ops.bench.nearest` regresses the logarithms of measured by estimated seconds on a few features of
a layer (a Gaussian process); its rows lie beside the constants that they correct, a file for each dtype, and belong to
no others. Far from all rows, and for forms that were not recorded, a factor is 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from math import log2, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import dtypes
from . import fits
from .env import Env
from .problem import Problem, is_channels_last

# how far apart a difference of one puts two layers: of the logarithm of a size to the base of 2, or between no and yes
SCALES = {
    "positions": 0.125, "row": 0.25, "taps": 0.4, "taps of a row": 0.6, "strides": 0.2, "in": 0.3, "out": 0.15,
    "in blocks": 0.3, "out blocks": 0.6, "groups": 0.15, "batch": 0.1, "rank": 0.4, "channels first": 1.0,
    "constant": 0.7, "narrow": 1.0, "elsewhere": 0.5,
}  # fmt: skip
BLOCK = 16  # channels


class Rows(NamedTuple):
    """Those of a direction: features of layers, and by form what each weighs."""

    forms: tuple[str, ...]
    features: np.ndarray
    weights: np.ndarray


def features(problem: Problem, env: Env, elsewhere: bool = False) -> list[float]:
    """Where a layer lies; `elsewhere`: it was measured on another machine than that of the constants."""
    g = problem.geometry
    channels = (g.in_channels // g.groups, g.out_channels // g.groups)
    blocks = (-(-n // BLOCK) * BLOCK / max(n, 1) for n in channels)
    sizes = (
        g.batch * prod(g.src), g.src[-1], prod(g.kernel), g.kernel[-1], prod(g.strides), *channels, *blocks, g.groups,
        g.batch,
    )  # fmt: skip
    apart = sum(not is_channels_last(view) for view in (problem.src, problem.dst)) / 2
    narrow = dtypes.itemsize(problem.dtype) < dtypes.itemsize(env.compute_dtype(problem.dtype))
    values = (*(log2(max(n, 1)) for n in sizes), len(g.src), apart, problem.weights.is_constant, narrow, elsewhere)
    return [value * scale for value, scale in zip(values, SCALES.values(), strict=True)]


def near(rows: np.ndarray, place: np.ndarray) -> np.ndarray:
    """How much rows have to do with a place: 1 for the same, 0 far away."""
    difference = rows - place
    distance = np.sqrt(3 * np.einsum("...i,...i->...", difference, difference))
    found: np.ndarray = (1 + distance) * np.exp(-distance)
    return found


def factors(problem: Problem, env: Env) -> Mapping[str, float]:
    """By form, what its estimate is to be multiplied by; none for what it lacks."""
    if not env.engine.on_host:
        return {}
    named = fits.recorded(env.isa, env.release, env.compute_dtype(problem.dtype))
    rows = None if named is None else read(*named).get(problem.direction)
    if rows is None:
        return {}
    found = np.exp(near(rows.features, np.array(features(problem, env))) @ rows.weights)
    return dict(zip(rows.forms, found.tolist(), strict=True))


def package_file(key: str, dtype: str) -> Path:
    """The rows that correct a file of constants in one dtype."""
    return fits.package_file(f"{key}_{dtype}_rows")


@cache
def read(key: str, dtype: str) -> dict[str, Rows]:
    """By direction; none where there is no such file."""
    path = package_file(key, dtype)
    if not path.exists():
        return {}
    found = {}
    for direction, content in json.loads(path.read_text("utf-8"))["directions"].items():
        forms = tuple(content["forms"])
        table = np.array(content["rows"], np.float64)
        found[direction] = Rows(forms, table[:, : len(SCALES)].copy(), table[:, len(SCALES) :].copy())
    return found

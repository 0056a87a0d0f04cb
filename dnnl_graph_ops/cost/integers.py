"""Counts the work of layers of 8-bit integers, and prices it in products of builtin kernels in f32.

`fits` has the prices by instruction set of the builtin kernels, and those of the library's partitions: how many
products of the direct algorithm in f32 take as long as a count, so that they hold on CPUs of any speed.
"""

from __future__ import annotations

from math import prod

from ..convolution.problem import DGRAD, ConvProblem
from ..ir.env import Env
from . import fits, speeds
from .model import Counts, channels, packing, padded

# panel width and depth step to which kernels fill up with zeros
_COLUMNS, _STEPS = 16, {"amxint8": 64, "avx2words": 2}
_STEP = 4
# counts relative to finishing an element of the result: reading one of the source, copying one to rows; and relative
# to fetching a row of channels: beginning a position of a group, and each tap of it where it has few channels
_READ, _COPIED, _BEGUN = 1 / 3, 3.0, 4.0
# and adding a residual's element to one of the result: in the kernel, or in a step of its own (by layers of ResNet-50's
# four blocks with and without the sum: 0.7 to 0.9 and 2.2 to 2.9 on a Zen 5)
_ADDED, _ADDED_APART = 0.6, 2.8
_FEW, _BEGUN_TAP, _BEGUN_TAP_OF_WORDS = 16, 1.0, 0.13
# costs of Winograd of words, in products: to transform an element, and to read a packed weight from memory; and the
# most that it may cost, relative to the direct form
_TRANSFORMED, _WEIGHT, _SAVING = 3.0, 5.0, 0.95
# positions of the last axis that the library computes besides, as its kernels begin a block at the end of every row
_BLOCK = 1.5
# and the share of time that each step of a transposed layer's stride from 2 to 16 adds: results that lie apart fill its
# blocks less
_APART = 0.2
# the library has depthwise kernels of ordinary layers of so many axes
_MOST_AXES = 2
LIBRARY = "library"
_INSTEAD = {"avxvnni": "avx512vnni"}
_CONVERTED, _CONVERTING = map(speeds.seconds, ("CONVERTED_ELEMENT", "CONVERTING_STEPS"))

DEPTHWISE, BY_REFERENCE = "depthwise", "depthwise by reference"


def measured(key: fits.Key, env: Env) -> fits.Key:
    """Returns the key of the prices that stand for those of a key: of "avx2words" for sets that nobody measured."""
    kind, isa = key
    nearest = kind, _INSTEAD.get(isa, isa)
    return nearest if nearest in fits.of_integers(env.isa, env.release) else (kind, "avx2words")


def prices(key: fits.Key, problem: ConvProblem, env: Env) -> fits.Prices:
    """Returns the seconds on one thread of each of the first `Counts` of such work."""
    table = fits.of_integers(env.isa, env.release)
    return tuple(unit(problem, env) * price for price in table[measured(key, env)])


def unit(problem: ConvProblem, env: Env) -> float:
    """Returns the seconds that a price of 1 stands for: of one product of the direct algorithm in f32."""
    return fits.find(env.isa, env.release, "f32")["direct", problem.direction][0]


def products(
    problem: ConvProblem, isa: str, direct: Counts, source: int, *, copies: bool, filtered: float = 1.0
) -> Counts:
    """Returns the counts of builtin products of integers.

    `direct`: of the direct algorithm in f32. `source`: elements that are read; `copies`: whether they are copied to
    rows. `filtered`: products of Winograd, relative to the direct algorithm.
    """
    read, made = _channels(problem)
    fuller = padded(read, _STEPS.get(isa, _STEP)) / read
    each = 0.0 if read >= _FEW else _BEGUN_TAP_OF_WORDS if isa == "avx2words" else _BEGUN_TAP
    taps = _positions(problem) * prod(problem.geometry.kernel) * problem.geometry.groups
    weights = fuller * direct.weights
    return Counts(
        products=fuller * direct.products * filtered,
        values=_results(problem, _ADDED) + (_READ + _COPIED * copies) * source,
        runs=direct.runs + _BEGUN * problem.result.size / made + each * taps,
        weights=weights,
        variable=packing(problem, weights),
    )


def filtered(counts: Counts, direct: Counts) -> float:
    """Returns products of Winograd on words relative to the direct algorithm, by the counts of both in f32."""
    work, all_work = (c.products + _TRANSFORMED * c.values + _WEIGHT * c.weights for c in (counts, direct))
    return work / all_work / _SAVING


def sums(problem: ConvProblem, env: Env | None = None) -> Counts:
    """Returns the counts of sums of integers by channels, of depthwise layers."""
    taps = prod(problem.geometry.kernel)
    columns = padded(problem.geometry.groups, _COLUMNS)
    runs = _positions(problem) * taps
    return Counts(runs * columns, _finished(problem), runs, problem.geometry.groups * taps, 0)


def partition(problem: ConvProblem, env: Env) -> Counts:
    """Returns the counts of a partition of the library."""
    if _is_depthwise(problem):
        return sums(problem)
    g, positions, (read, made) = problem.geometry, _positions(problem), _channels(problem)
    weights = g.groups * padded(read, _STEP) * padded(made, _COLUMNS) * prod(g.kernel)
    computed = positions * (1 + _BLOCK / g.y[-1])
    if problem.direction == DGRAD:
        computed *= 1 + _APART * max(min(g.strides[-1], _COLUMNS) - 2, 0)
    runs = positions * prod(g.kernel) * g.groups
    return Counts(computed * weights, _finished(problem), runs, weights, packing(problem, weights))


def of_library(problem: ConvProblem) -> fits.Key:
    """Returns the key of the prices of `partition`."""
    if not _is_depthwise(problem):
        return problem.direction, LIBRARY
    far = problem.direction == DGRAD or problem.geometry.rank > _MOST_AXES
    return BY_REFERENCE if far else DEPTHWISE, LIBRARY


def conversions(problem: ConvProblem, env: Env) -> float:
    """Returns the seconds of the steps that convert the source to f32, and an integer result from f32."""
    size = problem.read[0].size + (problem.result.size if problem.result.dtype != "f32" else 0)
    return _CONVERTING + _CONVERTED * size / env.threads


def _is_depthwise(problem: ConvProblem) -> bool:
    g = problem.geometry
    return g.groups == g.y_channels == g.x_channels > 1


def _positions(problem: ConvProblem) -> int:
    return problem.geometry.batch * prod(problem.geometry.y)


def _channels(problem: ConvProblem) -> tuple[int, int]:
    """Returns how many channels of the source and of the result a group has."""
    y, x = channels(problem)
    return (y, x) if problem.direction == DGRAD else (x, y)


def _finished(problem: ConvProblem) -> float:
    return _results(problem, _ADDED_APART) + _READ * problem.read[0].size


def _results(problem: ConvProblem, added: float) -> float:
    """Returns the elements of the result; those that a residual is added to count `added` more."""
    return problem.result.size * (1.0 if problem.residual is None else 1.0 + added)

"""A process that measures the error of every post-op after every kind of head, and prints a line of JSON for each.

The head's result is its bias: data and weights are 0, so that every number reaches the post-op as it is. An op that
stands alone reads the numbers themselves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, schema
from ..compile.plan import executor_of
from ..errors import Error
from ..onednn.partition import Partitioned, compile_partitions, partitioned
from ..program import epilogue as post
from ..program.epilogue import EpilogueOp
from ..program.post_op_errors import ALONE
from ..program.program import NativeStep, Place, Program, View, argument
from ..runtime import cpu
from ..runtime import threads as pool
from ..runtime.engines import Engine, engine
from ..strides import dense_strides
from .functions import FALLING, FUNCTIONS, Array, errors, numbers

DTYPES = ("f32", "bf16", "f16")
# how the other operand of a binary post-op is broadcast; of one that stands alone
_SPREADS = ("one", "channel", "full"), ("one", "full")


class Case(NamedTuple):
    """A head: the shapes of its operands and its result, its attributes, and the axis of the result's channels."""

    head: str
    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    attrs: Mapping[str, Any] = {}
    axis: int = -1


def _convolution(
    head: str, batch: int, reads: int, makes: int, size: tuple[int, ...], kernel: int, layout: str, stride: int = 1,
    groups: int = 1, dilation: int = 1, pad: int = 0,
) -> Case:  # fmt: skip
    rank = len(size)
    reach = dilation * (kernel - 1) + 1
    transposed = head == "ConvTranspose"
    made = tuple(
        (n - 1) * stride + reach - 2 * pad if transposed else (n + 2 * pad - reach) // stride + 1 for n in size
    )

    def shape(channels: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (batch, *sizes, channels) if layout == "NXC" else (batch, channels, *sizes)

    i, o = (reads, makes // groups) if transposed else (reads // groups, makes)
    weights = (i, o) if transposed else (o, i)
    attrs = {
        "strides": (stride,) * rank, "pads_begin": (pad,) * rank, "pads_end": (pad,) * rank,
        "dilations": (dilation,) * rank, "groups": groups, "data_format": layout,
        "weights_format": "IOX" if transposed else "OIX",
    }  # fmt: skip
    operands = shape(reads, size), (*weights, *(kernel,) * rank), (makes,)
    return Case(head, operands, shape(makes, made), attrs, -1 if layout == "NXC" else 1)


def _matmul(left: tuple[int, ...], right: tuple[int, ...]) -> Case:
    batch = left[:-2] if len(left) >= len(right) else right[:-2]
    return Case("MatMul", (left, right, right[-1:]), (*batch, left[-2], right[-1]))


# the library has kernels of their own for few channels, for groups, for each layout and for one row
CASES = (
    _convolution("Convolution", 1, 16, 256, (2, 3), 3, "NXC", pad=1),
    _convolution("Convolution", 1, 16, 256, (2, 3), 3, "NCX", pad=1),
    _convolution("Convolution", 1, 8, 8, (3, 3), 3, "NXC", pad=1),
    _convolution("Convolution", 1, 8, 8, (3, 3), 3, "NCX", pad=1),
    _convolution("Convolution", 1, 3, 32, (5, 5), 3, "NXC", 2),
    _convolution("Convolution", 1, 1, 16, (3, 4), 3, "NCX", pad=1),
    _convolution("Convolution", 1, 64, 128, (2, 3), 1, "NXC"),
    _convolution("Convolution", 2, 64, 128, (2, 3), 1, "NCX"),
    _convolution("Convolution", 1, 64, 64, (3, 4), 3, "NXC", groups=64, pad=1),
    _convolution("Convolution", 1, 64, 64, (3, 4), 3, "NCX", groups=64, pad=1),
    _convolution("Convolution", 1, 32, 64, (5, 6), 3, "NXC", groups=2, dilation=2),
    _convolution("Convolution", 1, 6, 10, (5, 5), 2, "NCX"),
    _convolution("Convolution", 1, 16, 72, (17,), 5, "NXC", 2),
    _convolution("Convolution", 1, 16, 64, (2, 2, 2), 3, "NXC", pad=1),
    _convolution("ConvTranspose", 1, 16, 256, (3, 2), 4, "NXC", 2, pad=1),
    _convolution("ConvTranspose", 1, 16, 256, (3, 2), 4, "NCX", 2, pad=1),
    _convolution("ConvTranspose", 1, 8, 6, (4, 4), 2, "NCX", 2),
    _convolution("ConvTranspose", 1, 32, 64, (4, 4), 3, "NXC"),
    _convolution("ConvTranspose", 1, 64, 64, (4, 4), 4, "NXC", 2, groups=64, pad=1),
    _convolution("ConvTranspose", 1, 16, 64, (3,), 16, "NXC", 8, pad=4),
    _convolution("ConvTranspose", 1, 16, 64, (3, 3, 3), 2, "NXC", 2),
    _matmul((1, 16), (16, 256)),
    _matmul((16, 512), (512, 64)),
    _matmul((7, 33), (33, 50)),
    _matmul((5, 9, 16), (16, 128)),
    _matmul((2, 3, 8, 16), (2, 3, 16, 64)),
    _matmul((4, 1, 768), (768, 768)),
    Case(ALONE, ((4096,),), (4096,)),
    Case(ALONE, ((1, 16, 8, 32),), (1, 16, 8, 32)),
)  # fmt: skip


def _with(*attrs: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return attrs


# attributes with which a post-op is tried
TRIED: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "Clamp": _with({"min": -1.5, "max": 2.5}, {"min": 0.0, "max": 6.0}),
    "Elu": _with({"alpha": 1.0}, {"alpha": 0.5}),
    "GELU": _with({"mode": "gelu_erf"}, {"mode": "gelu_tanh"}),
    "HardSigmoid": _with({"alpha": 0.25, "beta": 0.5}),
    "LeakyReLU": _with({"alpha": 0.125}),
    "SoftPlus": _with({"beta": 1.0}, {"beta": 2.0}, {"beta": -1.0}),
}


def tried(version: tuple[int, ...]) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the post-ops of a version of the library, each with attributes."""
    kinds = sorted(schema.POST_OPS - {"BiasAdd"})
    pairs = [(kind, attrs) for kind in kinds for attrs in TRIED.get(kind, [{}])]
    return [(kind, attrs) for kind, attrs in pairs if schema.availability(kind, [], version, attrs) is None]


def main(start: int = 0) -> None:
    """Measures the cases in each dtype from number `start` on."""
    used = engine("cpu")
    _say(isa=cpu.isa(used), onednn=used.runtime.version, runtime=used.runtime.cpu_runtime)
    pairs = [(dtype, case) for dtype in DTYPES for case in CASES]
    values = {dtype: numbers(dtype) for dtype in DTYPES}
    with pool.using(1):
        for number, (dtype, case) in enumerate(pairs[start:], start):
            _say(next=number)
            if cpu.computes_natively(dtype, used):
                for line in _measured(case, dtype, values[dtype], used):
                    _say(**line)


def _say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


class _Trial(NamedTuple):
    kind: str
    attrs: Mapping[str, Any]
    spread: str
    views: tuple[View, ...]
    result: View
    step: NativeStep


def _measured(case: Case, dtype: str, values: Array, used: Engine) -> Iterator[dict[str, Any]]:
    trials = [
        _trial(case, dtype, kind, attrs, spread)
        for kind, attrs in tried(used.runtime.version_info)
        for spread in (_SPREADS[case.head == ALONE] if schema.OPS[kind].binary else ("",))
    ]
    together = partitioned([trial.step for trial in trials], used, "strict", fused=True)
    for trial, partitions in zip(trials, together, strict=True):
        said = {"head": case.head, "dtype": dtype, "case": CASES.index(case), "kind": trial.kind, **trial.attrs}
        try:
            yield said | _errors(case, dtype, values, trial, partitions, used)
        except Error as error:
            yield said | {"refused": str(error.__cause__ or error)}


def _trial(case: Case, dtype: str, kind: str, attrs: Mapping[str, Any], spread: str) -> _Trial:
    shapes = [*case.operands, *filter(None, [_operand(case, spread)])]
    views = tuple(argument(Place.INPUT, dtype, s, dense_strides(s), i) for i, s in enumerate(shapes))
    result = argument(Place.OUTPUT, dtype, case.result, dense_strides(case.result))
    operands: tuple[View | int, ...] = (0, *views[len(case.operands) :])
    epilogue = (EpilogueOp(kind, attrs, operands),)
    if case.head == ALONE:
        ops = post.ops_on(views[0], epilogue, result)
    else:
        ops = post.fused(case.head, case.attrs, views[: len(case.operands)], epilogue, result)
    return _Trial(kind, attrs, spread, views, result, NativeStep(tuple(ops), kind))


def _operand(case: Case, spread: str) -> tuple[int, ...] | None:
    if not spread:
        return None
    if spread == "full":
        return case.result
    axis = case.axis % len(case.result)
    return tuple(n if spread == "channel" and a == axis else 1 for a, n in enumerate(case.result))


def _errors(
    case: Case, dtype: str, values: Array, trial: _Trial, partitions: Partitioned, used: Engine
) -> dict[str, Any]:
    """Returns the largest error in units in the last place, where it is, and whether NaN is lost or made.

    Positions of a channel have the same numbers: of those the least and the largest result count.
    """
    parts = compile_partitions(Program(), partitions)
    executor = executor_of(parts, trial.views, [trial.result], {}, used)
    executor.finalize(release_gil=False, threads=1)
    if trial.kind in FALLING:
        values = values[values != -np.inf]
    rank, axis = len(case.result), case.axis % len(case.result)
    fed, positions = case.operands[-1], tuple(a for a in range(rank) if a != axis)
    rounds, kind = -(-values.size // prod(fed)), dtypes.numpy_dtype(dtype)
    x = np.resize(values, (rounds, prod(fed)))
    y = _others(trial, values, x.shape)
    broadcast = [-1 if a == axis else 1 for a in range(rank)]
    operands = [np.zeros(view.shape, kind) for view in trial.views]
    results = np.full((rounds, *case.result), 77, kind)
    spare = results[0].copy()
    for i in range(rounds):
        operands[len(case.operands) - 1][...] = x[i].reshape(fed)
        if y is not None:
            operands[-1][...] = y[i].reshape(fed if y[i].size == prod(fed) and case.head == ALONE else broadcast)
        executor.run(operands, [spare])
        results[i] = spare
    got = results.astype(np.float64)
    if case.head != ALONE:
        over = tuple(a + 1 for a in positions)
        got = np.stack([np.fmin.reduce(got, over), np.fmax.reduce(got, over), got.sum(over)])
        got[2, ~np.isnan(got[2])] = got[0, ~np.isnan(got[2])]
    got = got.reshape(-1, *x.shape)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = FUNCTIONS[trial.kind](wide, *(() if y is None else (y.astype(np.float64),)), **trial.attrs)
    error = np.stack([errors(trial.kind, dtype, one, exact, wide) for one in got])
    lost, made = np.isnan(exact) & ~np.isnan(got), np.isnan(got) & ~np.isnan(exact)
    error[lost | made] = 0
    worst = np.unravel_index(np.argmax(error), error.shape)
    said: dict[str, Any] = {"ulps": float(error.max()), "lost": bool(lost.any()), "made": bool(made.any())}
    return said | {"at": [float(x[worst[1:]]), float(got[worst]), float(exact[worst[1:]])]}


def _others(trial: _Trial, values: Array, shape: tuple[int, ...]) -> Array | None:
    """Returns the other operand of a binary post-op, a number for each of x, or one for each row of x."""
    if not trial.spread:
        return None
    rng = np.random.default_rng(1)
    if trial.spread == "one":
        shape = (shape[0], 1)
    drawn = np.where(rng.random(shape) < 0.5, rng.uniform(-4, 4, shape), rng.choice(values, shape))
    kind = dtypes.numpy_dtype(trial.views[-1].dtype)
    with np.errstate(over="ignore"):
        return drawn.astype(kind).astype(np.float32)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""onnx's own node tests, through `from_onnx`: what becomes of each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import dnnl_graph_ops as dgo

WAYS = ("passed", "refused", "wrong", "foreign")


class Outcome(NamedTuple):
    """What became of a test: one of WAYS, and why."""

    way: str
    why: str = ""


@functools.cache
def node_cases() -> tuple[Any, ...]:
    """Those whose tensors are numbers."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return tuple(case for case in cases if all(map(_numeric, _tensors(case))))


def _tensors(case: Any) -> list[Any]:
    return [item for inputs, outputs in case.data_sets for item in (*inputs, *outputs)]


def _numeric(item: Any) -> bool:
    return isinstance(item, np.ndarray | np.generic) and np.asarray(item).dtype.kind not in "OSU"


def ops_of(case: Any) -> str:
    return "+".join(sorted({node.op_type for node in case.model.graph.node}))


_RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}


def outcome(case: Any) -> Outcome:
    """Loads a test's model and compares its results with those of the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = dgo.from_onnx(case.model).compile()
            for inputs, wanted in case.data_sets:
                names = [info.name for info in case.model.graph.input]
                given = {name: np.asarray(item) for name, item in zip(names, inputs, strict=False)}
                # a net without inputs computes constants
                found = net(*(given[name] for name in net.input_names))
                results = found if isinstance(found, tuple | list) else (found,)
                if why := _difference(results, wanted, case):
                    return Outcome("wrong", why)
    except dgo.Error as error:
        return Outcome("refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("foreign", f"{type(error).__name__}: {error}")
    return Outcome("passed")


def _difference(found: Sequence[Any], wanted: Sequence[Any], case: Any) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    for one, other in zip(found, map(np.asarray, wanted), strict=True):
        one = np.asarray(one)
        if one.shape != other.shape:
            return f"shape {one.shape}, not {other.shape}"
        if one.dtype != other.dtype:
            return f"dtype {one.dtype}, not {other.dtype}"
        if not _RANDOM.isdisjoint(ops_of(case).split("+")):
            continue
        rtol = max(case.rtol, {2: 2e-2, 1: 2e-1}.get(one.dtype.itemsize, 0) if one.dtype.kind not in "iub" else 0)
        pair = [item.astype(np.float64) for item in (one, other)]
        if not np.allclose(*pair, rtol=rtol, atol=max(case.atol, rtol * 1e-2), equal_nan=True):
            return f"differs by {np.nanmax(np.abs(pair[0] - pair[1])):.3g}"
    return ""

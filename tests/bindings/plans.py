"""Small plans for the tests of the executor and of the call path."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dnnl_graph_ops import _core, dtypes
from dnnl_graph_ops.runtime.engines import default_engine
from dnnl_graph_ops.strides import dense_strides

F32 = dtypes.CODES["f32"]
ids = itertools.count(1)


def declare(shape: Sequence[int], strides: Sequence[int] | None = None, dtype: str = "f32") -> tuple[Any, ...]:
    """Arguments of add_input and add_output."""
    return dtypes.CODES[dtype], list(shape), list(dense_strides(shape) if strides is None else strides)


def tensor(shape: Sequence[int], strides: Sequence[int] | None = None) -> _core.LogicalTensor:
    return _core.LogicalTensor(next(ids), F32, list(shape), list(dense_strides(shape) if strides is None else strides))


def compile_op(
    kind: _core.OpKind,
    inputs: Sequence[_core.LogicalTensor],
    output: _core.LogicalTensor,
    attrs: Sequence[tuple[_core.OpAttr, str, Any]] = (),
) -> _core.CompiledPartition:
    engine = default_engine()._native
    op = _core.Op(engine.library, next(ids), kind, kind.name)
    for item in inputs:
        op.add_input(item)
    op.add_output(output)
    for attr in attrs:
        op.set_attr(*attr)
    return _core.Partition.create_with_op(op, engine.kind).compile(list(inputs), [output], engine)


def relu_partition(shape: Sequence[int]) -> _core.CompiledPartition:
    return compile_op(_core.OpKind.relu, [tensor(shape)], tensor(shape))


def relu_plan(shape: Sequence[int], *, release_gil: bool = False, threads: int = 0, name: str = "") -> Any:
    """dst = max(src, 0) by the library."""
    partition = relu_partition(shape)
    plan = _core.Executor(default_engine()._native, name)
    src = plan.add_input(*declare(shape))
    dst = plan.add_output(*declare(shape))
    plan.add_partition(partition, [(src, 0)], [(dst, 0)], "relu")
    plan.finalize(release_gil, threads)
    return plan


def deconv_partition(n: int, size: int, ic: int, oc: int) -> _core.CompiledPartition:
    """kernel 4, stride 2, pad 1, channels last."""
    attrs = [
        (_core.OpAttr.strides, "s64[]", [2, 2]),
        (_core.OpAttr.pads_begin, "s64[]", [1, 1]),
        (_core.OpAttr.pads_end, "s64[]", [1, 1]),
        (_core.OpAttr.dilations, "s64[]", [1, 1]),
        (_core.OpAttr.data_format, "string", "NXC"),
        (_core.OpAttr.weights_format, "string", "XOI"),
    ]
    return compile_op(
        _core.OpKind.conv_transpose,
        [tensor((n, size, size, ic)), tensor((4, 4, oc, ic))],
        tensor((n, 2 * size, 2 * size, oc)),
        attrs,
    )


def deconv_plan(
    n: int, size: int, ic: int, oc: int, weights: np.ndarray[Any, Any] | None, *, release_gil: bool = False
) -> Any:
    """A transposed convolution with constant or, without an array, variable weights."""
    plan = _core.Executor(default_engine()._native, "deconv")
    src = plan.add_input(*declare((n, size, size, ic)))
    filters = plan.add_input(*declare((4, 4, oc, ic))) if weights is None else plan.add_constant(weights)
    dst = plan.add_output(*declare((n, 2 * size, 2 * size, oc)))
    plan.add_partition(deconv_partition(n, size, ic, oc), [(src, 0), (filters, 0)], [(dst, 0)], "deconv")
    plan.finalize(release_gil)
    return plan


def deconv_truth(src: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    n, height, width, _ = src.shape
    full = np.zeros((n, 2 * height + 2, 2 * width + 2, weights.shape[2]), np.float32)
    for i, j in itertools.product(range(4), range(4)):
        full[:, i : i + 2 * height : 2, j : j + 2 * width : 2] += src @ weights[i, j].T
    return full[:, 1:-1, 1:-1]


def callback_plan(
    function: Callable[..., Any],
    ins: Sequence[tuple[Any, ...]],
    outs: Sequence[tuple[Any, ...]],
    *,
    release_gil: bool = False,
    name: str = "",
) -> Any:
    """A plan of one Python step over arrays declared by `declare`."""
    plan = _core.Executor(None, name)
    slots = [plan.add_input(*item) for item in ins] + [plan.add_output(*item) for item in outs]
    plan.add_callback(function, [(slot, 0, *item) for slot, item in zip(slots, (*ins, *outs), strict=True)], "python")
    plan.finalize(release_gil)
    return plan


def double_plan(shape: Sequence[int], strides: Sequence[int] | None = None, out: Any = None, dtype: str = "f32") -> Any:
    """dst = 2 * src by a Python step; `out` are the strides of dst."""

    def double(src: np.ndarray[Any, Any], dst: np.ndarray[Any, Any]) -> None:
        dst[...] = src * 2

    return callback_plan(double, [declare(shape, strides, dtype)], [declare(shape, out, dtype)], name="double")

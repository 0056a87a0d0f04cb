"""Layers of the benchmark's suites as graphs of one op, made small: `subject("HiFiGAN_v2/ups1", "fwd", "bf16")`."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

SUITES = Path(__file__).resolve().parents[2] / "dnnl_graph_ops" / "bench"
FILES = {"conv_transpose": "real_layers.json", "convolution": "conv_layers.json"}
DIRECTIONS = ("fwd", "bwd_d", "bwd_w")
DTYPES = ("f32", "bf16", "int8")
# multiply-adds, and elements of src and dst, of a layer as it is measured: some tenths of a millisecond, and no more
# memory than a core's own cache has, since the last level is everyone's
MOST_PRODUCTS, MOST_ELEMENTS = 1 << 23, 1 << 17
SCALE, LARGEST = 1 / 32, 32
_PER_AXIS = {"strides": 1, "pads_begin": 0, "dilations": 1}


@cache
def problems() -> Mapping[str, Mapping[str, Any]]:
    """The suites' layers by name, each with its op and every attribute."""
    result = {}
    for op, file in FILES.items():
        for record in json.loads((SUITES / file).read_text(encoding="utf-8")):
            rank = len(record["spatial"])
            given = {name: record.get(name) or [value] * rank for name, value in _PER_AXIS.items()}
            given["pads_end"] = record.get("pads_end") or given["pads_begin"]
            if op == "conv_transpose":
                given["output_padding"] = record.get("output_padding") or [0] * rank
            result[record["name"]] = _smaller({**record, "op": op, "attrs": given})
    return result


def _smaller(problem: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the batch, then the longest axis halved until there are few products and elements."""
    batch, spatial = problem["batch"], list(problem["spatial"])
    given, made, kernel = problem["in_channels"], problem["out_channels"], problem["kernel"]
    stride = prod(problem["attrs"]["strides"])
    transposed = problem["op"] == "conv_transpose"
    # of a position of src
    products = given * made // problem.get("groups", 1) * prod(kernel) / (1 if transposed else stride)
    elements = given + made * (stride if transposed else 1 / stride)
    # a kernel's reach must still fit
    least = [2 * k * d for k, d in zip(kernel, problem["attrs"]["dilations"], strict=True)]
    while batch * prod(spatial) > min(MOST_PRODUCTS / products, MOST_ELEMENTS / elements):
        axis = max(range(len(spatial)), key=lambda a: spatial[a] / least[a])
        if batch > 1:
            batch //= 2
        elif spatial[axis] >= 2 * least[axis]:
            spatial[axis] //= 2
        else:
            break
    return {**problem, "batch": batch, "spatial": spatial}


def subject(name: str, direction: str, dtype: str) -> tuple[Any, Any, list[np.ndarray]]:
    """A graph, its output and the arrays of its inputs, channels last; weights of a forward are constant."""
    import dnnl_graph_ops as dgo

    problem = problems()[name]
    op, groups = problem["op"], problem.get("groups", 1)
    transposed = op == "conv_transpose"
    attrs = {
        **problem["attrs"],
        "groups": groups,
        "data_format": "NXC",
        "weights_format": "IOX" if transposed else "OIX",
    }
    channels = problem["in_channels"], problem["out_channels"]
    first, second = channels if transposed else channels[::-1]
    weights_shape = (first, second // groups, *problem["kernel"])
    src_shape = (problem["batch"], *problem["spatial"], channels[0])
    dst_shape = getattr(dgo, f"{op}_output_shape")(src_shape, weights_shape, **attrs)
    rng = np.random.default_rng(7)
    graph = dgo.Graph(name=name)
    build: Callable[..., Any] = getattr(dgo.ops, f"{op}{_SUFFIXES[direction]}")
    if dtype == "int8":
        return _quantized(graph, build, src_shape, weights_shape, problem, attrs, rng)
    arrays: list[np.ndarray] = []

    def draw(shape: Sequence[int]) -> np.ndarray:
        return rng.standard_normal(shape, np.float32).astype(_numpy(dtype))

    def give(label: str, shape: Sequence[int]) -> Any:
        arrays.append(draw(shape))
        return graph.input(label, shape, dtype)

    if direction == "fwd":
        bias = (graph.constant(draw(channels[1:])),) if problem.get("bias") else ()
        value = build(give("src", src_shape), graph.constant(draw(weights_shape)), *bias, **attrs)
    elif direction == "bwd_d":
        shape = {"src_shape" if transposed else "dst_shape": src_shape}
        value = build(give("diff_dst", dst_shape), give("weights", weights_shape), **shape, **attrs)
    else:
        value = build(give("src", src_shape), give("diff_dst", dst_shape), weights_shape=weights_shape, **attrs)
    return graph, value, arrays


_SUFFIXES = dict(zip(DIRECTIONS, ("", "_backward_data", "_backward_weights"), strict=True))


def _numpy(dtype: str) -> np.dtype[Any]:
    from dnnl_graph_ops.dtypes import numpy_dtype

    return numpy_dtype(dtype)


def _quantized(
    graph: Any,
    build: Callable[..., Any],
    src_shape: Sequence[int],
    weights_shape: Sequence[int],
    problem: Mapping[str, Any],
    attrs: Mapping[str, Any],
    rng: np.random.Generator,
) -> tuple[Any, Any, list[np.ndarray]]:
    """u8 src, s8 weights and u8 dst with Dequantize and Quantize around the op."""
    import dnnl_graph_ops as dgo

    array = rng.integers(0, LARGEST, src_shape).astype(np.uint8)
    weights = graph.constant(rng.integers(-LARGEST, LARGEST, weights_shape).astype(np.int8))
    src = dgo.ops.dequantize(graph.input("src", src_shape, "u8"), scales=[SCALE], zps=[0])
    value = build(src, dgo.ops.dequantize(weights, scales=[SCALE], zps=[0]), **attrs)
    terms = prod(weights_shape) / problem["out_channels"]
    return graph, dgo.ops.quantize(value, dtype="u8", scales=[SCALE * terms**0.5], zps=[128]), [array]

"""`python -m dnnl_graph_ops selftest`: checks an engine's results; the report can be pasted into an issue."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from . import functional, ops
from .dtypes import numpy_dtype
from .errors import Error
from .graph import Graph
from .runtime import DeviceArray, Engine, engine, info
from .runtime.engines import KINDS
from .runtime.verbose import verbose
from .shapes.attributes import attributes

Array = np.ndarray[Any, Any]
Check = Callable[[Engine], str]

SEED = 20260101
ROUNDS = 50


class Layer(NamedTuple):
    """A transposed convolution: src (N, spatial..., IC), weights (k..., OC/groups, IC).

    With src and dst swapped it is an ordinary convolution with the same weights, read as (k..., IC/groups, OC).
    """

    src: tuple[int, ...]
    weights: tuple[int, ...]
    attrs: Mapping[str, Any]


class Direction(NamedTuple):
    """A function of `functional`, and its operands and result by their names in `_truth`'s result."""

    function: str
    operands: tuple[str, str]
    result: str
    stated: str = ""  # the argument that says the result's shape


_PLAIN: Mapping[str, Any] = {"strides": 2, "pads_begin": 1, "pads_end": 1}
LAYERS = {
    "k4 s2": Layer((2, 6, 5, 16), (4, 4, 24, 16), _PLAIN),
    "k3 s1": Layer((1, 7, 7, 8), (3, 3, 8, 8), {"pads_begin": 1, "pads_end": 1}),
    "1-D, k7 s3": Layer((3, 11, 5), (7, 4, 5), {"strides": 3, "output_padding": 1}),
    "3-D, dilated": Layer((1, 3, 4, 3, 6), (2, 3, 2, 5, 6), {"strides": (1, 2, 1), "dilations": 2}),
    "2 groups": Layer((2, 5, 5, 8), (3, 3, 6, 8), {**_PLAIN, "groups": 2}),
    "depthwise": Layer((1, 6, 6, 16), (4, 4, 1, 16), {**_PLAIN, "groups": 16}),
}
DTYPES = ("f32", "bf16", "f16")
DIRECTIONS = {
    "forward": Direction("conv_transpose", ("src", "weights"), "dst"),
    "backward data": Direction("conv_transpose_backward_data", ("diff_dst", "weights"), "diff_src"),
    "backward weights": Direction(
        "conv_transpose_backward_weights", ("src", "diff_dst"), "diff_weights", "weights_shape"
    ),
    "convolution": Direction("convolution", ("diff_dst", "weights"), "diff_src"),
    "convolution's backward data": Direction("convolution_backward_data", ("src", "weights"), "dst", "src_shape"),
    "convolution's backward weights": Direction(
        "convolution_backward_weights", ("diff_dst", "src"), "diff_weights", "weights_shape"
    ),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=sorted(KINDS), default="cpu", help="kind of engine to check")
    parser.add_argument("--index", type=int, default=0, help="index of the device among those of its kind")
    parser.add_argument("--runtime", help="name of the runtime; the default: omp for the CPU, sycl for a GPU")
    parser.add_argument("--memory", choices=["device"], help="let a CPU engine of SYCL take the path of a GPU")


def run(options: argparse.Namespace) -> int:
    """The subcommand."""
    return report(engine(options.engine, options.index, options.runtime, options.memory))


def report(chosen: Engine) -> int:
    """Print a line for each check of an engine; returns 0 if all passed."""
    with verbose() as log:
        # oneDNN prints the names of its devices at its first run
        _relu(chosen)
    print("\n".join(_header(chosen, [record.text for record in log.records])))
    failed, every = 0, checks()
    for name, check in every.items():
        start = time.perf_counter()
        try:
            outcome = check(chosen)
        except (Error, MemoryError, AssertionError) as error:
            failed += 1
            outcome = f"FAILED: {type(error).__name__}: {error}"
        print(f"{name:48} {outcome}  ({time.perf_counter() - start:.2f} s)", flush=True)
    print(f"{len(every) - failed} of {len(every)} passed" + (f", {failed} FAILED" if failed else ""))
    return 1 if failed else 0


def _header(chosen: Engine, log: list[str]) -> Iterator[str]:
    found = info()
    yield f"dnnl_graph_ops {found['package']}, Python {found['python']}, NumPy {found['numpy']}"
    yield f"{platform.platform()}, {found['cpu'].get('model')}"
    yield f"oneDNN {chosen.runtime.version}, {chosen!r}"
    yield f"cpu runtime {chosen.runtime.cpu_runtime}, gpu runtime {chosen.runtime.gpu_runtime}"
    yield from (line for line in log if ",info," in line)
    yield ""


def checks() -> dict[str, Check]:
    """The checks by name; each returns a short word, and raises where a result is wrong."""
    ordinary = {name: row for name, row in DIRECTIONS.items() if name.startswith("convolution")}
    families = [
        *product(LAYERS.items(), DTYPES, (item for item in DIRECTIONS.items() if item[0] not in ordinary)),
        *product(LAYERS.items(), ("f32",), ordinary.items()),
    ]
    return {
        **{
            f"{name}, {way}, {dtype}": partial(_family, layer, dtype, direction)
            for (name, layer), dtype, (way, direction) in families
        },
        "bias gradient": _bias_gradient,
        "graph: block with constants": _graph,
        "graph: unknown sizes, plans used again": _sizes,
        "steps of the host between partitions": _host_steps,
        "arrays of the device in and out": _device_arrays,
        "submit": _submit,
        "out of memory": _out_of_memory,
        f"{ROUNDS} rounds of allocate, run, free": _rounds,
    }


# -- the families ---


def windows(array: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """A view (..., positions..., k...) of the last axes of an array; writable at one kernel element at a time."""
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    axes = tuple(range(-len(kernel), 0))
    view = np.lib.stride_tricks.sliding_window_view(array, reach, axes, writeable=True)
    steps: Any = (..., *(slice(None, None, step) for step in (*strides, *dilations)))
    return view[steps]


def _integers(rng: np.random.Generator, shape: Sequence[int | None], dtype: str = "f32") -> Array:
    """Random integers so small that every sum is exact in every dtype."""
    return rng.integers(-1, 2, shape).astype(numpy_dtype(dtype))  # type: ignore[arg-type]


def _truth(layer: Layer, dtype: str) -> dict[str, Array]:
    """Operands of a layer, and its dst and gradients, computed naively in float64."""
    rng = np.random.default_rng(SEED)
    dst_shape = functional.conv_transpose_output_shape(layer.src, layer.weights, **layer.attrs)
    shapes = {"src": layer.src, "weights": layer.weights, "diff_dst": dst_shape}
    operands = {name: _integers(rng, shape, dtype) for name, shape in shapes.items()}
    src, weights, diff_dst = operands.values()
    attrs = attributes(src.ndim - 2, "selftest", layer.attrs)
    groups, kernel = attrs.groups, weights.shape[:-2]
    # (N, groups, channels, spatial...) and (groups, OC/groups, IC/groups, k...)
    x, diff = (np.moveaxis(a.astype(np.float64), -1, 1) for a in (src, diff_dst))
    x, diff = (a.reshape(a.shape[0], groups, -1, *a.shape[2:]) for a in (x, diff))
    w = np.moveaxis(weights.astype(np.float64).reshape(*weights.shape[:-1], groups, -1), (-2, -3, -1), (0, 1, 2))
    padded = np.pad(diff, [(0, 0)] * 3 + [*zip(attrs.pads_begin, attrs.pads_end, strict=True)])
    y, diff_x, diff_w = np.zeros_like(padded), np.zeros_like(x), np.zeros_like(w)
    targets, sources = (windows(a, kernel, attrs.strides, attrs.dilations) for a in (y, padded))
    for tap in np.ndindex(*kernel):
        at: Any = (..., *tap)
        diff_x += np.einsum("ngo...,goi->ngi...", sources[at], w[at])
        diff_w[at] = np.einsum("ngop,ngip->goi", *(a.reshape(*a.shape[:3], -1) for a in (sources[at], x)))
        targets[at] += np.einsum("ngi...,goi->ngo...", x, w[at])
    inner: Any = (..., *(slice(b, b + n) for b, n in zip(attrs.pads_begin, diff_dst.shape[1:-1], strict=True)))
    dst, diff_src = (np.moveaxis(a.reshape(a.shape[0], -1, *a.shape[3:]), 1, -1) for a in (y[inner], diff_x))
    diff_weights = np.moveaxis(diff_w, (0, 1, 2), (-2, -3, -1)).reshape(weights.shape)
    return {**operands, "dst": dst, "diff_src": diff_src, "diff_weights": diff_weights}


def _family(layer: Layer, dtype: str, direction: Direction, chosen: Engine) -> str:
    truth = _truth(layer, dtype)
    first, second, exact = (truth[name] for name in (*direction.operands, direction.result))
    attrs = {**layer.attrs, **({direction.stated: exact.shape} if direction.stated else {})}
    if direction.function.startswith("convolution"):
        attrs.pop("output_padding", None)
    return _same(getattr(functional, direction.function)(first, second, engine=chosen, **attrs), exact)


def _same(result: Array, exact: Array) -> str:
    """Raises unless a result equals the truth in the result's dtype."""
    if result.shape != exact.shape:
        raise AssertionError(f"shape {result.shape}, expected {exact.shape}")
    wrong = result.astype(np.float64) != exact.astype(result.dtype).astype(np.float64)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} elements differ; first at {place}: {result[place]}, expected "
            f"{exact[place]}"
        )
    return "exact"


def _bias_gradient(chosen: Engine) -> str:
    diff = _integers(np.random.default_rng(SEED), (3, 9, 7, 16))
    return _same(functional.conv_transpose_backward_bias(diff, engine=chosen), diff.sum((0, 1, 2)))


# -- nets ---


def _relu(chosen: Engine) -> Array:
    graph = Graph(chosen)
    result: Array = graph.compile(ops.relu(graph.input("x", (4,))))(np.ones(4, np.float32))
    return result


def _block(chosen: Engine, size: int | None = None) -> tuple[Any, Array, Array, Array]:
    """A net of ConvTranspose, bias, addition and ReLU with constants, its two operands, and its result."""
    layer = LAYERS["k4 s2"]
    truth = _truth(layer, "f32")
    other = truth["diff_dst"]
    bias = _integers(np.random.default_rng(SEED + 1), other.shape[-1:])
    graph = Graph(chosen)
    src = graph.input("src", (size, *layer.src[1:]))
    added = graph.input("other", (size, *other.shape[1:]))
    value = ops.conv_transpose(src, graph.constant(truth["weights"]), graph.constant(bias), **layer.attrs)
    net = graph.compile(ops.relu(value + added))
    return net, truth["src"], other, np.maximum(truth["dst"] + bias + other, 0)


def _graph(chosen: Engine) -> str:
    net, src, other, exact = _block(chosen, LAYERS["k4 s2"].src[0])
    return _same(net(src, other), exact)


def _sizes(chosen: Engine) -> str:
    net, src, other, exact = _block(chosen)
    for batch in (1, 2, 1, 2):
        _same(net(src[:batch], other[:batch]), exact[:batch])
    return "exact"


def _host_steps(chosen: Engine) -> str:
    graph = Graph(chosen)
    x = graph.input("x", (5, 6))
    turned = ops.static_transpose(ops.relu(x), order=(1, 0))
    net = graph.compile(ops.relu(ops.pow(turned, beta=3.0) - 1.0))
    data = np.arange(-15, 15, dtype=np.float32).reshape(5, 6)
    return _same(net(data), np.maximum(np.maximum(data, 0).T ** 3 - 1, 0))


def _device_arrays(chosen: Engine) -> str:
    net, src, other, exact = _block(chosen)
    result = net(DeviceArray.from_numpy(src, chosen), DeviceArray.from_numpy(other, chosen))
    if not isinstance(result, DeviceArray):
        raise AssertionError(f"the result is a {type(result).__name__}")
    return _same(result.to_numpy(), exact)


def _submit(chosen: Engine) -> str:
    net, src, other, exact = _block(chosen)
    for future in [net.submit(src, other) for _ in range(20)]:
        _same(future.result(300), exact)
    return "exact"


def _out_of_memory(chosen: Engine) -> str:
    try:
        DeviceArray((1 << 45,), "f32", chosen)
    except Error as error:
        if "no room" not in str(error):
            raise
        return "refused"
    raise AssertionError("128 TB were granted")


def _rounds(chosen: Engine) -> str:
    for _ in range(ROUNDS):
        _device_arrays(chosen)
    return "exact"

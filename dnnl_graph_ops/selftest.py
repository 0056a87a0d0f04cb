"""`python -m dnnl_graph_ops selftest`: whether an engine computes right, as a report to paste into an issue."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Mapping
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

    With the roles of src and dst exchanged it is an ordinary one, with the same weights as (k..., IC/groups, OC).
    """

    src: tuple[int, ...]
    weights: tuple[int, ...]
    attrs: Mapping[str, Any]


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


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=sorted(KINDS), default="cpu")
    parser.add_argument("--index", type=int, default=0, help="which device of that kind")
    parser.add_argument("--runtime", help="name of the runtime; the default: omp for the CPU, sycl for a GPU")
    parser.add_argument("--memory", choices=["device"], help="a CPU engine of SYCL takes the path of a GPU")


def run(options: argparse.Namespace) -> int:
    """The subcommand."""
    return report(engine(options.engine, options.index, options.runtime, options.memory))


def report(chosen: Engine) -> int:
    """Print what an engine computes right; 0 if everything passed."""
    with verbose() as log:
        # the library names its devices when it first runs something
        _relu(chosen)
    print("\n".join(_header(chosen, [record.text for record in log.records])))
    failed = 0
    count = 0
    for name, check in checks().items():
        count += 1
        start = time.perf_counter()
        try:
            outcome = check(chosen)
        except (Error, MemoryError, AssertionError) as error:
            failed += 1
            outcome = f"FAILED: {type(error).__name__}: {error}"
        print(f"{name:48} {outcome}  ({time.perf_counter() - start:.2f} s)", flush=True)
    print(f"{count - failed} of {count} passed" + (f", {failed} FAILED" if failed else ""))
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
    """What is looked at, by name; each returns a short word and raises where something is wrong."""
    found: dict[str, Check] = {}
    for (name, layer), dtype, direction in product(LAYERS.items(), DTYPES, _DIRECTIONS):
        found[f"{name}, {direction}, {dtype}"] = _family(layer, dtype, _DIRECTIONS[direction])
    for (name, layer), direction in product(LAYERS.items(), _ORDINARY):
        found[f"{name}, {direction}, f32"] = _family(layer, "f32", _ORDINARY[direction])
    found["bias gradient"] = _bias_gradient
    found["graph: block with constants"] = _graph
    found["graph: unknown sizes, plans used again"] = _sizes
    found["steps of the host between partitions"] = _host_steps
    found["arrays of the device in and out"] = _device_arrays
    found["submit"] = _submit
    found["out of memory"] = _out_of_memory
    found[f"{ROUNDS} rounds of allocate, run, free"] = _rounds
    return found


# -- the families ---


def _integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "f32") -> Array:
    """Small enough for every sum to be exact in every dtype."""
    return rng.integers(-1, 2, shape).astype(numpy_dtype(dtype))


def _output(layer: Layer) -> tuple[int, ...]:
    shape = functional.conv_transpose_output_shape(layer.src, layer.weights, **layer.attrs)
    return tuple(size for size in shape if size is not None)


def _taps(layer: Layer) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...], tuple[int, ...]]]:
    """Per tap: the places of src, those of dst that they reach through it, and its index in the kernel."""
    spatial, kernel = layer.src[1:-1], layer.weights[:-2]
    given = attributes(len(spatial), "selftest", layer.attrs)
    output = _output(layer)[1:-1]
    for tap in np.ndindex(*kernel):
        sources, targets = [], []
        for axis, k in enumerate(tap):
            s, first = given.strides[axis], k * given.dilations[axis] - given.pads_begin[axis]
            size = output[axis]
            places = [i for i in range(spatial[axis]) if 0 <= first + i * s < size]
            if not places:
                break
            sources.append(slice(places[0], places[-1] + 1))
            targets.append(slice(first + places[0] * s, first + places[-1] * s + 1, s))
        else:
            yield tuple(sources), tuple(targets), tap


class _Truth:
    """All directions by the definition, in float64, on src, weights and diff_dst."""

    def __init__(self, layer: Layer, dtype: str) -> None:
        rng = np.random.default_rng(SEED)
        self.layer = layer
        self.src, self.weights = _integers(rng, layer.src, dtype), _integers(rng, layer.weights, dtype)
        self.diff = _integers(rng, _output(layer), dtype)
        self.forward = np.zeros(self.diff.shape)
        self.backward_data = np.zeros(self.src.shape)
        self.backward_weights = np.zeros(self.weights.shape)
        groups = int(layer.attrs.get("groups", 1))
        ins, outs = layer.src[-1] // groups, self.diff.shape[-1] // groups
        src, weights, diff = (a.astype(np.float64) for a in (self.src, self.weights, self.diff))
        for (at, to, tap), g in product(list(_taps(layer)), range(groups)):
            i, o = slice(g * ins, (g + 1) * ins), slice(g * outs, (g + 1) * outs)
            source, target, place = (slice(None), *at, i), (slice(None), *to, o), (*tap, slice(None), i)
            matrix = weights[place]  # (OC/groups, IC/groups)
            self.forward[target] += src[source] @ matrix.T
            self.backward_data[source] += diff[target] @ matrix
            self.backward_weights[place] += np.tensordot(
                diff[target], src[source], (range(diff.ndim - 1), range(diff.ndim - 1))
            )


def _forward(truth: _Truth, chosen: Engine) -> tuple[Array, Array]:
    result = functional.conv_transpose(truth.src, truth.weights, engine=chosen, **truth.layer.attrs)
    return result, truth.forward


def _backward_data(truth: _Truth, chosen: Engine) -> tuple[Array, Array]:
    result = functional.conv_transpose_backward_data(truth.diff, truth.weights, engine=chosen, **truth.layer.attrs)
    return result, truth.backward_data


def _backward_weights(truth: _Truth, chosen: Engine) -> tuple[Array, Array]:
    shape = truth.layer.weights
    result = functional.conv_transpose_backward_weights(
        truth.src, truth.diff, shape, engine=chosen, **truth.layer.attrs
    )
    return result, truth.backward_weights


_DIRECTIONS = {"forward": _forward, "backward data": _backward_data, "backward weights": _backward_weights}


def _convolution(truth: _Truth, chosen: Engine) -> tuple[Array, Array]:
    result = functional.convolution(truth.diff, truth.weights, engine=chosen, **_exchanged(truth.layer))
    return result, truth.backward_data


def _convolution_backward_data(truth: _Truth, chosen: Engine) -> tuple[Array, Array]:
    attrs, shape = _exchanged(truth.layer), truth.diff.shape
    result = functional.convolution_backward_data(truth.src, truth.weights, src_shape=shape, engine=chosen, **attrs)
    return result, truth.forward


def _convolution_backward_weights(truth: _Truth, chosen: Engine) -> tuple[Array, Array]:
    attrs, shape = _exchanged(truth.layer), truth.layer.weights
    result = functional.convolution_backward_weights(truth.diff, truth.src, shape, engine=chosen, **attrs)
    return result, truth.backward_weights


def _exchanged(layer: Layer) -> dict[str, Any]:
    return {name: value for name, value in layer.attrs.items() if name != "output_padding"}


_ORDINARY = {
    "convolution": _convolution,
    "convolution's backward data": _convolution_backward_data,
    "convolution's backward weights": _convolution_backward_weights,
}


def _family(layer: Layer, dtype: str, direction: Callable[[_Truth, Engine], tuple[Array, Array]]) -> Check:
    def check(chosen: Engine) -> str:
        return _same(*direction(_Truth(layer, dtype), chosen))

    return check


def _same(result: Array, exact: Array) -> str:
    """Equal in the result's dtype."""
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


def _block(chosen: Engine, size: int | None = None) -> tuple[Any, _Truth, Array]:
    """A net of ConvTranspose, bias, addition and ReLU with constants, its data, and what it gives."""
    layer = LAYERS["k4 s2"]
    truth = _Truth(layer, "f32")
    bias = _integers(np.random.default_rng(SEED + 1), truth.diff.shape[-1:])
    graph = Graph(chosen)
    src = graph.input("src", (size, *layer.src[1:]))
    other = graph.input("other", (size, *truth.diff.shape[1:]))
    value = ops.conv_transpose(src, graph.constant(truth.weights), graph.constant(bias), **layer.attrs)
    net = graph.compile(ops.relu(value + other))
    return net, truth, np.maximum(truth.forward + bias + truth.diff, 0)


def _graph(chosen: Engine) -> str:
    net, truth, exact = _block(chosen, LAYERS["k4 s2"].src[0])
    return _same(net(truth.src, truth.diff), exact)


def _sizes(chosen: Engine) -> str:
    net, truth, exact = _block(chosen)
    for batch in (1, 2, 1, 2):
        _same(net(truth.src[:batch], truth.diff[:batch]), exact[:batch])
    return "exact"


def _host_steps(chosen: Engine) -> str:
    graph = Graph(chosen)
    x = graph.input("x", (5, 6))
    turned = ops.static_transpose(ops.relu(x), order=(1, 0))
    net = graph.compile(ops.relu(ops.pow(turned, beta=3.0) - 1.0))
    data = np.arange(-15, 15, dtype=np.float32).reshape(5, 6)
    return _same(net(data), np.maximum(np.maximum(data, 0).T ** 3 - 1, 0))


def _device_arrays(chosen: Engine) -> str:
    net, truth, exact = _block(chosen)
    result = net(DeviceArray.from_numpy(truth.src, chosen), DeviceArray.from_numpy(truth.diff, chosen))
    if not isinstance(result, DeviceArray):
        raise AssertionError(f"the result is a {type(result).__name__}")
    return _same(result.to_numpy(), exact)


def _submit(chosen: Engine) -> str:
    net, truth, exact = _block(chosen)
    for future in [net.submit(truth.src, truth.diff) for _ in range(20)]:
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

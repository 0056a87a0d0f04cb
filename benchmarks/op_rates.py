"""Times every op compared with a copy of as many bytes, and names the ops that run by reference kernels.

`python benchmarks/op_rates.py [KIND...]` prints a row for each op, data type, layout and choice of axes
that a reference kernel computes, or whose bytes read and written in a second are less than a tenth of those of
`np.copyto`, by one thread. Operands are of about 1 to 4 MB. Products are judged by their share of the rate of the
machine's product of matrices instead: less than a twentieth is a row.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from dnnl_graph_ops import dtypes, ops, schema
from dnnl_graph_ops.errors import InvalidArgumentError, UnsupportedError
from dnnl_graph_ops.graph import Graph, Value
from dnnl_graph_ops.net import Net
from dnnl_graph_ops.reports import peaks
from dnnl_graph_ops.runtime.threads import set_num_threads

Shape = tuple[int, ...]
FLOATS: Final = ("f32", "bf16", "f16")
LAYOUTS: Final = ("NCX", "NXC")
# all but those without results, and with any number of them
KINDS: Final = sorted(
    kind for kind, op in schema.OPS.items() if op.outputs and not any(slot.variadic for slot in op.outputs)
)


class OpCase(NamedTuple):
    """An op with the shapes of its operands; an operand's dtype is f32, bf16 or f16 unless `dtypes` names another.

    macs: the multiply-adds of a product, 0 of other ops.
    """

    kind: str
    label: str
    shapes: tuple[Shape, ...]
    attrs: dict[str, Any]
    dtypes: tuple[str, ...] = ()
    more: dict[str, Any] = {}  # noqa: RUF012
    macs: int = 0

    def build(self, dtype: str) -> list[Value]:
        """Returns the results of the op on inputs of a new graph.

        Raises:
            InvalidArgumentError: the op takes no `dtype`.
        """
        graph = Graph()
        given = self.dtypes or ("",) * len(self.shapes)
        values = [
            graph.input(f"x{i}", shape, other or dtype)
            for i, (shape, other) in enumerate(zip(self.shapes, given, strict=True))
        ]
        result: Any = getattr(ops, schema.OPS[self.kind].builder)(*values, **self.attrs, **self.more)
        return list(result) if isinstance(result, tuple) else [result]


def _image(layout: str, channels: int, *spatial: int, batch: int = 2) -> Shape:
    return (batch, channels, *spatial) if layout == "NCX" else (batch, *spatial, channels)


def cases_of(kind: str, size: int = 64) -> Iterator[OpCase]:
    """Yields the cases of a kind; `size`: the height and width of images of 64 channels, two in a batch."""
    yield from CASES.get(kind, _elementwise)(kind, size)


def _elementwise(kind: str, size: int) -> Iterator[OpCase]:
    count = len([slot for slot in schema.OPS[kind].inputs if slot.required])
    attrs = {name: _NUMBERS[name] for name, attr in schema.OPS[kind].attrs.items() if attr.required}
    shape = (2, 64, size, size)
    yield OpCase(kind, "", (shape,) * count, attrs)


# of the attributes without a default
_NUMBERS: Final = {"alpha": 0.2, "beta": 0.5, "max": 1.0, "min": -1.0}


def _spread(kind: str, size: int) -> Iterator[OpCase]:
    shape = (2, 64, size, size)
    others: dict[str, Shape] = {
        "": shape,
        "by channel": (1, 64, 1, 1),
        "along the last axis": (size,),
        "along all but the last": (2, 64, size, 1),
        "along two axes apart": (1, 64, 1, size),
        "one element": (1,),
        "by image": (2, 1, size, size),
    }
    for label, other in others.items():
        yield OpCase(kind, label, (shape, other), {})
        if label:
            yield OpCase(kind, f"{label}, first operand", (other, shape), {})


def _select(kind: str, size: int) -> Iterator[OpCase]:
    shape = (2, 64, size, size)
    for label, other in {"": shape, "by channel": (1, 64, 1, 1), "along the last axis": (size,)}.items():
        yield OpCase(kind, label, (other, shape, shape), {}, ("boolean", "", ""))


def _axes(size: int) -> dict[str, tuple[Shape, tuple[int, ...]]]:
    """Returns choices of axes, by label: the shape of the source, and the axes."""
    return {
        "last of 4": ((2, 64, size, size), (3,)),
        "last two of 4": ((2, 64, size, size), (2, 3)),
        "channels": ((2, 64, size, size), (1,)),
        "middle": ((2, size, size, 64), (1, 2)),
        "first": ((2 * size, 64, size), (0,)),
        "two apart": ((2, 64, size, size), (1, 3)),
        "first and last two": ((2, 64, size, size), (0, 2, 3)),
        "all": ((2, 64, size, size), (0, 1, 2, 3)),
        "few neighbours": ((2 * size * size, 16, 4), (2,)),
        "few columns": ((2 * size * size, 16, 4), (1,)),
        "odd rows": ((2 * size, size - 1, 63), (2,)),
    }


def _reduce(kind: str, size: int) -> Iterator[OpCase]:
    for label, (shape, axes) in _axes(size).items():
        yield OpCase(kind, label, (shape,), {"axes": axes, "keep_dims": True})


def _softmax(kind: str, size: int) -> Iterator[OpCase]:
    count = 2 if kind.endswith("Backward") else 1
    for label, (shape, axes) in _axes(size).items():
        if len(axes) == 1:
            yield OpCase(kind, label, (shape,) * count, {"axis": axes[0]})


def _layer_norm(kind: str, size: int) -> Iterator[OpCase]:
    for width, affine in product((64, 1000), (True, False)):
        shape = (2, size * size * 64 // width, width)
        backward = kind.endswith("Backward")
        stats = (shape[:-1],) * 2 if backward else ()
        vectors = ((width,),) * 2 if affine else ()
        attrs = {"use_affine": affine} | ({} if backward else {"keep_stats": False})
        given = (shape, *((shape,) if backward else ()), *stats, *vectors)
        inputs = ("",) * (2 if backward else 1) + ("f32",) * len((*stats, *vectors))
        yield OpCase(kind, f"of {width}{', affine' if affine else ''}", given, attrs, inputs)


def _rms_norm(kind: str, size: int) -> Iterator[OpCase]:
    for width in (64, 1000):
        shape = (2, size * size * 64 // width, width)
        yield OpCase(kind, f"of {width}", (shape, (width,)), {})
    yield OpCase(kind, "of two axes", ((2 * size, 64, size), (64, size)), {"begin_norm_axis": 1})


def _by_layout(
    given: Callable[[Shape, int], tuple[tuple[Shape, ...], dict[str, Any]]],
    inputs: tuple[str, ...] = (),
    axes: tuple[int, ...] = (1, 2, 3),
) -> Callable[[str, int], Iterator[OpCase]]:
    """Returns what yields cases of an op on data of each layout: of one to three spatial axes, and of 3 channels."""

    def make(kind: str, size: int) -> Iterator[OpCase]:
        sizes = {1: (size * size,), 2: (size, size), 3: (size // 4, size, 4)}
        for layout in LAYOUTS:
            for channels, spatial in [*((64, sizes[n]) for n in axes), (3, (4 * size, 4 * size))]:
                shape = _image(layout, channels, *spatial)
                shapes, attrs = given(shape, channels)
                label = f"{layout}, {channels} channels, {len(spatial)}-D"
                yield OpCase(kind, label, shapes, {"data_format": layout, **attrs}, inputs)

    return make


def _pool(backward: bool = False) -> Callable[[str, int], Iterator[OpCase]]:
    def make(kind: str, size: int) -> Iterator[OpCase]:
        windows = {"2 s2": (2, 2, 0, 1), "3 s1": (3, 1, 1, 1), "3 s2": (3, 2, 1, 1), "7 s1": (7, 1, 3, 1)}
        if kind.startswith("Max"):
            windows["3 d2"] = (3, 1, 2, 2)
        for layout, (channels, axes), (label, (kernel, stride, pad, dilation)) in product(
            LAYOUTS, ((64, 1), (64, 2), (64, 3), (3, 2)), windows.items()
        ):
            if axes == 3 and kernel == 7:
                continue
            spatial = {1: (size * size,), 2: (size, size), 3: (size // 4, size // 2, 8)}[axes]
            if channels == 3:
                spatial = (4 * size, 4 * size)
            result = tuple((n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n in spatial)
            shape, other = _image(layout, channels, *spatial), _image(layout, channels, *result)
            attrs: dict[str, Any] = {
                "kernel": (kernel,) * axes, "strides": (stride,) * axes, "pads_begin": (pad,) * axes,
                "pads_end": (pad,) * axes, "data_format": layout,
            }  # fmt: skip
            if kind.startswith("Max"):
                attrs["dilations"] = (dilation,) * axes
            else:
                attrs["exclude_pad"] = False
            shapes: tuple[Shape, ...] = (shape,)
            if backward:
                shapes = (shape, other) if kind.startswith("Max") else (other,)
                attrs |= {} if kind.startswith("Max") else {"src_shape": shape}
            yield OpCase(kind, f"{layout}, {channels} channels, {axes}-D {label}", shapes, attrs)

    return make


def _interpolate(kind: str, size: int) -> Iterator[OpCase]:
    words = {1: "linear", 2: "bilinear", 3: "trilinear"}
    for layout, axes, linear, scale in product(LAYOUTS, (1, 2, 3), (True, False), (2, 0.5)):
        spatial = {1: (size * size,), 2: (size, size), 3: (size // 4, size // 2, 8)}[axes]
        result = tuple(int(n * scale) for n in spatial)
        shape, other = _image(layout, 64, *spatial, batch=1), _image(layout, 64, *result, batch=1)
        mode = words[axes] if linear else "nearest"
        shapes = (shape, other) if kind.endswith("Backward") else (shape,)
        attrs = {"mode": mode, "data_format": layout, "sizes": result}
        yield OpCase(kind, f"{layout}, {mode} {axes}-D by {scale}", shapes, attrs)


def _convolution(kind: str, size: int) -> Iterator[OpCase]:
    transposed = kind.startswith("ConvT")
    for layout, (channels, kernel, stride, groups) in product(
        LAYOUTS, ((64, 3, 1, 1), (64, 3, 1, 64), (64, 4, 2, 1), (64, 1, 1, 1))
    ):
        half = size // 2
        pad = (kernel - 1) // 2
        large = _image(layout, channels, half * stride, half * stride)
        small = _image(layout, channels, half, half)
        x, y = (small, large) if transposed else (large, small)
        weights = (channels, channels // groups, kernel, kernel)
        attrs: dict[str, Any] = {
            "strides": (stride,) * 2, "pads_begin": (pad,) * 2, "pads_end": (pad,) * 2, "dilations": (1, 1),
            "groups": groups, "data_format": layout, "weights_format": "IOX" if transposed else "OIX",
        }  # fmt: skip
        if kind.endswith("BackwardWeights"):
            shapes = (x, y)
            attrs["weights_shape"] = weights
        elif kind.endswith("BackwardData"):
            shapes = (y, weights)
            attrs |= {} if transposed else {"dst_shape": x}
        else:
            shapes = (x, weights)
        macs = prod(small) * kernel**2 * channels // groups
        # one multiply-add for each element read makes a copy of a depthwise layer, not a product
        label = f"{layout}, k{kernel} s{stride} groups {groups}"
        yield OpCase(kind, label, shapes, attrs, macs=macs if groups == 1 else 0)


def _matmul(kind: str, size: int) -> Iterator[OpCase]:
    side = 8 * size
    square, flat = (side, side), (side, side)
    yield OpCase(kind, "square", (square, flat), {}, macs=side**3)
    yield OpCase(kind, "transposed", (square, flat), {"transpose_a": True, "transpose_b": True}, macs=side**3)
    yield OpCase(kind, "bias", (square, flat, (side,)), {}, macs=side**3)
    yield OpCase(kind, "batches", ((8, side // 2, size), (8, size, side // 2)), {}, macs=2 * side**2 * size)
    yield OpCase(kind, "one row", ((1, 2 * side), (2 * side, side)), {})


def _moved(kind: str, size: int) -> Iterator[OpCase]:
    shape = (2, 64, size, size)
    if kind == "StaticReshape":
        yield OpCase(kind, "", (shape,), {"shape": (2, 64, size * size), "special_zero": False})
    elif kind == "StaticTranspose":
        for order in ((0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3), (0, 1, 3, 2)):
            yield OpCase(kind, str(order), (shape,), {"order": order})
    elif kind == "Concat":
        for axis in range(4):
            yield OpCase(kind, f"axis {axis}", (shape, shape), {"axis": axis})
    elif kind == "Pad":
        for mode in ("constant", "edge", "reflect"):
            yield OpCase(kind, mode, (shape,), {"pads_begin": (0, 0, 1, 1), "pads_end": (0, 0, 1, 1), "mode": mode})
    elif kind == "Slice":
        yield OpCase(kind, "", (shape,), {"starts": (0, 0, 1, 1), "ends": (2, 64, size, size), "steps": (1, 1, 1, 1)})
        yield OpCase(
            kind, "steps", (shape,), {"starts": (0, 0, 0, 0), "ends": (2, 64, size, size), "steps": (1, 1, 1, 2)}
        )
    elif kind == "Gather":
        for axis in (0, 1):
            yield OpCase(kind, f"axis {axis}", ((4096, 2 * size), (2048,)), {"axis": axis}, ("", "s32"))


def _typecast(kind: str, size: int) -> Iterator[OpCase]:
    for dtype in FLOATS:
        yield OpCase(kind, f"to {dtype}", ((2, 64, size, size),), {}, (), {"dtype": dtype})


def _quantized(kind: str, size: int) -> Iterator[OpCase]:
    shape, dynamic = (2, 64, size, size), kind.startswith("Dynamic")
    for dtype, channel in product(("u8", "s8"), (False, True)):
        count = 64 if channel else 1
        attrs: dict[str, Any] = {"qtype": "per_channel" if channel else "per_tensor", "axis": 1}
        shapes: tuple[Shape, ...] = (shape,)
        inputs: tuple[str, ...] = ("f32",) if not kind.endswith("Dequantize") and "Deq" not in kind else (dtype,)
        more = {"dtype": dtype} if inputs == ("f32",) else {}
        if dynamic:
            shapes, inputs = (shape, (count,)), (*inputs, "f32")
        else:
            attrs |= {"scales": [0.1] * count, "zps": [0] * count}
        yield OpCase(kind, f"{dtype} {attrs['qtype']}", shapes, attrs, inputs, more)


def _prelu(kind: str, size: int) -> Iterator[OpCase]:
    forward = kind == "PReLU"
    more = {"per_channel_broadcast": True} if forward else {}
    yield from _by_layout(lambda shape, c: ((shape, (c,), *(() if forward else (shape,))), more))(kind, size)
    shape = (2, 64, size, size)
    attrs = {"data_format": "NCX"} | ({"per_channel_broadcast": False} if forward else {})
    yield OpCase(kind, "slope of two axes apart", (shape, (1, 64, 1, size), *(() if forward else (shape,))), attrs)


def _bias_add(kind: str, size: int) -> Iterator[OpCase]:
    yield from _by_layout(lambda shape, c: ((shape, (c,)), {}))(kind, size)


_norm_inference = _by_layout(lambda shape, c: ((shape, *((c,),) * 4), {"epsilon": 1e-5}), ("",) + ("f32",) * 4)
_norm_training = _by_layout(
    lambda shape, c: ((shape, *((c,),) * 2), {"epsilon": 1e-5, "momentum": 0.1}), ("",) + ("f32",) * 2
)
_norm_backward = _by_layout(
    lambda shape, c: ((shape, shape, *((c,),) * 3), {"epsilon": 1e-5}), ("", "", "f32", "f32", "f32"), (2, 3)
)


CASES: Final[dict[str, Callable[[str, int], Iterator[OpCase]]]] = {
    "Add": _spread,
    "Divide": _spread,
    "Maximum": _spread,
    "Minimum": _spread,
    "Multiply": _spread,
    "SquaredDifference": _spread,
    "Subtract": _spread,
    "GreaterEqual": _spread,
    "Select": _select,
    "AvgPool": _pool(),
    "MaxPool": _pool(),
    "AvgPoolBackward": _pool(backward=True),
    "MaxPoolBackward": _pool(backward=True),
    **dict.fromkeys((kind for kind in schema.OPS if kind.startswith("Reduce")), _reduce),
    "SoftMax": _softmax,
    "LogSoftmax": _softmax,
    "SoftMaxBackward": _softmax,
    "LogSoftmaxBackward": _softmax,
    "LayerNorm": _layer_norm,
    "LayerNormBackward": _layer_norm,
    "RMSNorm": _rms_norm,
    "GroupNorm": _by_layout(
        lambda shape, c: ((shape, (c,), (c,)), {"groups": c // 3 or 1 if c == 3 else 8, "keep_stats": False}),
        ("", "f32", "f32"),
    ),
    "BatchNormInference": _norm_inference,
    "BatchNormForwardTraining": _norm_training,
    "BatchNormTrainingBackward": _norm_backward,
    "BiasAdd": _bias_add,
    "BiasAddBackward": _by_layout(lambda shape, c: ((shape,), {})),
    "PReLU": _prelu,
    "PReLUBackward": _prelu,
    "Interpolate": _interpolate,
    "InterpolateBackward": _interpolate,
    **dict.fromkeys((kind for kind in schema.OPS if kind.startswith("Conv")), _convolution),
    "MatMul": _matmul,
    "Concat": _moved,
    "Gather": _moved,
    "Pad": _moved,
    "Slice": _moved,
    "StaticReshape": _moved,
    "StaticTranspose": _moved,
    "TypeCast": _typecast,
    "Quantize": _quantized,
    "Dequantize": _quantized,
    "DynamicQuantize": _quantized,
    "DynamicDequantize": _quantized,
    "Dropout": lambda kind, size: iter(
        [OpCase(kind, "", ((2, 64, size, size), (1,), (1,), (1,)), {}, ("", "s64", "s64", "f32"))]
    ),
    "GenIndex": lambda kind, size: iter([OpCase(kind, "", ((2, 64, size, size),), {"axis": 1})]),
}


# ---- measuring -------------------------------------------------------------------------------------------------------

LEAST_RATE, LEAST_SHARE = 0.1, 0.05
_ROUNDS = 5


class Row(NamedTuple):
    """Measures one case.

    rate: of a product the part of the machine's peak, of other ops the bytes read and written in a second over those
    of np.copyto. milliseconds: of the fastest run. reference: whether a slow reference implementation runs.
    """

    case: OpCase
    dtype: str
    rate: float
    milliseconds: float
    reference: bool
    implementation: str

    @property
    def slow(self) -> bool:
        return self.reference or self.rate < (LEAST_SHARE if self.case.macs else LEAST_RATE)

    def __str__(self) -> str:
        flag = " (reference kernel)" if self.reference else ""
        name = f"{self.case.kind} {self.dtype} {self.case.label}"
        return f"| {name} | {self.rate:.3f} | {self.milliseconds:.3f} | {self.implementation}{flag} |"


def compiled(case: OpCase, dtype: str) -> Net | None:
    """Returns a case as a net; None where the op does not take the dtype, or nothing computes it."""
    try:
        values = case.build(dtype)
        return values[0].graph.compile({f"y{i}": value for i, value in enumerate(values)})
    except (InvalidArgumentError, UnsupportedError):
        return None


def measure(case: OpCase, dtype: str) -> Row | None:
    """Times one case; None where the op does not take the dtype, or nothing computes it."""
    net = compiled(case, dtype)
    if net is None:
        return None
    rng = np.random.default_rng(0)
    inputs = {value.name: _numbers(rng, value) for value in net.inputs}
    results = net.run(inputs)
    told = net.explain()
    moved = sum(array.nbytes for array in (*inputs.values(), *results.values()))
    source = np.ones(moved // 2, np.uint8)
    target = np.ones_like(source)
    rates, fastest = [], float("inf")
    for _ in range(_ROUNDS):
        taken, copied = _seconds(lambda: net.run(inputs, results)), _seconds(lambda: np.copyto(target, source))
        fastest = min(fastest, taken)
        rates.append(copied / taken)
    rate = statistics.median(rates)
    if case.macs:
        rate = case.macs / fastest / peaks.of_products(net.engine, dtype, 1).rate
    implementation = "; ".join(dict.fromkeys(step.implementation for step in told.steps))
    return Row(case, dtype, rate, fastest * 1e3, any(step.reference for step in told.steps), implementation)


def _numbers(rng: np.random.Generator, value: Value) -> np.ndarray[Any, Any]:
    shape: Any = value.shape
    kind = dtypes.numpy_dtype(value.dtype)
    return (
        rng.uniform(0.5, 1.5, shape).astype(kind) if value.dtype in FLOATS else rng.integers(0, 2, shape).astype(kind)
    )


def _seconds(run: Callable[[], Any]) -> float:
    """Returns the seconds of the fastest of three runs, or of one that takes more than 5 ms."""
    fastest = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - start)
        if fastest > 0.005:
            break
    return fastest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="of these kinds alone")
    parser.add_argument("--all", action="store_true", help="print every row")
    options = parser.parse_args()
    set_num_threads(1)
    print("| op | rate | ms | implementation |", "|---|---|---|---|", sep="\n")
    for kind in options.kinds or KINDS:
        for case, dtype in product(cases_of(kind), FLOATS):
            row = measure(case, dtype)
            if row is not None and (row.slow or options.all):
                print(row, flush=True)


if __name__ == "__main__":
    main()

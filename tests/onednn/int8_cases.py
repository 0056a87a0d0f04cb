"""Small int8 graphs that the library's fused partitions crash on, refuse or compute wrongly.

`python -m onednn.int8_cases TUNE [NAME...]` compares each with its evaluation in NumPy and prints a line for it.
"""

import sys

import numpy as np
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

FLAT = {"data_format": "NCX", "pads_begin": 1, "pads_end": 1}
POOL = {"kernel": [2, 2], "strides": [1, 1], "data_format": "NCX"}
PADDED, BARE = ({**POOL, "pads_begin": [pad, pad], "pads_end": [pad, pad]} for pad in (1, 0))
SCALES = [2.0 ** -(i % 7) for i in range(16)]


class Case:
    """A graph of 16 channels; `take` is a Dequantize of an input."""

    def __init__(self, seed=0):
        self.graph, self.rng = dgo.Graph(), np.random.default_rng(seed)

    def take(self, dtype, *shape, scale=0.5, **attrs):
        source = self.graph.input(f"x{len(self.graph.inputs)}", shape, dtype)
        return ops.dequantize(source, **{"scales": [scale], **attrs})

    def weights(self, *shape, dtype="s8", **attrs):
        array = self.rng.integers(-128, 128, shape).astype(np.int8).view(dgo.dtypes.numpy_dtype(dtype))
        return ops.dequantize(self.graph.constant(array), **{"scales": [0.5], **attrs})

    def rows(self, x, columns=24, **attrs):
        return ops.matmul(x, self.weights(16, columns, **attrs))

    def convolution(self, x, out=16, **attrs):
        return ops.convolution(x, self.weights(out, 16, 3, 3, **attrs), **FLAT, weights_format="OIX")

    def transposed(self, x, stride=1, **attrs):
        weights = self.weights(16, 16, 3, 3, **attrs)
        return ops.conv_transpose(x, weights, **FLAT, weights_format="IOX", strides=stride, output_padding=stride - 1)


def images(case, dtype="u8", **attrs):
    return case.take(dtype, 1, 16, 8, 8, **attrs)


def joined(op, head, shape):
    """A product of the same Dequantize that is joined to it."""

    def build(case):
        x = case.take("u8", *shape)
        return op(head(case, x), x)

    return build


def skipped(head, shape, result, skip, dtype, relu=False, **attrs):
    """A product, added to other integers and quantized."""

    def build(case):
        y = head(case, case.take("u8", *shape), **attrs)
        other = case.take(skip, *result, scale=64.0, zps=[10])
        return ops.quantize((ops.relu(y) if relu else y) + other, scales=[512.0], zps=[7], dtype=dtype)

    return build


def few(dtype, relu=False, quantized=True):
    """Few channels, transposed and added to integers: for such the library takes a kernel whose sums saturate."""

    def build(case):
        operands = case.take("u8", 2, 4, 5, 5), case.weights(4, 24, 3, 3)
        y = ops.conv_transpose(*operands, data_format="NCX", weights_format="IOX")
        y = (ops.relu(y) if relu else y) + case.take(dtype, 2, 24, 7, 7, scale=16.0, zps=[10])
        return ops.quantize(y, scales=[128.0], zps=[8], dtype=dtype) if quantized else y

    return build


def enlarged(channels, **attrs):
    """A transposed convolution with places that no tap reaches."""
    return lambda case: ops.conv_transpose(
        case.take("u8", 2, 6, 5, 6, zps=[117]),
        case.weights(6, channels, 2, 2),
        np.arange(channels, dtype=np.float32),
        data_format="NCX",
        weights_format="IOX",
        **attrs,
    )


def pooled(kind, attrs, source, dtype, zps=(0, 0), scales=(0.5, 0.5)):
    """A pooling between integers."""

    def build(case):
        y = getattr(ops, kind)(images(case, source, scale=scales[0], zps=[zps[0]]), **attrs)
        return ops.quantize(y, scales=[scales[1]], zps=[zps[1]], dtype=dtype)

    return build


MEAN = {"exclude_pad": True}
SQUARE = (1, 16, 8, 8)
UP = (1, 16, 16, 16)
CASES = {
    "MatMul and its own Dequantize": joined(ops.add, lambda case, x: case.rows(x, 16), (16, 16)),
    "Convolution and its own Dequantize": joined(ops.add, Case.convolution, SQUARE),
    "ConvTranspose and its own Dequantize": joined(ops.add, Case.transposed, SQUARE),
    "Convolution times its own Dequantize": joined(ops.multiply, Case.convolution, SQUARE),
    "MatMul times its own Dequantize": joined(ops.multiply, lambda case, x: case.rows(x, 16), (16, 16)),
    "rows scaled along the sum": lambda case: case.rows(
        case.take("u8", 16, 16), scales=SCALES, zps=[0] * 16, qtype="per_channel", axis=0
    ),
    "data scaled along the sum": lambda case: case.rows(
        case.take("u8", 4, 16, scales=SCALES, zps=[0] * 16, qtype="per_channel", axis=1)
    ),
    "images scaled by channel": lambda case: case.convolution(
        images(case, scales=SCALES, zps=[0] * 16, qtype="per_channel", axis=1)
    ),
    "images scaled by channel, transposed": lambda case: case.transposed(
        images(case, scales=SCALES, zps=[0] * 16, qtype="per_channel", axis=1)
    ),
    "weights of u8": lambda case: case.convolution(images(case), dtype="u8"),
    "one output of u8 weights": lambda case: case.convolution(images(case), 1, dtype="u8"),
    "transposed weights of u8": lambda case: case.transposed(images(case), dtype="u8"),
    "rows by weights of u8": lambda case: case.rows(case.take("u8", 4, 16), dtype="u8"),
    "u8 added to rows of s8": skipped(Case.rows, (4, 16), (4, 24), "u8", "s8"),
    "s8 added to rows of u8": skipped(Case.rows, (4, 16), (4, 24), "s8", "u8"),
    "u8 added to images of s8": skipped(Case.convolution, SQUARE, SQUARE, "u8", "s8"),
    "s8 added to images of u8": skipped(Case.convolution, SQUARE, SQUARE, "s8", "u8"),
    "u8 added to transposed images of s8": skipped(Case.transposed, SQUARE, SQUARE, "u8", "s8"),
    "s8 added to transposed images of u8": skipped(Case.transposed, SQUARE, SQUARE, "s8", "u8"),
    "u8 added behind ReLU": skipped(Case.transposed, SQUARE, SQUARE, "u8", "u8", relu=True),
    "s8 added behind ReLU": skipped(Case.transposed, SQUARE, SQUARE, "s8", "s8", relu=True),
    "u8 added to larger images": skipped(Case.transposed, SQUARE, UP, "u8", "u8", stride=2),
    "u8 added to a few transposed channels": few("u8"),
    "s8 added to a few transposed channels": few("s8"),
    "floats added to a few channels behind ReLU": few("s8", True, False),
    "groups that sum channels into one": lambda case: ops.conv_transpose(
        case.take("u8", *SQUARE), case.weights(16, 1, 3, 3), **FLAT, weights_format="IOX", groups=4
    ),
    "places of a transposed convolution that no tap reaches": enlarged(10, strides=2, output_padding=1),
    "places between the taps of a transposed convolution": enlarged(24, strides=4),
    "means with padding": pooled("avg_pool", PADDED | {"exclude_pad": False}, "u8", "u8", (100, 100)),
    "means of u8 to s8": pooled("avg_pool", BARE | MEAN, "u8", "s8"),
    "means of s8 to u8": pooled("avg_pool", BARE | MEAN, "s8", "u8"),
    "means between zero points": pooled("avg_pool", BARE | MEAN, "u8", "u8", (3, 5)),
    "means between scales": pooled("avg_pool", BARE | MEAN, "u8", "u8", (3, 3), (0.5, 0.25)),
    "maxima of u8 to s8": pooled("max_pool", BARE, "u8", "s8"),
    "maxima between zero points": pooled("max_pool", BARE, "u8", "u8", (3, 5)),
    "maxima between scales": pooled("max_pool", BARE, "u8", "u8", (3, 3), (0.5, 0.25)),
}


def error_of(build, tune):
    """How far the result is from its evaluation, in units of integers, or in parts of the largest value."""
    case = Case()
    y = build(case)
    data = {
        value: case.rng.integers(*((-128, 128) if value.dtype == "s8" else (0, 256)), value.shape).astype(
            dgo.dtypes.numpy_dtype(value.dtype)
        )
        for value in case.graph.inputs
    }
    truth = evaluate_built(case.graph, data)[y].astype(np.float64)
    out = np.full(truth.shape, np.nan if y.dtype == "f32" else 77, dgo.dtypes.numpy_dtype(y.dtype))
    net = case.graph.compile(y, tune=tune)
    net(*(data[value] for value in net.inputs), out=out)
    off = np.abs(out - truth).max()
    return off if y.dtype != "f32" else off / np.abs(truth).max() * 1e6


def main(tune, *names):
    for name in names or CASES:
        print(name, end=": ", flush=True)
        try:
            print(f"{error_of(CASES[name], tune):.3g}", flush=True)
        except Exception as error:
            print(type(error).__name__, error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

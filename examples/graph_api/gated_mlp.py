"""A gated MLP of language models: dst = (swish(src x wei0) * (src x wei1)) x wei2, with swish(x) = x * sigmoid(x).

One partition where the library fuses the whole, three in oneDNN 3.2: src (mb, ic) x wei1 (ic, oc), src x wei0 with all
element-wise ops after it, and the product with wei2 (oc, ic).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from graph_example_utils import TOLERANCES, TYPES, Array, Case, each_type, options

from dnnl_graph_ops.graph_api import logical_tensor, op


def mlp(ids: Iterator[int], inputs: Sequence[logical_tensor], dst: logical_tensor) -> list[op]:
    """The six ops, by the next ids: src (mb, ic), wei0 and wei1 (ic, oc) and wei2 (oc, ic) to dst (mb, ic)."""
    src, wei0, wei1, wei2 = inputs
    hidden = [src.get_dims()[0], wei2.get_dims()[0]]
    gate, up, sigmoid, swish, gated = (
        logical_tensor(next(ids), src.get_data_type(), hidden, logical_tensor.strided) for _ in range(5)
    )
    return [
        op(next(ids), op.kind.MatMul, [src, wei0], [gate], "fc_gate"),
        op(next(ids), op.kind.MatMul, [src, wei1], [up], "fc_up"),
        op(next(ids), op.kind.Sigmoid, [gate], [sigmoid], "swish/sigmoid"),
        op(next(ids), op.kind.Multiply, [gate, sigmoid], [swish], "swish/multiply"),
        op(next(ids), op.kind.Multiply, [swish, up], [gated], "mul"),
        op(next(ids), op.kind.MatMul, [gated, wei2], [dst], "fc_down"),
    ]


def mlp_in_numpy(src: Array, wei0: Array, wei1: Array, wei2: Array) -> Array:
    x, gate, up, down = (array.astype(np.float64) for array in (src, wei0, wei1, wei2))
    g = x @ gate
    return g / (1 + np.exp(-g)) * (x @ up) @ down


def mlp_case(dt: Any, src: Array, wei0: Array, wei1: Array, wei2: Array) -> Case:
    """A gated MLP on these arrays, with their strides."""
    ids, arrays = itertools.count(), (src, wei0, wei1, wei2)
    inputs = {
        logical_tensor(next(ids), dt, array.shape, [step // array.itemsize for step in array.strides]): array
        for array in arrays
    }
    dst = logical_tensor(next(ids), dt, src.shape, logical_tensor.strided)
    return Case(mlp(ids, list(inputs), dst), inputs, dst.get_id(), mlp_in_numpy(*arrays), TOLERANCES[dt])


def random(dt: Any, *shapes: tuple[int, int]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-0.25, 0.25, shape).astype(TYPES[dt]) for shape in shapes]


def main() -> int:
    chosen = options(__doc__, mb=4, ic=256, oc=704)
    mb, ic, oc = chosen.mb, chosen.ic, chosen.oc
    return each_type(lambda dt: mlp_case(dt, *random(dt, (mb, ic), (ic, oc), (ic, oc), (oc, ic))), chosen.runtime)


if __name__ == "__main__":
    sys.exit(main())

"""A product of two matrices as a partition of one op: no graph is made, and none is cut into partitions."""

from __future__ import annotations

import sys

import numpy as np
from graph_example_utils import judged, open_engine, options, prepare

from dnnl_graph_ops.graph_api import engine, logical_tensor, op, partition, stream, tensor

M, K, N = 32, 1024, 2048


def matmul() -> op:
    """src0 (M, K) times src1 (K, N); their sizes are told when the partition is compiled."""
    src0, src1, dst = (logical_tensor(number, logical_tensor.f32) for number in range(3))
    o = op(0, op.kind.MatMul, [src0, src1], [dst], "matmul")
    return o.set_attr(op.attr.transpose_a, False).set_attr(op.attr.transpose_b, False)


def run(alone: partition, e: engine, astream: stream) -> bool:
    """Whether a partition of `matmul` writes NumPy's numbers."""
    rng = np.random.default_rng(0)
    # sums of integers that f32 holds exactly
    src0, src1 = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((M, K), (K, N)))
    print(f"  a partition of op {alone.get_ops()}, {alone.get_engine_kind().name}")
    tensors = {number: tensor.from_numpy(array, number, e) for number, array in enumerate((src0, src1))}
    steps = prepare([alone], tensors, e)
    return judged(steps, astream, tensors[2], src0 @ src1)


def main() -> int:
    chosen = options(__doc__)
    e = open_engine(chosen.runtime)
    alone = partition(matmul(), engine.kind.cpu, runtime=chosen.runtime)
    return 0 if run(alone, e, stream(e)) else 1


if __name__ == "__main__":
    sys.exit(main())

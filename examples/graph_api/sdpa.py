"""Scaled dot-product attention with a mask: one partition where the library fuses it, three in oneDNN 3.2.

The C++ file also times primitives called one by one: matmul with two post-ops, softmax, matmul. The package has
partitions alone: in place of primitives each op is a partition of its own, by the policy `debug`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from graph_example_utils import TOLERANCES, TYPES, Array, Case, each_type, options

from dnnl_graph_ops.graph_api import logical_tensor, op, partition


def attention(ids: Iterator[int], inputs: Sequence[logical_tensor], output: logical_tensor) -> list[op]:
    """Ops of softmax(query x key^T / scale + mask) x value, by the next ids.

    The inputs are query (..., q, d), key (..., k, d), scale (1,), mask (..., q or 1, k) and value (..., k, d).
    """
    query, key, scale, mask, value = inputs
    scores = [*query.get_dims()[:-1], key.get_dims()[-2]]
    score, scaled, masked, probs = (
        logical_tensor(next(ids), query.get_data_type(), scores, logical_tensor.strided) for _ in range(4)
    )
    bmm1 = op(next(ids), op.kind.MatMul, [query, key], [score], "bmm1").set_attr(op.attr.transpose_b, True)
    scale_div = op(next(ids), op.kind.Divide, [score, scale], [scaled], "scale_div")
    mask_add = op(next(ids), op.kind.Add, [scaled, mask], [masked], "mask_add")
    softmax = op(next(ids), op.kind.SoftMax, [masked], [probs], "softmax").set_attr(op.attr.axis, -1)
    bmm2 = op(next(ids), op.kind.MatMul, [probs, value], [output], "bmm2")
    return [bmm1, scale_div, mask_add, softmax, bmm2]


def attention_in_numpy(query: Array, key: Array, scale: Array, mask: Array, value: Array) -> Array:
    q, k, s, m, v = (array.astype(np.float64) for array in (query, key, scale, mask, value))
    scores = q @ k.swapaxes(-1, -2) / s + m
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def random(dt: Any, shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(TYPES[dt])


def key_mask(dt: Any, shape: tuple[int, ...]) -> Array:
    """0 for the first three quarters of the keys, minus infinity for the others."""
    mask = np.zeros(shape, TYPES[dt])
    mask[..., shape[-1] * 3 // 4 :] = -np.inf
    return mask


def attention_case(dt: Any, queries: tuple[int, ...], keys: tuple[int, ...], masks: tuple[int, ...]) -> Case:
    """Attention on tensors of these shapes."""
    ids = itertools.count()
    arrays = [
        random(dt, queries, 0),
        random(dt, keys, 1),
        np.full(1, np.sqrt(queries[-1]), TYPES[dt]),
        key_mask(dt, masks),
        random(dt, keys, 2),
    ]
    inputs = [logical_tensor(next(ids), dt, array.shape, logical_tensor.strided) for array in arrays]
    output = logical_tensor(next(ids), dt, queries, logical_tensor.strided)
    expected = attention_in_numpy(*arrays)
    return Case(
        attention(ids, inputs, output),
        dict(zip(inputs, arrays, strict=True)),
        output.get_id(),
        expected,
        TOLERANCES[dt],
    )


def main() -> int:
    chosen = options(__doc__, mb=2, seq_len=64, head_num=4, head_size=64, query_num=64)

    def case(dt: Any) -> Case:
        heads = chosen.mb, chosen.head_num
        return attention_case(
            dt,
            (*heads, chosen.query_num, chosen.head_size),
            (*heads, chosen.seq_len, chosen.head_size),
            (chosen.mb, 1, chosen.query_num, chosen.seq_len),
        )

    fused = each_type(case, chosen.runtime)
    print("each op by itself")
    return each_type(case, chosen.runtime, policy=partition.policy.debug) or fused


if __name__ == "__main__":
    sys.exit(main())

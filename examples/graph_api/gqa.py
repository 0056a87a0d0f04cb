"""Grouped-query attention: groups of query heads share a head of keys and values, by reshapes to five axes.

query (mb, q_head_num, seq_len, head_size) is seen as (mb, kv_head_num, q_head_num / kv_head_num, seq_len, head_size);
key and value get a third axis of length 1. oneDNN 3.2 has no kernel for reshapes: there the example makes views itself.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from graph_example_utils import TOLERANCES, TYPES, Case, each_type, options
from sdpa import attention, attention_in_numpy, key_mask, random

from dnnl_graph_ops.graph_api import logical_tensor, op, partition, tensor


def reshaped(ids: Iterator[int], source: logical_tensor, result: logical_tensor, name: str) -> op:
    reshape = op(next(ids), op.kind.StaticReshape, [source], [result], name)
    return reshape.set_attr(op.attr.shape, result.get_dims()).set_attr(op.attr.special_zero, False)


def view(p: partition, tensors: dict[int, tensor]) -> None:
    """The result of a reshape: the memory of its source by another description."""
    (source,), (result,) = p.get_input_ports(), p.get_output_ports()
    memory = tensors[source.get_id()]
    array = memory.to_numpy().reshape(result.get_dims())
    tensors[result.get_id()] = tensor.from_numpy(array, result.get_id(), memory.get_engine())


def main() -> int:
    chosen = options(__doc__, mb=2, seq_len=64, q_head_num=8, kv_head_num=2, head_size=64)
    mb, length, size, groups = chosen.mb, chosen.seq_len, chosen.head_size, chosen.kv_head_num
    share = chosen.q_head_num // groups
    queries, keys, masks = (mb, share * groups, length, size), (mb, groups, length, size), (mb, 1, 1, length)

    def case(dt: Any) -> Case:
        ids = itertools.count()

        def described(*dims: int) -> logical_tensor:
            return logical_tensor(next(ids), dt, dims, logical_tensor.strided)

        query, key, scale, mask, value = (described(*dims) for dims in (queries, keys, (1,), masks, keys))
        grouped = described(mb, groups, share, length, size)
        key_of_group, value_of_group = (described(mb, groups, 1, length, size) for _ in range(2))
        mask_of_group, result = described(mb, 1, 1, 1, length), described(mb, groups, share, length, size)
        output = described(*queries)
        ops = [
            reshaped(ids, query, grouped, "reshape_query"),
            reshaped(ids, key, key_of_group, "reshape_key"),
            reshaped(ids, mask, mask_of_group, "reshape_mask"),
            reshaped(ids, value, value_of_group, "reshape_value"),
            *attention(ids, (grouped, key_of_group, scale, mask_of_group, value_of_group), result),
            reshaped(ids, result, output, "reshape_output"),
        ]
        inputs = {
            query: random(dt, queries, 0),
            key: random(dt, keys, 1),
            scale: np.full(1, np.sqrt(size), TYPES[dt]),
            mask: key_mask(dt, masks),
            value: random(dt, keys, 2),
        }
        q, k, s, m, v = inputs.values()
        expected = attention_in_numpy(q, k.repeat(share, 1), s, m, v.repeat(share, 1))
        return Case(ops, inputs, output.get_id(), expected, TOLERANCES[dt])

    return each_type(case, chosen.runtime, {op.kind.StaticReshape: view})


if __name__ == "__main__":
    sys.exit(main())

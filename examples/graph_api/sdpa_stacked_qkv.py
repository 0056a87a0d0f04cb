"""Attention whose query, key and value lie in one array (mb, seq_len, head_num, 3, head_size), as a projection writes.

Each is a logical tensor (mb, head_num, seq_len, head_size) with the strides of its place, and a tensor over a view
of the array: nothing is copied.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
from graph_example_utils import TOLERANCES, TYPES, Case, each_type, options
from sdpa import attention, attention_in_numpy, key_mask, random

from dnnl_graph_ops.graph_api import logical_tensor


def main() -> int:
    chosen = options(__doc__, mb=2, seq_len=64, head_num=4, head_size=64)
    mb, length, heads, size = chosen.mb, chosen.seq_len, chosen.head_num, chosen.head_size
    strides = [length * heads * 3 * size, 3 * size, heads * 3 * size, 1]

    def case(dt: Any) -> Case:
        ids = itertools.count()
        stacked = random(dt, (mb, length, heads, 3, size), 0)
        query, key, value = (logical_tensor(next(ids), dt, [mb, heads, length, size], strides) for _ in range(3))
        views = dict(zip((query, key, value), stacked.transpose(3, 0, 2, 1, 4), strict=True))
        scale = logical_tensor(next(ids), dt, [1], logical_tensor.strided)
        mask = logical_tensor(next(ids), dt, [mb, 1, 1, length], logical_tensor.strided)
        output = logical_tensor(next(ids), dt, [mb, heads, length, size], logical_tensor.strided)
        inputs = {
            **views,
            scale: np.full(1, np.sqrt(size), TYPES[dt]),
            mask: key_mask(dt, (mb, 1, 1, length)),
        }
        order = query, key, scale, mask, value
        expected = attention_in_numpy(*(inputs[lt] for lt in order))
        return Case(attention(ids, order, output), inputs, output.get_id(), expected, TOLERANCES[dt])

    return each_type(case, chosen.runtime)


if __name__ == "__main__":
    sys.exit(main())

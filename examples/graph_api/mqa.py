"""Multi-query attention: several heads of queries share one head of keys and one of values.

The graph is that of sdpa.py; MatMul broadcasts key and value (mb, 1, seq_len, head_size) over the heads of query.
"""

from __future__ import annotations

import sys
from typing import Any

from graph_example_utils import Case, each_type, options
from sdpa import attention_case


def main() -> int:
    chosen = options(__doc__, mb=2, seq_len=64, q_head_num=4, head_size=64)

    def case(dt: Any) -> Case:
        return attention_case(
            dt,
            (chosen.mb, chosen.q_head_num, chosen.seq_len, chosen.head_size),
            (chosen.mb, 1, chosen.seq_len, chosen.head_size),
            (chosen.mb, 1, 1, chosen.seq_len),
        )

    return each_type(case, chosen.runtime)


if __name__ == "__main__":
    sys.exit(main())

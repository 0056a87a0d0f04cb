"""A gated MLP whose wei0 and wei1 are the halves of one array (ic, 2 oc): views with its strides, nothing is copied.

The graph is that of gated_mlp.py.
"""

from __future__ import annotations

import sys
from typing import Any

from gated_mlp import mlp_case, random
from graph_example_utils import Case, each_type, options


def main() -> int:
    chosen = options(__doc__, mb=4, ic=256, oc=704)
    mb, ic, oc = chosen.mb, chosen.ic, chosen.oc

    def case(dt: Any) -> Case:
        src, combined, wei2 = random(dt, (mb, ic), (ic, 2 * oc), (oc, ic))
        return mlp_case(dt, src, combined[:, :oc], combined[:, oc:], wei2)

    return each_type(case, chosen.runtime)


if __name__ == "__main__":
    sys.exit(main())

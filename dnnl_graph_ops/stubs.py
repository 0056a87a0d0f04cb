"""The text of _functional.pyi: `python -m dnnl_graph_ops.stubs > dnnl_graph_ops/_functional.pyi`."""

from __future__ import annotations

from inspect import signature

from . import functional
from .ops.conv_transpose import FAMILY
from .ops.stubs import function

_HEADER = '''"""Made by `python -m dnnl_graph_ops.stubs`; a test compares. What type checkers see of `functional`."""

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from .runtime.engines import Engine

Array: TypeAlias = np.ndarray[Any, Any]
Ints: TypeAlias = int | Sequence[int]
'''


def text() -> str:
    """The stub of the one-shot functions that the op table makes."""
    lines = [_HEADER]
    for name in (*FAMILY, "conv_transpose_output_shape"):
        lines += function(name, signature(getattr(functional, name)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(text(), end="")

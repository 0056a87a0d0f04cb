"""Infers the shapes of every op kind in pure Python, without a oneDNN library."""

from . import conv_transpose, convolution, elementwise, matmul, normalization, rearrange, windows  # noqa: F401 (rules)
from .attributes import Attributes
from .native import native_attrs, unsupported
from .registry import RULES, Meta, check_sizes, checked, resolved

__all__ = ["RULES", "Attributes", "Meta", "check_sizes", "checked", "native_attrs", "resolved", "unsupported"]

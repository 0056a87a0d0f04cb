"""Shape inference for every op kind: pure Python, needs no library."""

from . import (
    conv_transpose,
    convolution,
    elementwise,
    matmul,
    native,
    normalization,
    pieces,
    pooling,
    quantization,
    rearrange,
)
from .attributes import Attributes
from .native import native_attrs, unsupported
from .registry import RULES, Meta, check_sizes, checked, resolved, rule

__all__ = [
    "RULES",
    "Attributes",
    "Meta",
    "check_sizes",
    "checked",
    "conv_transpose",
    "convolution",
    "elementwise",
    "matmul",
    "native",
    "native_attrs",
    "normalization",
    "pieces",
    "pooling",
    "quantization",
    "rearrange",
    "resolved",
    "rule",
    "unsupported",
]

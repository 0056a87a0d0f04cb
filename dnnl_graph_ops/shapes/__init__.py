"""Shape inference for every op kind: pure Python, needs no library."""

from . import (
    conv_transpose,
    convolution,
    elementwise,
    matmul,
    native,
    normalization,
    pooling,
    quantization,
    rearrange,
)
from .native import native_attrs, unsupported
from .registry import RULES, Meta, check_sizes, infer, rule

__all__ = [
    "RULES",
    "Meta",
    "check_sizes",
    "conv_transpose",
    "convolution",
    "elementwise",
    "infer",
    "matmul",
    "native",
    "native_attrs",
    "normalization",
    "pooling",
    "quantization",
    "rearrange",
    "rule",
    "unsupported",
]

"""Shape inference for every op kind: pure Python, needs no library."""

from .registry import RULES, Meta, check_sizes, infer, rule

__all__ = ["RULES", "Meta", "check_sizes", "infer", "rule"]

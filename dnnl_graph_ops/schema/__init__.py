"""Reads the op table: names, slots, attributes, defaults and versions of ops, and checks against the table."""

from .attributes import attr_lengths, native_attrs, normalise_attrs
from .table import ATTR_CODES, BUILDERS, KEYWORDS, OPS, POST_OPS, REFERENCE, TRAITS, Keyword, OpSchema, Slot, kinds
from .types import availability, check_inputs, output_dtypes

__all__ = [
    "ATTR_CODES",
    "BUILDERS",
    "KEYWORDS",
    "OPS",
    "POST_OPS",
    "REFERENCE",
    "TRAITS",
    "Keyword",
    "OpSchema",
    "Slot",
    "attr_lengths",
    "availability",
    "check_inputs",
    "kinds",
    "native_attrs",
    "normalise_attrs",
    "output_dtypes",
]

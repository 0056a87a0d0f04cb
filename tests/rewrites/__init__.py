"""A prover for each rewrite: importing a room of them registers those in it."""

from . import folds, groups, patterns, placement, quantized  # noqa: F401

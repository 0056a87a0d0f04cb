"""A prover for each rewrite: importing a room of them registers those in it."""

from . import folds, groups, integers, narrow, onednn, patterns, placement, pooling, quantized, steps, upsampling  # noqa: F401

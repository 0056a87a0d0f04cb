"""Computes ops in NumPy where the loaded library has no kernel: one table, one function per kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph import Node
from ...schema import OPS, kinds
from . import elementwise, normalization, quantization, windows
from .common import Array, Maker, always, store

HOST: dict[str, Maker] = {
    **always(elementwise.RULES),
    **always(normalization.RULES),
    **always(quantization.RULES),
    **windows.MAKERS,
}


_SINGLE = kinds("numpy_single")


def step(node: Node) -> Callable[..., None]:
    """Returns a function that computes a node; called with its input and output arrays, it fills the output arrays."""
    attrs, count = dict(node.attrs), len(node.inputs)
    if node.host is not None:
        host = node.host

        def fill(*arrays: Array) -> None:
            for target, result in zip(arrays[count:], host(arrays[:count]), strict=True):
                target[...] = result

        return fill
    shape, *shapes = (tuple(map(int, value.shape)) for value in (node.outputs[0], *node.inputs))  # type: ignore[arg-type]
    rule = HOST[node.kind](attrs, shapes, shape)
    dtype = np.float32 if node.kind in _SINGLE else np.float64
    as_they_are = OPS[node.kind].has_wide_integers

    def run(*arrays: Array) -> None:
        inputs = [array if as_they_are else array.astype(dtype, copy=False) for array in arrays[:count]]
        with np.errstate(all="ignore"):
            results = rule(attrs, inputs, shape)
        for target, result in zip(arrays[count:], results, strict=False):
            store(target, result)

    return run


__all__ = ["HOST", "step"]

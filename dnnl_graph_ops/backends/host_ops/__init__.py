"""Op kinds in NumPy, for what the loaded library has no kernel for: one table, one function per kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph import Host, Node
from ...schema import OPS
from . import elementwise, movement, normalization, quantization, resampling, windows
from .common import Array, Maker, always, as_is, single, store, wide

HOST: dict[str, Maker] = {
    **always(elementwise.RULES),
    **always(movement.RULES),
    **always(normalization.RULES),
    **always(quantization.RULES),
    **resampling.MAKERS,
    **windows.MAKERS,
}


# what is no better in float64: functions that NumPy has in f32
_GIVEN: dict[str, Callable[[Array], Array]] = {
    "Cos": single, "Sin": single,
}  # fmt: skip


def step(node: Node) -> Callable[..., None]:
    """The node as a function of its inputs' arrays and the outputs' arrays that it fills."""
    attrs, count = dict(node.attrs), len(node.inputs)
    if node.host is not None:
        return _whole(node.host, count)
    shape, *shapes = (tuple(map(int, value.shape)) for value in (node.outputs[0], *node.inputs))  # type: ignore[arg-type]
    rule = HOST[node.kind](attrs, shapes, shape)
    taken = _GIVEN.get(node.kind, as_is if OPS[node.kind].has_wide_integers else wide)

    def run(*arrays: Array) -> None:
        inputs = [taken(array) for array in arrays[:count]]
        with np.errstate(all="ignore"):
            results = rule(attrs, inputs, shape)
        for target, result in zip(arrays[count:], results, strict=False):
            store(target, result)

    return run


def _whole(host: Host, count: int) -> Callable[..., None]:
    """A function outside of the table as a step on arrays."""

    def run(*arrays: Array) -> None:
        for target, result in zip(arrays[count:], host(arrays[:count]), strict=True):
            target[...] = result

    return run


__all__ = ["HOST", "step"]

"""Activations in the layout that a form asks for."""

from __future__ import annotations

from ...strides import dense_strides
from ..problem import is_channels_last
from ..program import Program, View


def channels_last(program: Program, view: View, label: str) -> View:
    """A view whose channels are contiguous: itself, or a transposed copy."""
    if is_channels_last(view):
        return view
    return program.copied(view, view.dtype, (0, *range(2, view.ndim), 1), label)


def channels_last_strides(view: View) -> tuple[int, ...]:
    """Those of a dense view of the same shape whose channels are contiguous."""
    n, c, *spatial = view.shape
    batch, *others = dense_strides((n, *spatial, c))
    return (batch, others[-1], *others[:-1])


def result_view(program: Program, view: View) -> View:
    """Where a result goes whose channels must be contiguous: the view itself, or scratch to copy from."""
    if is_channels_last(view):
        return view
    return program.scratch(view.shape, view.dtype, (0, *range(2, view.ndim), 1))

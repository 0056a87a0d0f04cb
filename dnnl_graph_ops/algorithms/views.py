"""Activations and weights in the layout that an algorithm asks for."""

from __future__ import annotations

from ..lowering.problem import Problem, is_channels_last, mergeable_groups
from ..lowering.program import Program, View
from ..strides import dense_strides


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


def merged_weights(program: Program, weights: View) -> View:
    """Weights as (IC, OC/G, kernel...), the groups' in channels one after the other; a copy where strides forbid it."""
    if not mergeable_groups(weights):
        dense = program.scratch(weights.shape, weights.dtype)
        program.copy(weights, dense, "weights to (IC, OC/groups, ...)")
        weights = dense
    return weights.merge(0)


def weights_target(program: Program, problem: Problem) -> tuple[View, View]:
    """Where a gradient of weights goes: (grouped view, the library's shape of it); scratch if strides forbid."""
    weights = problem.weights
    if not mergeable_groups(weights):
        weights = program.scratch(weights.shape, weights.dtype)
    return weights, weights.merge(0)


def finish_weights(program: Program, result: View, problem: Problem) -> None:
    """Append the copy of a gradient that `weights_target` put into scratch."""
    if result is not problem.weights:
        program.copy(result, problem.weights, "weights to the asked shape")

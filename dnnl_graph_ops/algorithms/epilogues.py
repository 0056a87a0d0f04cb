"""Post-ops on results: by own kernels, in f32, before they round and write them, or by the library."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..lowering import chain
from ..lowering.env import Env
from ..lowering.problem import Problem, is_channels_last
from ..lowering.program import Program, View
from ..lowering.tail import Tail, native, views
from .views import channels_last_strides


def expressed(problem: Problem, env: Env) -> bool:
    """Whether a kernel that writes the result channels last, straight or to be copied, can apply the post-ops."""
    result = problem.result
    laid = result if is_channels_last(result) else replace(result, strides=channels_last_strides(result))
    return chain.expresses(problem.tail, laid)


def fused(program: Program, tail: Tail, target: View) -> chain.Fused:
    """The post-ops for the kernel that writes `target`; ask `expressed` first."""
    found = chain.program_of(program, tail, target)
    if found is None:
        raise RuntimeError(f"no program for {', '.join(op.kind for op in tail)} on {target.shape}")
    return found


def labelled(label: str, tail: Tail) -> str:
    """A step's label with the kinds of its post-ops: "own direct + ReLU"."""
    return " + ".join((label, *(op.kind for op in tail)))


def by_library(problem: Problem, env: Env) -> bool:
    """Whether the library applies the post-ops itself, and not by a reference kernel.

    Seen in oneDNN 3.2: with two operands of dst's size, or one that is not added, channels-first convolutions do.
    """
    if not native(problem.tail, env):
        return False
    whole = [op.kind for op in problem.tail if any(_spans(o) for o in op.operands if isinstance(o, View))]
    return not env.engine.on_host or _all_channels_last(problem) or whole in ([], ["Add"])


def by_library_without_operands(problem: Problem, env: Env) -> bool:
    """Whether the library applies the post-ops to another view of the result than their operands have."""
    return native(problem.tail, env) and not views(problem.tail)


def _spans(operand: View) -> bool:
    """Whether an operand of post-ops has more than one position."""
    return operand.ndim > 2 and prod(operand.shape[2:]) > 1


def _all_channels_last(problem: Problem) -> bool:
    operands = (view for view in views(problem.tail) if _spans(view))
    return all(is_channels_last(view) for view in (problem.src, problem.dst, *operands))

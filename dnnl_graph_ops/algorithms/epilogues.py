"""Fuses post-ops into the step that computes a result: into an own kernel, before it rounds, or the library's op."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..lowering import chain
from ..lowering.env import Env
from ..lowering.epilogue import Epilogue, native, views
from ..lowering.problem import Problem, is_channels_last
from ..lowering.program import Program, View
from .views import channels_last_strides


def expressed(problem: Problem, env: Env) -> bool:
    """Whether a kernel that writes channels-last results can apply the problem's post-ops.

    A result of another layout counts as channels last, because it is copied from channels-last scratch afterwards.
    """
    result = problem.result
    laid = result if is_channels_last(result) else replace(result, strides=channels_last_strides(result))
    return chain.expresses(problem.epilogue, laid)


def fused(program: Program, epilogue: Epilogue, target: View) -> chain.Fused:
    """Returns the post-ops as the kernel that writes `target` takes them; RuntimeError where `expressed` is False.

    Appends copies of the post-ops' operands where the kernel needs another layout than they have.
    """
    applied = chain.program_of(program, epilogue, target)
    if applied is None:
        raise RuntimeError(f"no program for {', '.join(op.kind for op in epilogue)} on {target.shape}")
    return applied


def labelled(label: str, epilogue: Epilogue) -> str:
    """Returns a step's label followed by the kinds of its post-ops, e.g. "own direct + ReLU"."""
    return " + ".join((label, *(op.kind for op in epilogue)))


def by_library(problem: Problem, env: Env) -> bool:
    """Whether the library's op can apply the post-ops itself without falling back to a reference kernel.

    Seen in oneDNN 3.2: channels-first convolutions fall back where two post-ops have an operand of dst's size, or where
    one has that is no Add.
    """
    if not native(problem.epilogue, env):
        return False
    whole = [op.kind for op in problem.epilogue if any(_spans(o) for o in op.operands if isinstance(o, View))]
    return not env.engine.on_host or _all_channels_last(problem) or whole in ([], ["Add"])


def by_library_without_operands(problem: Problem, env: Env) -> bool:
    """Whether the library's op can apply the post-ops, none of which has an operand besides the result.

    An algorithm needs this where its op sees dst with other axes, e.g. as a matrix (N * positions, OC).
    """
    return native(problem.epilogue, env) and not views(problem.epilogue)


def _spans(operand: View) -> bool:
    """Whether an operand of a post-op has more than one spatial position."""
    return operand.ndim > 2 and prod(operand.shape[2:]) > 1


def _all_channels_last(problem: Problem) -> bool:
    operands = (view for view in views(problem.epilogue) if _spans(view))
    return all(is_channels_last(view) for view in (problem.src, problem.dst, *operands))

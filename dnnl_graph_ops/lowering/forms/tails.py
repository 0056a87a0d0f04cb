"""Post-ops that own kernels apply to their results, in f32, before they round and write them."""

from __future__ import annotations

from dataclasses import replace

from .. import chain
from ..env import Env
from ..problem import Problem, is_channels_last
from ..program import Program, View
from ..tail import Tail
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
    """What a step does, its post-ops included."""
    return " + ".join((label, *(op.kind for op in tail)))

"""Defines an op kind with dtypes, and the library that is to run it: all that tables need, without a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..lowering.env import Env

Version = tuple[int, ...]


def _as_it_is(dtype: str, *ops: str) -> str:
    return dtype


class Target(NamedTuple):
    """The library that would run an op, as its version and instruction set.

    compute_dtype(dtype, *ops): the dtype in which the library computes ops of `dtype`, such as f32 for bf16 on AVX2.
    prefers_own: whether kernels of the package may run in place of the library's.
    """

    version: Version
    isa: str = ""
    compute_dtype: Callable[..., str] = _as_it_is
    prefers_own: bool = False

    @classmethod
    def of(cls, env: Env) -> Target:
        return cls(env.version, env.isa, env.compute_dtype, env.prefers_own)


class Kind(NamedTuple):
    """An op kind with the dtypes of its inputs and outputs, () for ordinary ones; attributes and shapes are unknown."""

    name: str
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()

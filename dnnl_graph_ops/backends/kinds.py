"""Op kinds, and what is to run them, as far as tables can tell without a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..lowering.env import Env

Version = tuple[int, ...]


def _as_it_is(dtype: str, *ops: str) -> str:
    return dtype


class Target(NamedTuple):
    """The library that would run an op: version, instruction set, and the dtype that it computes another one in.

    prefers_own: whether own code goes before the library's.
    """

    version: Version
    isa: str = ""
    compute_dtype: Callable[..., str] = _as_it_is
    prefers_own: bool = False

    @classmethod
    def of(cls, env: Env) -> Target:
        return cls(env.version, env.isa, env.compute_dtype, env.prefers_own)


class Kind(NamedTuple):
    """An op kind with dtypes of its inputs and outputs (none: of ordinary data); attributes and shapes are open."""

    name: str
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()

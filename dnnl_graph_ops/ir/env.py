"""Holds what the choice of backends and algorithms depends on besides a graph: engine, threads and user's options."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..errors import InvalidArgumentError
from ..graph.choices import Algorithm
from ..once import once
from ..runtime import cpu, rates, reference
from ..runtime.engines import Engine

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
ALGORITHM_VARIABLE = "DNNL_GRAPH_OPS_ALGORITHM"


def default_algorithm() -> str:
    """Returns the set of algorithms that the variable DNNL_GRAPH_OPS_ALGORITHM names; "auto" if it is unset."""
    value = os.environ.get(ALGORITHM_VARIABLE) or "auto"
    if value.lower() not in ALGORITHMS:
        raise InvalidArgumentError(f"{ALGORITHM_VARIABLE} must be one of {', '.join(ALGORITHMS)}, got {value!r}")
    return value.lower()


@dataclass(frozen=True)
class Env:
    """Engine, threads and the user's options.

    `varies`: whether sizes of the net differ from call to call. `cold`: whether the net's constants exceed the near
    caches, so that each call reads them from further away. `wide`: whether the library computes in f32 what is in bf16
    or f16.
    """

    engine: Engine
    threads: int
    tune: str = "heuristic"
    algorithm: str = "auto"
    fpmath_mode: str = "strict"
    varies: bool = False
    cold: bool = False
    wide: bool = False

    def __hash__(self) -> int:
        return self._hash

    @once
    def _hash(self) -> int:
        return hash((self.engine, *self.key(), self.wide))

    @once
    def answers(self) -> dict[Hashable, Any]:
        """Answers that depend on the environment and their key alone: each is worked out once a compilation."""
        return {}

    @once
    def token(self) -> object:
        """The environment in keys of answers that its problems keep: an object is hashed in a tenth of the time."""
        return object()

    @once
    def version(self) -> tuple[int, ...]:
        return self.engine.runtime.version_info

    @once
    def widened(self) -> Env:
        """The environment in which the library computes in f32 what is in bf16 or f16."""
        return replace(self, wide=True)

    @once
    def release(self) -> str:
        return self.engine.runtime.version

    @once
    def isa(self) -> str:
        return cpu.isa(self.engine)

    @once
    def rates(self) -> rates.Rates | None:
        """How fast this CPU multiplies in each unit; None if nobody knows."""
        return rates.of(self.engine)

    @once
    def lanes(self) -> int:
        """Floats in a vector of the library's instruction set."""
        return cpu.lanes(self.isa)

    @once
    def has_tiles(self) -> bool:
        return "amx" in cpu.native(self.isa)

    @property
    def vectors(self) -> str:
        """The instruction set of builtin kernels as `_core.kernels` names it; "": the one that this process uses."""
        return ""

    def compute_dtype(self, dtype: str, *ops: str) -> str:
        """Returns the dtype to compute `ops` on `dtype` in: f32 if the library has no kernels for them in bf16 or f16.

        Reference kernels do not count as kernels. Without `ops`, any kernel of the dtype counts.
        `family.ops_of` and `Algorithm.ops` give the names of ops.
        """
        if dtype not in cpu.HALVES:
            return dtype
        return dtype if not self.wide and self.multiplies(dtype, ops) else "f32"

    def multiplies(self, dtype: str, ops: Sequence[str]) -> bool:
        """Whether the library has fast kernels of bf16 or f16 for these ops."""
        return cpu.computes_natively(dtype, self.engine, ops)

    @property
    def by_reference(self) -> reference.Keys:
        """The keys of the choices that the library is known to compute by reference kernels (`onednn.reference`)."""
        return reference.keys(self.engine)

    @property
    def has_int8_products(self) -> bool:
        """Whether the library multiplies 8-bit integers faster than floats."""
        return "int8" in cpu.native(self.isa)

    @once
    def prefers_builtin(self) -> bool:
        """Whether builtin code may compute what the library can compute, too: not with tune="off", nor on a device."""
        return self.tune != "off" and self.engine.on_host

    def key(self) -> tuple[Any, ...]:
        return (self.threads, self.tune, self.algorithm, self.fpmath_mode, self.varies, self.cold)

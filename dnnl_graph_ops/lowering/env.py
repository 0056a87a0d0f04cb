"""What a choice of an algorithm may depend on besides the problem."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgumentError
from ..runtime import cpu
from ..runtime.engines import Engine

ALGORITHMS = ("auto", "direct", "fast")
ALGORITHM_VARIABLE = "DNNL_GRAPH_OPS_ALGORITHM"


def default_algorithm() -> str:
    """What DNNL_GRAPH_OPS_ALGORITHM says, else "auto"."""
    value = os.environ.get(ALGORITHM_VARIABLE) or "auto"
    if value.lower() not in ALGORITHMS:
        raise InvalidArgumentError(f"{ALGORITHM_VARIABLE} must be one of {', '.join(ALGORITHMS)}, got {value!r}")
    return value.lower()


@dataclass(frozen=True)
class Env:
    """Engine, threads and the user's options; `varies`: whether the net has sizes that change from call to call."""

    engine: Engine
    threads: int
    tune: str = "heuristic"
    algorithm: str = "auto"
    fpmath_mode: str = "strict"
    varies: bool = False

    # none is a cached_property: before Python 3.12 that holds a lock of all instances, and a forked child waits for it

    @property
    def version(self) -> tuple[int, ...]:
        return self.engine.runtime.version_info

    @property
    def release(self) -> str:
        return self.engine.runtime.version

    @property
    def isa(self) -> str:
        return cpu.isa(self.engine)

    @property
    def lanes(self) -> int:
        """Floats of the library's vectors."""
        return cpu.lanes(self.isa)

    @property
    def vectors(self) -> str:
        """The instruction set of own code as `_core.kernels` names it; empty: of this process."""
        return ""

    def compute_dtype(self, dtype: str, *ops: str) -> str:
        """The dtype to compute ops in: f32 where the library has no kernels of bf16 or f16, or reference kernels only.

        Without ops: whether it has any. `groups.ops_of` and `Algorithm.ops` name them.
        """
        return dtype if cpu.computes_natively(dtype, self.engine, ops) else "f32"

    @property
    def has_int8_products(self) -> bool:
        """Whether the library multiplies integers faster than floats."""
        return "int8" in cpu.native(self.isa)

    @property
    def prefers_own(self) -> bool:
        """Whether own code may go before the library's: not with tune="off", nor on a device."""
        return self.tune != "off" and self.engine.on_host

    def key(self) -> tuple[Any, ...]:
        return (self.threads, self.tune, self.algorithm, self.fpmath_mode, self.varies)

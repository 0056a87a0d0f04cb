"""The CPU's instruction sets as oneDNN sees them; SETS is the one table of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from .._core import kernels
from ..schema import kinds
from .engines import Engine
from .libraries import Runtime
from .probe import has_kernels


class InstructionSet(NamedTuple):
    """A dnnl_cpu_isa_t; it contains every set whose bits it has."""

    name: str
    bits: int
    lanes: int  # f32 elements of a vector
    fit: str  # the cost constants of `cost.fits` for it
    adds: tuple[str, ...] = ()  # dtypes that it computes natively, besides those of the sets it contains


# each set is listed after all sets that it contains
SETS = (
    InstructionSet("sse41", 0x1, 4, "avx2"),
    InstructionSet("avx", 0x3, 8, "avx2"),
    InstructionSet("avx2", 0x7, 8, "avx2"),
    InstructionSet("avx2_vnni", 0xF, 8, "avx2", ("int8",)),
    # converts bf16 and f16, but multiplies neither
    InstructionSet("avx2_vnni_2", 0x1F, 8, "avx2"),
    InstructionSet("avx512_core", 0x27, 16, "avx512"),
    InstructionSet("avx512_core_vnni", 0x67, 16, "avx512", ("int8",)),
    InstructionSet("avx512_core_bf16", 0xE7, 16, "avx512", ("bf16",)),
    InstructionSet("avx512_core_fp16", 0x1EF, 16, "avx512", ("f16",)),
    InstructionSet("avx10_2", 0x201FF, 16, "avx512"),
    InstructionSet("avx512_core_amx", 0xFEF, 16, "avx512_amx", ("amx",)),
    InstructionSet("avx512_core_amx_fp16", 0x1FEF, 16, "avx512_amx"),
    InstructionSet("avx10_2_amx_2", 0x22FFF, 16, "avx512_amx"),
)


# other names that oneDNN has for avx512_core_fp16, avx512_core_amx and avx512_core_amx_fp16
_ALIASES = ("avx10_1_512", "avx10_1_512_amx", "avx10_1_512_amx_fp16")

# dtypes that some sets lack
HALVES = frozenset({"bf16", "f16"})


class Reference(NamedTuple):
    """Ops that oneDNN always computes with reference kernels, though it has optimized kernels of their dtype.

    Reference kernels are not vectorized and take hundreds of times as long. "MatMul with bias" stands for a MatMul
    whose optimized kernel takes no bias.
    """

    release: tuple[int, int]
    since: str  # holds for this set of SETS and all sets that contain it
    dtype: str
    ops: frozenset[str]


# These save the first compile of a layer, in which the log shows what else runs so, and all of it in other releases
# (`onednn.reference`).
REFERENCE = (Reference((3, 2), "avx512_core_fp16", "f16", kinds("f16_by_reference") | {"MatMul with bias"}),)


def is_known(limit: str) -> bool:
    """Whether a value of ONEDNN_MAX_CPU_ISA is the name of an instruction set or empty; oneDNN ignores others."""
    return limit.lower() in {"", "default", "all", *_ALIASES, *(isa.name for isa in SETS)}


def check_settings() -> None:
    """Raises InvalidArgumentError if an environment variable names an instruction set that builtin kernels lack."""
    for isa in (kernels.isa, kernels.bf16_isa, kernels.int8_isa):
        isa()


@cache
def name_of(bits: int) -> str:
    """The name of a dnnl_cpu_isa_t; its bits where the table lacks it."""
    return next((row.name for row in SETS if row.bits == bits), f"isa {bits:#x}")


@cache
def contained(name: str) -> tuple[InstructionSet, ...]:
    """The sets that an instruction set contains, the largest first; of an unknown set those of the nearest below."""
    prefix, _, digits = name.partition("isa 0x")
    unknown = int(digits, 16) if digits and not prefix else 0
    bits = next((row.bits for row in SETS if row.name == name), unknown)
    return tuple(row for row in reversed(SETS) if row.bits & bits == row.bits)


@cache
def lanes(name: str) -> int:
    """The number of f32 elements of a vector."""
    return max((row.lanes for row in contained(name)), default=4)


@cache
def native(name: str) -> frozenset[str]:
    """The dtypes and units that oneDNN uses natively with an instruction set, besides f32: bf16, f16, int8, amx."""
    return frozenset(item for row in contained(name) for item in row.adds)


@cache
def reference_ops(name: str, dtype: str, version: tuple[int, ...] = (3, 2)) -> frozenset[str]:
    """The ops of a dtype that a version of oneDNN is known to compute with reference kernels on an instruction set."""
    sets = {row.name for row in contained(name)}
    rows = (row for row in REFERENCE if row.release == version[:2] and row.since in sets and row.dtype == dtype)
    return frozenset(op for row in rows for op in row.ops)


def multiplies(dtype: str, name: str, ops: Sequence[str] = (), version: tuple[int, ...] = (3, 2)) -> bool:
    """Whether a version of oneDNN has optimized kernels of a dtype for these ops on an instruction set."""
    if dtype not in HALVES:
        return True
    return dtype in native(name) and (not ops or reference_ops(name, dtype, version).isdisjoint(ops))


def isa(engine: Engine) -> str:
    """The instruction set that oneDNN uses: avx2, avx512_core_bf16, ..."""
    return name_of(engine.runtime._library.effective_cpu_isa())


def has_tiles(runtime: Runtime) -> bool:
    """Whether a oneDNN multiplies bf16 and 8 bits in tiles (AMX) on this CPU."""
    return "amx" in native(name_of(runtime._library.effective_cpu_isa()))


def computes_natively(dtype: str, engine: Engine, ops: Sequence[str] = ()) -> bool:
    """Whether oneDNN has optimized kernels of this dtype on this CPU, neither emulated nor reference kernels.

    `ops`: the ops to compute, named as in `Reference`.
    """
    if dtype not in HALVES:
        return True
    if engine.kind != "cpu":
        return has_kernels(engine, dtype)
    return multiplies(dtype, isa(engine), ops, engine.runtime.version_info if ops else ())

"""What the CPU can do, as the library sees it: the one table of instruction sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ..schema import kinds
from .engines import Engine
from .probe import has_kernels


class InstructionSet(NamedTuple):
    """A dnnl_cpu_isa_t by its name, which contains the sets whose bits it has."""

    name: str
    bits: int
    lanes: int  # floats of a vector
    fit: str  # the constants of `lowering.fits` that are for it
    adds: tuple[str, ...] = ()  # what it computes natively beside what those that it contains do


# a set stands behind all that it contains
SETS = (
    InstructionSet("sse41", 0x1, 4, "avx2"),
    InstructionSet("avx", 0x3, 8, "avx2"),
    InstructionSet("avx2", 0x7, 8, "avx2"),
    InstructionSet("avx2_vnni", 0xF, 8, "avx2", ("int8",)),
    # which converts bf16 and f16, but multiplies neither
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


# the dtypes that some sets lack
_HALVES = frozenset({"bf16", "f16"})


class Reference(NamedTuple):
    """Ops that the library computes with its reference kernels, though it has others of their dtype.

    They know no vectors and take hundreds of times as long. "MatMul with bias": without one it has a kernel.
    """

    since: str  # the first set of SETS where it is so, and those that contain it
    dtype: str
    ops: frozenset[str]


# by the log of oneDNN 3.2
REFERENCE = (Reference("avx512_core_fp16", "f16", kinds("f16_by_reference") | {"MatMul with bias"}),)


@cache
def name_of(bits: int) -> str:
    """The name of a dnnl_cpu_isa_t; one that the table lacks is named by its bits."""
    return next((row.name for row in SETS if row.bits == bits), f"isa {bits:#x}")


@cache
def contained(name: str) -> tuple[InstructionSet, ...]:
    """What an instruction set consists of, the largest first: itself, or the nearest below one that is unknown."""
    prefix, _, digits = name.partition("isa 0x")
    unknown = int(digits, 16) if digits and not prefix else 0
    bits = next((row.bits for row in SETS if row.name == name), unknown)
    return tuple(row for row in reversed(SETS) if row.bits & bits == row.bits)


@cache
def lanes(name: str) -> int:
    """Floats of a vector."""
    return max((row.lanes for row in contained(name)), default=4)


@cache
def native(name: str) -> frozenset[str]:
    """What the library computes natively with an instruction set, beside f32: bf16, f16, int8, amx."""
    return frozenset(item for row in contained(name) for item in row.adds)


@cache
def reference_ops(name: str, dtype: str) -> frozenset[str]:
    """The ops of a dtype that are left to reference kernels with an instruction set."""
    sets = {row.name for row in contained(name)}
    return frozenset(op for row in REFERENCE if row.since in sets and row.dtype == dtype for op in row.ops)


def multiplies(dtype: str, name: str, ops: Sequence[str] = ()) -> bool:
    """Whether the library has kernels of a dtype with an instruction set, and for these ops no reference kernels."""
    if dtype not in _HALVES:
        return True
    return dtype in native(name) and reference_ops(name, dtype).isdisjoint(ops)


def isa(engine: Engine) -> str:
    """The instruction set that the library uses: avx2, avx512_core_bf16, ..."""
    return name_of(engine.runtime._library.effective_cpu_isa())


def computes_natively(dtype: str, engine: Engine, ops: Sequence[str] = ()) -> bool:
    """Whether the library has kernels of its own for this dtype here, rather than none or an emulation.

    `ops`: those to be computed, as `Reference` names them; none of them may be left to a reference kernel.
    """
    if dtype not in _HALVES:
        return True
    return multiplies(dtype, isa(engine), ops) if engine.kind == "cpu" else has_kernels(engine, dtype)

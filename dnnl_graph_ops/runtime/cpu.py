"""What the CPU can do, as the library sees it."""

from __future__ import annotations

from .engines import Engine
from .probe import has_kernels

# dnnl_cpu_isa_t: each name is a set of bits
_ISA_BITS = {
    "sse41": 0x1,
    "avx": 0x3,
    "avx2": 0x7,
    "avx2_vnni": 0xF,
    "avx2_vnni_2": 0x1F,
    "avx512_core": 0x27,
    "avx512_core_vnni": 0x67,
    "avx512_core_bf16": 0xE7,
    "avx512_core_fp16": 0x1EF,
    "avx512_core_amx": 0xFEF,
    "avx512_core_amx_fp16": 0x1FEF,
}
_NATIVE = {"bf16": "avx512_core_bf16", "f16": "avx512_core_fp16"}


def isa(engine: Engine) -> str:
    """The instruction set that the library uses: avx2, avx512_core_bf16, ..."""
    return engine.runtime.library.effective_cpu_isa()


def computes_natively(dtype: str, engine: Engine) -> bool:
    """Whether the library has kernels of its own for this dtype here, rather than none or an emulation."""
    if dtype not in _NATIVE:
        return True
    if engine.kind != "cpu":
        return has_kernels(engine, dtype)
    return _ISA_BITS.get(isa(engine), 0) & _ISA_BITS[_NATIVE[dtype]] == _ISA_BITS[_NATIVE[dtype]]


def multiplies_int8_exactly(engine: Engine) -> bool:
    """Whether products of 8-bit integers are summed in 32 bits.

    Without VNNI the library halves signed weights, and sums of two products saturate at 16 bits.
    """
    if engine.kind != "cpu":
        return True
    bits = _ISA_BITS.get(isa(engine), 0)
    return any(bits & _ISA_BITS[name] == _ISA_BITS[name] for name in ("avx2_vnni", "avx512_core_vnni"))

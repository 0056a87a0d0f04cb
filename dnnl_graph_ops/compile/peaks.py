"""Measures the peak rates of this machine: multiply-adds, and bytes read or written, in a second."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..errors import Error
from ..lowering import chain
from ..lowering.program import Edge, NativeOp, Operand, Place, Program, View, argument
from ..runtime import cpu
from ..runtime.engines import Engine
from ..strides import dense_strides
from .plan import assemble, ones

# rows and columns of a matrix product whose operands fit in the caches; bytes of a copy, which do not fit
SIDE, COPIED = 640, 48 << 20
ROUNDS = 7
SCALED = {"qtype": "per_tensor", "axis": 1, "scales": (1.0,), "zps": (0,)}


class Peaks(NamedTuple):
    """Multiply-adds, and bytes read or written, in a second by a number of threads."""

    macs: float
    bytes: float


@lru_cache(64)
def peaks(engine: Engine, dtype: str, threads: int) -> Peaks:
    """Returns the peaks by the fastest of a few runs of a matrix product and of a copy; they are measured once.

    The library's matrix product runs in `dtype`, or in f32 if the CPU does not multiply this dtype itself.
    """
    narrow = dtype in ("bf16", "f16") and cpu.computes_natively(dtype, engine)
    return Peaks(_macs(engine, dtype if narrow or dtype in chain.INTEGERS else "f32", threads), _bytes(engine, threads))


@lru_cache(64)
def _bytes(engine: Engine, threads: int) -> float:
    program = Program()
    source, target = (argument(place, "f32", (COPIED // 4,), (1,)) for place in (Place.INPUT, Place.OUTPUT))
    program.copy(source, target)
    return 2 * COPIED / _seconds(program, [source], target, engine, threads)


@lru_cache(64)
def _macs(engine: Engine, dtype: str, threads: int) -> float:
    """Returns the multiply-adds per second of a matrix product; 0.0 if the library refuses it.

    Integer operands pass through Dequantize ops, which the library fuses with the product into an integer product.
    """
    shape = (SIDE, SIDE)
    strides = dense_strides(shape)
    program = Program()
    integer = dtype in chain.INTEGERS
    source = argument(Place.INPUT, dtype, shape, strides)
    target = argument(Place.OUTPUT, "f32" if integer else dtype, shape, strides)
    weights = program.constant(np.ones(shape, np.int8 if integer else dtypes.numpy_dtype(dtype)))
    factors: tuple[Operand, ...] = (source, weights)
    ops = []
    if integer:
        factors = (Edge(shape, "f32"), Edge(shape, "f32"))
        pairs = zip((source, weights), factors, strict=True)
        ops = [NativeOp("Dequantize", SCALED, (given,), (made,)) for given, made in pairs]
    program.native([*ops, NativeOp("MatMul", {}, factors, (target,))], "peak")
    try:
        return SIDE**3 / _seconds(program, [source], target, engine, threads)
    except Error:
        return 0.0


def _seconds(program: Program, inputs: list[View], output: View, engine: Engine, threads: int) -> float:
    executor: Any = assemble(program, inputs, [output], engine, macs=SIDE**3, threads=threads).executor
    return float(min(executor.benchmark([ones(view) for view in inputs], [ones(output)], ROUNDS)))

"""Times the steps of a plan, and compares each with the peak rates of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..errors import Error
from ..graph import Node
from ..lowering import elementwise_group
from ..lowering.family import CONV_KINDS, multiplications
from ..lowering.program import Edge, HostStep, KernelStep, NativeOp, Operand, Place, Program, View, argument
from ..runtime import cpu
from ..runtime.engines import Engine
from ..strides import dense_strides
from .explain import StepTime, groups_of, ops_of, table
from .native import Compiled
from .plan import assemble, bytes_of, ones
from .specialise import Specialised

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
    return Peaks(
        _macs(engine, dtype if narrow or dtype in elementwise_group.INTEGERS else "f32", threads),
        _bytes(engine, threads),
    )


@lru_cache(64)
def _bytes(engine: Engine, threads: int) -> float:
    program = Program()
    source, target = (argument(place, "f32", (COPIED // 4,), (1,)) for place in (Place.INPUT, Place.OUTPUT))
    program.copy(source, target)
    return 2 * COPIED / _fastest(program, [source], target, engine, threads)


@lru_cache(64)
def _macs(engine: Engine, dtype: str, threads: int) -> float:
    """Returns the multiply-adds per second of a matrix product; 0.0 if the library refuses it.

    Integer operands pass through Dequantize ops, which the library fuses with the product into an integer product.
    """
    shape = (SIDE, SIDE)
    strides = dense_strides(shape)
    program = Program()
    integer = dtype in elementwise_group.INTEGERS
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
        return SIDE**3 / _fastest(program, [source], target, engine, threads)
    except Error:
        return 0.0


def _fastest(program: Program, inputs: list[View], output: View, engine: Engine, threads: int) -> float:
    executor: Any = assemble(program, inputs, [output], engine, macs=SIDE**3, threads=threads).executor
    return float(min(executor.benchmark([ones(view) for view in inputs], [ones(output)], ROUNDS)))


ARITHMETIC, MEMORY = "arithmetic", "memory"

# beginnings of names of own kernels that multiply; steps of the library are told by their ops
_MULTIPLYING = ("bands", "depthwise_", "filter_", "groups_", "integer_", "narrow_", "overlap_", "row_product", "stem_")
_PRODUCTS = frozenset({*CONV_KINDS, "MatMul"})
_LONGEST = 60  # letters of a column


class Profile(list[StepTime]):
    """The times of a plan's steps in the order in which they run; str() returns a table, the longest time first."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{sum(step.seconds for step in self) * 1e3:.3f} ms in {len(self)} steps"
        rows: list[tuple[str, ...]] = [("ms", "share", "of peak", "", "step", "kinds", "ops")]
        for step in sorted(self, key=lambda step: -step.seconds):
            figures = f"{step.seconds * 1e3:.3f}", f"{step.share:.1%}", f"{step.of_peak:.0%}" if step.bound else ""
            texts = map(_short, (step.step, " + ".join(step.kinds), ", ".join(step.ops)))
            rows.append((*figures, step.bound, *texts))
        yield from table(rows)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def profile(specialised: Specialised, engine: Engine, ins: Sequence[Any], outs: Sequence[Any], repeat: int) -> Profile:
    plan, decisions = specialised.plan, specialised.built.decisions
    times = [seconds for _, seconds in plan.executor.profile(ins, outs, repeat)]
    total = sum(times) or 1.0
    # seconds of all steps that multiply, by their group, as several steps may share the products of one group
    spent: dict[int, float] = {}
    for part, seconds in zip(plan.parts, times, strict=True):
        if part.group is not None and _multiplies(part):
            spent[part.group] = spent.get(part.group, 0.0) + seconds
    found = Profile()
    for part, seconds in zip(plan.parts, times, strict=True):
        groups = [decisions[number] for number in groups_of(part)]
        nodes = [node for group, _ in groups for node in group.nodes]
        of_peak, bound = 0.0, ""
        if engine.on_host:
            most = peaks(engine, groups[-1][1].compute if groups else "f32", plan.executor.threads)
            macs = sum(map(_macs_of, nodes)) if part.group in spent and _multiplies(part) else 0
            if macs and part.group is not None:
                of_peak, bound = _part_of(macs, spent[part.group], most.macs), ARITHMETIC
            else:
                of_peak, bound = _part_of(bytes_of(part), seconds, most.bytes), MEMORY
        ops = tuple(name for group, _ in groups for name in ops_of(group))
        kinds = tuple(node.kind for group, _ in groups for node in group.listed)
        found.append(StepTime(part.label, seconds, ops, kinds, seconds / total, of_peak, bound))
    return found


def _part_of(work: float, seconds: float, most: float) -> float:
    return work / seconds / most if seconds and most else 0.0


def _multiplies(part: Compiled | KernelStep | HostStep) -> bool:
    if isinstance(part, Compiled):
        return not _PRODUCTS.isdisjoint(part.kinds)
    return isinstance(part, KernelStep) and part.kernel.name.startswith(_MULTIPLYING)


def _macs_of(node: Node) -> int:
    """Returns the multiply-adds of a product by its definition, taps on padding included; 0 for other ops."""
    shapes = [value.shape for value in node.inputs]
    if node.kind in CONV_KINDS:
        return multiplications(node.kind, node.attrs, shapes, node.name)
    if node.kind != "MatMul":
        return 0
    inner = shapes[0][-2 if node.attrs["transpose_a"] and len(shapes[0]) > 1 else -1]
    total = int(inner or 0)
    for size in node.outputs[0].shape:
        total *= int(size or 0)
    return total

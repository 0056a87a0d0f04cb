"""Builders of every op with hostile operands and attributes; what can be built is compiled and run."""

from __future__ import annotations

from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, schema
from hard.fuzz.arrays import array
from hard.fuzz.choices import Choices

NAMES = tuple(sorted(schema.BUILDERS))
SIZES = (4, 1, 2, 3, 8, 5, 0)
# elements of all results together; more is time without news
MOST = 1 << 18
POLICIES = ("fusion", "debug", "")
TUNES = ("heuristic", "off")


def one(data: bytes) -> None:
    c = Choices(data)
    graph = dgo.Graph(fpmath_mode=c.pick(("strict", "strict", "bf16", "any", "")) if c.rarely() else "strict")
    values: list[Any] = []
    base = [c.pick(SIZES) for _ in range(1 + (3 + c.below(5)) % 5)]
    dtype = c.pick(("f32", "f32", "bf16", "f16"))
    for _ in range(1 + c.below(3)):
        values += _call(c, graph, values, base, dtype)
    outputs = [value for value in values if value.node is not None]
    sizes = [np.prod([n or 1 for n in v.shape], dtype=float) for node in graph.nodes for v in node.outputs]
    if not outputs or sum(sizes) > MOST:
        return
    net = graph.compile(outputs, policy=c.pick(POLICIES) if c.rarely() else "fusion", tune=c.pick(TUNES))
    net.run({value.name: _feed(c, value) for value in net.inputs})


def _feed(c: Choices, value: Any) -> Any:
    shape = [3 if n is None else n for n in value.shape]
    return array(c, shape, dtypes.numpy_dtype(value.dtype))


def _call(c: Choices, graph: Any, values: list[Any], base: list[int], dtype: str) -> list[Any]:
    """One op over new inputs and earlier values."""
    name = c.pick(NAMES)
    spec = schema.OPS[schema.BUILDERS[name]]
    count = len(spec.inputs)
    if any(slot.variadic for slot in spec.inputs):
        count = 1 + c.below(4)
    elif c.often():
        count = sum(slot.required for slot in spec.inputs)
    operands = []
    for position in range(count):
        slot = spec.inputs[min(position, len(spec.inputs) - 1)]
        if values and c.byte() % 3 == 1:
            operands.append(c.pick(values))
            continue
        operands.append(_operand(c, graph, slot, base, dtype, len(graph.inputs)))
    attrs = {}
    for attr in spec.attrs.values():
        value = _attribute(c, attr, len(base))
        if value is not None:
            attrs[attr.name] = value
    made = getattr(dgo.ops, name)(*operands, **attrs)
    return [v for v in (made if isinstance(made, tuple) else (made,)) if isinstance(v, dgo.Value)]


def _operand(c: Choices, graph: Any, slot: Any, base: list[int], dtype: str, number: int) -> Any:
    allowed = slot.dtypes or (dtype,)
    chosen = dtype if dtype in allowed and not c.rarely() else c.pick(allowed)
    shape: list[int | None] = list(base)
    kind = c.byte() % 12
    if kind in (6, 7):
        shape = [base[-1] if kind == 6 else base[min(1, len(base) - 1)]]
    elif kind == 8:
        shape = [1 if c.often() else n for n in base]
    elif kind == 9:
        shape = [c.pick(SIZES) for _ in range(c.below(7))]
    elif kind == 10:
        shape = shape[::-1]
    elif kind == 11:
        shape[c.below(len(shape))] = c.number() if c.rarely() else None
    if c.byte() % 4 == 3 and None not in shape:
        return array(c, [n for n in shape if n is not None], dtypes.numpy_dtype(chosen))
    strides = [c.number() if c.rarely() else c.below(5) for _ in shape] if c.rarely() else None
    return graph.input(f"x{number}", shape, chosen, strides)


def _attribute(c: Choices, attr: Any, rank: int) -> Any:
    """None: left out."""
    if not attr.required and c.byte() % 4 < 2:
        return None
    if c.rarely():
        return c.odd()
    if attr.allowed and not c.rarely():
        return c.pick(attr.allowed)
    kind = attr.type.removesuffix("[]")
    one = {
        "s64": lambda: c.number() if c.byte() % 8 == 7 else 1 + c.below(3),
        "f32": lambda: c.real() if c.often() else 1.0,
        "bool": c.often,
        "string": lambda: c.pick(("", "none", "NXC", "XIO", "\0")),
    }[kind]
    if not attr.type.endswith("[]"):
        return one()
    length = {"spatial": max(rank - 2, 0), "rank": rank}.get(attr.length or "", c.below(6))
    return [one() for _ in range(c.below(9) if c.rarely() else length)]

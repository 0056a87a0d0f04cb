"""Computes f32 ops in bf16 or f16, where the user asks for this precision and it is faster.

Products read narrow operands and sum in f32; ops that read their results follow them, so that tensors between these ops
stay narrow. The op table says which ops may. Tensors are converted at the edges of a region of such ops; a region whose
conversions would cost more than it gains stays in f32.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtypes, schema
from ..cost import fits
from ..cost import model as cost
from ..graph import Node, Value
from ..graph.constants import Constant
from ..ir import UNSEEN, GraphView, is_empty, like, linked, twin
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..runtime import cpu
from ..symbolic import plain
from .folding.estimates import comparable_seconds

PRECISIONS = ("bf16", "f16")
# the type of PRECISIONS that gains most within max_error, or f32
AUTO = "auto"
_WIDE = "f32"
# the part of its seconds in f32 that a product has to save to become narrow
_LEAST_GAIN = 0.1
# operands of norms that stay in f32, as the statistics do
_VECTORS = frozenset({"gamma", "beta", "mean", "variance"})
# ops whose results int8 patterns begin with
_QUANTIZED = schema.kinds("dequantizes")
_REFUSED = "it costs more than max_error allows"
_EDGES = "what is converted at the edges of its region would cost more than it gains"
MIXED_PRECISION = Rewrite(
    "mixed_precision",
    "products, and ops that read their results, run in bf16 or f16 where the user asks for it",
    (
        "the graph's fpmath_mode is strict",
        "the op has one result, in f32",
        "no Dequantize computes an operand",
        "max_error allows the op in the narrow type",
        "the product is faster by estimate",
        "the op reads a narrow tensor",
        "the op's region gains more than its conversions cost",
    ),
)


def run(
    graph: GraphView, dtype: str, env: Env, refused: Collection[str] = (), *, weighed: bool = True
) -> tuple[dict[str, str], dict[str, float]]:
    """Computes the ops of a graph that are faster in `dtype` in it; results of the net stay in f32.

    Args:
        refused: names of products that stay in f32.
        weighed: whether a region must gain more than its conversions cost.

    Returns:
        By names of products: why one stays in f32, and the seconds that one in the narrow type saves by estimate.
    """
    nodes = graph.nodes()
    candidates, wide = _candidates(nodes, dtype, env, frozenset(refused))
    chosen = _worthwhile(nodes, candidates, graph.returned, env) if weighed else set(candidates)
    for node, gain in candidates.items():
        if gain and node not in chosen:
            MIXED_PRECISION.declined(node, "the op's region gains more than its conversions cost")
            wide[node.name] = _EDGES
    gains = {node.name: gain for node, gain in candidates.items() if gain and node in chosen}
    _Rewriter(dtype, chosen, graph).rewrite()
    return wide, gains


def obeying(nodes: Sequence[Node], env: Env) -> dict[str, str]:
    """Returns why products of a graph are left as they are: its fpmath_mode, which is not strict, decides."""
    products = [node for node in nodes if _is_product(node)]
    for node in products:
        MIXED_PRECISION.declined(node, "the graph's fpmath_mode is strict")
    return dict.fromkeys((node.name for node in products), f"fpmath_mode={env.fpmath_mode!r} decides")


def multiplied(env: Env) -> tuple[str, ...]:
    """Returns the narrow types that products may gain from: the CPU multiplies them, and estimates exist for them."""
    return tuple(dtype for dtype in PRECISIONS if _known(dtype, env) and cpu.computes_natively(dtype, env.engine))


def _known(dtype: str, env: Env) -> bool:
    """Whether the constants that estimate this dtype were fitted to it, rather than to another dtype."""
    return fits.origin(env.isa, env.release, dtype)[1] == dtype


# ---- which ops become narrow ----------------------------------------------------------------------------------------


def _is_product(node: Node) -> bool:
    return schema.OPS[node.kind].narrow == "operands" and node.outputs[0].dtype == _WIDE


def _candidates(
    nodes: Sequence[Node], dtype: str, env: Env, refused: Collection[str]
) -> tuple[dict[Node, float], dict[str, str]]:
    """Returns the nodes that may be narrow with the seconds that each gains, and why other products may not, by name.

    Candidates are products that are faster in `dtype`, and ops that read results of candidates, which gain 0.
    """
    gains: dict[Node, float] = {}
    wide: dict[str, str] = {}
    for node in nodes:
        role = schema.OPS[node.kind].narrow
        if not role:
            continue
        gain, unmet, why = 0.0, "", ""
        if len(node.outputs) > 1 or node.outputs[0].dtype != _WIDE:
            unmet = "the op has one result, in f32"
        elif any(value.node is not None and value.node.kind in _QUANTIZED for value in node.inputs):
            unmet = "no Dequantize computes an operand"
            why = "its operands are quantized"
        elif role != "operands":
            if not any(value.node in gains for value in _read(node)):
                unmet = "the op reads a narrow tensor"
        elif node.name in refused:
            unmet = "max_error allows the op in the narrow type"
            why = _REFUSED
        else:
            gain, why = _gain(node, dtype, env)
            unmet = "the product is faster by estimate" if gain <= 0 else ""
        if not unmet:
            gains[node] = gain
            continue
        MIXED_PRECISION.declined(node, unmet)
        if role == "operands" and why:
            wide[node.name] = why
    return gains, wide


def _read(node: Node) -> list[Value]:
    """Returns the f32 inputs of a node that are not constant."""
    return [value for value in node.inputs if value.dtype == _WIDE and not value.is_constant]


def _gain(node: Node, dtype: str, env: Env) -> tuple[float, str]:
    """Returns the seconds that a product saves in `dtype`; 0 if it saves too little, or nothing, and why."""
    if is_empty([node]):
        return 0.0, "it is empty"
    if not _known(dtype, env):
        return 0.0, f"no times of {dtype} are known for {env.isa}, which mostly has no arithmetic in it"
    wide, narrow = comparable_seconds(node, _WIDE, env), comparable_seconds(node, dtype, env)
    if narrow == float("inf"):
        return 0.0, "this CPU has no such arithmetic"
    if wide - narrow > _LEAST_GAIN * wide:
        return wide - narrow, ""
    return 0.0, f"estimated {narrow * 1e6:.0f} us in {dtype}, {wide * 1e6:.0f} in f32"


def _worthwhile(nodes: Sequence[Node], gains: dict[Node, float], kept: Collection[Value], env: Env) -> set[Node]:
    """Returns the candidates in regions that gain more seconds than conversions at their edges cost."""
    regions: dict[Node, Node] = {}

    def region(node: Node) -> Node:
        while regions.setdefault(node, node) is not node:
            node = regions[node]
        return node

    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in dict.fromkeys(_read(node)):
            readers.setdefault(value, []).append(node)
            if node in gains and value.node in gains:
                regions[region(value.node)] = region(node)
    totals: dict[Node, float] = {}
    for node, gain in gains.items():
        totals[region(node)] = totals.get(region(node), 0.0) + gain
    for value, some in readers.items():
        inside = {region(node) for node in some if node in gains}
        if value.node not in gains:
            # all regions that read the value share one conversion
            for root in inside:
                totals[root] -= _conversion(value, env) / len(inside)
        elif value in kept or any(node not in gains for node in some):
            totals[region(value.node)] -= _conversion(value, env)
    for value in kept:
        if value.node in gains and value not in readers:
            totals[region(value.node)] -= _conversion(value, env)
    return {node for node in gains if totals[region(node)] > 0}


def _conversion(value: Value, env: Env) -> float:
    """Returns the seconds to convert a value: 4 bytes an element in f32, 2 in the narrow type."""
    moved = 6 * prod(plain(value.shape))
    return cost.overhead(cost.Counts(0, 0, 0, 0, 0, moved), env.threads)


# ---- how they become narrow -----------------------------------------------------------------------------------------


class _Rewriter:
    """Replaces nodes by narrow twins, and inserts conversions between f32 and narrow values."""

    def __init__(self, dtype: str, chosen: Collection[Node], graph: GraphView) -> None:
        self.dtype, self.chosen, self.graph = dtype, chosen, graph
        self.twins: dict[Value, Value] = {}  # f32 value -> the same value in the narrow type

    def rewrite(self) -> None:
        wide = (node for node in self.graph if node not in self.chosen)
        wanted = {value for node in wide for value in node.inputs} | self.graph.returned
        for node in self.graph:
            if node in self.chosen:
                self._narrow(node, wanted)

    def _narrow(self, node: Node, wanted: Collection[Value]) -> None:
        slots = schema.OPS[node.kind].inputs
        names = [slots[min(i, len(slots) - 1)].name for i in range(len(node.inputs))]
        inputs = [
            self._twin_of(value, node) if value.dtype == _WIDE and name not in _VECTORS else value
            for value, name in zip(node.inputs, names, strict=True)
        ]
        following = self.graph.behind(node)
        outputs = [like(value, self.dtype) for value in node.outputs]
        narrow = twin(node, inputs=inputs)
        narrow.mark(narrowed=True)
        self.graph.replace(node, narrow, outputs)
        self.twins.update(zip(node.outputs, outputs, strict=True))
        MIXED_PRECISION.fired(node)
        for value in node.outputs:
            if value in wanted:
                self._convert(self.twins[value], value, node, following)

    def _twin_of(self, value: Value, reader: Node) -> Value:
        if value not in self.twins:
            narrow = self.twins[value] = like(value, self.dtype)
            if value._held is not None:
                narrow._held = converted(value._held, self.dtype)
            else:
                self._convert(value, narrow, value.node, reader)
        return self.twins[value]

    def _convert(self, source: Value, target: Value, near: Node | None, before: Node | None) -> None:
        name = f"{target.name} in {target.dtype}"
        cast = Node(UNSEEN if near is None else near.id, "TypeCast", name, (source,), {})
        self.graph.insert(linked(cast, [target]), before)


def converted(constant: Constant, dtype: str) -> Constant:
    """Returns the constant in another dtype, rounded to nearest when its elements are needed."""
    to = dtypes.numpy_dtype(dtype)

    def rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with np.errstate(over="ignore"):
            return np.asarray(array.astype(to))

    narrow = constant.derived(("converted", dtype), rounded, constant.shape, to)
    narrow.unrounded = constant
    return narrow

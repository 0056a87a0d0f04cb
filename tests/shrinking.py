"""A graph that fails, without the nodes that it fails without: as a script of few lines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops.convolution.nodes import CONV_KINDS
from dnnl_graph_ops.ops.build import apply
from dnnl_graph_ops.schema import OPS


class Part(NamedTuple):
    """A graph, arrays for its inputs, and the values that its net returns."""

    graph: dgo.Graph
    arrays: Mapping[dgo.Value, np.ndarray]
    outputs: Sequence[dgo.Value]


Fails = Callable[[Part], bool]


def shrunk(part: Part, fails: Fails) -> Part:
    """A small part that still fails: the first value that does alone, nodes before it replaced by what NumPy says."""
    known = evaluate_built(part.graph, part.arrays)
    nodes, outputs = list(part.graph.nodes), list(part.outputs)
    values = (value for node in nodes for value in node.outputs)
    alone = next((value for value in values if fails(_part(part, nodes, [value], known))), None)
    outputs = outputs if alone is None else [alone]
    for node in reversed(nodes[:]):
        fewer = [other for other in nodes if other is not node]
        kept = [value for value in outputs if value.node is not node]
        if kept and fails(_part(part, fewer, kept, known)):
            nodes, outputs = fewer, kept
    return _part(part, nodes, outputs, known)


def opened(part: Part, known: Mapping[dgo.Value, np.ndarray], axis: int) -> Part:
    """The graph with an axis of all inputs whose size a call tells.

    Raises:
        dgo.Error: an op asks for that size.
    """
    return _part(part, part.graph.nodes, part.outputs, known, axis)


def _part(
    part: Part,
    nodes: Sequence[Any],
    outputs: Sequence[dgo.Value],
    known: Mapping[dgo.Value, np.ndarray],
    axis: int | None = None,
) -> Part:
    """Of the nodes those that the outputs need; all else that they read are constants, or inputs, open at an axis."""
    needed: set[Any] = set()
    waiting = [value.node for value in outputs]
    while waiting:
        node = waiting.pop()
        if node in nodes and node not in needed:
            needed.add(node)
            waiting += [value.node for value in node.inputs]
    graph = dgo.Graph(fpmath_mode=part.graph.fpmath_mode)
    twins: dict[dgo.Value, dgo.Value] = {}
    arrays: dict[dgo.Value, np.ndarray] = {}

    def twin(value: dgo.Value) -> dgo.Value:
        if value not in twins and value.is_constant:
            twins[value] = graph.constant(value.constant)
        elif value not in twins:
            shape = [None if a == axis else n for a, n in enumerate(known[value].shape)]
            twins[value] = graph.input(f"x{len(arrays)}", shape, value.dtype)
            arrays[twins[value]] = known[value]
        return twins[value]

    for node in (node for node in nodes if node in needed):
        operands = [twin(value) for value in node.inputs]
        if node.kind in CONV_KINDS:
            # with orders of weights that oneDNN has not
            made = [getattr(dgo.ops, OPS[node.kind].builder)(*operands, **node.attrs)]
        else:
            dtype = node.outputs[0].dtype
            made = apply(node.kind, operands, dict(node.attrs), dtype=dtype, outputs=len(node.outputs), graph=graph)
        twins.update(zip(node.outputs, made, strict=True))
    return Part(graph, arrays, [twin(value) for value in outputs])


def script(part: Part) -> str:
    """Python that builds the graph and prints what its net computes."""
    lines = [
        "import ml_dtypes, numpy as np",
        "import dnnl_graph_ops as dgo",
        "from dnnl_graph_ops.ops.build import apply",
    ]
    lines.append(f"graph = dgo.Graph(fpmath_mode={part.graph.fpmath_mode!r})")
    names: dict[dgo.Value, str] = {}
    for value, array in part.arrays.items():
        names[value] = value.name
        lines.append(f"{value.name} = graph.input({value.name!r}, {array.shape}, {value.dtype!r})")
    for i, value in enumerate(part.graph.constants):
        names[value] = f"c{i}"
        lines.append(f"c{i} = graph.constant({_text(value.constant)})")
    for i, node in enumerate(part.graph.nodes):
        results = [f"v{i}" if k == 0 else f"v{i}_{k}" for k in range(len(node.outputs))]
        names.update(zip(node.outputs, results, strict=True))
        operands = ", ".join(names[value] for value in node.inputs)
        if node.kind in CONV_KINDS:
            lines.append(f"{results[0]} = dgo.ops.{OPS[node.kind].builder}({operands}, **{dict(node.attrs)!r})")
            continue
        more = f"{dict(node.attrs)!r}, dtype={node.outputs[0].dtype!r}, outputs={len(results)}"
        lines.append(f"{', '.join(results)}, = apply({node.kind!r}, [{operands}], {more})")
    outputs = ", ".join(f"'out{i}': {names[value]}" for i, value in enumerate(part.outputs))
    given = ", ".join(f"{value.name!r}: {_text(array)}" for value, array in part.arrays.items())
    return "\n".join([*lines, f"print(graph.compile({{{outputs}}}).run({{{given}}}))"])


def _text(array: np.ndarray) -> str:
    name = array.dtype.name
    dtype = f"ml_dtypes.{name}" if name == "bfloat16" else f"np.{'bool_' if name == 'bool' else name}"
    numbers = repr(array.astype(np.float64).tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({numbers}).astype({dtype}).reshape({array.shape})"

"""Runs convolutions, transposed convolutions and the gradients of both, with post-ops, by the algorithms for them."""

from __future__ import annotations

from collections.abc import Sequence

from ..algorithms import nonfinite
from ..algorithms.deconvolution import repeats_fused_ops
from ..algorithms.lower import Decision, lower
from ..convolution.nodes import CONV_KINDS, literal_op, make_problem, ops_of, post_ops
from ..convolution.problem import WGRAD, ConvProblem
from ..graph import Node, Value
from ..ir import changes_of, is_empty
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..onednn import reference
from ..program import element_ops, elementwise
from ..program.epilogue import KINDS
from ..program.program import Edge, NativeOp, Operand, View
from .backend import Backend, FusionGroup, Lowering
from .onednn import leaving_of, native_ops, runs

RUN_LITERALLY = Rewrite(
    "run_literally",
    'with tune="off" a convolution op and its post-ops run as ops of the library with the declared attributes',
    (
        "the library has kernels of the dtype",
        "the library's op spreads Inf and NaN to no other result",
        "the library adds a fused operand once",
        "the library has an op with these attributes",
    ),
)


def leads(node: Node) -> bool:
    """Whether a node is a convolution in floats that may run with post-ops; a gradient of weights may not."""
    conv = CONV_KINDS.get(node.kind)
    return conv is not None and conv.direction != WGRAD and node.outputs[0].dtype in element_ops.FLOATS


def _match(nodes: Sequence[Node], env: Env) -> Sequence[Node] | None:
    head, *rest = nodes
    if head.kind not in CONV_KINDS:
        return None
    fits = all(node.kind in KINDS and node.outputs[0].shape == head.outputs[0].shape for node in rest)
    known = all(runs(node, env) or (env.prefers_builtin and elementwise.takes([node], env)) for node in rest)
    return nodes if not rest or (fits and not is_empty(nodes) and known) else None


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    env, (head, *rest) = lowering.env, group.nodes
    inputs, output = [lowering.view(value) for value in head.inputs], lowering.view(group.result)
    epilogue = post_ops(head, rest, lowering.view, env)
    where, narrowed = f"{head.kind} {head.name!r}", changes_of(head).narrowed
    problem = make_problem(head.kind, head.attrs, inputs, output, epilogue, where, narrowed)
    literal = _literal_head(group.nodes, problem, inputs, output, env) if env.tune == "off" else None
    if literal is not None:
        _append_literal(lowering, literal, group.nodes)
        return Decision("literal", output.dtype, problem=problem)
    lowering.macs += problem.macs
    return lower(lowering.program, problem, env, lowering.choose, lowering.selectors.get(head.name))


def _literal_head(
    nodes: Sequence[Node], problem: ConvProblem, inputs: Sequence[View], output: View, env: Env
) -> NativeOp | None:
    """Returns the head as the library's op with the attributes that the user declared; None where that op is not right.

    `RUN_LITERALLY` lists the conditions.
    """
    head, unmet = nodes[0], ""
    lacks = env.compute_dtype(output.dtype, *ops_of(nodes)) != output.dtype
    if lacks or reference.key_of_nodes(nodes) in env.by_reference:
        unmet = "the library has kernels of the dtype"
    elif not nonfinite.takes_literal(problem, env):
        unmet = "the library's op spreads Inf and NaN to no other result"
    elif repeats_fused_ops(problem):
        unmet = "the library adds a fused operand once"
    literal = None if unmet else literal_op(head.kind, head.attrs, inputs, output)
    if literal is None:
        unmet = unmet or "the library has an op with these attributes"
    RUN_LITERALLY.tell(head, unmet)
    return literal


def _append_literal(lowering: Lowering, head: NativeOp, nodes: Sequence[Node]) -> None:
    """Appends one partition of the library: the head as it was declared, and the post-ops among the nodes."""
    rest = nodes[1:]
    edges: dict[Value, Operand] = {}
    first = nodes[0].outputs[0]
    if rest:
        edges[first] = Edge(first.shape, first.dtype)  # type: ignore[arg-type]
        head = NativeOp(head.kind, head.attrs, head.inputs, (edges[first],), nodes[0].name)
    ops = native_ops(lowering.program, rest, leaving_of(nodes, lowering.shared), lowering.views, edges, lowering.env)
    with lowering.program.chosen(reference.key_of_nodes(nodes)):
        lowering.program.native([head, *ops], head.kind)


CONVOLUTION = Backend(
    "convolution",
    _build,
    _match,
    lambda kind, target: None if kind.name in CONV_KINDS else f"{kind.name} is no convolution",
    "library or builtin kernels",
    leads=leads,
    weighs=True,
)

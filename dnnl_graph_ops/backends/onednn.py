"""Runs groups of ops as partitions of the library, on row-major copies or copies in f32 where its kernels need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from .. import schema, shapes
from ..algorithms.lower import Decision
from ..convolution.nodes import CONV_KINDS, literal_attributes, native_attributes, ops_of
from ..dtypes import PACKED
from ..graph import Node, Value
from ..ir import is_empty, is_open
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..once import answered
from ..onednn import exact_int8, reference
from ..onednn.broadcasts import misread
from ..onednn.partition import ONEDNN_PARTITION
from ..program import elementwise
from ..program.post_op_errors import refusal
from ..program.program import Edge, NativeOp, Operand, Program, View, is_dense
from ..runtime import cpu
from ..shapes import Meta
from ..symbolic import current
from . import builtin
from .backend import Backend, FusionGroup, Kind, Lowering, Places, Target
from .host_ops import HOST, step

STAGE_OPERANDS = Rewrite(
    "stage_operands",
    "ops of the library run on row-major copies, or on copies in f32",
    ("some tensors are not row-major",),
)

# ---- what the library runs -------------------------------------------------------------------------------------------

_TURNS_TIES = "the library adds the zero point before it rounds, which turns ties by an odd one"
# conversions between dtypes: they vanish where the library computes both in f32, but their tensors in memory differ
_CONVERSIONS = schema.kinds("converts")


def why_not_kind(kind: Kind, target: Target) -> str | None:
    """Returns why the library does not run ops of a kind, as far as dtypes tell; None where the library does."""
    if kind.name in CONV_KINDS:
        return None
    better = builtin.goes_before_kind(kind, target)
    if better is not None:
        return better
    reason = _not_in_memory(kind, target)
    if reason is None:
        ins, outs = ([target.compute_dtype(d, kind.name) for d in some] for some in (kind.inputs, kind.outputs))
        reason = schema.availability(kind.name, ins, target.version, outputs=outs)
    return reason


_reasons: ContextVar[dict[Node, str | None] | None] = ContextVar("_reasons", default=None)


@contextmanager
def asked_once() -> Iterator[None]:
    """Remembers the answers of `why_not` during a with block, in which nodes must not change."""
    token = _reasons.set({})
    try:
        yield
    finally:
        _reasons.reset(token)


def why_not(node: Node, env: Env) -> str | None:
    """Returns why the loaded library does not run a node as it is, or None; sizes of the node may be unknown."""
    reasons = _reasons.get()
    if reasons is None:
        return _why_not(node, env)
    if node not in reasons:
        reasons[node] = _why_not(node, env)
    return reasons[node]


def _why_not(node: Node, env: Env) -> str | None:
    kind, attrs = node.kind, node.attrs
    if kind in CONV_KINDS:
        return None
    better = builtin.goes_before(node, env) or elementwise.far_off(node, env)
    if better:
        return better
    if kind == "DynamicQuantize" and len(node.inputs) > 2 and env.prefers_builtin:
        return _TURNS_TIES
    if kind == "Wildcard":
        return "it stands for an op outside of oneDNN, which nothing here can compute; end the graph before it"
    if kind not in schema.POST_OPS or current() is not None:
        return _lacking(node, env)
    # element-wise ops of a net are alike
    tensors = [(value.shape, value.dtype) for value in (*node.inputs, *node.outputs)]
    return answered(env.answers, (_lacking, kind, *attrs.items(), *tensors), lambda: _lacking(node, env))


def _lacking(node: Node, env: Env) -> str | None:
    """Returns why the library has no right kernel for a node, as its kind, attributes, dtypes and shapes tell."""
    kind, attrs = node.kind, node.attrs
    dtypes = [[value.dtype for value in some] for some in (node.inputs, node.outputs)]
    reason = _not_in_memory(Kind(kind, *dtypes), Target.of(env))
    if reason is not None:
        return reason
    if len(set(attrs.get("zps") or ())) > 1:
        # oneDNN 3.2 takes several zero points but uses the first for all channels; later versions refuse them
        return f"oneDNN has a kernel for {kind} with one zero point only"
    ops = ops_of([node])
    ins, outs = (
        [Meta(value.shape, env.compute_dtype(value.dtype, *ops)) for value in some]
        for some in (node.inputs, node.outputs)
    )
    if is_open([node]):
        types = [meta.dtype for meta in ins]
        return schema.availability(kind, types, env.version, attrs, outputs=[meta.dtype for meta in outs])
    reason = shapes.unsupported(kind, ins, outs, attrs, env.version)
    if reason is None and is_empty([node]):
        reason = f"oneDNN has no kernel for {kind} of tensors without elements"
    if reason is None and () in [meta.shape for meta in (*ins, *outs)]:
        reason = f"oneDNN has no kernel for {kind} of tensors without axes"
    return reason


def runs(node: Node, env: Env) -> bool:
    """Whether the loaded library is to run a node; sizes of the node may be unknown."""
    return why_not(node, env) is None


def _not_in_memory(kind: Kind, target: Target) -> str | None:
    """Returns why the dtypes of an op's tensors in memory rule the library out; None where they do not.

    They do for 4-bit integers, which the library packs in pairs and NumPy does not, and for a conversion between dtypes
    that the library computes in the same dtype, such as f32 to bf16 on AVX2.
    """
    dtypes = (*kind.inputs, *kind.outputs)
    packed = [dtype for dtype in dtypes if dtype in PACKED]
    if packed:
        return f"{kind.name} of {packed[0]}: the library packs 4-bit integers in pairs, NumPy does not"
    if kind.name in _CONVERSIONS and dtypes:
        computed = list(map(target.compute_dtype, dtypes))
        lacking = next((dtype for dtype, other in zip(dtypes, computed, strict=True) if dtype != other), None)
        if lacking is not None and computed[0] == computed[-1]:
            return f"the library has no {lacking} kernels for {target.isa}"
    return None


def match(nodes: Sequence[Node], env: Env) -> Sequence[Node] | None:
    """Returns nodes if the library runs each of them, and computes them correctly as one partition; None otherwise."""
    if not all(runs(node, env) for node in nodes):
        return None
    return nodes if len(nodes) == 1 or is_open(nodes) or _is_right(nodes) else None


def refused_behind(head: str, node: Node, env: Env) -> str:
    """Returns why the library must not compute a node as a post-op of its op `head`; "" where it may."""
    return refusal(node.kind, node.attrs, head, node.outputs[0].dtype, env)


def _is_right(nodes: Sequence[Node]) -> bool:
    """Whether the library reads all operands of several nodes correctly when the nodes run as one partition."""
    if is_empty(nodes) or any(node.kind in CONV_KINDS and literal_attributes(node) is None for node in nodes[1:]):
        return False
    unmet = "no broadcast operand is misread" if not exact_int8.quantizes(nodes) and misread(nodes) else ""
    ONEDNN_PARTITION.tell(nodes[-1], unmet)
    return not unmet


# ---- steps -----------------------------------------------------------------------------------------------------------


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    """Appends a group as a partition of the library; a single op on strided views by a kernel of the package if any."""
    node = group.nodes[0]
    if len(group.nodes) == 1 and lowering.env.prefers_builtin and builtin.serves(node):
        inputs, outputs = lowering.operands(node)
        if not all(map(is_dense, (inputs[0], *outputs))):
            return builtin.build(lowering, group)
    return build_native(lowering, group.nodes)


def native_ops(
    program: Program,
    nodes: Sequence[Node],
    leaving: set[Value],
    views: Places,
    edges: dict[Value, Operand],
    env: Env,
) -> list[NativeOp]:
    """Returns nodes as ops of one partition of the library.

    Results in `leaving` are written to buffers: those of `views`, or new ones. Other results become edges inside of the
    partition, which `edges` collects; operands that `edges` has already are taken from there.
    """
    ops = []

    def operand(value: Value) -> Operand:
        return edges[value] if value in edges else views.view(program, value)

    for node in nodes:
        inputs = tuple(operand(value) for value in node.inputs)
        for value in node.outputs:
            if value not in leaving and value not in edges:
                edges[value] = Edge(value.shape, value.dtype)  # type: ignore[arg-type]
        outputs = tuple(operand(value) for value in node.outputs)
        host = partial(step, node) if node.kind in HOST else None
        ops.append(NativeOp(node.kind, native_attributes(node, env), inputs, outputs, node.name, host))
    return ops


def leaving_of(nodes: Sequence[Node], shared: set[Value]) -> set[Value]:
    """Returns the results of a group that need a buffer: those in `shared`, and those that none of its nodes reads."""
    read = {value for node in nodes for value in node.inputs}
    return {value for node in nodes for value in node.outputs if value in shared or value not in read}


def only_row_major(word: str, value: Value) -> bool:
    """Whether a kernel needs a value in dense row-major order; `word`: `row_major` of the op's row in the op table."""
    rank = len(value.shape)
    return {"": False, "all": True, "vectors": rank == 1, "batches": rank > 2}[word]


def build_native(lowering: Lowering, nodes: Sequence[Node]) -> Decision:
    """Appends nodes as one partition of the library.

    Where the library lacks bf16 or f16 kernels for these ops, the partition runs on copies in f32; where its kernels
    need row-major operands, on row-major copies of the others.
    """
    env, views = lowering.env, lowering.views
    leaving = leaving_of(nodes, lowering.shared)
    values = dict.fromkeys(value for node in nodes for value in (*node.inputs, *node.outputs))
    choice = reference.key_of_nodes(nodes)
    computes = _computes(nodes, choice, env)
    staged = dict.fromkeys(value for value in values if computes(value) != value.dtype)
    dense = {
        value
        for node in nodes
        if env.version >= schema.OPS[node.kind].row_major_since
        for value in (*node.inputs, *node.outputs)
        if only_row_major(schema.OPS[node.kind].row_major, value)
    }
    places = {value: views.place(value) for value in values if value in dense}
    staged |= dict.fromkeys(value for value, place in places.items() if place is not None and not place.row_major)
    if staged:
        STAGE_OPERANDS.fired(nodes[-1])
        return _build_staged(lowering, nodes, leaving, {value: computes(value) for value in staged}, choice)
    if dense:
        STAGE_OPERANDS.declined(nodes[-1], "some tensors are not row-major")
    with lowering.program.chosen(choice):
        lowering.program.native(native_ops(lowering.program, nodes, leaving, views, {}, env), nodes[0].kind)
    return Decision("native", exact_int8.multiplied(nodes) or nodes[-1].outputs[0].dtype)


def _computes(nodes: Sequence[Node], choice: str, env: Env) -> Callable[[Value], str]:
    """Returns a function that gives the dtype in which the library computes a value of nodes as one partition.

    Where it has only a reference kernel for bf16 or f16, that is f32.
    """
    ops, slow = ops_of(nodes), choice in env.by_reference and all(node.kind not in _CONVERSIONS for node in nodes)
    return lambda value: "f32" if slow and value.dtype in cpu.HALVES else env.compute_dtype(value.dtype, *ops)


def _build_staged(
    lowering: Lowering, nodes: Sequence[Node], leaving: set[Value], computes: Mapping[Value, str], choice: str
) -> Decision:
    """Appends nodes as one partition on row-major copies of values, each in the dtype that `computes` has for it."""
    program, env = lowering.program, lowering.env
    outputs = {value for node in nodes for value in node.outputs}
    places = {value: lowering.views.place(value) for node in nodes for value in node.inputs}
    inner = Places({value: place for value, place in places.items() if place is not None})
    back: list[tuple[View, View]] = []
    edges: dict[Value, Operand] = {}
    for value, compute in computes.items():
        if value in outputs and value not in leaving:
            edges[value] = Edge(value.shape, compute)  # type: ignore[arg-type]
            continue
        outer = lowering.view(value)
        inner[value] = program.scratch(outer.shape, compute)
        if value in outputs:
            back.append((inner[value], outer))
        else:
            program.copy(outer, inner[value], f"{value.dtype} to {compute}")
    inner.update({value: lowering.view(value) for value in leaving.difference(inner)})
    with program.chosen(choice):
        program.native(native_ops(program, nodes, leaving, inner, edges, env), nodes[0].kind)
    for source, target in back:
        program.copy(source, target, f"{source.dtype} to {target.dtype}")
    return Decision("native", exact_int8.multiplied(nodes) or next(iter(computes.values())))


ONEDNN = Backend("onednn", build, match, why_not_kind, "library")

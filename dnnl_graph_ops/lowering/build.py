"""Groups of nodes to a program: family groups are lowered, others run as they are, in a dtype that runs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .. import schema
from ..graph import Node, Value
from .env import Env
from .family import DIRECTIONS, literal_op, make_problem
from .forms.deconvolution import repeats_fused_ops
from .groups import Group, literal_attributes, native_attributes, ordered
from .host import equal_node, run_on_host, runs_natively
from .host_ops import HOST, ONLY_EMPTY, step
from .lower import Chooser, Decision, lower
from .problem import data_view
from .program import Edge, HostStep, NativeOp, Operand, Program, View
from .tail import POST_OPS, TailOp


@dataclass
class Built:
    """A program and what was decided for each group."""

    program: Program
    # values that a group other than their own reads, or that the net returns
    shared: set[Value]
    decisions: list[tuple[Group, Decision]] = field(default_factory=list)
    # the position in `decisions` that each step of the program belongs to
    owners: list[int] = field(default_factory=list)
    macs: int = 0


def build(groups: Sequence[Group], views: dict[Value, View], env: Env) -> Built:
    """Append the steps of every group. `views` has the inputs, constants and outputs; the rest gets scratch."""
    parts = [one for item in groups for one in _split(item, env)]
    built = Built(Program(), _shared(parts, views))
    for one in parts:
        decision = _build_group(built, one, views, env)
        added = len(built.program.steps) - len(built.owners)
        built.owners += [len(built.decisions)] * added
        built.decisions.append((one, decision))
    return built


def _shared(groups: Sequence[Group], views: Mapping[Value, View]) -> set[Value]:
    found = set(views)
    for item in groups:
        made = set(item.outputs)
        found.update(value for node in item.nodes for value in node.inputs if value not in made)
    return found


def view_of(program: Program, value: Value, views: dict[Value, View]) -> View:
    """Where a value lives; an intermediate one gets a dense buffer."""
    if value not in views:
        views[value] = program.scratch(value.shape, value.dtype)  # type: ignore[arg-type]
    return views[value]


def _split(item: Group, env: Env) -> list[Group]:
    """A group with a family op that cannot be seen as head and post-ops is taken apart when it must be lowered."""
    single = [Group((node,), runs_natively(node, env)) for node in item.nodes]
    if len(item.nodes) == 1:
        return [item]
    if not item.supported:
        return single
    if any(_empty(value) for node in item.nodes for value in (*node.inputs, *node.outputs)):
        return single
    if _multiplies_int8(item) and not (env.exact_int8 and _centred_weights(item)):
        return _in_float(item)
    head, *rest = item.nodes
    if head.kind not in DIRECTIONS and any(_odd_broadcast(node) for node in rest):
        return single
    if head.kind not in DIRECTIONS:
        family = [node for node in rest if node.kind in DIRECTIONS]
        return [item] if all(literal_attributes(node) is not None for node in family) else single
    shape = head.outputs[0].shape
    if all(n.kind in POST_OPS and n.outputs[0].shape == shape for n in rest):
        return [item]
    return single


def _odd_broadcast(node: Node) -> bool:
    """Whether an operand is spread otherwise than as a scalar or along channels: 3.2 misreads it behind MatMul."""
    shape = node.outputs[0].shape
    if node.kind not in POST_OPS or len(node.inputs) < 2 or node.kind == "BiasAdd":
        return False
    for value in node.inputs:
        padded = (1,) * (len(shape) - len(value.shape)) + value.shape
        spread = [axis for axis, size in enumerate(padded) if size != 1]
        if padded != shape and spread not in ([], [1], [len(shape) - 1]):
            return True
    return False


_QUANTIZING = frozenset({"Dequantize", "DynamicDequantize", "DynamicQuantize", "Quantize"})
_MULTIPLYING = frozenset({*DIRECTIONS, "Convolution", "MatMul"})


def _multiplies_int8(item: Group) -> bool:
    kinds = {node.kind for node in item.nodes}
    return bool(kinds & _QUANTIZING and kinds & _MULTIPLYING)


def _centred_weights(item: Group) -> bool:
    """Whether quantized weights have no zero point: the library takes none."""
    members = set(item.nodes)
    makers = [node.inputs[1].node for node in item.nodes if node.kind in _MULTIPLYING]
    return not any(any(maker.attrs.get("zps") or ()) for maker in makers if maker is not None and maker in members)


def _in_float(item: Group) -> list[Group]:
    """Quantizing ops on their own, and what lies between them as one group."""
    alone = [Group((node,)) for node in item.nodes if node.kind in _QUANTIZING]
    between = [node for node in item.nodes if node.kind not in _QUANTIZING]
    if between[0].kind in DIRECTIONS and all(node.kind in POST_OPS for node in between[1:]):
        return ordered([*alone, Group(tuple(between))])
    return ordered([*alone, *(Group((node,)) for node in between)])


def _build_group(built: Built, item: Group, views: dict[Value, View], env: Env) -> Decision:
    head = item.nodes[0]
    if all(_empty(value) for value in item.outputs):
        return Decision("nothing to do", head.outputs[0].dtype)
    if not item.supported:
        return _build_elsewhere(built, item, views, env)
    if head.kind in DIRECTIONS:
        return _build_family(built, item, views, env)
    return _build_native(built, item, views, env)


def _build_elsewhere(built: Built, item: Group, views: dict[Value, View], env: Env) -> Decision:
    """A node that the library has no kernel for."""
    program, node = built.program, item.nodes[0]
    twin = equal_node(node, env)
    if twin is not None:
        for value in twin.inputs:
            if value not in views and value.node is None and value.constant is not None:
                views[value] = program.constant(value.constant)
        return _build_group(built, Group((twin,)), views, env)
    inputs, outputs = ([view_of(program, v, views) for v in some] for some in (node.inputs, node.outputs))
    return Decision(run_on_host(program, node, inputs, outputs, env), node.outputs[0].dtype)


def _empty(value: Value) -> bool:
    return 0 in value.shape


def _chooser(env: Env) -> Chooser | None:
    """What ranks the formulations by measurement, if that was asked for."""
    if env.tune != "measure":
        return None
    from ..compile import tune

    return tune.choose


def _build_family(built: Built, item: Group, views: dict[Value, View], env: Env) -> Decision:
    program, (head, *rest) = built.program, item.nodes
    inputs = [view_of(program, value, views) for value in head.inputs]
    output = view_of(program, item.nodes[-1].outputs[0], views)
    tail = _tail(program, head, rest, views, str(head.attrs["data_format"]), env)
    problem = make_problem(head.kind, head.attrs, inputs, output, tail, f"{head.kind} {head.name!r}")
    native = env.compute_dtype(output.dtype) == output.dtype
    if env.tune == "off" and native and not repeats_fused_ops(problem):
        literal = literal_op(head.kind, head.attrs, inputs, output)
        if literal is not None:
            _literal(built, literal, item, views, env)
            return Decision("literal", output.dtype)
    built.macs += problem.macs
    return lower(program, problem, env, _chooser(env))


def _literal(built: Built, head: NativeOp, item: Group, views: dict[Value, View], env: Env) -> None:
    """The head as given and the post-ops as they are, in one native step."""
    rest = item.nodes[1:]
    edges: dict[Value, Operand] = {}
    first = item.nodes[0].outputs[0]
    if rest:
        edges[first] = Edge(first.shape, first.dtype)  # type: ignore[arg-type]
        head = NativeOp(head.kind, head.attrs, head.inputs, (edges[first],), item.nodes[0].name)
    built.program.native([head, *_native_ops(built, rest, item, views, edges, env)], head.kind)


def _native_ops(
    built: Built,
    nodes: Sequence[Node],
    item: Group,
    views: dict[Value, View],
    edges: dict[Value, Operand],
    env: Env,
) -> list[NativeOp]:
    program, shared = built.program, built.shared
    ops = []
    leaving = _leaving(item, shared)

    def operand(value: Value) -> Operand:
        return edges[value] if value in edges else view_of(program, value, views)

    for node in nodes:
        inputs = tuple(operand(value) for value in node.inputs)
        for value in node.outputs:
            if value not in leaving and value not in edges:
                edges[value] = Edge(value.shape, value.dtype)  # type: ignore[arg-type]
        outputs = tuple(operand(value) for value in node.outputs)
        ops.append(NativeOp(node.kind, native_attributes(node, env), inputs, outputs, node.name))
    return ops


def _leaving(item: Group, shared: set[Value]) -> set[Value]:
    """Values of a group that need a buffer: those that someone outside reads, and those that nobody does."""
    read = {value for node in item.nodes for value in node.inputs}
    return {value for value in item.outputs if value in shared or value not in read}


def _tail(
    program: Program, head: Node, rest: Sequence[Node], views: dict[Value, View], data_format: str, env: Env
) -> tuple[TailOp, ...]:
    """Post-ops in normal form."""
    results = {head.outputs[0]: 0}
    ops = []
    rank = len(head.outputs[0].shape)
    for position, node in enumerate(rest, 1):
        operands: list[View | int] = []
        for value in node.inputs:
            if value in results:
                operands.append(results[value])
                continue
            view = view_of(program, value, views)
            is_bias = node.kind == "BiasAdd"
            operands.append(view if is_bias else _full_rank(view, rank, data_format))
        attrs = native_attributes(node, env)
        if "data_format" in attrs:
            attrs["data_format"] = "NCX"
        ops.append(TailOp(node.kind, attrs, tuple(operands), node.name))
        results[node.outputs[0]] = position
    return tuple(ops)


def _full_rank(view: View, rank: int, data_format: str) -> View:
    """A broadcast operand with dst's rank and the axes (N, C, spatial...)."""
    while view.ndim < rank:
        view = view.insert(0)
    return data_view(view, data_format)


# which operands a kernel takes only row-major, by the word of the op table
_ROW_MAJOR: dict[str, Callable[[Value], bool]] = {
    "": lambda value: False,
    "all": lambda value: True,
    "vectors": lambda value: len(value.shape) == 1,
    "batches": lambda value: len(value.shape) > 2,
}


def _taken_row_major(item: Group, env: Env) -> set[Value]:
    """Values that a kernel of the group takes only densely in the order of their axes."""
    found: set[Value] = set()
    for node in item.nodes:
        spec = schema.OPS[node.kind]
        if env.version >= spec.row_major_since:
            found.update(value for value in (*node.inputs, *node.outputs) if _ROW_MAJOR[spec.row_major](value))
    return found


def _build_native(built: Built, item: Group, views: dict[Value, View], env: Env) -> Decision:
    """Ops of the library as they are; bf16 and f16 become f32 inside where it has no kernels for them."""
    program = built.program
    values = dict.fromkeys(value for node in item.nodes for value in (*node.inputs, *node.outputs))
    staged = dict.fromkeys(value for value in values if env.compute_dtype(value.dtype) != value.dtype)
    dense = _taken_row_major(item, env)
    staged |= dict.fromkeys(v for v in values if v in dense and v in views and not views[v].row_major)
    if staged:
        return _build_staged(built, item, views, env, list(staged))
    ops = _native_ops(built, item.nodes, item, views, {}, env)
    program.native(ops, item.nodes[0].kind, _fallback(item, ops))
    return Decision("native", item.nodes[-1].outputs[0].dtype)


def _fallback(item: Group, ops: Sequence[NativeOp]) -> HostStep | None:
    node = item.nodes[0]
    if len(item.nodes) > 1 or node.kind not in HOST or node.kind in ONLY_EMPTY:
        return None
    inputs, outputs = ([o for o in some if isinstance(o, View)] for some in (ops[0].inputs, ops[0].outputs))
    return HostStep(step(node), tuple(inputs), tuple(outputs), f"{node.kind} (NumPy)")


def _build_staged(built: Built, item: Group, views: dict[Value, View], env: Env, staged: Sequence[Value]) -> Decision:
    """The group on row-major copies of some values, in the dtype to compute in."""
    program = built.program
    made = set(item.outputs)
    leaving = _leaving(item, built.shared)
    inner = {value: views[value] for node in item.nodes for value in node.inputs if value in views}
    back: list[tuple[View, View]] = []
    edges: dict[Value, Operand] = {}
    for value in staged:
        compute = env.compute_dtype(value.dtype)
        if value in made and value not in leaving:
            edges[value] = Edge(value.shape, compute)  # type: ignore[arg-type]
            continue
        outer = view_of(program, value, views)
        inner[value] = program.scratch(outer.shape, compute)
        if value in made:
            back.append((inner[value], outer))
        else:
            program.copy(outer, inner[value], f"{value.dtype} to {compute}")
    for value in made:
        if value not in inner and value in leaving:
            inner[value] = view_of(program, value, views)
    ops = _native_ops(built, item.nodes, item, inner, edges, env)
    program.native(ops, item.nodes[0].kind, _fallback(item, ops))
    for source, target in back:
        program.copy(source, target, f"{source.dtype} to {target.dtype}")
    return Decision("native", env.compute_dtype(staged[0].dtype))

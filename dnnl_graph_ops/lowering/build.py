"""Groups of nodes to a program: family groups are lowered, others run as they are, in a dtype that runs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..algorithms import nonfinite
from ..algorithms import tile_rows as bands
from ..algorithms.deconvolution import repeats_fused_ops
from ..algorithms.lower import Chooser, Decision, lower
from ..errors import UnsupportedError
from ..graph import Value
from . import chain, dense, integers, norms, patterned, trust
from .as_given import Places, build_native, leaving_of, native_ops, place_of, view_of
from .env import Env
from .family import MEMBERS, literal_op, make_problem
from .groups import Group, ops_of
from .host_ops import step
from .own import OWN, VIEWS, join, serves
from .post_ops import post_ops
from .problem import Problem
from .program import Edge, NativeOp, Operand, Program, View, is_dense
from .rewrites import Rewrite
from .routes import How, route_of, runs_natively

RUN_LITERALLY = Rewrite(
    "run_literally",
    'with tune="off" an op of the convolutions, and its post-ops, are the library\'s as they are declared',
    (
        "it has kernels of the type",
        "it spreads no Inf or NaN where that is not asked for",
        "it adds what is fused once",
        "it has an op with these attributes",
    ),
)


@dataclass
class Built:
    """A program and what was decided for each group; the steps state the position of theirs."""

    program: Program
    # values that a group other than their own reads, or that the net returns
    shared: set[Value]
    decisions: list[tuple[Group, Decision]] = field(default_factory=list)
    macs: int = 0
    # what may run by bands of rows
    layers: list[bands.Layer] = field(default_factory=list)


def build(groups: Sequence[Group], views: dict[Value, View], env: Env, choose: Chooser | None = None) -> Built:
    """Append the steps of every group, as `split` leaves them. `views` has inputs, constants and outputs; the rest gets
    scratch.

    `choose` ranks the algorithms of family ops, if they are not to be ranked by their estimates.
    """
    built = Built(Program(), _shared(groups, views))
    for one in groups:
        built.program.group = len(built.decisions)
        if isinstance(views, Places):
            views.take_in(built.program, (value for node in one.nodes for value in node.inputs))
        built.decisions.append((one, _build_group(built, one, views, env, choose)))
    built.program.group = None
    return built


def _shared(groups: Sequence[Group], views: Mapping[Value, View]) -> set[Value]:
    found = set(views)
    for item in groups:
        made = set(item.outputs)
        found.update(value for node in item.nodes for value in node.inputs if value not in made)
    return found


def _build_group(built: Built, item: Group, views: dict[Value, View], env: Env, choose: Chooser | None) -> Decision:
    head = item.nodes[0]
    if all(0 in value.shape for value in item.outputs):
        return Decision("nothing to do", head.outputs[0].dtype)
    if _sees_operand(item, views):
        return Decision("view", head.outputs[0].dtype)
    if item.integer:
        integers.build(built.program, item.nodes, lambda value: view_of(built.program, value, views), env)
        built.macs += integers.macs(item.nodes)
        return Decision("own integer", trust.multiplied(item.nodes))
    if patterned.takes(item.nodes, env):
        built.macs += patterned.build(built.program, item.nodes, lambda value: view_of(built.program, value, views))
        return Decision("own kernel", head.outputs[0].dtype)
    if env.prefers_own and norms.leads(head):
        return _build_norm(built, item, views, env)
    if dense.takes(head, env):
        problem = dense.problem_of(head, item.nodes[1:], lambda value: view_of(built.program, value, views), env)
        built.macs += problem.macs
        return lower(built.program, problem, env, choose)
    last = item.nodes[-1].outputs[0]
    if chain.takes(item.nodes, env) and leaving_of(item, built.shared) == {last}:
        label = " + ".join(node.kind for node in item.nodes)
        chain.build(built.program, item.nodes, lambda value: view_of(built.program, value, views), label)
        return Decision("own chain", "f32")
    if isinstance(views, Places) and head.outputs[0] in views.joined:
        sources = [view_of(built.program, value, views) for value in head.inputs]
        copied = join(built.program, head, sources, view_of(built.program, head.outputs[0], views))
        return Decision("own kernel" if copied else "view", head.outputs[0].dtype)
    if not item.supported:
        return _build_elsewhere(built, item, views, env, choose)
    if head.kind in MEMBERS:
        return _build_family(built, item, views, env, choose)
    if len(item.nodes) == 1 and serves(head) and env.prefers_own:
        reads, writes = ([view_of(built.program, v, views) for v in some] for some in (head.inputs, head.outputs))
        # the library would have copies, or a reference kernel
        if not all(map(is_dense, (reads[0], *writes))):
            OWN[head.kind].build(built.program, head, reads, writes)
            return Decision("own kernel", head.outputs[0].dtype)
    return build_native(built.program, item, built.shared, views, env)


def _sees_operand(item: Group, views: dict[Value, View]) -> bool:
    """Whether the result's place is its operand's, so that nothing is left to do."""
    node = item.nodes[0]
    if len(item.nodes) > 1 or node.kind not in VIEWS:
        return False
    places = [place_of(value, views) for value in (node.inputs[0], node.outputs[0])]
    return places[0] is not None and places[1] is not None and places[0].buffer is places[1].buffer


def _build_elsewhere(built: Built, item: Group, views: dict[Value, View], env: Env, choose: Chooser | None) -> Decision:
    """A node that the library has no kernel for.

    Raises:
        UnsupportedError: nothing else runs it either.
    """
    program, node = built.program, item.nodes[0]
    way = route_of(node, env)
    if way.how is How.NOWHERE:
        raise UnsupportedError(f"{node.kind} {node.name!r}: {way.reason}")
    if way.twin is not None:
        for value in way.twin.inputs:
            if value not in views and value.node is None and (array := value.constant) is not None:
                views[value] = program.constant(array)
        return _build_group(built, Group((way.twin,), runs_natively(way.twin, env)), views, env, choose)
    inputs, outputs = ([view_of(program, v, views) for v in some] for some in (node.inputs, node.outputs))
    if way.how is How.BY_OWN_CODE:
        OWN[node.kind].build(program, node, inputs, outputs)
        return Decision("own kernel", node.outputs[0].dtype)
    if node.host is not None and node.host.own is not None and env.engine.memory is None:
        _build_own(program, node.host.title, node.host.own, inputs, outputs)
        return Decision("own kernel", node.outputs[0].dtype)
    shapes = tuple((view.shape, view.strides, view.dtype) for view in (*inputs, *outputs))
    title, by, does = node.kind, "NumPy", repr(sorted(node.attrs.items()))
    if node.host is not None:
        title, by, does = node.host.title, node.host.by, node.host.key.hex()
    program.host(step(node), inputs, outputs, f"{title} ({by})", (by, title, does, shapes), by)
    return Decision(by, node.outputs[0].dtype)


def _build_own(
    program: Program, title: str, own: Callable[..., None], inputs: Sequence[View], outputs: Sequence[View]
) -> None:
    """Own code for what something outside of the table computes, on dense views."""
    reads = [v if v.row_major else program.copied(v, v.dtype, range(v.ndim), f"src of {title}") for v in inputs]
    writes = [view if view.row_major else program.scratch(view.shape, view.dtype) for view in outputs]
    own(program, reads, writes)
    for made, view in zip(writes, outputs, strict=True):
        if made is not view:
            program.copy(made, view, f"dst of {title}")


def _build_norm(built: Built, item: Group, views: dict[Value, View], env: Env) -> Decision:
    program, (head, *rest) = built.program, item.nodes
    inputs = [view_of(program, value, views) for value in head.inputs]
    output = view_of(program, item.nodes[-1].outputs[0], views)
    tail = post_ops(head, rest, lambda value: view_of(program, value, views), env) if rest else ()
    norms.build(program, head, inputs, [output], tail)
    return Decision("own kernel", output.dtype)


def _build_family(built: Built, item: Group, views: dict[Value, View], env: Env, choose: Chooser | None) -> Decision:
    program, (head, *rest) = built.program, item.nodes
    inputs = [view_of(program, value, views) for value in head.inputs]
    output = view_of(program, item.nodes[-1].outputs[0], views)
    tail = post_ops(head, rest, lambda value: view_of(program, value, views), env)
    problem = make_problem(head.kind, head.attrs, inputs, output, tail, f"{head.kind} {head.name!r}")
    literal = _literal_head(item, problem, inputs, output, env) if env.tune == "off" else None
    if literal is not None:
        _literal(built, literal, item, views, env)
        return Decision("literal", output.dtype)
    built.macs += problem.macs
    decision = lower(program, problem, env, choose)
    built.layers += bands.layers(len(built.decisions), problem, decision)
    return decision


def _literal_head(item: Group, problem: Problem, inputs: Sequence[View], output: View, env: Env) -> NativeOp | None:
    """The head as the library has it, where it is right as it is."""
    head, unmet = item.nodes[0], ""
    if env.compute_dtype(output.dtype, *ops_of(item.nodes)) != output.dtype:
        unmet = "it has kernels of the type"
    elif not nonfinite.takes_literal(problem, env):
        unmet = "it spreads no Inf or NaN where that is not asked for"
    elif repeats_fused_ops(problem):
        unmet = "it adds what is fused once"
    literal = None if unmet else literal_op(head.kind, head.attrs, inputs, output)
    if literal is None:
        unmet = unmet or "it has an op with these attributes"
    RUN_LITERALLY.tell(head, unmet)
    return literal


def _literal(built: Built, head: NativeOp, item: Group, views: dict[Value, View], env: Env) -> None:
    """The head as given and the post-ops as they are, in one native step."""
    rest = item.nodes[1:]
    edges: dict[Value, Operand] = {}
    first = item.nodes[0].outputs[0]
    if rest:
        edges[first] = Edge(first.shape, first.dtype)  # type: ignore[arg-type]
        head = NativeOp(head.kind, head.attrs, head.inputs, (edges[first],), item.nodes[0].name)
    ops = native_ops(built.program, rest, leaving_of(item, built.shared), views, edges, env)
    built.program.native([head, *ops], head.kind)

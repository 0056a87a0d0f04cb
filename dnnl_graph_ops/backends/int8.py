"""Runs quantized convolutions and MatMuls: finds their groups, and describes them as convolutions of integers.

The algorithms for them multiply integers, run a partition of the library, or compute in floats between conversions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

from ..algorithms import integers, partition, table
from ..algorithms.choice import ranked
from ..algorithms.lower import Decision, lower, with_own_bias
from ..convolution.nodes import make_problem, post_ops
from ..convolution.problem import ConvProblem, at_values
from ..convolution.quantization import BOUNDING, Partition, Quantization, Residual, Take
from ..graph import Node, Value
from ..ir import dims
from ..ir.env import Env
from ..program.epilogue import views
from ..program.program import Buffer, Place, Program, View, argument
from ..strides import dense_strides
from ..symbolic import kernels
from . import matmul, onednn
from .backend import Backend, FusionGroup, Lowering, Places, Search
from .quantized import (
    BOUND_INTEGERS,
    CONVOLUTIONS,
    FUSE_INT8,
    FUSE_RESIDUAL,
    Quantized,
    Sum,
    is_head,
    point,
    quantized,
    scale_of,
    with_sum,
)
from .search import behind

ViewOf = Callable[[Value], View]


class Match(NamedTuple):
    """The parts of a group, its product as a problem for estimates, and whether the library's partition is exact."""

    parts: Quantized
    problem: ConvProblem
    partitioned: bool = False


def match(nodes: Sequence[Node], env: Env, partitioned: bool = False) -> Match | None:
    """Returns the parts of nodes if builtin code can run them as one product of integers, None otherwise.

    The caller sees to it that other nodes read the last node's result only. `partitioned`: the library computes the
    nodes exactly, so that builtin code need not.
    """
    if not env.prefers_builtin or len(nodes) < 3:
        return None
    q = quantized(nodes)
    if q is None or not kernels.int8_isa()[0]:
        return None
    problem = at_values(problem_of(q, _somewhere, env))
    unmet = ""
    if partitioned or table.usable(problem, env, on_integers=True):
        pass
    elif not integers.sums_fit(problem):
        unmet = "sums fit into 32 bits"
    elif not problem.takes_epilogue:
        unmet = "the kernel has the post-ops"
    else:
        unmet = "the kernel takes the layer"
    FUSE_INT8.tell(q.head, unmet)
    return None if unmet else Match(q, problem, partitioned)


def problem_of(q: Quantized, view_of: ViewOf, env: Env, partition: Partition | None = None) -> ConvProblem:
    """Returns the head as a problem on the integers that its Dequantize ops read, with the post-ops and dst."""
    head, last = q.head, (q.epilogue[-1] if q.epilogue else q.head).outputs[0]
    undone = {node.outputs[0]: node.inputs[0] for node in (q.src, q.weights)}
    if q.quantize is not None:
        undone[last] = q.quantize.outputs[0]

    def seen(value: Value) -> View:
        return view_of(undone.get(value, value))

    if head.kind in CONVOLUTIONS:
        epilogue = post_ops(head, q.epilogue, view_of, env)
        inputs = list(map(seen, head.inputs))
        problem = make_problem(head.kind, head.attrs, inputs, seen(last), epilogue, f"{head.kind} {head.name!r}")
    else:
        problem = matmul.problem_of(head, q.epilogue, seen, env)
    scale, zero = (tuple(map(view_of, values)) for values in (q.src.inputs[1:2], q.src.inputs[2:]))
    residual = None if q.residual is None else _residual(head, q.residual, problem, view_of, env)
    return replace(
        problem,
        quantization=Quantization(
            1.0 if q.is_dynamic else float(q.src.attrs["scales"][0]),
            point(q.src),
            tuple(q.weights.attrs["scales"]),
            tuple(q.weights.attrs.get("zps") or (0,)),
            None if q.quantize is None else scale_of(q.quantize),
            scale,
            zero,
            residual,
            partition,
        ),
    )


def _residual(head: Node, of: Sum, problem: ConvProblem, view_of: ViewOf, env: Env) -> Residual:
    (added,) = post_ops(head, [of.other], view_of, env)
    bound = None if of.bound is None else post_ops(of.add, [of.bound], view_of, env)[0]
    (view,) = views((added,))
    view = view.without_last(view.ndim - problem.result.ndim) if view.ndim > problem.result.ndim else view
    return Residual(view, scale_of(of.other), scale_of(of.inner), str(of.inner.outputs[0].dtype), bound)


def _somewhere(value: Value) -> View:
    """Returns a view of a value for estimates: of a buffer that no plan has, but of the data of a constant."""
    shape, held = dims(value), value._held
    if held is None:
        return argument(Place.SCRATCH, value.dtype, shape, dense_strides(shape))
    return View(Buffer(Place.CONSTANT, value.dtype, prod(shape), held=held), shape, dense_strides(shape))


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    q, _, partitioned = group.match
    whole = None
    if partitioned:
        own = [node for node in group.nodes if q.residual is None or node not in (*q.residual[1:], q.quantize)]
        read = (value for node in own for value in node.inputs if value.node not in own)
        views = {**{value: lowering.view(value) for value in read}, own[-1].outputs[0]: lowering.view(group.result)}
        whole = partial(_append_partition, own, views, lowering.env)
    problem = problem_of(q, lowering.view, lowering.env, whole)
    if q.quantize is not None:
        last = next(iter(q.epilogue[-1:]), None) if q.residual is None else q.residual.bound
        bounds = last is not None and last.kind in BOUNDING
        BOUND_INTEGERS.tell(q.quantize, "" if bounds else "the last post-op is a ReLU or Clamp")
    lowering.macs += problem.macs
    return lower(lowering.program, problem, lowering.env, lowering.choose, lowering.selectors.get(q.head.name))


def _append_partition(nodes: Sequence[Node], views: dict[Value, View], env: Env, program: Program, take: Take) -> None:
    """Appends nodes as a partition of the library on what `take` returns for their views."""
    places = Places({value: take(view) for value, view in views.items()})
    onednn.build_native(Lowering(places, {nodes[-1].outputs[0]}, env, program=program), nodes)


# ---- groups ----------------------------------------------------------------------------------------------------------


def _find(search: Search) -> None:
    """Takes from a search each quantized product with its Dequantize ops, post-ops and Quantize.

    A partition of the library with other nodes, such as a Dequantize of what is added, is left to the library where
    that is faster by estimate.
    """
    joining = set(search.elementwise)
    for number, node in enumerate(search.nodes):
        makers = [search.numbers[value.node] for value in node.inputs[:2] if value.node in search.numbers]
        if len(makers) < 2 or not is_head(node):
            continue
        theirs = _partition({*makers, number}, search)
        group = _longest(makers, number, joining, search, theirs)
        if group is None:
            continue
        joining.difference_update(search.numbers[member] for member in group.nodes)
        if not theirs or group.match.partitioned or not _is_left_to_library(group.match.problem, search.env):
            search.take(group)


def _partition(members: set[int], search: Search) -> set[int]:
    """Returns the numbers of the nodes of the library's partition that has `members`; none where it does not run."""
    for whole in filter(members.issubset, search.partitions):
        if onednn.match([search.nodes[number] for number in sorted(whole)], search.env):
            return set(whole)
    return set()


def _is_left_to_library(problem: ConvProblem, env: Env) -> bool:
    assert problem.quantization is not None
    quantization = replace(problem.quantization, partition=lambda program, take: None)
    return ranked(replace(problem, quantization=quantization), env)[0][0].name == partition.NAME


def _longest(makers: list[int], head: int, joining: set[int], search: Search, theirs: set[int]) -> FusionGroup | None:
    """Returns the longest group of a product that builtin code runs; None where there is none.

    Tried are the group with post-ops and a Quantize, without the Quantize, and without both. `theirs`: the numbers of
    the nodes of the library's partition, or none.
    """
    _, *epilogue = behind(head, joining, search)
    after = search.reader(search.nodes[epilogue[-1] if epilogue else head].outputs[0])
    rounding = [search.numbers[after]] if after is not None and after.kind == "Quantize" else []
    for more in ([*epilogue, *rounding], epilogue, []):
        members = [*makers, head, *more]
        nodes = [search.nodes[number] for number in members]
        product = match(nodes, search.env, set(members) == theirs)
        if product is not None:
            summed, added = _with_sum(product, joining, search, bool(theirs))
            return FusionGroup(search.sorted([*nodes, *added]), INT8, summed)
    return None


def _with_sum(product: Match, joining: set[int], search: Search, weighs: bool) -> tuple[Match, list[Node]]:
    """Returns a product with the sum that follows its Quantize and the nodes of that, or the product and none.

    `weighs`: the library has a partition of the convolution, which is faster for some layers and adds no such sum. One
    of the same nodes is weighed with the kernel when the group is lowered.
    """
    q = product.parts
    if q.quantize is None or q.head.kind not in CONVOLUTIONS:
        return product, []
    following = _following_sum(q.quantize, search)
    if following is None:
        return product, []
    added, last = following
    nodes = [*filter(None, added[1:]), last]
    summed = with_sum(q, added, last) if joining.issuperset(search.numbers.get(node, -1) for node in nodes) else None
    if summed is None:
        return product, []
    problem = with_own_bias(product.problem)
    leaves = weighs and not product.partitioned and _is_left_to_library(problem, search.env)
    takes = integers.takes_residual(problem) and not leaves
    FUSE_RESIDUAL.tell(summed.head, "" if takes else "the kernel adds the sum")
    return (Match(summed, problem, product.partitioned), nodes) if takes else (product, [])


def _following_sum(inner: Node, search: Search) -> tuple[Sum, Node] | None:
    """Returns the sum of the integers of a Quantize and of others, and the Quantize after it; None where none is."""
    floats = search.reader(inner.outputs[0])
    add = None if floats is None or floats.kind != "Dequantize" else search.reader(floats.outputs[0])
    if floats is None or add is None or add.kind != "Add":
        return None
    other = next((value.node for value in add.inputs if value is not floats.outputs[0]), None)
    last = search.reader(add.outputs[0])
    bound = last if last is not None and last.kind in BOUNDING else None
    last = last if bound is None else search.reader(bound.outputs[0])
    unmet = other is None or other.kind != "Dequantize" or search.reader(other.outputs[0]) is not add
    if unmet or other is None or last is None or last.kind != "Quantize":
        return FUSE_RESIDUAL.declined(add, "an Add alone reads the floats of both")
    return Sum(inner, floats, other, add, bound), last


INT8 = Backend("int8", build, find=_find, weighs=True)

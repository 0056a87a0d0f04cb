"""Asks the library for its partitions of a graph, and splits those that the library does not compute exactly."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from .. import dtypes, schema
from .._core import Graph, LogicalTensor, PartitionPolicy, TensorProperty
from ..convolution.nodes import CONV_KINDS, native_attributes
from ..graph import Node, Value
from ..ir.env import Env
from ..onednn import exact_int8, reference
from ..onednn.exact_int8 import MULTIPLYING
from ..onednn.ops import FPMATH, fresh_id, native_op
from ..onednn.partition import ONEDNN_PARTITION
from ..runtime.defects import Edges, crashes_matcher
from ..runtime.engines import KINDS, Engine
from ..symbolic import plain
from . import matmul
from .backend import Search
from .onednn import refused_behind, runs

POLICIES = {"fusion": PartitionPolicy.fusion, "debug": PartitionPolicy.debug}

_END = schema.OPS["End"].inputs[0].dtypes


@dataclass(frozen=True)
class _Op:
    """A node as the library's pattern matcher sees it: kind, attributes and numbers of its tensors, without sizes."""

    kind: str
    attrs: tuple[tuple[str, Any], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class _Structure:
    """A graph without sizes: ops on numbered tensors, (dtype, is constant) of each tensor, and the outputs' numbers."""

    ops: tuple[_Op, ...]
    tensors: tuple[tuple[str, bool], ...]
    ends: tuple[int, ...]


def partitions(nodes: Sequence[Node], outputs: Sequence[Value], env: Env, policy: str) -> list[tuple[int, ...]]:
    """Returns the node numbers of each partition of the library.

    A partition that the library may compute inexactly is replaced by parts that it computes exactly.
    """
    shown = [runs(node, env) for node in nodes]
    return [some for part in _partitioned(nodes, outputs, env, policy, shown) for some in _trusted(part, nodes, env)]


def exact_partitions(search: Search) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Returns partitions of several nodes that builtin code does not fuse and that the library computes exactly.

    The first list has partitions as the library forms them, the second the exact parts of others, each by its nodes'
    numbers. They are worth having, as the library is faster with such a partition than with its nodes one by one.
    """
    nodes, env = search.nodes, search.env
    theirs = _library_only(nodes, env)
    if theirs.isdisjoint(reader for i in theirs for value in nodes[i].outputs for reader in search.of(value)):
        return [], []
    shown = [i in theirs and runs(node, env) for i, node in enumerate(nodes)]
    whole: list[tuple[int, ...]] = []
    products: list[tuple[int, ...]] = []
    for part in _partitioned(nodes, search.outputs, env, "fusion", shown):
        if len(part) < 2 or search.elementwise.issuperset(part):
            continue
        kinds = {nodes[i].kind for i in part}
        if kinds & exact_int8.QUANTIZING and kinds & MULTIPLYING and not env.has_int8_products:
            continue
        first, *rest = _trusted(part, nodes, env)
        if not rest:
            whole.append(first)
        elif len(first) > 1:
            products.append(first)
    return whole, products


def _trusted(part: tuple[int, ...], nodes: Sequence[Node], env: Env) -> list[tuple[int, ...]]:
    """Returns a partition as it is where the library computes it exactly, else parts of it that are exact.

    Such a part is a product with the Dequantize ops of its operands, or a convolution in floats with its post-ops; the
    other nodes are parts of one node each.
    """

    def right(members: Sequence[int]) -> bool:
        group = [nodes[i] for i in members]
        if len(group) == 1 or not exact_int8.quantizes(group):
            return True
        slow = env.by_reference
        return exact_int8.trusted(group, env) and not (slow and reference.key_of_nodes(group) in slow)

    if right(part):
        return [part]
    ONEDNN_PARTITION.declined(nodes[part[-1]], "the partition's integers are known to be exact")
    heads = [i for i in part if nodes[i].kind in MULTIPLYING]
    product = tuple(i for i in part if i in heads or any(nodes[i].outputs[0] in nodes[head].inputs for head in heads))
    rest = tuple(i for i in part if i not in product)
    inner = {nodes[i].outputs[0] for i in product if i not in heads}
    if heads and right(product) and not any(value in inner for i in rest for value in nodes[i].inputs):
        return [product, *((i,) for i in rest)]
    between = tuple(i for i in part if nodes[i].kind not in exact_int8.QUANTIZING)
    fused = bool(between) and nodes[between[0]].kind in CONV_KINDS
    if not fused or any(nodes[i].kind not in schema.POST_OPS for i in between[1:]):
        return [(i,) for i in part]
    return [*((i,) for i in part if i not in between), between]


_OPENING = schema.kinds("dequantizes") | {"TypeCast"}
_FOLLOWING = schema.POST_OPS | {"TypeCast"}
_PRODUCT = "MatMul"
# post-ops with which the library's products of f32 take 4 to 10 times as long as builtin code
_SLOW_BEHIND_PRODUCTS = schema.kinds("slow_behind_products")


def _library_only(nodes: Sequence[Node], env: Env) -> set[int]:
    """Returns the numbers of nodes that may be part of a fused pattern of the library that builtin code lacks.

    Such patterns are int8 ones, and products of matrices that builtin code does not run, with their post-ops.
    """
    theirs: dict[Node, int] = {}
    floats = all(node.kind not in exact_int8.QUANTIZING for node in nodes)
    for i, node in enumerate(nodes):
        makers = [value.node.kind for value in node.inputs if value.node in theirs]
        if not (
            (node.kind == "MatMul" and not matmul.leads(node))
            or node.kind in exact_int8.QUANTIZING
            or (makers and node.kind in _FOLLOWING)
            or not _OPENING.isdisjoint(makers)
        ):
            continue
        slow = node.kind in _SLOW_BEHIND_PRODUCTS and node.outputs[0].dtype == "f32"
        if not (floats and node.kind in schema.POST_OPS and (slow or refused_behind(_PRODUCT, node, env))):
            theirs[node] = i
    return set(theirs.values())


def _partitioned(
    nodes: Sequence[Node], outputs: Collection[Value], env: Env, policy: str, supported: Sequence[bool]
) -> Sequence[tuple[int, ...]]:
    """Returns the node numbers of each partition as the library forms it.

    `supported`: whether the library runs a node, for each; other nodes are shown to the library as Wildcard.
    """
    structure = _structure(nodes, outputs, env, supported)
    pieces = _pieces(structure) if policy == "fusion" else []
    if len(pieces) < 2:
        return _partitions(env.engine, env.fpmath_mode, policy, structure)
    # the matcher's time grows with the square of the ops: it gets each of the pieces that are alike once
    shown: dict[Hashable, _Structure] = {}
    like = [_alone(structure, piece) for piece in pieces]
    for key, alone in like:
        shown.setdefault(key, alone)
    found = {key: list[Sequence[int]]() for key in shown}
    owners = [(key, i) for key, alone in shown.items() for i in range(len(alone.ops))]
    for part in _partitions(env.engine, env.fpmath_mode, policy, _side_by_side([*shown.values()])):
        found[owners[part[0]][0]].append([owners[i][1] for i in part])
    return sorted(
        tuple(piece[i] for i in part) for piece, (key, _) in zip(pieces, like, strict=True) for part in found[key]
    )


def _pieces(structure: _Structure) -> list[list[int]]:
    """Returns the numbers of the ops by pieces, which share only integers that a Quantize gives to Dequantize ops.

    No fused pattern goes on behind such integers, but those of attention, whose graphs are one piece.
    """
    ops = structure.ops
    if any(op.kind == "SoftMax" for op in ops):
        return [[*range(len(ops))]]
    inside = {number for op in ops if op.kind != "Quantize" for number in op.outputs}
    inside |= {number for op in ops if op.kind != "Dequantize" for number in op.inputs}
    inside |= {number for number, (_, constant) in enumerate(structure.tensors) if constant}
    joined = [*range(len(ops))]

    def root(i: int) -> int:
        while joined[i] != i:
            joined[i] = i = joined[joined[i]]
        return i

    touching: dict[int, int] = {}
    for i, op in enumerate(ops):
        for number in inside.intersection((*op.inputs, *op.outputs)):
            joined[root(i)] = root(touching.setdefault(number, i))
    pieces: dict[int, list[int]] = {}
    for i in range(len(ops)):
        pieces.setdefault(root(i), []).append(i)
    return [*pieces.values()]


def _alone(structure: _Structure, piece: Sequence[int]) -> tuple[Hashable, _Structure]:
    """Returns a piece of a structure with what leaves it as outputs, and its key: alike are those but for scales."""
    numbers: dict[int, int] = {}

    def number(tensor: int) -> int:
        return numbers.setdefault(tensor, len(numbers))

    ops = [structure.ops[i] for i in piece]
    ops = [replace(op, inputs=(*map(number, op.inputs),), outputs=(*map(number, op.outputs),)) for op in ops]
    read = {tensor for op in ops for tensor in op.inputs}
    left = {number(tensor) for tensor in structure.ends if tensor in numbers}
    left |= {tensor for op in ops if op.kind == "Quantize" for tensor in op.outputs if tensor not in read}
    ends = tuple(sorted(left))
    tensors = tuple(structure.tensors[tensor] for tensor in numbers)
    key = tuple(
        (op.kind, op.inputs, op.outputs, *((name, _likeness(name, value)) for name, value in op.attrs)) for op in ops
    )
    return (key, tensors, ends), _Structure(tuple(ops), tensors, ends)


def _likeness(name: str, value: Any) -> Hashable:
    """Returns what the matcher may ask of an attribute: how many scales and zero points, and whether any is not 0."""
    return (len(value), any(value)) if name in ("scales", "zps") else value


def _side_by_side(structures: Sequence[_Structure]) -> _Structure:
    """Returns the structure of several ones without common tensors."""
    ops: list[_Op] = []
    tensors: list[tuple[str, bool]] = []
    ends: list[int] = []
    for one in structures:
        first = len(tensors)
        ops += (
            replace(op, inputs=tuple(first + i for i in op.inputs), outputs=tuple(first + i for i in op.outputs))
            for op in one.ops
        )
        tensors += one.tensors
        ends += (first + i for i in one.ends)
    return _Structure(tuple(ops), tuple(tensors), tuple(ends))


def _structure(nodes: Sequence[Node], outputs: Collection[Value], env: Env, supported: Sequence[bool]) -> _Structure:
    numbers: dict[Value, int] = {}

    def number(value: Value) -> int:
        return numbers.setdefault(value, len(numbers))

    ops = []
    for node, native in zip(nodes, supported, strict=True):
        kind, attrs = (node.kind, tuple(sorted(_proxy_attributes(node, env).items()))) if native else ("Wildcard", ())
        kind = CONV_KINDS[kind].native if kind in CONV_KINDS else kind
        ops.append(_Op(kind, attrs, tuple(map(number, node.inputs)), tuple(map(number, node.outputs))))
    tensors = tuple((env.compute_dtype(value.dtype), value.is_constant) for value in numbers)
    leaving = [v for v in dict.fromkeys(outputs) if v.node is not None and env.compute_dtype(v.dtype) in _END]
    ends = tuple(map(number, leaving))
    edges = [Edges(item.kind, item.inputs, item.outputs) for item in ops] + [Edges("End", [i], []) for i in ends]
    for i in crashes_matcher(edges, env.engine.runtime.version_info):
        ops[i] = replace(ops[i], kind="Wildcard", attrs=())
    return _Structure(tuple(ops), tensors, ends)


@lru_cache(256)
def _partitions(engine: Engine, fpmath_mode: str, policy: str, structure: _Structure) -> tuple[tuple[int, ...], ...]:
    """Returns the op numbers of each partition; cached, as the matcher of oneDNN 3.2 takes 4 ms whatever the graph."""
    graph = Graph(engine.runtime._library, KINDS[engine.kind], FPMATH[fpmath_mode])
    properties = {True: TensorProperty.constant, False: TensorProperty.variable}
    tensors = [
        LogicalTensor(fresh_id(), dtypes.CODES[dtype], None, property=properties[constant])
        for dtype, constant in structure.tensors
    ]
    by_id: dict[int, int] = {}
    for index, item in enumerate(structure.ops):
        ins, outs = ([tensors[i] for i in some] for some in (item.inputs, item.outputs))
        op = native_op(engine, item.kind, dict(item.attrs), item.kind, ins, outs)
        by_id[op.id] = index
        graph.add_op(op)
    for index in structure.ends:
        graph.add_op(native_op(engine, "End", {}, "end", [tensors[index]], []))
    graph.finalize()
    graph.filter(POLICIES[policy])
    partitions = (tuple(sorted(by_id[i] for i in partition.op_ids if i in by_id)) for partition in graph.partitions())
    return tuple(filter(None, partitions))


def _proxy_attributes(node: Node, env: Env) -> Mapping[str, Any]:
    if node.kind not in CONV_KINDS:
        # sizes do not matter to the pattern matcher, and may not be known yet: 1 stands for an unknown size; those of a
        # trace are their values
        return {
            name: tuple(1 if item is None else plain(item) for item in value) if isinstance(value, tuple) else value
            for name, value in native_attributes(node, env).items()
        }
    ones = (1,) * (len(node.inputs[0].shape) - 2)
    zeros = (0,) * len(ones)
    return {"strides": ones, "pads_begin": zeros, "pads_end": zeros, "dilations": ones}

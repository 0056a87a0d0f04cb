"""If, Loop, Scan and SequenceMap: each subgraph is a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...compile.specialise import Options
from ...errors import Error, InvalidArgumentError
from ...net.sizes import UNKNOWN
from ...runtime.control_groups import process_limit
from ...words import counted
from ..reading.node import Array, OnnxNode, Tensor
from ..reading.submodel import SubModel
from ..reading.types import LABELS, TYPES
from .unroll import counters

# most iterations of a Loop
_MOST_TURNS = 1 << 22


class Call(NamedTuple):
    """A node at a call: its subgraphs by name, each a function of its inputs and of the outer tensors that it reads."""

    node: OnnxNode
    bodies: Mapping[str, SubModel]
    tensors: Mapping[str, Any]
    inputs: Sequence[Any]
    options: Options

    def body(self, name: str, own: Sequence[Any]) -> Sequence[Any]:
        return self.turn(name, len(own))(own)

    def turn(self, name: str, count: int) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Returns a subgraph as a function of its `count` own inputs."""
        body, wanted = self.bodies[name], len(self.node.bodies[name].inputs)
        if count != wanted:
            raise InvalidArgumentError(f"{self.node.where}: {name} takes {counted(wanted, 'input')}, not {count}")
        around = self._around(name, count)
        return lambda own: body([*own, *around], self.options)

    def _around(self, name: str, count: int) -> list[Any]:
        return [self.tensors[item] for item in self.bodies[name].inputs[count:]]

    def rows(self, infos: Sequence[Tensor], own: Sequence[Any]) -> list[Tensor]:
        """Returns the facts of stacked results; those that the body does not declare are as its inputs tell."""
        if all(info.code is not None for info in infos):
            return [*infos]
        outputs = self.bodies["body"].outputs_like([*own, *self._around("body", len(own))], self.options)
        inferred = (
            Tensor(LABELS.get(one.dtype), None if one.shape == UNKNOWN else one.shape)
            for one in outputs[len(outputs) - len(infos) :]
        )
        return [one if info.code is None else info for info, one in zip(infos, inferred, strict=True)]


class Control(NamedTuple):
    """An operator with subgraphs: a function that runs it, and one that infers its results."""

    bodies: tuple[str, ...]
    compute: Callable[[Call], Sequence[Any]]
    results: Callable[[OnnxNode], list[Tensor]]

    def run(self, *call: Any) -> Sequence[Any]:
        return self.compute(Call(*call))


def _branch(call: Call) -> Sequence[Any]:
    (condition,) = call.inputs
    return call.body("then_branch" if bool(np.reshape(condition, -1)[0]) else "else_branch", ())


def _branch_results(node: OnnxNode) -> list[Tensor]:
    pairs = zip(*(body.infos for body in node.bodies.values()), strict=False)
    return _as_many(node, [one.common(other) for one, other in pairs])


def _as_many(node: OnnxNode, infos: Sequence[Tensor]) -> list[Tensor]:
    return [*infos, *[Tensor()] * len(node.outputs)][: len(node.outputs)]


class Rows:
    """Results of iterations, stacked on a new axis."""

    def __init__(self, node: OnnxNode) -> None:
        self.node, self.items, self.nbytes = node, list[Array](), 0
        self.most = process_limit() // 2

    def append(self, item: Any) -> None:
        array = np.asarray(item)
        self.nbytes += array.nbytes
        if self.nbytes > self.most:
            raise Error(f"{self.node.where}: gathers more than half of the memory that this process may have")
        self.items.append(array)

    def stacked(self, info: Tensor, axis: int = 0, backwards: bool = False) -> Array:
        if not self.items:
            kind = TYPES.get(info.code or 0, np.dtype(np.float32))
            empty = np.zeros((0, *(dim or 0 for dim in info.shape or ())), kind)
            return np.moveaxis(empty, 0, axis) if info.shape else empty
        return np.stack(self.items[::-1] if backwards else self.items, axis)


def _loop(call: Call) -> Sequence[Any]:
    """Loop: trip count and condition, both optional; returns carried values, then stacked results."""
    most, condition, *carried = call.inputs
    body = call.node.bodies["body"]
    infos, count_turns = body.infos, counters(body)
    turns = None if most is None else int(np.reshape(most, -1)[0])
    goes = True if condition is None else bool(np.reshape(condition, -1)[0])
    count = len(carried)
    rows = [Rows(call.node) for _ in infos[1 + count :]]
    run, turn = call.turn("body", 2 + count), 0
    while goes and (turns is None or turn < turns):
        if turn == _MOST_TURNS:
            raise Error(f"{call.node.where}: goes on after {_MOST_TURNS} turns")
        flag, *results = run([*count_turns(turn), *carried])
        goes = bool(flag.item(0))
        carried = results[:count]
        for row, item in zip(rows, results[count:], strict=True):
            row.append(item)
        turn += 1
    stacked = infos[1 + count :]
    if not turn:
        # turns may change shapes
        rows_of_none = call.rows(stacked, [*count_turns(0), *carried])
        stacked = tuple(replace(found, shape=info.shape) for found, info in zip(rows_of_none, stacked, strict=True))
    return [*carried, *(row.stacked(info) for row, info in zip(rows, stacked, strict=True))]


def _with_axis(info: Tensor) -> Tensor:
    return Tensor() if info.shape is None or not info.is_tensor else Tensor(info.code, (None, *info.shape))


def _loop_results(node: OnnxNode) -> list[Tensor]:
    _, *infos = node.bodies["body"].infos or (Tensor(),)
    count = len(node.inputs) - 2
    # sizes of carried values may change between iterations
    carried = [info if info.shape is None else replace(info, shape=(None,) * len(info.shape)) for info in infos[:count]]
    return _as_many(node, [*carried, *map(_with_axis, infos[count:])])


def _scan(call: Call) -> Sequence[Any]:
    node, inputs = call.node, list(call.inputs)
    if node.opset >= 9:
        return _scanned(call, inputs, node.attrs.get("scan_input_axes"), node.attrs.get("scan_output_axes"))
    # opset 8: lengths, and a scan for each element of a batch
    lengths, *inputs = inputs
    done = []
    for number in range(len(inputs[0])):
        each = [item[number] for item in inputs]
        if lengths is not None:
            count = node.attrs["num_scan_inputs"]
            each[-count:] = [item[: lengths[number]] for item in each[-count:]]
        done.append(_scanned(call, each))
    return [np.stack(items) for items in zip(*done, strict=True)]


def _scanned(
    call: Call, inputs: Sequence[Any], in_axes: Sequence[int] | None = None, out_axes: Sequence[int] | None = None
) -> list[Any]:
    node, infos = call.node, call.node.bodies["body"].infos
    count = node.attrs["num_scan_inputs"]
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    rows = [Rows(node) for _ in infos[len(states) :]]
    ins = in_axes or [0] * count
    outs = out_axes or [0] * len(rows)
    older = node.attrs.get("directions")
    in_back = node.attrs.get("scan_input_directions") or older or [0] * count
    out_back = node.attrs.get("scan_output_directions") or [0] * len(rows)
    for what, values, number in (
        ("scan_input_axes", ins, count),
        ("scan_output_axes", outs, len(rows)),
        ("directions of inputs", in_back, count),
        ("directions of outputs", out_back, len(rows)),
    ):
        if len(values) != number:
            raise InvalidArgumentError(f"{node.where}: {len(values)} {what}, not one for each of {number}")
    turned = [
        np.moveaxis(item, axis, 0)[:: -1 if back else 1] for item, axis, back in zip(scanned, ins, in_back, strict=True)
    ]
    run = call.turn("body", len(states) + len(turned))
    for each in zip(*turned, strict=True):
        results = run([*states, *map(np.asarray, each)])
        states = results[: len(states)]
        for row, item in zip(rows, results[len(states) :], strict=True):
            row.append(item)
    stacked: Sequence[Tensor] = infos[len(states) :]
    if any(len(item) == 0 for item in turned):
        stacked = call.rows(stacked, [*states, *(np.empty(item.shape[1:], item.dtype) for item in turned)])
    ends = zip(rows, stacked, outs, out_back, strict=True)
    return [*states, *(row.stacked(info, axis, bool(back)) for row, info, axis, back in ends)]


def _scan_results(node: OnnxNode) -> list[Tensor]:
    infos = node.bodies["body"].infos
    if node.opset < 9:
        return _as_many(node, ())
    count = len(node.inputs) - int(node.attrs.get("num_scan_inputs") or 0)
    rows = [
        Tensor() if info.shape is None else Tensor(info.code, (None,) * (len(info.shape) + 1)) for info in infos[count:]
    ]
    return _as_many(node, [*infos[:count], *rows])


def _mapped(call: Call) -> Sequence[Any]:
    """SequenceMap: maps over a sequence, and parallel sequences or tensors for all elements."""
    first, *more = call.inputs
    turns = [
        call.body("body", [item, *(other[i] if isinstance(other, list) else other for other in more)])
        for i, item in enumerate(first)
    ]
    return [list(items) for items in zip(*turns, strict=True)] or [[] for _ in call.node.outputs]


def _flexible(call: Call) -> Sequence[Any]:
    """FlexAttention: attention whose scores and probabilities subgraphs change, in f32 or more."""
    q, k, v = call.inputs
    code = call.node.attrs.get("softmax_precision")
    kind = TYPES[code] if code else np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    queries, keys, values = (item.astype(kind) for item in (q, k, v))
    times, rest = divmod(q.shape[1], k.shape[1])
    if rest:
        raise InvalidArgumentError(f"{call.node.where}: {q.shape[1]} heads of queries for {k.shape[1]} of keys")
    keys, values = (np.repeat(item, times, 1) for item in (keys, values))
    scale = call.node.attrs.get("scale")
    scores = queries @ keys.swapaxes(2, 3) * kind.type(q.shape[3] ** -0.5 if scale is None else scale)
    scores = _changed(call, "score_mod", scores)
    most = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = shares.sum(-1, keepdims=True)
    shares = _changed(call, "prob_mod", shares / np.where(total == 0, 1, total))
    return [(shares @ values).astype(q.dtype)]


def _changed(call: Call, name: str, array: Array) -> Array:
    if name not in call.bodies:
        return array
    (found,) = call.body(name, [array])
    if found.shape != array.shape:
        raise InvalidArgumentError(f"{call.node.where}: {name} gives shape {found.shape}, not {array.shape}")
    return np.asarray(found)


_CONTROL = {
    ("", "If"): Control(("then_branch", "else_branch"), _branch, _branch_results),
    ("", "Loop"): Control(("body",), _loop, _loop_results),
    ("", "Scan"): Control(("body",), _scan, _scan_results),
    ("", "SequenceMap"): Control(("body",), _mapped, lambda node: _as_many(node, ())),
    # its subgraphs may be left out
    ("ai.onnx.preview", "FlexAttention"): Control((), _flexible, lambda node: _as_many(node, ())),
}


def control(node: OnnxNode) -> Control | None:
    """Returns the Control of a node; None if it has no subgraphs or is another operator."""
    return _CONTROL.get((node.domain, node.op_type))

"""LSTM, GRU and RNN: one matrix product of all inputs, then step by step; by builtin kernels in f32 with the usual
activations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...._core import kernels
from ....errors import ShapeError, UnsupportedError
from ..node import Array, OnnxNode
from .activations import sigmoid
from .common import Described, FindOwn, Own, among, item
from .table import ROWS, Compute, Row

Function = Callable[[Array], Array]

# functions of alpha and beta, None if the node has none
_FUNCTIONS: dict[str, tuple[Callable[..., Array], tuple[float | None, float | None]]] = {
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), (1.0, None)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, a, b: np.where(x < 0, a * x, x), (0.01, None)),
    "relu": (lambda x, a, b: np.maximum(x, 0), (None, None)),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "sigmoid": (lambda x, a, b: sigmoid(x), (None, None)),
    "softplus": (lambda x, a, b: np.logaddexp(x, 0), (None, None)),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), (None, None)),
    "tanh": (lambda x, a, b: np.tanh(x), (None, None)),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), (1.0, None)),
}


def _functions(node: OnnxNode, defaults: Sequence[str], directions: int) -> list[Function]:
    """Returns the activations of each direction."""
    names = node.attrs.get("activations") or [*defaults] * directions
    if len(names) != len(defaults) * directions:
        raise ShapeError(f"{node.where}: {len(names)} activations, not {len(defaults)} for each direction")
    given = {name: list(node.attrs.get(f"activation_{name}") or ()) for name in ("alpha", "beta")}
    clip = _clip(node)
    made = []
    for name in names:
        if name.lower() not in _FUNCTIONS:
            raise UnsupportedError(f"{node.where}: activation {name!r}, only {', '.join(_FUNCTIONS)}")
        function, numbers = _FUNCTIONS[name.lower()]
        # the lists have values for activations that take alpha or beta
        alpha, beta = (
            given[key].pop(0) if default is not None and given[key] else default
            for key, default in zip(("alpha", "beta"), numbers, strict=True)
        )
        made.append(_clipped(function, alpha, beta, clip))
    return made


def _clip(node: OnnxNode) -> float | None:
    """Returns the bound of the activations' inputs; None: there is none, which some writers state as 0.

    Raises:
        UnsupportedError: a negative bound.
    """
    clip = float(node.attrs.get("clip") or 0)
    if not clip >= 0:
        raise UnsupportedError(f"{node.where}: clip={clip}, only above 0; leave it out where nothing is clipped")
    return clip or None


def _clipped(function: Callable[..., Array], alpha: Any, beta: Any, clip: float | None) -> Function:
    if clip is None:
        return lambda x: function(x, alpha, beta)
    return lambda x: function(np.clip(x, -clip, clip), alpha, beta)


@dataclass(frozen=True)
class _Cell:
    """A direction; weights and bias of the state, by gate, transposed for products from the right."""

    node: OnnxNode
    functions: Sequence[Function]
    weights: Array
    bias: Array
    peepholes: Array


def _rnn(cell: _Cell, x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    (h,) = states
    return (cell.functions[0](x + cell.bias + h @ cell.weights),)


def _gru(cell: _Cell, x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    (h,) = states
    size = h.shape[1]
    wide, f, g = slice(0, 2 * size), *cell.functions
    gates = f(x[:, wide] + h @ cell.weights[:, wide] + cell.bias[wide])
    z, r = gates[:, :size], gates[:, size:]
    last, bias = cell.weights[:, 2 * size :], cell.bias[2 * size :]
    inner = r * (h @ last + bias) if cell.node.attrs.get("linear_before_reset", 0) else (r * h) @ last + bias
    new = g(x[:, 2 * size :] + inner)
    return (new + z * (h - new),)


def _lstm(cell: _Cell, x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    h, c = states
    f, g, out = cell.functions
    i, o, forget, new = np.split(x + h @ cell.weights + cell.bias, 4, 1)
    pi, po, pf = np.split(cell.peepholes, 3)
    i = f(i + pi * c)
    forget = 1 - i if cell.node.attrs.get("input_forget", 0) else f(forget + pf * c)
    c = forget * c + i * g(new)
    return f(o + po * c) * out(c), c


# operator: step, gates, states, activations
_CELLS: dict[str, tuple[Callable[..., tuple[Array, ...]], int, int, tuple[str, ...]]] = {
    "GRU": (_gru, 3, 1, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh")),
    "RNN": (_rnn, 1, 1, ("Tanh",)),
}
# inputs of an operator that are its initial states
STATES = {operator: range(5, 5 + states) for operator, (_, _, states, _) in _CELLS.items()}


# packed weights of a direction for builtin kernels: of the inputs and of the state
Packed = dict[int, tuple[Array, Array]]


def _ran(node: OnnxNode, inputs: Sequence[Any], packed: Packed | None = None) -> tuple[Array, ...]:
    """Runs a layer; `packed`: weights packed by earlier calls; None: weights may change."""
    step, gates, count, names = _CELLS[node.op_type]
    x, w, r = inputs[:3]
    kind = np.float64 if x.dtype == np.float64 else np.float32
    x, w, r = (one.astype(kind, copy=False) for one in (x, w, r))
    directions, size = r.shape[0], r.shape[2]
    batch_first = bool(node.attrs.get("layout", 0))
    x = x.swapaxes(0, 1) if batch_first else x
    length, batch = x.shape[:2]
    way = among(node, "direction", "forward", ("forward", "reverse", "bidirectional"))
    if directions != 1 + (way == "bidirectional") or w.shape != (directions, gates * size, x.shape[2]):
        raise ShapeError(f"{node.where}: weights of shape {w.shape} and {r.shape} for data of {x.shape}, {way}")
    bias, lengths, *begin = (item(inputs, i) for i in range(3, 5 + count))
    bias = np.zeros((directions, 2 * gates * size), kind) if bias is None else bias.astype(kind, copy=False)
    begin = [
        np.zeros((directions, batch, size), kind)
        if one is None
        else (one.swapaxes(0, 1) if batch_first else one).astype(kind, copy=False)
        for one in begin
    ]
    peepholes = item(inputs, 7) if count == 2 else None
    whole = lengths is None or bool((lengths == length).all())
    native = (
        _native(node, names, directions) if peepholes is None and whole and kind == np.float32 else [""] * directions
    )
    peepholes = np.zeros((directions, 3 * size), kind) if peepholes is None else peepholes.astype(kind, copy=False)
    lengths = np.full(batch, length) if lengths is None else lengths
    functions = [] if all(native) else _functions(node, names, directions)
    y, ends = np.zeros((length, directions, batch, size), kind), [np.empty_like(one) for one in begin]
    for d in range(directions):
        own, other = bias[d, : gates * size], bias[d, gates * size :]
        back = way == "reverse" or d == 1
        if native[d]:
            before = [one[d] for one in begin]
            weights = (w[d], r[d]) if packed is None else _packed(packed, d, native[d], w[d], r[d])
            parameters = (*weights, own, other)
            after = [one[d] for one in ends]
            _run_native(native[d], x, parameters, before, y[:, d], after, back, packed is not None)
            continue
        each = functions[d * len(names) : (d + 1) * len(names)]
        cell = _Cell(node, each, np.ascontiguousarray(r[d].T), other, peepholes[d])
        order = _order(length, lengths, back)
        # products of all steps at once
        ready = (x.reshape(length * batch, -1) @ w[d].T + own).reshape(length, batch, -1)
        ready = np.take_along_axis(ready, order[..., None], 0) if back else ready
        states = tuple(one[d] for one in begin)
        rows = np.zeros((length, batch, size), kind)
        for t in range(length):
            live = (t < lengths)[:, None]
            new = step(cell, ready[t], states)
            if live.all():
                states, rows[t] = new, new[0]
            else:
                states = tuple(np.where(live, one, old) for one, old in zip(new, states, strict=True))
                rows[t] = np.where(live, new[0], 0)
        y[:, d] = np.take_along_axis(rows, order[..., None], 0) if back else rows
        for end, state in zip(ends, states, strict=True):
            end[d] = state
    if batch_first:
        y, ends = y.transpose(2, 0, 1, 3), [end.swapaxes(0, 1) for end in ends]
    return (y, *ends)[: len(node.outputs)]


# builtin cells by operator and activations; of GRU also by linear_before_reset
_NATIVE = {
    ("RNN", ("tanh",), 0): "rnn_tanh",
    ("RNN", ("relu",), 0): "rnn_relu",
    ("GRU", ("sigmoid", "tanh"), 0): "gru",
    ("GRU", ("sigmoid", "tanh"), 1): "gru_before_reset",
    ("LSTM", ("sigmoid", "tanh", "tanh"), 0): "lstm",
}


def _native(node: OnnxNode, names: Sequence[str], directions: int) -> list[str]:
    """Returns the builtin cell of each direction, "" if there is none."""
    given = [name.lower() for name in node.attrs.get("activations") or [*names] * directions]
    refused = _clip(node) is not None or node.attrs.get("input_forget", 0)
    if refused or len(given) != len(names) * directions:
        return [""] * directions
    before_reset = int(node.attrs.get("linear_before_reset", 0)) if node.op_type == "GRU" else 0
    count = len(names)
    parts = [tuple(given[at : at + count]) for at in range(0, len(given), count)]
    return [_NATIVE.get((node.op_type, part, before_reset), "") for part in parts]


def _run_native(
    cell: str, x: Array, parameters: Sequence[Array], states: Sequence[Array], rows: Array, ends: Sequence[Array],
    back: bool, packed: bool,
) -> None:  # fmt: skip
    """Runs a direction with weights and biases of the inputs and of the state; writes `rows` and `ends`."""
    inputs, weights, own, other = parameters
    steps, batch, size = rows.shape
    bias = _input_bias(cell, np.concatenate([own, other]), size)
    given = [x, inputs, bias, weights, other[-size:], states[0], states[-1]]
    kernel = _kernel(cell, steps, batch, x.shape[2], size, back, rows.strides[0] // rows.itemsize, packed)
    kernel.run(*map(np.ascontiguousarray, given), rows, ends[0], ends[-1])


@functools.lru_cache(maxsize=256)
def _kernel(
    cell: str, steps: int, batch: int, width: int, size: int, back: bool, row_step: int, packed: bool
) -> Any:  # fmt: skip
    return kernels.recurrent(cell, steps, batch, width, size, back, row_step, packed)


def _packed(known: Packed, direction: int, cell: str, inputs: Array, weights: Array) -> tuple[Array, Array]:
    if direction not in known:
        known[direction] = _pack(cell, inputs, weights)
    return known[direction]


def _pack(cell: str, inputs: Array, weights: Array) -> tuple[Array, Array]:
    width, size = inputs.shape[-1], weights.shape[-1]
    of_inputs, of_state = (np.empty(count, np.float32) for count in kernels.recurrent_packed(cell, width, size))
    kernels.recurrent_pack(cell, width, size).run(*map(np.ascontiguousarray, (inputs, weights)), of_inputs, of_state)
    return of_inputs, of_state


def _keeping(fixed: Collection[int]) -> Compute:
    """Returns a function of a node whose operands of these numbers are constant."""
    packed: Packed | None = {} if {1, 2}.issubset(fixed) else None
    return lambda node, inputs: _ran(node, inputs, packed)


def _own_layer(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    """Returns a kernel for each direction: full sequences in f32, constant weights and the usual activations."""
    _, gates, count, names = _CELLS[node.op_type]
    x, w, r = inputs[:3]
    bias, lengths, *begin = (item(inputs, i) for i in range(3, 5 + count))
    if not isinstance(x, Described) or not all(isinstance(one, np.ndarray) for one in (w, r)):
        return None
    if lengths is not None or item(inputs, 7) is not None or node.attrs.get("layout", 0) or len(x.shape) != 3:
        return None
    bias = np.zeros((r.shape[0], 2 * gates * r.shape[2]), np.float32) if bias is None else bias
    kinds = {one.dtype for one in (w, r, bias)} if isinstance(bias, np.ndarray) else set()
    if kinds != {np.dtype(np.float32)} or x.dtype != "f32" or 0 in (*x.shape, *r.shape):
        return None
    if not all(one is None or _is_single(one) for one in begin):
        return None
    cells = _native(node, names, r.shape[0])
    back = node.attrs.get("direction", "forward")
    if not all(cells) or w.shape != (r.shape[0], gates * r.shape[2], x.shape[2]):
        return None

    def build(program: Any, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        directions, size = r.shape[0], r.shape[2]
        steps, batch, width = x.shape
        state = (directions, batch, size)
        shapes = ((steps, *state), state, state)
        made = [
            writes[i] if i < len(writes) else program.scratch(shape, "f32")
            for i, shape in enumerate(shapes[: 1 + count])
        ]
        first = [_place(program, reads, one, state) for one in begin]
        for d, cell in enumerate(cells):
            before, after = ([view.narrow(0, d, 1) for view in views] for views in (first, made[1:]))
            of_inputs, of_state = _pack(cell, w[d], r[d])
            given = (of_inputs, _input_bias(cell, bias[d], size), of_state, bias[d, -size:])
            inner = [program.constant(array) for array in given]
            kernel = _kernel(
                cell, steps, batch, width, size, back == "reverse" or d == 1, directions * batch * size, True
            )
            rows = made[0].narrow(1, d, 1)
            program.kernel(
                kernel, [reads[x.number], *inner, before[0], before[-1]], [rows, after[0], after[-1]], node.op_type
            )

    return build


def _is_single(one: Any) -> bool:
    return bool(one.dtype == ("f32" if isinstance(one, Described) else np.float32))


def _place(program: Any, reads: Sequence[Any], state: Any, shape: tuple[int, ...]) -> Any:
    """Returns the view of the initial state."""
    if isinstance(state, Described):
        return reads[state.number]
    return program.constant(np.zeros(shape, np.float32) if state is None else state)


def _input_bias(cell: str, bias: Array, size: int) -> Array:
    """Returns the bias added to the inputs' product: all but the part that GRU resets with the state's product."""
    own, other = np.split(bias, 2)
    early = own.size - (size if cell == "gru_before_reset" else 0)
    total = own.copy()
    total[:early] += other[:early]
    return total


def _order(length: int, lengths: Array, back: bool) -> Array:
    """Returns the position of each step (length, batch), backwards from the end of each sequence."""
    steps = np.arange(length)[:, None]
    return (
        np.where(steps < lengths, lengths - 1 - steps, steps)
        if back
        else np.broadcast_to(steps, (length, len(lengths)))
    )


ROWS.update(dict.fromkeys(_CELLS, Row(_ran, keeping=_keeping)))
NATIVE: dict[str, FindOwn] = dict.fromkeys(_CELLS, _own_layer)

"""Random ONNX models, drawn node by node by what ONNX Runtime computes of each; judged by it as a whole.

A long run that says which cells it seldom drew, in the folder tests: python -m frontends.random_models SEED COUNT
"""

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, helper
from random_runs import Aim, Cell, long_run, nearest, properties
from reference.closeness import ROUNDING, VAGUE, distance, is_exact, largest
from reference.data import EXTENTS
from smaller import smallest

from .models import reference
from .one_node import proto_of, run
from .random_layers import ROWS
from .random_operands import KINDS, Again, Draw, Operand, extents, kind_of
from .shrinking import script, smaller

OPSETS = range(11, onnx.defs.onnx_opset_version() + 1)
MOST_NODES, MOST_TRIES, EACH_TRIES = 12, 60, 4
# what ONNX Runtime runs and the package refuses, by the message: why
LIMITS = {"data; there are no ops on it": "sizes of a call, converted to a type that graphs do not have"}
onnxruntime.set_default_logger_severity(4)
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = 1
OPTIONS.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@dataclass
class Model:
    """A graph and the arrays of a call. `errors`: how far off each result may be."""

    opset: int
    symbolic: bool
    equal: bool
    nodes: list[NodeProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    errors: dict[str, float] = field(default_factory=dict)

    def proto(self):
        way = "symbolic" if self.symbolic else "sizes"
        return proto_of(self.nodes, self.feeds, self.constants, self.opset, way, outputs=self.outputs)

    def wanted(self):
        """The outputs by ONNX Runtime."""
        return [np.asarray(one) for one in reference(self.proto(), self.feeds, literal=True)]

    def results(self):
        """All tensors by name."""
        names = list(self.errors)
        computed = {name for node in self.nodes for name in node.output}
        everything = replace(self, outputs=[name for name in names if name in computed])
        return {**self.feeds, **self.constants, **dict(zip(everything.outputs, everything.wanted(), strict=True))}

    def pruned(self, **changes):
        """The changed model without the nodes, inputs and constants that its outputs do not need."""
        model = replace(self, **changes)
        needed, kept = set(model.outputs), []
        for node in reversed(model.nodes):
            if needed.intersection(node.output):
                kept.insert(0, node)
                needed.update(node.input)
        feeds, constants = ({n: a for n, a in part.items() if n in needed} for part in (model.feeds, model.constants))
        return replace(model, nodes=kept, feeds=feeds, constants=constants)


# that make no tensor, and are drawn in front of these that read what they make
_SEQUENCES = ("SequenceConstruct", "SequenceErase", "SequenceInsert", "SplitToSequence", "SequenceEmpty")
CARRIERS = {
    **dict.fromkeys(_SEQUENCES, ("SequenceAt", "SequenceLength", "ConcatFromSequence")),
    "Optional": ("OptionalHasElement", "OptionalGetElement"),
}


@functools.cache
def _known(opset: int) -> tuple[str, ...]:
    return tuple(name for name in ROWS if onnx.defs.has(name, opset))


def drawn(seed: int, case: int, aim: Aim | None = None) -> Model:
    """A model that ONNX Runtime runs; of a few that have some of the cells of an aim, the one with most of them."""
    rng = np.random.default_rng([seed, case])
    return nearest(lambda: _drawn(rng, aim or {}), aim or {}, cells)


class Refused(Exception):
    """What ONNX Runtime does not run."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turns errors of ONNX Runtime, which have no type in common, into one."""
    try:
        yield
    except Exception as error:
        raise Refused(str(error)) from None


def _drawn(rng: np.random.Generator, aim: Aim) -> Model | None:
    """A model, mostly of the operators of an aim and with some of its properties; None: ONNX Runtime refuses it."""
    texts = properties(rng, aim, KINDS.values())
    extent = int(rng.choice(EXTENTS)) if "equal extents" in texts else extents(rng)
    opset = int(next((text[6:] for text in texts if text.startswith("opset")), rng.choice(OPSETS)))
    model = Model(opset, "symbolic" in texts or bool(rng.random() < 0.3), extent is not None)
    known = _known(opset)
    aimed = [name for op_type in aim for name in CARRIERS.get(op_type, (op_type,)) if name in known]
    values: dict[str, Operand] = {}
    wanted = int(rng.integers(len(aim) or 1, MOST_NODES + 1))
    op_type, tries = "", 0
    for _ in range(MOST_TRIES):
        if not tries:
            op_type, tries = str(rng.choice(aimed if aimed and rng.random() < 0.8 else known)), EACH_TRIES
        tries -= 1
        try:
            draw = Draw(rng, values, extent, opset, texts if rng.random() < 0.8 else set())
            nodes, results, leaves = _tried(draw, op_type)
        except (Again, Refused):
            continue
        for name, (array, is_constant) in leaves.items():
            (model.constants if is_constant else model.feeds)[name] = array
            values[name] = Operand(array)
        values |= results
        model.errors |= {name: value.error for name, value in results.items()}
        model.nodes += nodes
        tries = 0
        if len(model.nodes) >= wanted:
            break
    reads = {name for node in model.nodes for name in node.input}
    share = 1 if "inner output" in texts else 0.3
    model.outputs = [name for name in model.errors if name not in reads or rng.random() < share]
    try:
        with refusing():
            model.wanted()
    except Refused:
        return None
    return model


def _tried(d: Draw, op_type: str):
    """Nodes, their results by ONNX Runtime, and new inputs and constants.

    Raises:
        Again: the sizes that were drawn make no such node.
        Refused: ONNX Runtime does not run it.
    """
    row = ROWS[op_type]
    d.start(op_type, row.flags)
    for name, choices in row.attrs.items():
        if name in d.schema.attributes and (len(choices) == 1 or d.schema.attributes[name].required or d.chance(0.6)):
            d.attrs[name] = d.pick(*choices)
    inputs = row.operands(d)
    while inputs and not inputs[-1]:
        inputs.pop()
    start = len(d.values) + len(d.leaves)
    outputs = [f"y{start + i}" for i in range(d.outputs)]
    nodes = [*d.before, helper.make_node(op_type, inputs, outputs, **d.attrs)]
    reads = {name for node in nodes for name in node.input if name and name[0] != "s"}
    operands = {name: d.values[name] if name in d.values else Operand(d.leaves[name][0]) for name in reads}
    constants = {name: d.leaves[name][0] for name in reads if name in d.leaves and d.leaves[name][1]}
    proto = proto_of(nodes, {n: v.array for n, v in operands.items() if n not in constants}, constants, d.opset)
    with refusing():
        session = onnxruntime.InferenceSession(proto.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])

    def computed(signs):
        feeds = {n: _moved(v, signs) for n, v in operands.items() if n not in constants}
        with refusing():
            return [np.asarray(one) for one in session.run(None, feeds)]

    arrays = computed(np.zeros)
    if not all(kind_of(array) in KINDS.values() and array.ndim <= 5 and _is_small(array) for array in arrays):
        raise Again
    exact = not any(value.error for value in operands.values())
    errors = [_rounding(array, row.flags, exact) for array in arrays]
    if not exact:
        # all to one side, and each to any
        for signs in (np.ones, lambda shape: -np.ones(shape), *2 * (lambda shape: d.rng.choice([-1.0, 1.0], shape),)):
            errors = [e + distance(a, b) for e, a, b in zip(errors, arrays, computed(signs), strict=True)]
        errors = [np.inf if e > VAGUE * largest(a) else e for e, a in zip(errors, arrays, strict=True)]
    results = {n: Operand(a, e, True) for n, a, e in zip(outputs, arrays, errors, strict=True)}
    return nodes, results, d.leaves


def _is_small(array: np.ndarray) -> bool:
    """Whether integers are far from the ends of their type: some wrap there, some stay."""
    bits = 8 * array.itemsize
    return array.dtype.kind not in "iu" or bits < 32 or bool((np.abs(array.astype("f8")) < 2.0 ** (bits - 2)).all())


def _moved(value: Operand, signs: Callable[[tuple[int, ...]], Any]) -> np.ndarray:
    """The array with each element as far off as it may be."""
    if not value.error or value.array.dtype.kind != "f":
        return value.array
    return np.asarray(value.array + value.error * signs(value.array.shape), value.array.dtype)


def _rounding(array: np.ndarray, flags: str, exact: bool) -> float:
    """How far off a result may be of its own operation: integers are exact."""
    kind = kind_of(array)
    if array.dtype.kind != "f" or (exact and "r" not in flags and is_exact(array, kind)):
        return 0.0
    return max(ROUNDING[kind], ROUNDING["f4"] * ("s" in flags)) * largest(array)


def verdict(model: Model) -> str:
    """What is wrong: "refused: ...", "wrong: ..." or "limit: ...", nothing if all is right."""
    wanted = model.wanted()
    try:
        results = run(model.proto(), model.feeds)
    except Exception as error:
        limits = (f"limit: {why}" for part, why in LIMITS.items() if part in str(error))
        return next(limits, f"refused: {type(error).__name__}: {error}")
    for name, result, want in zip(model.outputs, results, wanted, strict=True):
        result = np.asarray(result)
        if (result.shape, result.dtype) != (want.shape, want.dtype):
            return f"wrong: {name} {result.dtype}{list(result.shape)}, not {want.dtype}{list(want.shape)}"
        off = distance(result, want)
        if off > model.errors[name]:
            return f"wrong: {name} is off by {off:.3g}, more than {model.errors[name]:.3g}"
    return ""


def check(model: Model, where: str) -> str:
    """Fail with the smallest model that shows the same fault, as a script; the limit that the model meets, or nothing.

    Raises:
        AssertionError: wrong results, or a refusal that is no known limit.
    """
    text = verdict(model)
    if text and not text.startswith("limit"):
        small = smallest(model, smaller, lambda one: fault(verdict(one)) == fault(text))
        raise AssertionError(f"{where}: {text}\nthe smallest: {verdict(small)}\n{script(small)}")
    return text


def fault(text: str) -> str:
    """A verdict without names and numbers, which change where a model shrinks."""
    return re.sub(r"'[^']*'|[\[(][^\])]*[\])]|\b\w*\d\w*\b|[-.+]", "", text)[:60]


def cells(model: Model) -> set[Cell]:
    """An operator and a property of its node or of the model, for each node."""
    arrays = model.results()
    reads = Counter(name for node in model.nodes for name in node.input)
    found: set[Cell] = set()
    for node in model.nodes:
        data = [arrays[name] for name in (*node.input[:1], *node.output) if name in arrays]
        facts = {
            "equal extents": model.equal,
            "symbolic": model.symbolic,
            "second reader": any(reads[name] > 1 for name in (*node.input, *node.output)),
            "inner output": any(reads[name] and name in model.outputs for name in node.output),
        }
        texts = {*map(kind_of, data), *(f"rank {array.ndim}" for array in data), f"opset {model.opset}"}
        found.update((node.op_type, text) for text in (*texts, *(name for name, holds in facts.items() if holds)))
    return found


def judged(seed: int, case: int, aim: Aim) -> tuple[set[Cell], list[str]]:
    """The cells of a model, and how it ended: by a limit, with nothing, or how it failed."""
    model = drawn(seed, case, aim)
    try:
        text = check(model, f"drawn{(seed, case, aim)}") or "agrees"
    except AssertionError as error:
        text = str(error)
    return cells(model), [text]


if __name__ == "__main__":
    long_run(judged, ROWS, *map(int, sys.argv[1:]))

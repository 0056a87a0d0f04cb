"""Lists the algorithms that may compute an op of a net, and selects among them by name or predicate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..algorithms import lower, table
from ..algorithms.algorithm import Algorithm
from ..algorithms.lower import Decision, Selector
from ..algorithms.table import Ranked
from ..backends.backend import FusionGroup
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import ConvProblem
from ..errors import InvalidArgumentError
from ..graph import AlgorithmInfo, Node, Selection
from ..ir import changes_of
from ..ir.env import ALGORITHMS, Env
from ..program.program import Place, Program, View, argument, dense_in, order_of
from ..schema.arguments import suggest
from .plan import scratch_bytes

# (op name, algorithm name or predicate)
Selections = tuple[tuple[str, Selection], ...]
Decisions = Sequence[tuple[FusionGroup, Decision]]
_WHERE = "Graph.compile: 'algorithms'"


# ---- before a plan is made -------------------------------------------------------------------------------------------


def checked(algorithms: Any) -> Selections:
    """Returns the option `algorithms` of Graph.compile, {op name: selection}, as pairs."""
    if algorithms is None:
        return ()
    if not isinstance(algorithms, Mapping):
        raise TypeError(
            f"{_WHERE} must be a dict, {{op name: algorithm name or predicate}}, got {type(algorithms).__name__}"
        )
    for op, selection in algorithms.items():
        if not isinstance(selection, str) and not callable(selection):
            raise TypeError(
                f"{_WHERE}: {op!r} needs the name of an algorithm or a predicate, got {type(selection).__name__}"
            )
    return tuple(algorithms.items())


def check_ops(selections: Selections, nodes: Sequence[Node]) -> None:
    """Checks that a net has the ops that algorithms are selected for, and that the named algorithms exist for them."""
    for op, selection in selections:
        node = convolution(op, nodes, _WHERE)
        if node.late is None and isinstance(selection, str):
            names = table.names(_direction(node.kind))
            if selection not in names:
                near = suggest(selection, names) or f"; it is one of {', '.join(names)}"
                raise InvalidArgumentError(f"{_WHERE}: no algorithm of {node.kind} is named {selection!r}{near}")


def of_nodes(selections: Selections, nodes: Iterable[Node]) -> Selections:
    names = {node.name for node in nodes}
    return tuple(item for item in selections if item[0] in names)


def convolution(op: str, nodes: Sequence[Node], where: str) -> Node:
    """Returns the node named `op`: a convolution op, a MatMul, or a node that is deferred until sizes are known."""
    if not isinstance(op, str):
        raise TypeError(f"{where}: names of ops must be strings, got {type(op).__name__}")
    node = next((node for node in nodes if node.name == op), None)
    if node is None:
        names = [node.name for node in nodes if node.kind == "MatMul" or node.kind in CONV_KINDS]
        near = suggest(op, names) or f"; its convolutions and products are {', '.join(names[:8]) or 'none'}"
        raise InvalidArgumentError(f"{where}: the net has no op {op!r}{near}")
    if node.late is None and node.kind != "MatMul" and node.kind not in CONV_KINDS:
        raise InvalidArgumentError(
            f"{where}: {op!r} is a {node.kind}; convolutions, their gradients and MatMul have algorithms"
        )
    return node


def _direction(kind: str) -> str:
    """Returns the direction of the convolution problems of a kind; MatMul runs as a forward convolution of one tap."""
    return CONV_KINDS["Convolution" if kind == "MatMul" else kind].direction


# ---- on the way to a plan --------------------------------------------------------------------------------------------


def selectors(selections: Selections, groups: Sequence[FusionGroup], narrow: Collection[str]) -> Mapping[str, Selector]:
    """Returns a function for each op with a selection, which returns the selected algorithms of a problem.

    `narrow`: names of the ops that are computed in a narrow type.
    """
    heads = {op: _group_of(op, groups, _WHERE).head for op, _ in selections}
    return {op: partial(_selected, wanted, heads[op], _inherent(heads[op], narrow)) for op, wanted in selections}


def _group_of(op: str, groups: Iterable[FusionGroup], where: str) -> FusionGroup:
    """Returns the fusion group whose head is the op; raises unless its backend chooses among algorithms."""
    group = next((group for group in groups if any(node.name == op for node in group.listed)), None)
    if group is None:
        words = "it was computed from constants, or is part of another op"
        raise InvalidArgumentError(f"{where}: nothing of {op!r} is left to run: {words}")
    if not group.backend.weighs or group.head.name != op:
        kinds = " + ".join(node.kind for node in group.nodes)
        raise InvalidArgumentError(
            f"{where}: {op!r} has no choice of algorithms here: {kinds} is computed by backend {group.backend.name!r}"
        )
    return group


def _selected(selection: Selection, head: Node, inherent: frozenset[str], problem: ConvProblem, env: Env) -> Ranked:
    """Returns the algorithms that the selection allows for a problem, best first; raises if it allows none."""
    ranked = lower.allowed(problem, env)
    if isinstance(selection, str):
        selected = [item for item in ranked if item[0].name == selection]
    else:
        selected = [item for item in ranked if selection(_info(*item, None, inherent, problem, env))]
    if not selected:
        shapes = ", ".join(str(value.shape) for value in head.inputs)
        if isinstance(selection, str):
            words = f"algorithm {selection!r} may not be used with operands {shapes}{_hint(selection, problem, env)}"
        else:
            words = f"the predicate of 'algorithms' leaves no algorithm for operands {shapes}"
        names = ", ".join(algorithm.name for algorithm, _ in ranked)
        raise InvalidArgumentError(f"{head.kind} {head.name!r}: {words}; there are {names}")
    return selected


def _hint(name: str, problem: ConvProblem, env: Env) -> str:
    """Returns advice for a message: an option or memory layout with which the named algorithm may run, or ""."""
    algorithm = table.named(name, problem.direction)
    for allowing in ALGORITHMS:
        if algorithm and algorithm.takes(problem, replace(env, algorithm=allowing)) and allowing != env.algorithm:
            return f"; algorithm={allowing!r} allows it"
    packed = replace(problem, y=_without_gaps(problem.y), w=_without_gaps(problem.w), x=_without_gaps(problem.x))
    return "; arrays without gaps between elements allow it" if algorithm and algorithm.takes(packed, env) else ""


def _without_gaps(view: View) -> View:
    return replace(view, strides=dense_in(view.shape, order_of(view)))


# ---- of a plan -------------------------------------------------------------------------------------------------------


def listed(op: str, decisions: Decisions, narrow: Collection[str], env: Env, where: str) -> tuple[AlgorithmInfo, ...]:
    """Returns the algorithms that may compute an op in a plan, best first; () if the op has nothing to compute."""
    head, decision = _decision(op, decisions, where)
    problem = decision.problem
    if problem is None:
        return ()
    measured = dict(decision.candidates) if decision.measured else {}
    inherent = _inherent(head, narrow)
    infos = (
        _info(algorithm, seconds, measured.get(algorithm.name), inherent, problem, env)
        for algorithm, seconds in lower.allowed(problem, env)
    )
    return tuple(sorted(infos, key=lambda info: (info.measured is None, info.measured or 0.0)))


def named(selections: Selections, decisions: Decisions, where: str) -> Selections:
    """Returns the selections, with each predicate replaced by the name of the algorithm that ran in a plan."""
    result = []
    for op, selection in selections:
        if not isinstance(selection, str):
            _, decision = _decision(op, decisions, where)
            if decision.problem is None:
                raise InvalidArgumentError(
                    f"{where}: the predicate for {op!r} has chosen nothing yet; call the net with a usual size first"
                )
            selection = decision.formulation
        result.append((op, selection))
    return tuple(result)


def _decision(op: str, decisions: Decisions, where: str) -> tuple[Node, Decision]:
    """Returns the head of the op's group, and the decision of the group."""
    group = _group_of(op, [group for group, _ in decisions], where)
    return group.head, next(decision for other, decision in decisions if other is group)


def _inherent(head: Node, narrow: Collection[str]) -> frozenset[str]:
    """Returns the entries of `AlgorithmInfo.error` that do not depend on the algorithm: "narrow" and "folded"."""
    entries = {"narrow": head.name in narrow, "folded": changes_of(head).folded}
    return frozenset(name for name, holds in entries.items() if holds)


def _info(
    algorithm: Algorithm,
    seconds: float,
    measured: float | None,
    inherent: frozenset[str],
    problem: ConvProblem,
    env: Env,
) -> AlgorithmInfo:
    return AlgorithmInfo(
        algorithm.name,
        seconds * table.clock(problem, env),
        measured,
        inherent | algorithm.error(problem, env),
        algorithm.deterministic,
        partial(_workspace, algorithm, problem, env),
    )


def _workspace(algorithm: Algorithm, problem: ConvProblem, env: Env) -> int:
    """Returns the bytes of scratch that the steps of an algorithm use at a call."""
    from .tune import apart

    def as_input(view: View) -> View:
        # an input of the plan needs no scratch
        return view if view.is_constant else argument(Place.INPUT, view.dtype, view.shape, view.strides)

    program = Program()
    lower.build(program, apart(problem, as_input), algorithm, env)
    return scratch_bytes(program, env.engine, env.tune == "off")

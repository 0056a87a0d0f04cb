"""The algorithms of a net's convolutions as values: listed by the names of ops, selected by name or predicate."""

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
from ..errors import InvalidArgumentError
from ..graph import AlgorithmInfo, Node, Selection
from ..lowering.env import ALGORITHMS, Env
from ..lowering.family import MEMBERS
from ..lowering.problem import Problem
from ..lowering.program import Place, Program, View, argument
from ..passes import fold_affine
from ..schema.arguments import suggest
from .plan import scratch_bytes

# by the names of ops
Selections = tuple[tuple[str, Selection], ...]
Decisions = Sequence[tuple[FusionGroup, Decision]]
_WHERE = "Graph.compile: 'algorithms'"


# ---- before a plan is made -------------------------------------------------------------------------------------------


def checked(algorithms: Any) -> Selections:
    """`algorithms` of Graph.compile.

    Raises:
        TypeError: no mapping, or one to other things than strings and functions.
    """
    if algorithms is None:
        return ()
    if not isinstance(algorithms, Mapping):
        raise TypeError(f"{_WHERE} must be a dict, {{op name: algorithm name or predicate}}, got {_type(algorithms)}")
    for op, selection in algorithms.items():
        if not isinstance(selection, str) and not callable(selection):
            raise TypeError(f"{_WHERE}: {op!r} needs the name of an algorithm or a predicate, got {_type(selection)}")
    return tuple(algorithms.items())


def _type(value: object) -> str:
    return type(value).__name__


def check_ops(selections: Selections, nodes: Sequence[Node]) -> None:
    """Check that nodes have the ops of selections, that these are convolutions or MatMul, and names of algorithms.

    Raises:
        InvalidArgumentError: a selection that fails one of these.
    """
    for op, selection in selections:
        node = convolution(op, nodes, _WHERE)
        if node.late is None and isinstance(selection, str):
            names = table.names(_direction(node.kind))
            if selection not in names:
                near = suggest(selection, names) or f"; it is one of {', '.join(names)}"
                raise InvalidArgumentError(f"{_WHERE}: no algorithm of {node.kind} is named {selection!r}{near}")


def of_nodes(selections: Selections, nodes: Iterable[Node]) -> Selections:
    """The selections for some nodes."""
    names = {node.name for node in nodes}
    return tuple(item for item in selections if item[0] in names)


def convolution(op: str, nodes: Sequence[Node], where: str) -> Node:
    """The convolution or MatMul of a name; a node whose kind is known with its sizes may be either.

    Raises:
        InvalidArgumentError: no node has the name, or it is of another kind. TypeError: `op` is no string.
    """
    if not isinstance(op, str):
        raise TypeError(f"{where}: names of ops must be strings, got {_type(op)}")
    node = next((node for node in nodes if node.name == op), None)
    if node is None:
        names = [node.name for node in nodes if node.kind == "MatMul" or node.kind in MEMBERS]
        near = suggest(op, names) or f"; its convolutions and products are {', '.join(names[:8]) or 'none'}"
        raise InvalidArgumentError(f"{where}: the net has no op {op!r}{near}")
    if node.late is None and node.kind != "MatMul" and node.kind not in MEMBERS:
        raise InvalidArgumentError(
            f"{where}: {op!r} is a {node.kind}; convolutions, their gradients and MatMul have algorithms"
        )
    return node


def _direction(kind: str) -> str:
    """The direction of problems that ops of a kind are; a product is a convolution of one tap."""
    return MEMBERS["Convolution" if kind == "MatMul" else kind].direction


# ---- on the way to a plan --------------------------------------------------------------------------------------------


def selectors(selections: Selections, groups: Sequence[FusionGroup], narrow: Collection[str]) -> Mapping[str, Selector]:
    """The selectors of ops, by their names; `narrow`: names of ops that are computed in a narrow type.

    Raises:
        InvalidArgumentError: an op runs in a way that leaves nothing to select.
    """
    result: dict[str, Selector] = {}
    for op, selection in selections:
        head = _group_of(op, groups, _WHERE).nodes[0]
        result[op] = partial(_selected, selection, head, _inherent(head, narrow))
    return result


def _group_of(op: str, groups: Iterable[FusionGroup], where: str) -> FusionGroup:
    """The group of nodes with an op as its head.

    Raises:
        InvalidArgumentError: no group has, or its backend does not choose among algorithms.
    """
    group = next((group for group in groups if any(node.name == op for node in group.listed)), None)
    if group is None:
        words = "it was computed from constants, or is part of another op"
        raise InvalidArgumentError(f"{where}: nothing of {op!r} is left to run: {words}")
    if not group.backend.weighs or group.nodes[0].name != op:
        kinds = " + ".join(node.kind for node in group.nodes)
        raise InvalidArgumentError(
            f"{where}: {op!r} has no choice of algorithms here: {kinds} is computed by backend {group.backend.name!r}"
        )
    return group


def _selected(selection: Selection, head: Node, inherent: frozenset[str], problem: Problem, env: Env) -> Ranked:
    """The algorithms of a problem that the user selects, best first.

    Raises:
        InvalidArgumentError: the selection leaves no algorithm.
    """
    ranked = lower.allowed(problem, env)
    if isinstance(selection, str):
        selected = [item for item in ranked if item[0].name == selection]
    else:
        selected = [item for item in ranked if selection(_info(*item, None, inherent, problem, env))]
    if not selected:
        shapes = ", ".join(str(value.shape) for value in head.inputs)
        names = ", ".join(algorithm.name for algorithm, _ in ranked)
        if isinstance(selection, str):
            words = f"algorithm {selection!r} may not be used with operands {shapes}{_hint(selection, problem, env)}"
        else:
            words = f"the predicate of 'algorithms' leaves no algorithm for operands {shapes}"
        raise InvalidArgumentError(f"{head.kind} {head.name!r}: {words}; there are {names}")
    return selected


def _hint(name: str, problem: Problem, env: Env) -> str:
    """The `algorithm=` that would allow the algorithm of this name, as words behind an error; mostly empty."""
    algorithm = table.named(name, problem.direction)
    for allowing in ALGORITHMS:
        if algorithm and algorithm.applies(problem, replace(env, algorithm=allowing)) and allowing != env.algorithm:
            return f"; algorithm={allowing!r} allows it"
    return ""


# ---- of a plan -------------------------------------------------------------------------------------------------------


def listed(op: str, decisions: Decisions, narrow: Collection[str], env: Env, where: str) -> tuple[AlgorithmInfo, ...]:
    """The algorithms that may compute an op in a plan, best first; none where it has nothing to compute.

    Raises:
        InvalidArgumentError: the op runs in a way that leaves no choice.
    """
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
    """The selections with names in the place of predicates: of the algorithms that these chose in a plan.

    Raises:
        InvalidArgumentError: an op had nothing to compute there.
    """
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
    """The head of the group that an op heads, and what was decided for it."""
    group = _group_of(op, [group for group, _ in decisions], where)
    return group.nodes[0], next(decision for other, decision in decisions if other is group)


def _inherent(head: Node, narrow: Collection[str]) -> frozenset[str]:
    """The errors of `AlgorithmInfo.error` that an op has by any algorithm."""
    folded = any(node.kind in fold_affine.READERS for node in head.absorbed)
    facts = {"narrow": head.name in narrow, "folded": folded}
    return frozenset(name for name, holds in facts.items() if holds)


def _info(
    algorithm: Algorithm,
    seconds: float,
    measured: float | None,
    inherent: frozenset[str],
    problem: Problem,
    env: Env,
) -> AlgorithmInfo:
    return AlgorithmInfo(
        algorithm.name,
        seconds,
        measured,
        inherent | algorithm.error(problem, env),
        algorithm.deterministic,
        partial(_workspace, algorithm, problem, env),
    )


def _workspace(algorithm: Algorithm, problem: Problem, env: Env) -> int:
    """Bytes of scratch that the steps of an algorithm take at a call."""
    from .tune import apart

    program = Program()
    lower.build(program, apart(problem, _as_input), algorithm, env)
    return scratch_bytes(program, env.engine, env.tune == "off")


def _as_input(view: View) -> View:
    """An operand that the steps do not make themselves."""
    return view if view.is_constant else argument(Place.INPUT, view.dtype, view.shape, view.strides)

"""Plans one op on arrays of known layouts: a convolution op directly, another op through a graph of this op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..algorithms.lower import lower
from ..convolution.nodes import CONV_KINDS, make_problem
from ..graph import Graph
from ..ir.env import Env
from ..ops.build import apply
from ..program.program import Place, Program, argument
from ..runtime.reference import Keys
from .plan import Plan, assemble, settled
from .specialise import specialise


class Argument(NamedTuple):
    """Describes an array that the op reads or writes; strides in elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def plan_op(
    kind: str, attrs: Mapping[str, Any], inputs: Sequence[Argument], output: Argument, env: Env, name: str
) -> Plan:
    """Returns the plan of an op with one result; `attrs`: attributes as a node has them; `name`: the name in messages.

    The algorithm of a convolution op is chosen by estimates, even with tune="measure".
    """
    if kind not in CONV_KINDS:
        graph = Graph(env.engine, name=name)
        values = [graph.input(item.name, item.shape, item.dtype) for item in inputs]
        (value,) = apply(kind, values, attrs, where=name)
        given = [(value, (item.shape, item.strides)) for value, item in zip(values, inputs, strict=True)]
        return specialise(graph.nodes, given, (), [(value, (output.shape, output.strides))], env, name=name).plan
    views = [argument(Place.INPUT, *item[1:], index) for index, item in enumerate(inputs)]
    result = argument(Place.OUTPUT, *output[1:])
    problem = make_problem(kind, attrs, views, result, where=name)

    def attempt(known: Keys) -> Plan:
        program = Program()
        lower(program, problem, env)
        return assemble(
            program,
            views,
            [result],
            env.engine,
            fpmath_mode=env.fpmath_mode,
            macs=problem.macs,
            threads=env.threads,
            name=name,
            literal=env.tune == "off",
            known=known,
        )

    return settled(attempt, env.engine)

"""Names the ops of element-wise kernels, and assigns the registers that hold their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..ir.rewrites import Rewrite
from ..symbolic import kernels

FLOATS = frozenset({"f32", "bf16", "f16"})
INTEGERS = frozenset({"s8", "u8"})
# that one step reads
MOST_OPERANDS = 32
MERGE_SWISH = Rewrite(
    "merge_swish",
    "a Sigmoid and its product with what it was taken of are one op",
    ("one op alone reads the sigmoid", "that is the product with the sigmoid's operand"),
)

# kinds of ops of which `MERGE_SWISH` tells
MERGED = frozenset({"Sigmoid"})


class Op(NamedTuple):
    """An op of a kernel's program, with the op's attributes in the order that the kernel expects.

    `operands`: by number. 0 is the head's result, i that of the i-th op, -1 - i the i-th tensor that is read.
    """

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    operands: tuple[int, ...] = ()

    def on(self, operands: Iterable[int]) -> Op:
        return Op(self.name, self.alpha, self.beta, tuple(operands))


def _named(name: str, alpha: str = "", beta: str = "") -> Callable[[Mapping[str, Any]], Op]:
    return lambda attrs: Op(name, float(attrs[alpha]) if alpha else 0.0, float(attrs[beta]) if beta else 0.0)


# op kind -> the op of a kernel's program that computes a node with these attributes
OPS: dict[str, Callable[[Mapping[str, Any]], Op]] = {
    "Abs": _named("abs"),
    "Add": _named("add"),
    "BiasAdd": _named("add"),
    "Clamp": _named("clamp", "min", "max"),
    "Divide": _named("divide"),
    "Elu": _named("elu", "alpha"),
    "Erf": _named("erf"),
    "Exp": _named("exp"),
    "GELU": lambda attrs: Op(attrs.get("mode", "gelu_erf")),
    "HardSigmoid": _named("hardsigmoid", "alpha", "beta"),
    "HardSwish": _named("hardswish"),
    "LeakyReLU": _named("leaky_relu", "alpha"),
    "Log": _named("log"),
    "Maximum": _named("maximum"),
    "Minimum": _named("minimum"),
    "Mish": _named("mish"),
    "Multiply": _named("multiply"),
    "PReLU": _named("prelu"),
    "Pow": _named("power", "beta"),
    "ReLU": _named("relu"),
    "Reciprocal": _named("reciprocal"),
    "Round": _named("round"),
    "Sigmoid": _named("sigmoid"),
    "SoftPlus": lambda attrs: Op("softplus", float(attrs.get("beta", 1.0))),
    "Sqrt": _named("sqrt"),
    "Square": _named("square"),
    "SquaredDifference": _named("squared_difference"),
    "Subtract": _named("subtract"),
    "Tanh": _named("tanh"),
}


Step = tuple[str, int, int, int, float, float]


class Code(NamedTuple):
    """The steps of a kernel's program on numbered registers.

    `sigmoids`: for each sigmoid the condition that kept it from being merged into a swish, "" if it was merged.
    """

    steps: tuple[Step, ...]
    sigmoids: tuple[str, ...]

    def tell(self, label: str) -> None:
        for unmet in self.sigmoids:
            MERGE_SWISH.tell(label, unmet)


@lru_cache(maxsize=1024)
def code_of(calls: tuple[Op, ...], head: bool) -> Code | None:
    """Assigns registers to the results of ops; returns None if the kernels have too few registers.

    The last result goes to register 0. With a `head`, register 0 holds the result of the head at the beginning; without
    a head, only the last step writes register 0.
    """
    calls, sigmoids = _with_swish(calls)
    last_use: dict[int, int] = {}
    for position, call in enumerate(calls):
        last_use.update(dict.fromkeys(call.operands, position))
    free = list(range(0 if not head else 1, kernels.Epilogue.REGISTERS))
    if not head:
        free.remove(0)
    register = {0: 0} if head else {}
    steps: list[Step] = []
    for position, call in enumerate(calls):
        places = [kernels.Epilogue.OPERANDS - 1 - o if o < 0 else register[o] for o in call.operands]
        for operand in set(call.operands):
            if operand >= 0 and last_use[operand] == position:
                free.append(register.pop(operand))
        free.sort()
        last = position == len(calls) - 1
        if not last and not free:
            return None
        to = 0 if last else free.pop(0)
        register[position + 1] = to
        steps.append((call.name, places[0], places[-1], to, call.alpha, call.beta))
    return Code(tuple(steps), sigmoids)


def _with_swish(calls: tuple[Op, ...]) -> tuple[tuple[Op, ...], tuple[str, ...]]:
    """Replaces a sigmoid and its product with the sigmoid's own operand by one swish.

    Returns the ops, and for each sigmoid the condition that does not hold, "" if it was replaced.
    """
    readers: dict[int, list[int]] = {}
    for position, call in enumerate(calls):
        for operand in set(call.operands):
            readers.setdefault(operand, []).append(position)
    declined = []
    for position, call in enumerate(calls):
        if call.name != "sigmoid":
            continue
        using, unmet = readers.get(position + 1, []), ""
        product = calls[using[0]] if using else call
        if len(using) != 1:
            unmet = "one op alone reads the sigmoid"
        elif product.name != "multiply" or sorted(product.operands) != sorted((*call.operands, position + 1)):
            unmet = "that is the product with the sigmoid's operand"
        if unmet:
            declined.append(unmet)
            continue
        joined = Op("swish", 1.0).on(call.operands)
        rest = (*calls[:position], *calls[position + 1 : using[0]], joined, *calls[using[0] + 1 :])
        moved = (c.on(o - (o > position) for o in c.operands) for c in rest)
        merged, others = _with_swish(tuple(moved))
        return merged, ("", *others)
    return calls, tuple(declined)

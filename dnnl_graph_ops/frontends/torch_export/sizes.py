"""Numbers that are computed of sizes: PyTorch's ops on symbolic ints, as standard operators on numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..reading.node import Tensor
from .call import Call

# what names of such ops begin with
SIZES = "size."


def _size(call: Call, self: Any, dim: int) -> Any:
    axis = dim % len(self.shape)
    return call.std("Squeeze", call.std("Shape", self, start=axis, end=axis + 1), [0])


def _plain(kind: str) -> Callable[..., Any]:
    return lambda call, *numbers: call.std(kind, *(_number(one) for one in numbers))


def _number(one: Any) -> Any:
    return np.asarray(one, np.float64) if isinstance(one, float) else one


def _floor(call: Call, a: Any, b: Any) -> Any:
    """Towards minus infinity; Div of whole numbers cuts off."""
    return call.std("Div", call.std("Sub", a, call.std("Mod", a, b)), b)


def _wide(call: Call, item: Any) -> Any:
    return np.asarray(item, np.float64) if isinstance(item, int | float) else call.std("Cast", item, to=11)


def _divided(call: Call, a: Any, b: Any) -> Any:
    return call.std("Div", _wide(call, a), _wide(call, b))


def _power(call: Call, a: Any, b: Any) -> Any:
    if b != 0.5:
        raise UnsupportedError(f"{call.where}: to the power of {b}")
    return call.std("Sqrt", _wide(call, a))


def _rounded(kind: str) -> Callable[..., Any]:
    return lambda call, one: call.std("Cast", call.std(kind, one), to=7)


NUMBERS: dict[str, Callable[..., Any]] = {
    "sym_size": _size,
    "add": _plain("Add"),
    "sub": _plain("Sub"),
    "mul": _plain("Mul"),
    "neg": _plain("Neg"),
    "mod": _plain("Mod"),
    "floordiv": _floor,
    "truediv": _divided,
    "pow": _power,
    "sym_max": _plain("Max"),
    "sym_min": _plain("Min"),
    "sym_float": _wide,
    "floor": _rounded("Floor"),
    "ceil": _rounded("Ceil"),
    "trunc": lambda call, one: call.std("Cast", one, to=7),
    "sym_int": lambda call, one: call.std("Cast", one, to=7),
}


def number(call: Call) -> Any:
    """The result of an op on sizes.

    Raises:
        UnsupportedError: none of those above.
    """
    name = call.node.op_type.removeprefix(SIZES)
    if name not in NUMBERS:
        raise UnsupportedError(f"{call.where}: no op on sizes")
    made = NUMBERS[name](call, *call.arguments().values())
    # what it is made of has no names elsewhere
    return replace(made, node=call.node) if isinstance(made, Tensor) else made

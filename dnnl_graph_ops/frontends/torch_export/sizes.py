"""Rules of PyTorch's ops on symbolic ints (sizes), as standard operators on numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..reading.node import Tensor
from .call import Call

# prefix of the names of these ops
SIZES = "size."
# ONNX's numbers of dtypes
_INT, _FLOAT = 7, 11


def _size(call: Call, tensor: Any, dim: int) -> Any:
    axis = dim % len(tensor.shape)
    return call.std("Squeeze", call.std("Shape", tensor, start=axis, end=axis + 1), [0])


def _plain(kind: str) -> Callable[..., Any]:
    return lambda call, *numbers: call.std(
        kind, *(np.asarray(one, np.float64) if isinstance(one, float) else one for one in numbers)
    )


def _wide(call: Call, item: Any) -> Any:
    return np.asarray(item, np.float64) if isinstance(item, int | float) else call.std("Cast", item, to=_FLOAT)


def _floor(call: Call, a: Any, b: Any) -> Any:
    """Floor division; Div of integers truncates."""
    return call.std("Div", call.std("Sub", a, call.std("Mod", a, b)), b)


def _power(call: Call, a: Any, b: Any) -> Any:
    if b != 0.5:
        raise UnsupportedError(f"{call.where}: to the power of {b}")
    return call.std("Sqrt", _wide(call, a))


_PLAIN = {"add": "Add", "sub": "Sub", "mul": "Mul", "neg": "Neg", "mod": "Mod", "sym_max": "Max", "sym_min": "Min"}
# by PyTorch's names of functions
NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: _plain(kind) for name, kind in _PLAIN.items()},
    "sym_size.int": _size,
    "floordiv": _floor,
    "truediv": lambda call, a, b: call.std("Div", _wide(call, a), _wide(call, b)),
    "pow": _power,
    "sym_float": _wide,
    "floor": lambda call, one: call.std("Cast", call.std("Floor", one), to=_INT),
    "ceil": lambda call, one: call.std("Cast", call.std("Ceil", one), to=_INT),
    **dict.fromkeys(("trunc", "sym_int"), lambda call, one: call.std("Cast", one, to=_INT)),
}


def size_op(target: Any) -> str | None:
    """Returns the name of a function of symbolic ints; None for another function."""
    name = getattr(target, "__name__", "")
    is_one = name in NUMBERS and ("." in name or target.__module__ in ("_operator", "math", "torch"))
    return SIZES + name if is_one else None


def number(call: Call) -> Any:
    """Returns the result of an op on sizes.

    Raises:
        UnsupportedError: another op than those above.
    """
    name = call.node.op_type.removeprefix(SIZES)
    if name not in NUMBERS:
        raise UnsupportedError(f"{call.where}: no op on sizes")
    made = NUMBERS[name](call, *map(call.argument, call.traced.calls[-1].arguments.values()))
    # intermediate results have no names elsewhere
    return replace(made, node=call.node) if isinstance(made, Tensor) else made

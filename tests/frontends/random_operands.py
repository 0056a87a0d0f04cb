"""Operands of random nodes: values that a model has already, or new inputs and constants of small integers."""

from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto
from reference.data import EXTENTS

# of onnx's types those that arrays have, the usual ones more often
KINDS = {
    "float": "f4", "float16": "f2", "double": "f8", "int64": "i8", "int32": "i4", "bool": "?", "int8": "i1",
    "uint8": "u1", "int16": "i2", "uint16": "u2", "uint32": "u4", "uint64": "u8",
}  # fmt: skip
WEIGHTS = {"f4": 6, "i8": 2, "i4": 2}
CODES = {kind: getattr(TensorProto, name.upper()) for name, kind in KINDS.items()}
MOST_ELEMENTS = 4096


class Again(Exception):
    """The sizes that were drawn make no such node."""


class Operand(NamedTuple):
    """A value at hand: its numbers, how far off they may be, and whether a node made it."""

    array: np.ndarray
    error: float = 0.0
    made: bool = False


def kind_of(array: np.ndarray) -> str:
    return "?" if array.dtype == bool else array.dtype.str[1:]


class Draw:
    """One node being drawn: `flags` of its operator's row, `attrs` that it will have, `leaves` that are new.

    `texts`: "f2" and "rank 3", that its operands shall have where the operator takes them.
    """

    def __init__(
        self, rng: np.random.Generator, values: dict[str, Operand], extent: int | None, opset: int, texts: Set[str]
    ) -> None:
        self.rng, self.values, self.extent, self.opset = rng, values, extent, opset
        self.aimed = texts
        self.rank = next((int(text[5:]) for text in texts if text.startswith("rank")), -1)
        self.start("Identity")

    def start(self, op_type: str, flags: str = "") -> None:
        self.schema = onnx.defs.get_schema(op_type, self.opset)
        self.flags, self.attrs, self.outputs = flags, dict[str, Any](), 1
        self.leaves: dict[str, tuple[np.ndarray, bool]] = {}
        self.before: list[onnx.NodeProto] = []

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, max(low, high) + 1))

    def pick(self, *items: Any) -> Any:
        return items[self.whole(0, len(items) - 1)]

    def size(self, low: int = 1, high: int = 5) -> int:
        return (0 if self.chance(0.02) else self.whole(low, high)) if self.extent is None else self.extent

    def shape(self, low: int = 0, high: int = 5) -> tuple[int, ...]:
        shape = [self.size() for _ in range(self.rank if low <= self.rank <= high else self.whole(low, high))]
        while np.prod(shape) > MOST_ELEMENTS:
            if len(shape) == low:
                raise Again
            shape.pop()
        return tuple(shape)

    def axis(self, rank: int) -> int:
        if not rank:
            raise Again
        return self.whole(-rank, rank - 1)

    def axes(self, rank: int, share: float = 0.5) -> list[int]:
        return [axis - rank * self.chance(0.3) for axis in range(rank) if self.chance(share)]

    # ---- operands ----------------------------------------------------------------------------------------------------

    def array(self, name: str) -> np.ndarray:
        return self.leaves[name][0] if name in self.leaves else self.values[name].array

    def like(self, name: str) -> tuple[tuple[int, ...], str]:
        return self.array(name).shape, kind_of(self.array(name))

    def is_exact(self, name: str) -> bool:
        return name in self.leaves or not self.values[name].error

    def kind(self, slot: int = 0, allowed: str = "") -> str:
        """A type that the operator's input takes."""
        types = self.schema.inputs[min(slot, len(self.schema.inputs) - 1)].types
        kinds = [kind for name, kind in KINDS.items() if f"tensor({name})" in types]
        kinds = [kind for kind in kinds if not allowed or kind in allowed.split()]
        if not kinds:
            raise Again
        if aimed := self.aimed.intersection(kinds):
            return aimed.pop()
        return self.pick(*(kind for kind in kinds for _ in range(WEIGHTS.get(kind, 1))))

    def leaf(self, array: Any, constant: float = 0.5) -> str:
        """A new input, or a constant with this chance."""
        is_constant = self.chance(constant)
        name = f"{'c' if is_constant else 'x'}{len(self.values) + len(self.leaves)}"
        self.leaves[name] = np.asarray(array), is_constant
        return name

    def number(self, value: Any, kind: str = "i8", constant: float = 0.9) -> str:
        return self.leaf(np.asarray(value, kind), constant)

    def numbers(self, shape: Sequence[int], kind: str, low: int = -4, high: int = 4) -> np.ndarray:
        low = max(low, 0) if kind[0] in "u?" else low
        return self.rng.integers(low, (1 if kind == "?" else high) + 1, tuple(shape)).astype(kind)

    def of(self, shape: Sequence[int], kind: str, low: int = -4, high: int = 4, constant: float = 0.5) -> str:
        """An operand of this shape and type."""
        name = self._chosen(lambda one: one.shape == tuple(shape) and kind_of(one) == kind and _within(one, low, high))
        return name or self.leaf(self.numbers(shape, kind, low, high), constant)

    def beside(self, shape: Sequence[int], kind: str, low: int = -4, high: int = 4) -> str:
        """An operand that broadcasts to `shape`."""
        whole = [1 if self.chance(0.3) else n for n in shape]
        rest = whole[self.whole(0, len(whole)) :] if self.chance(0.4) else whole
        return self.of(rest if self.chance(0.8) else shape, kind, low, high)

    def any(
        self, low: int = 0, high: int = 5, slot: int = 0, kind: str = "", fits: Callable[[Any], bool] = lambda one: True
    ) -> str:
        """An operand of the input's types (or of `kind`, several with blanks between) and of low to high axes."""
        types = self.schema.inputs[min(slot, len(self.schema.inputs) - 1)].types
        kinds = set(kind.split() if kind else [KINDS.get(one[7:-1], "") for one in types])
        kinds = kinds & self.aimed or kinds
        if low <= self.rank <= high:
            low = high = self.rank
        name = self._chosen(lambda one: kind_of(one) in kinds and low <= one.ndim <= high and fits(one))
        for _ in range(5 * (not name)):
            array = self.numbers(self.shape(low, high), self.kind(slot, kind))
            if fits(array):
                return self.leaf(array, 0.3)
        if not name:
            raise Again
        return name

    def tensor(self, low: int = 0, high: int = 5, **more: Any) -> tuple[str, tuple[int, ...], str]:
        """An operand as `any` has it, its shape and its type."""
        name = self.any(low, high, **more)
        return name, *self.like(name)

    def _chosen(self, fits: Callable[[np.ndarray], bool]) -> str:
        """One of the values at hand, mostly; "": none fits."""
        if not self.chance(0.8):
            return ""
        names = [name for name, value in self.values.items() if self._usable(value) and fits(value.array)]
        return self.pick(*(name for name in names for _ in range(1 + 3 * self.values[name].made))) if names else ""

    def _usable(self, value: Operand) -> bool:
        array = value.array
        if not 0 <= array.size <= MOST_ELEMENTS or (value.error and ("j" in self.flags or array.dtype.kind != "f")):
            return False
        if value.error == np.inf or array.dtype == bool or not array.size or "n" in self.flags:
            return value.error < np.inf
        return bool(np.abs(array.astype("f8")).max() < (300 if kind_of(array) == "f2" else 10_000))

    def emit(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """A node before the one that is drawn, of sequences for example."""
        name = f"s{len(self.values)}_{len(self.before)}"
        self.before.append(onnx.helper.make_node(op_type, inputs, [name], **attrs))
        return name

    # ---- operands that are attributes in older forms -----------------------------------------------------------------

    def listed(self, name: str, numbers: Any, constant: float = 0.9) -> list[str]:
        """An attribute of this name, or an operand in operator versions that have it not."""
        if name in self.schema.attributes:
            self.attrs |= {name: [int(n) for n in numbers]} if len(numbers) else {}
            return []
        return [self.number(numbers, "i8", constant)]


def _within(array: np.ndarray, low: int, high: int) -> bool:
    # beyond the numbers of any operand, only some operands have limits
    return (low, high) == (-4, 4) or not array.size or bool(low <= array.min() and array.max() <= high)


def extents(rng: np.random.Generator) -> int | None:
    """The one size of all axes in half of the models."""
    return int(rng.choice(EXTENTS)) if rng.random() < 0.5 else None

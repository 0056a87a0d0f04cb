"""Draws calls of PyTorch, one at a time, as text: `torch.cat([v1, x0], -1)` reads what a program has already."""

import random
import re
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import torch
from reference.data import EXTENTS

KINDS = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i64": torch.int64,
    "bool": torch.bool,
}  # fmt: skip
NAMES = {dtype: kind for kind, dtype in KINDS.items()}
FLOATS, INTEGERS = "f32 f16 bf16", "i32 i64"
WEIGHTS = {"f32": 5}
MOST_ELEMENTS = 2000
# x: an input, p: a parameter or buffer, v: a result
NAME = re.compile(r"\b[xpv]\d+\b")


class Again(Exception):
    """No such call of the values at hand."""


class Draw:
    """One call being drawn; `leaves` are the inputs and parameters that it adds."""

    def __init__(self, rng: random.Random, extent: int | None) -> None:
        self.rng, self.extent = rng, extent
        self.values: dict[str, torch.Tensor] = {}
        # of values that may be a little off; where the elements of inputs and parameters lie
        self.inexact: set[str] = set()
        self.given: set[int] = set()
        self.aim(set())
        self.start("", "")

    def aim(self, texts: Set[str]) -> None:
        """Operands shall be "bf16", "rank 3", "strided" where a call takes such."""
        self.aimed = texts
        self.rank = next((int(text[5:]) for text in texts if text.startswith("rank")), -1)

    def start(self, op: str, flags: str) -> None:
        self.op, self.flags = op, flags
        self.leaves: dict[str, torch.Tensor] = {}

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def chance(self, share: float = 0.5) -> bool:
        return self.rng.random() < share

    def whole(self, low: int, high: int) -> int:
        return self.rng.randint(low, max(low, high))

    def pick(self, *items: Any) -> Any:
        return self.rng.choice(items)

    def size(self) -> int:
        return self.pick(1, 2, 2, 3, 3, 4, 5) if self.extent is None else self.extent

    def shape(self, low: int = 0, high: int = 5) -> tuple[int, ...]:
        rank = self.rank if low <= self.rank <= high else self.whole(low, high)
        shape = tuple(self.size() for _ in range(rank))
        if torch.Size(shape).numel() > MOST_ELEMENTS:
            raise Again
        return shape

    def axis(self, rank: int) -> int:
        """Counted from either end."""
        if not rank:
            raise Again
        return self.rng.randrange(-rank, rank)

    def axes(self, rank: int, share: float = 0.4) -> list[int]:
        return [axis - rank * self.chance(0.3) for axis in range(rank) if self.chance(share)]

    def kind(self, allowed: str = "") -> str:
        kinds = allowed.split() or list(KINDS)
        if aimed := self.aimed.intersection(kinds):
            return aimed.pop()
        return self.pick(*(kind for kind in kinds for _ in range(WEIGHTS.get(kind, 1))))

    def dtype(self, allowed: str = "") -> torch.dtype:
        return KINDS[self.kind(allowed)]

    # ---- operands ----------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.leaves[name] if name in self.leaves else self.values[name]

    def leaf(self, tensor: torch.Tensor, parameter: float = 0.4) -> str:
        """A new input, or a parameter with this chance; some lie in another order than their axes."""
        name = f"{'p' if self.chance(parameter) else 'x'}{len(self.values) + len(self.leaves)}"
        if tensor.ndim > 1 and ("strided" in self.aimed or self.chance(0.25)):
            order = self.rng.sample(range(tensor.ndim), tensor.ndim)
            tensor = tensor.permute(order).contiguous().permute(back(order))
        self.leaves[name] = tensor
        return name

    def numbers(self, shape: Sequence[int], kind: str, low: int = -3, high: int = 3) -> torch.Tensor:
        low, high = (0, 1) if kind == "bool" else (low, high)
        count = torch.Size(shape).numel()
        return torch.tensor([self.whole(low, high) for _ in range(count)], dtype=KINDS[kind]).reshape(tuple(shape))

    def of(self, shape: Sequence[int], kind: str, low: int = -3, high: int = 3, parameter: float = 0.4) -> str:
        """An operand of this shape and kind."""
        is_any = (low, high) == (-3, 3)
        fits = lambda one: is_any and one.shape == torch.Size(shape) and one.dtype is KINDS[kind]  # noqa: E731
        return self._chosen(fits) or self.leaf(self.numbers(shape, kind, low, high), parameter)

    def beside(self, name: str, allowed: str = "", low: int = -3, high: int = 3) -> str:
        """An operand that broadcasts to that one, of its kind mostly."""
        shape, own = self.like(name)
        kind = own if self.chance(0.75) and (not allowed or own in allowed.split()) else self.kind(allowed)
        whole = [1 if self.chance(0.3) else n for n in shape]
        rest = whole[self.whole(0, len(whole)) :] if self.chance(0.4) else whole
        return self.of(rest if self.chance(0.7) else shape, kind, low, high)

    def any(
        self, low: int = 0, high: int = 5, kinds: str = "", fits: Callable[[torch.Tensor], bool] = lambda one: True
    ) -> str:
        """An operand of low to high axes and of one of the kinds."""
        allowed = set(kinds.split() or KINDS)
        allowed = allowed & self.aimed or allowed
        if low <= self.rank <= high:
            low = high = self.rank
        name = self._chosen(lambda one: low <= one.ndim <= high and NAMES[one.dtype] in allowed and fits(one))
        if not name:
            tensor = self.numbers(self.shape(low, high), self.kind(kinds))
            if not fits(tensor):
                raise Again
            name = self.leaf(tensor, 0.1)
        return name

    def tensor(self, *args: Any, **more: Any) -> tuple[str, tuple[int, ...], str]:
        """An operand as `any` has it, its shape and its kind."""
        name = self.any(*args, **more)
        return name, *self.like(name)

    def own(self, low: int = 0, kinds: str = "") -> str:
        """What a call may write to: a result, seldom what a program is given."""
        return self.any(low, 5, kinds) if self.chance(0.03) else self.made(low, 5, kinds)

    def made(self, low: int = 0, high: int = 5, kinds: str = "") -> str:
        """A result, in memory of its own."""
        return self.any(low, high, kinds, lambda one: where(one) in {*map(where, self.values.values())} - self.given)

    def signed(self, **more: Any) -> str:
        """An operand, of results one without zeros and NaN: how a sum is ordered decides the sign of its zero."""
        results = {*map(where, self.values.values())} - self.given
        return self.any(fits=lambda one: where(one) not in results or bool(((one != 0) & ~one.isnan()).all()), **more)

    def like(self, name: str) -> tuple[tuple[int, ...], str]:
        return tuple(self[name].shape), NAMES[self[name].dtype]

    def _chosen(self, fits: Callable[[torch.Tensor], bool]) -> str:
        """One of the values at hand, mostly, results more often; "": none fits."""
        if not self.chance(0.85) or (not self.values and self.leaves):
            return ""
        names = [name for name, value in self.values.items() if self._usable(name) and fits(value)]
        return self.pick(*(name for name in names for _ in range(3 if name[0] == "v" else 1))) if names else ""

    def _usable(self, name: str) -> bool:
        return name not in self.inexact or "j" not in self.flags or self.chance(0.05)


def back(order: Sequence[int]) -> list[int]:
    """The permutation that undoes another."""
    return [order.index(axis) for axis in range(len(order))]


def where(tensor: torch.Tensor) -> int:
    """Of the memory that a tensor is a view of."""
    return tensor.untyped_storage().data_ptr()


class Row(NamedTuple):
    """How an op is drawn. `flags`: m moves numbers only, r rounds, j jumps where an operand is a little off."""

    draw: Callable[[Draw], str]
    flags: str


ROWS: dict[str, Row] = {}


def row(names: str, draw: Callable[[Draw], str], flags: str = "") -> None:
    """Enter ops by what they are called in the table; `draw` finds the name in `d.op`."""
    ROWS.update({name: Row(draw, flags) for name in names.split()})


def rows(flags: str = "", **draws: Callable[[Draw], str]) -> None:
    """Enter ops, each with how it is drawn."""
    ROWS.update({name: Row(draw, flags) for name, draw in draws.items()})


def extents(rng: random.Random) -> int | None:
    """The one size of all axes in a third of the programs."""
    return rng.choice(EXTENTS) if rng.random() < 0.35 else None

"""The small language between lowering and compile: buffers, strided views, and steps in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from .._core import kernels
from ..errors import InvalidArgumentError
from ..graph.constants import Constant
from ..strides import dense_strides, is_row_major

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
CopyItem = tuple[Ints, int, Ints, int, Ints]  # shape; offset and strides of the source, then of the target


class Place(Enum):
    """Where a buffer's memory comes from."""

    INPUT = "input"  # the caller's array
    OUTPUT = "output"  # the caller's or a new array
    CONSTANT = "constant"  # owned by the plan
    SCRATCH = "scratch"  # in the plan's arena


@dataclass(eq=False)
class Buffer:
    """A piece of memory; `index` counts inputs and outputs, `array` or `held` is a constant's data."""

    place: Place
    dtype: str
    elements: int
    index: int = 0
    array: Array | None = None
    held: Constant | None = None  # read when it is needed

    @property
    def shared(self) -> bool:
        """Whether it is a constant that somebody else keeps, too."""
        return self.held is not None and not self.held.can_be_made_again

    def let_go(self) -> None:
        """Nobody needs the data any more."""
        self.array = None
        if self.held is not None:
            self.held.let_go()

    @property
    def nbytes(self) -> int:
        return self.elements * dtypes.itemsize(self.dtype)


@dataclass(frozen=True)
class View:
    """A strided window into a buffer; strides and offset in elements."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def row_major(self) -> bool:
        """Whether the elements lie densely in the order of the axes; strides of axes of size 1 do not matter."""
        return is_row_major(self.shape, self.strides)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_constant(self) -> bool:
        return self.buffer.place is Place.CONSTANT

    @property
    def byte_offset(self) -> int:
        return self.offset * dtypes.itemsize(self.dtype)

    def permute(self, axes: Sequence[int]) -> View:
        return replace(self, shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def narrow(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """Elements start, start + step, ... of one axis."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis] if size else self.offset
        shape[axis], strides[axis] = size, strides[axis] * step
        return View(self.buffer, tuple(shape), tuple(strides), offset)

    def split(self, axis: int, sizes: Sequence[int]) -> View:
        """One axis as several, the last of them the fastest."""
        strides = []
        stride = self.strides[axis]
        for size in reversed(sizes):
            strides.append(stride)
            stride *= size
        return replace(
            self,
            shape=(*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            strides=(*self.strides[:axis], *reversed(strides), *self.strides[axis + 1 :]),
        )

    def can_merge(self, axis: int) -> bool:
        """Whether axes `axis` and `axis + 1` are one strided axis."""
        n, m = self.shape[axis], self.shape[axis + 1]
        return n <= 1 or m == 0 or self.strides[axis] == m * self.strides[axis + 1]

    def merge(self, axis: int) -> View:
        """Axes `axis` and `axis + 1` as one; ask `can_merge` first."""
        n, m = self.shape[axis], self.shape[axis + 1]
        stride = self.strides[axis] if m == 1 and n > 1 else self.strides[axis + 1]
        return replace(
            self,
            shape=(*self.shape[:axis], n * m, *self.shape[axis + 2 :]),
            strides=(*self.strides[:axis], stride, *self.strides[axis + 2 :]),
        )

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The elements, taken in the order of the axes, in another shape; None where strides cannot say it."""
        if not self.size:
            return replace(self, shape=tuple(shape), strides=dense_strides(shape))
        blocks = common_blocks(self.shape, shape)
        strides: list[int] = []
        for old, new in blocks:
            kept = [axis for axis in old if self.shape[axis] > 1]
            if any(self.strides[a] != self.strides[b] * self.shape[b] for a, b in pairwise(kept)):
                return None
            stride = self.strides[kept[-1]] if kept else 1
            inner = []
            for axis in reversed(new):
                inner.append(stride)
                stride *= shape[axis]
            strides += reversed(inner)
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def insert(self, axis: int) -> View:
        """A new axis of size 1."""
        return replace(
            self,
            shape=(*self.shape[:axis], 1, *self.shape[axis:]),
            strides=(*self.strides[:axis], 1, *self.strides[axis:]),
        )


def data_of(buffer: Buffer) -> Array:
    """The data of a constant, or of a buffer being folded."""
    if buffer.array is not None:
        return buffer.array
    if buffer.held is None:
        # seen in damaged pickles
        raise InvalidArgumentError("the graph has a constant without data, or an op reads what nothing makes")
    return buffer.held.array


def array_of(view: View) -> Array:
    """A NumPy view of a constant or of a buffer being folded."""
    flat = data_of(view.buffer).reshape(-1)
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[view.offset :] if view.size else flat[:0], view.shape, [s * size for s in view.strides]
    )


def argument(place: Place, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], index: int = 0) -> View:
    """An array that a call is given, as a whole; `index` counts those of one place."""
    return View(Buffer(place, dtype, prod(shape), index), shape, strides)


def common_blocks(first: Sequence[int], second: Sequence[int]) -> list[tuple[range, range]]:
    """The axes of two shapes of as many elements in the smallest neighbouring blocks that hold equally many."""
    blocks = []
    a = b = 0
    while a < len(first) or b < len(second):
        start_a, start_b, size_a, size_b = a, b, 1, 1
        while True:
            if a < len(first) and (size_a < size_b or a == start_a):
                size_a, a = size_a * first[a], a + 1
            elif b < len(second) and (size_b < size_a or b == start_b):
                size_b, b = size_b * second[b], b + 1
            elif size_a == size_b:
                break
            else:
                raise RuntimeError(f"{tuple(first)} and {tuple(second)} have different sizes")
        # what is left of one side is all ones
        if a == len(first) or b == len(second):
            a, b = len(first), len(second)
        blocks.append((range(start_a, a), range(start_b, b)))
    return blocks


def order_of(view: View) -> tuple[int, ...]:
    """The axes from the slowest to the fastest in memory."""
    return tuple(sorted(range(view.ndim), key=lambda a: (-view.strides[a], a)))


def dense_in(shape: Ints, order: Sequence[int]) -> Ints:
    """The strides without gaps where the axes lie in this order, from the slowest to the fastest."""
    strides = [0] * len(shape)
    for axis, stride in zip(order, dense_strides([shape[a] for a in order]), strict=True):
        strides[axis] = stride
    return tuple(strides)


def is_dense(view: View) -> bool:
    """Whether the elements fill a piece of memory, whatever the order of the axes."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def describable(view: View) -> bool:
    """Whether oneDNN takes these strides: no axis may begin again within what the finer ones span.

    `x[:, ::3]` of an array of 5 columns is not: two of its columns, 3 apart, count as 6. Stride 0 is broadcast.
    """
    least = 1
    for stride, size in sorted((s, n) for s, n in zip(view.strides, view.shape, strict=True) if s > 0 and n > 1):
        if stride < least:
            return False
        least = stride * size
    return True


@dataclass(frozen=True, eq=False)
class Edge:
    """A tensor inside one native step, from an op to the next."""

    shape: tuple[int, ...]
    dtype: str


Operand = View | Edge


@dataclass(frozen=True)
class NativeOp:
    """One op as the library takes it; `host` makes what computes it in NumPy where the library refuses."""

    kind: str
    attrs: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    name: str = ""
    host: Callable[[], Callable[..., None]] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Condition:
    """When a step runs: where the s32 in `flag`, which a step before it writes, is not 0, or is."""

    flag: View
    wanted: bool


@dataclass(frozen=True)
class NativeStep:
    """Ops for the library."""

    ops: tuple[NativeOp, ...]
    label: str
    group: int | None = None
    condition: Condition | None = None

    @property
    def reads(self) -> tuple[View, ...]:
        return _views(op.inputs for op in self.ops)

    @property
    def writes(self) -> tuple[View, ...]:
        return _views(op.outputs for op in self.ops)


@dataclass(frozen=True)
class KernelStep:
    """An own kernel and its operands: sources first, then what it writes, scratch included.

    `in_place`: a result that it can write over an operand. `recipe`: all that its results depend on besides the data
    of what it reads; None: not known. `others`: further groups that it computes.
    """

    kernel: Any
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    label: str
    group: int | None = None
    condition: Condition | None = None
    in_place: tuple[tuple[View, View], ...] = ()
    recipe: Hashable = None
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class HostStep:
    """A NumPy function on views: it gets the inputs' arrays, then the outputs' arrays to fill.

    `recipe`: as of a KernelStep. `by`: what computes it.
    """

    function: Callable[..., None]
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    label: str
    group: int | None = None
    condition: Condition | None = None
    recipe: Hashable = None
    by: str = "NumPy"


Step = NativeStep | KernelStep | HostStep


def _views(groups: Iterable[Sequence[Operand]]) -> tuple[View, ...]:
    return tuple(dict.fromkeys(operand for group in groups for operand in group if isinstance(operand, View)))


class Program:
    """Steps in order, being built; `group`: the number of the group of nodes that the next steps are for."""

    def __init__(self, group: int | None = None, condition: Condition | None = None) -> None:
        self.steps: list[Step] = []
        self.group = group
        self.condition = condition
        self._copies: dict[tuple[View, str, tuple[int, ...]], View] = {}

    @contextmanager
    def only_if(self, flag: View, wanted: bool) -> Iterator[None]:
        """The steps appended meanwhile run only where the flag is as wanted; nobody else reads what they copy."""
        before, self.condition = self.condition, Condition(flag, wanted)
        copies, self._copies = self._copies, dict(self._copies)
        yield
        self.condition, self._copies = before, copies

    def scratch(self, shape: Sequence[int], dtype: str, order: Sequence[int] | None = None) -> View:
        """A new dense buffer; `order` lists the axes from the slowest to the fastest."""
        shape = tuple(shape)
        elements = prod(shape)
        buffer = Buffer(Place.SCRATCH, dtype, elements)
        return View(buffer, shape, dense_strides(shape) if order is None else dense_in(shape, order))

    def like(self, view: View, dtype: str) -> View:
        """A new dense buffer of the same shape whose axes lie in the same order as `view`'s."""
        return self.scratch(view.shape, dtype, order_of(view))

    def constant(self, array: Array) -> View:
        """Data that the plan owns."""
        data = np.ascontiguousarray(array).reshape(array.shape)
        name = dtypes.canonical(data.dtype)
        return View(Buffer(Place.CONSTANT, name, data.size, array=data), data.shape, dense_strides(data.shape))

    def native(self, ops: Sequence[NativeOp], label: str) -> None:
        self.steps.append(NativeStep(tuple(ops), label, self.group, self.condition))

    def kernel(
        self,
        kernel: Any,
        reads: Sequence[View],
        writes: Sequence[View],
        label: str,
        in_place: Sequence[tuple[View, View]] = (),
        recipe: Hashable = None,
    ) -> None:
        where = self.group, self.condition
        self.steps.append(KernelStep(kernel, tuple(reads), tuple(writes), label, *where, tuple(in_place), recipe))

    def append(
        self,
        name: str,
        args: tuple[Any, ...],
        reads: Sequence[View],
        writes: Sequence[View],
        label: str,
        in_place: Sequence[tuple[View, View]] = (),
    ) -> None:
        """A step by the kernel of this name; name and arguments tell all that it computes."""
        self.kernel(getattr(kernels, name)(*args), reads, writes, label, in_place, (name, *args))

    def copy_list(self, items: Sequence[CopyItem], source: View, target: View, label: str, zeros: int = 0) -> None:
        """Many copies in one step, each a shape and for both sides an offset and strides; first so many zeros."""
        args = tuple(items), dtypes.CODES[source.dtype], dtypes.CODES[target.dtype], zeros
        self.append("copy_list", args, [source], [target], label)

    def host(
        self,
        function: Callable[..., None],
        reads: Sequence[View],
        writes: Sequence[View],
        label: str,
        recipe: Hashable = None,
        by: str = "NumPy",
    ) -> None:
        where = self.group, self.condition
        self.steps.append(HostStep(function, tuple(reads), tuple(writes), label, *where, recipe, by))

    # -- the kernels that everything uses ---------------------------------------------------------------------

    def copy(self, source: View, target: View, label: str = "copy", backwards: Collection[int] = ()) -> None:
        """Copy, transpose and convert; `backwards`: axes on which the last element of the source comes first."""
        if target.size == 0:
            return
        codes = dtypes.CODES
        strides = [-stride if axis in backwards else stride for axis, stride in enumerate(source.strides)]
        args = (target.shape, codes[source.dtype], tuple(strides), codes[target.dtype], target.strides)
        for axis in backwards:
            # views have no negative strides: the kernel is given the last element, and walks back
            source = source.narrow(axis, source.shape[axis] - 1, 1)
        self.append("copy", args, [source], [target], label)

    def copied(self, view: View, dtype: str, order: Sequence[int], label: str) -> View:
        """A dense copy with the axes in this order; made once, whoever else asks for it.

        Nothing writes a buffer that was read, so the copy stays true.
        """
        key = (view, dtype, tuple(order))
        if key not in self._copies:
            self._copies[key] = self.scratch(view.shape, dtype, order)
            self.copy(view, self._copies[key], label)
        return self._copies[key]

    def converted(self, view: View, dtype: str, label: str = "convert") -> View:
        """`view` itself, or a copy of it in another dtype."""
        return view if view.dtype == dtype else self.copied(view, dtype, order_of(view), label)

    def in_a_row(self, vector: View) -> View:
        """A vector, or a copy of it, whose elements follow each other."""
        if vector.strides == (1,) or vector.shape == (1,):
            return vector
        return self.copied(vector, vector.dtype, (0,), "vector in a row")

    def fill(self, target: View, value: float, label: str = "fill") -> None:
        if target.size:
            args = (target.shape, dtypes.CODES[target.dtype], target.strides, value)
            self.append("fill", args, [], [target], label)

    def fill_channel(self, target: View, axis: int, bias: View, label: str = "fill bias") -> None:
        """Every element is the bias of its channel."""
        if target.size:
            codes = dtypes.CODES
            bias = self.in_a_row(bias)
            args = (target.shape, codes[target.dtype], target.strides, axis, codes[bias.dtype])
            self.append("fill_channel", args, [bias], [target], label)

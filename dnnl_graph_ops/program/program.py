"""Defines programs, which lowering writes and of which compile makes plans: steps in order, on views of buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import prod
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from .. import dtypes
from ..errors import InvalidArgumentError
from ..graph.constants import Constant
from ..record import record
from ..strides import dense_strides, is_row_major
from ..symbolic import kernels, pinned, plain

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
T = TypeVar("T")
CopyItem = tuple[Ints, int, Ints, int, Ints]  # shape; offset and strides in the source, then in the target


class Place(Enum):
    """Where a buffer's memory comes from."""

    INPUT = "input"  # the caller's array
    OUTPUT = "output"  # the caller's or a new array
    CONSTANT = "constant"  # owned by the plan
    SCRATCH = "scratch"  # in the plan's arena


@dataclass(eq=False)
class Buffer:
    """A piece of memory; `index`: the number of an input or output; `array` or `held`: the data of a constant."""

    place: Place
    dtype: str
    elements: int
    index: int = 0
    array: Array | None = None
    held: Constant | None = None  # whose elements are read or computed when they are needed

    @property
    def shared(self) -> bool:
        """Whether the buffer is a constant whose data stays in memory outside of the plan as well."""
        return self.held is not None and not self.held.can_be_made_again

    def let_go(self) -> None:
        """Drops the data of the buffer, which nobody needs any more."""
        self.array = None
        if self.held is not None:
            self.held.let_go()

    @property
    def nbytes(self) -> int:
        return self.elements * dtypes.ITEMSIZES[self.dtype]


@record()
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
        """Whether the elements are dense with the last axis fastest; strides of axes of size 1 do not matter."""
        return is_row_major(self.shape, self.strides)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_constant(self) -> bool:
        return self.buffer.place is Place.CONSTANT

    @property
    def byte_offset(self) -> int:
        offset = self.offset
        # most views begin where their buffers do
        return 0 if type(offset) is int and not offset else offset * dtypes.ITEMSIZES[self.buffer.dtype]

    def at_values(self) -> View:
        """Returns the view with the values that its sizes have in a trace, for estimates."""
        return View(self.buffer, plain(self.shape), plain(self.strides), plain(self.offset))

    def _with_axes(self, shape: Iterable[int], strides: Iterable[int]) -> View:
        # dataclasses.replace takes three times as long
        return View(self.buffer, tuple(shape), tuple(strides), self.offset)

    def permute(self, axes: Sequence[int]) -> View:
        return self._with_axes([self.shape[a] for a in axes], [self.strides[a] for a in axes])

    def narrow(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """Returns the view of `size` elements of one axis: start, start + step, ..."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis] = size
        # no element lies anywhere
        offset = self.offset if 0 in shape else self.offset + start * strides[axis]
        strides[axis] *= step
        return View(self.buffer, tuple(shape), tuple(strides), offset)

    def split(self, axis: int, sizes: Sequence[int]) -> View:
        """Returns the view with one axis split into axes of these sizes, the last of them the fastest."""
        strides = (stride * self.strides[axis] for stride in dense_strides(sizes))
        return self._with_axes(
            (*self.shape[:axis], *sizes, *self.shape[axis + 1 :]),
            (*self.strides[:axis], *strides, *self.strides[axis + 1 :]),
        )

    def can_merge(self, axis: int) -> bool:
        """Whether axes `axis` and `axis + 1` can be one axis with one stride."""
        n, m = self.shape[axis], self.shape[axis + 1]
        return n <= 1 or m == 0 or self.strides[axis] == m * self.strides[axis + 1]

    def merge(self, axis: int, count: int = 2) -> View:
        """Returns the view with `count` axes from `axis` on as one; its strides must allow that, see `merged`."""
        view = self
        for _ in range(count - 1):
            n, m = view.shape[axis : axis + 2]
            stride = view.strides[axis] if m == 1 and n > 1 else view.strides[axis + 1]
            shape = (*view.shape[:axis], n * m, *view.shape[axis + 2 :])
            view = view._with_axes(shape, (*view.strides[:axis], stride, *view.strides[axis + 2 :]))
        return view

    def merged(self, axis: int, count: int) -> View | None:
        """Returns the view with `count` axes from `axis` on as one; None if their strides forbid it."""
        view = self
        for _ in range(count - 1):
            if not view.can_merge(axis):
                return None
            view = view.merge(axis)
        return view

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """Returns the view with its elements, in row-major order, in another shape; None if no strides express it."""
        if not self.size:
            return self._with_axes(shape, dense_strides(shape))
        blocks = common_blocks(self.shape, shape)
        strides: list[int] = []
        for old, new in blocks:
            kept = [axis for axis in old if self.shape[axis] > 1]
            if any(self.strides[a] != self.strides[b] * self.shape[b] for a, b in pairwise(kept)):
                return None
            last = self.strides[kept[-1]] if kept else 1
            strides += (stride * last for stride in dense_strides([shape[axis] for axis in new]))
        return self._with_axes(shape, strides)

    def without_last(self, count: int) -> View:
        """Returns the view without its last axes, which have size 1."""
        return self._with_axes(self.shape[:-count], self.strides[:-count])

    def insert(self, axis: int) -> View:
        """Returns the view with a new axis of size 1."""
        return self._with_axes(
            (*self.shape[:axis], 1, *self.shape[axis:]), (*self.strides[:axis], 1, *self.strides[axis:])
        )


def has_data(buffer: Buffer) -> bool:
    """Whether a buffer is a constant whose data is known, not only described."""
    return buffer.array is not None or buffer.held is not None


def data_of(buffer: Buffer) -> Array:
    """Returns the data of a constant, or of a buffer whose elements are being computed in constant folding."""
    if buffer.array is not None:
        return buffer.array
    if buffer.held is None:
        # seen in damaged pickles
        raise InvalidArgumentError("the graph has a constant without data, or an op reads what nothing makes")
    return buffer.held.array


def array_of(view: View) -> Array:
    """Returns a NumPy view of a constant, or of a buffer whose elements are being computed in constant folding."""
    flat = data_of(view.buffer).reshape(-1)
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[view.offset :] if view.size else flat[:0], view.shape, [s * size for s in view.strides]
    )


class Facts(Generic[T]):
    """Remembers a fact of each constant by its offset, shape and strides; several algorithms and plans ask for it."""

    def __init__(self, find: Callable[[View], T]) -> None:
        self._find = find
        self._known: WeakKeyDictionary[Buffer | Constant, dict[tuple[object, ...], T]] = WeakKeyDictionary()

    def __call__(self, constant: View) -> T:
        answers = self._known.setdefault(constant.buffer.held or constant.buffer, {})
        place = constant.offset, constant.shape, constant.strides
        pinned(place)
        if place not in answers:
            answers[place] = self._find(constant)
            constant.buffer.let_go()
        return answers[place]


def argument(place: Place, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], index: int = 0) -> View:
    """Returns the view of a whole array that a call passes; `index` is its number among the inputs, or the outputs."""
    return View(Buffer(place, dtype, prod(shape), index), shape, strides)


def common_blocks(first: Sequence[int], second: Sequence[int]) -> list[tuple[range, range]]:
    """Splits the axes of two shapes into the smallest blocks of neighbouring axes that hold equally many elements.

    For example, (2, 3, 4) and (6, 4) have the blocks of axes (0, 1) and (0), and (2) and (1).
    """
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
        # one shape is used up: the axes that are left of the other have size 1, and join the last block
        if a == len(first) or b == len(second):
            a, b = len(first), len(second)
        blocks.append((range(start_a, a), range(start_b, b)))
    return blocks


def order_of(view: View) -> tuple[int, ...]:
    """Returns the axes of a view from the slowest to the fastest in memory."""
    # axes of one stride keep their order
    return tuple(sorted(range(len(view.shape)), key=[-stride for stride in view.strides].__getitem__))


def dense_in(shape: Ints, order: Sequence[int]) -> Ints:
    """Returns strides without gaps for a shape whose axes lie in this order, from the slowest to the fastest."""
    strides = [0] * len(shape)
    for axis, stride in zip(order, dense_strides([shape[a] for a in order]), strict=True):
        strides[axis] = stride
    return tuple(strides)


def is_dense(view: View) -> bool:
    """Whether the elements fill a piece of memory without gaps, in any order of the axes."""
    expected = 1
    for stride, size in sorted([(s, n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1]):
        if stride != expected:
            return False
        expected *= size
    return True


def describable(view: View) -> bool:
    """Whether oneDNN takes the strides of a view: each at least the stride times the size of the next faster axis.

    `x[:, ::3]` of an array with 5 columns has no such strides: 2 columns at stride 3 count as 6, more than the stride 5
    of the rows. Stride 0 stands for broadcasting.
    """
    least = 1
    for stride, size in sorted((s, n) for s, n in zip(view.strides, view.shape, strict=True) if s > 0 and n > 1):
        if stride < least:
            return False
        least = stride * size
    return True


@dataclass(frozen=True, eq=False)
class Edge:
    """A tensor between two ops of one native step; it has no buffer."""

    shape: tuple[int, ...]
    dtype: str


Operand = View | Edge


@dataclass(frozen=True)
class NativeOp:
    """One op of the library with attributes; `host` makes a NumPy function for it where the library refuses it."""

    kind: str
    attrs: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    name: str = ""
    host: Callable[[], Callable[..., None]] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Condition:
    """A condition of a step: it runs if the s32 `flag`, which an earlier step writes, is not 0 (`wanted`), or is 0."""

    flag: View
    wanted: bool


@dataclass(frozen=True)
class NativeStep:
    """A step that the library computes: ops that it compiles as one partition.

    `group`: the number of the node group that the step is for. `choice`: the key of `reference` for the choice
    that made the step; "" if reference kernels are not to be expected. `fpmath`: the library's fpmath mode, "" for the
    net's.
    """

    ops: tuple[NativeOp, ...]
    label: str
    group: int | None = None
    condition: Condition | None = None
    choice: str = ""
    fpmath: str = ""

    @property
    def reads(self) -> tuple[View, ...]:
        return _views(op.inputs for op in self.ops)

    @property
    def writes(self) -> tuple[View, ...]:
        return _views(op.outputs for op in self.ops)


@record()
class KernelStep:
    """A step by a builtin kernel, whose operands are the sources `reads`, then `writes`, scratch included.

    `in_place`: pairs of a source and a result that may be the same memory. `cache_key`: that of the results, with all
    that they depend on besides the data that is read; None: unknown, so they are not cached. `others`: numbers of
    further groups that the step computes. `overwrites`: whether the pairs hold; in a trace, a size, as sizes decide it.
    """

    kernel: Any
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    label: str
    group: int | None = None
    condition: Condition | None = None
    in_place: tuple[tuple[View, View], ...] = ()
    cache_key: Hashable = None
    others: tuple[int, ...] = ()
    overwrites: Any = True


@dataclass(frozen=True)
class HostStep:
    """A step by a NumPy function of arrays: it reads those of `reads`, and fills those of `writes`.

    `cache_key`: as in a KernelStep. `by`: the name of what computes the step, for explanations.
    """

    function: Callable[..., None]
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    label: str
    group: int | None = None
    condition: Condition | None = None
    cache_key: Hashable = None
    by: str = "NumPy"


Step = NativeStep | KernelStep | HostStep
# copies by the view that is copied, the dtype, and the order of axes
Copies = dict[tuple[View, str, tuple[int, ...]], View]


def _views(groups: Iterable[Sequence[Operand]]) -> tuple[View, ...]:
    return tuple(dict.fromkeys(operand for group in groups for operand in group if isinstance(operand, View)))


class Program:
    """A list of steps that grows by its methods; `group`: the number of the node group that the next steps are for.

    `condition`: when the next steps run; None: always. `choice`: that of the library's next steps, see `NativeStep`.
    """

    def __init__(self, group: int | None = None, condition: Condition | None = None) -> None:
        self.steps: list[Step] = []
        self.group = group
        self.condition = condition
        self.choice = ""
        # the steps of layers, by what layers have in common that are lowered alike; None: no steps are shared
        self.lowered: dict[Hashable, Any] | None = None
        self.copies: Copies = {}

    @contextmanager
    def only_if(self, flag: View, wanted: bool) -> Iterator[None]:
        """Within this context, appended steps run only if `flag` is not 0 (`wanted`), or is 0.

        Copies that `copied` appends within the context are not reused after it.
        """
        before, self.condition = self.condition, Condition(flag, wanted)
        copies, self.copies = self.copies, dict(self.copies)
        yield
        self.condition, self.copies = before, copies

    @contextmanager
    def chosen(self, choice: str) -> Iterator[None]:
        """Within this context, the library's steps that are appended are of this choice."""
        before, self.choice = self.choice, choice
        yield
        self.choice = before

    @staticmethod
    def scratch(shape: Sequence[int], dtype: str, order: Sequence[int] | None = None) -> View:
        """Returns a view of a new dense buffer; `order` lists the axes from the slowest to the fastest."""
        shape = tuple(shape)
        elements = prod(shape)
        buffer = Buffer(Place.SCRATCH, dtype, elements)
        return View(buffer, shape, dense_strides(shape) if order is None else dense_in(shape, order))

    def like(self, view: View, dtype: str) -> View:
        """Returns a view of a new dense buffer in `dtype` that has the shape and the order of axes of `view`."""
        return self.scratch(view.shape, dtype, order_of(view))

    def constant(self, array: Array) -> View:
        """Returns a view of a constant that the plan owns, with the data of `array`."""
        data = np.ascontiguousarray(array).reshape(array.shape)
        name = dtypes.canonical(data.dtype)
        return View(Buffer(Place.CONSTANT, name, data.size, array=data), data.shape, dense_strides(data.shape))

    def native(self, ops: Sequence[NativeOp], label: str, fpmath: str = "") -> None:
        self.steps.append(NativeStep(tuple(ops), label, self.group, self.condition, self.choice, fpmath))

    def kernel(
        self,
        kernel: Any,
        reads: Sequence[View],
        writes: Sequence[View],
        label: str,
        in_place: Sequence[tuple[View, View]] = (),
        cache_key: Hashable = None,
        overwrites: Any = True,
    ) -> None:
        where, pairs = (self.group, self.condition), tuple(in_place)
        self.steps.append(
            KernelStep(kernel, tuple(reads), tuple(writes), label, *where, pairs, cache_key, (), overwrites)
        )

    def append(
        self,
        name: str,
        args: tuple[Any, ...],
        reads: Sequence[View],
        writes: Sequence[View],
        label: str,
        in_place: Sequence[tuple[View, View]] = (),
    ) -> None:
        """Appends a step by the kernel of this name; name and `args`, its cache key, determine what it computes."""
        self.kernel(getattr(kernels, name)(*args), reads, writes, label, in_place, (name, *args))

    def copy_list(self, items: Sequence[CopyItem], source: View, target: View, label: str, zeros: int = 0) -> None:
        """Appends many copies from `source` to `target` as one step, which first sets the first `zeros` elements to 0.

        An item is a shape, offset and strides in `source`, and offset and strides in `target`, in elements.
        """
        args = tuple(items), dtypes.CODES[source.dtype], dtypes.CODES[target.dtype], zeros
        self.append("copy_list", args, [source], [target], label)

    def host(
        self,
        function: Callable[..., None],
        reads: Sequence[View],
        writes: Sequence[View],
        label: str,
        cache_key: Hashable = None,
        by: str = "NumPy",
    ) -> None:
        where = self.group, self.condition
        self.steps.append(HostStep(function, tuple(reads), tuple(writes), label, *where, cache_key, by))

    # -- the kernels that everything uses ---------------------------------------------------------------------

    def copy(self, source: View, target: View, label: str = "copy", backwards: Collection[int] = ()) -> None:
        """Appends a step that copies `source` to `target`, which may differ in strides and dtype.

        `backwards`: axes along which the source is read from its last element to its first.
        """
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
        """Returns a dense copy of `view` in `dtype` with its axes in `order`; appends the step at the first request.

        A later request gets the same copy, as no step writes to a buffer that an earlier step has read.
        """
        key = (view, dtype, tuple(order))
        if key not in self.copies:
            self.copies[key] = self.scratch(view.shape, dtype, order)
            self.copy(view, self.copies[key], label)
        return self.copies[key]

    def converted(self, view: View, dtype: str, label: str = "convert") -> View:
        """Returns `view` itself if it has the dtype, else a copy in `dtype`, which is appended."""
        return view if view.dtype == dtype else self.copied(view, dtype, order_of(view), label)

    def in_a_row(self, vector: View) -> View:
        """Returns `vector` itself if its elements are contiguous, else a contiguous copy, which is appended."""
        if vector.strides == (1,) or vector.shape == (1,):
            return vector
        return self.copied(vector, vector.dtype, (0,), "vector in a row")

    def fill(self, target: View, value: float, label: str = "fill") -> None:
        if target.size:
            args = (target.shape, dtypes.CODES[target.dtype], target.strides, value)
            self.append("fill", args, [], [target], label)

    def fill_channel(self, target: View, axis: int, bias: View, label: str = "fill bias") -> None:
        """Appends a step that sets every element of `target` to the bias of its channel, its index along `axis`."""
        if target.size:
            codes = dtypes.CODES
            bias = self.in_a_row(bias)
            args = (target.shape, codes[target.dtype], target.strides, axis, codes[bias.dtype])
            self.append("fill_channel", args, [bias], [target], label)

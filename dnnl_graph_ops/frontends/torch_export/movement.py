"""Rules of ops that move elements: reshape, permute, slice, concatenate, pad, expand, index."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedError
from ...graph import Value
from .table import Call, aten, listed

_END = (1 << 63) - 1
# transposes that matrix products absorb
TURNS = frozenset({"aten.t.default", "aten.permute.default", "aten.transpose.int", "aten.numpy_T.default"})


aten(
    "view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "squeeze", "squeeze.dim", "squeeze.dims",
    "unsqueeze", "_reshape_alias", "view_copy", "ravel", "view_as", "reshape_as",
)(lambda call, self: call.reshaped(self, call.meta.shape))  # fmt: skip


@aten("permute")
def permute(call: Call, self: Any, dims: list[int]) -> Any:
    order = [dim % len(dims) for dim in dims]
    return self if order == sorted(order) else call.std("Transpose", self, perm=order)


@aten("transpose.int")
def transpose(call: Call, self: Any, dim0: int, dim1: int) -> Any:
    order = list(range(len(self.shape)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(call, self, order)


@aten("t", "mT", "adjoint", "matrix_H", last=2)
@aten("numpy_T", last=_END)
def turned(call: Call, self: Any, last: int) -> Any:
    order = list(range(len(self.shape)))
    return permute(call, self, [*order[:-last], *order[-last:][::-1]])


@aten("movedim.intlist", "movedim.int")
def movedim(call: Call, self: Any, source: Any, destination: Any) -> Any:
    rank = len(self.shape)
    before, after = ([axis % rank for axis in listed(axes)] for axes in (source, destination))
    rest = iter(axis for axis in range(rank) if axis not in before)
    placed = dict(zip(after, before, strict=True))
    return permute(call, self, [placed[axis] if axis in placed else next(rest) for axis in range(rank)])


def _cut(call: Call, item: Any, axis: int, start: int, end: int, step: int = 1) -> Any:
    return call.std("Slice", item, [start], [end], [axis], [step])


@aten("slice.Tensor")
def part(call: Call, self: Any, dim: int, start: int | None, end: int | None, step: int) -> Any:
    return _cut(call, self, dim, start or 0, _END if end is None else end, step)


@aten("narrow")
def narrow(call: Call, self: Any, dim: int, start: int, length: int) -> Any:
    if start < 0:
        raise UnsupportedError(f"{call.where}: start={start}")
    return _cut(call, self, dim, start, start + length)


@aten("select.int")
def select(call: Call, self: Any, dim: int, index: int) -> Any:
    return call.reshaped(_cut(call, self, dim, index, _END if index == -1 else index + 1), call.meta.shape)


@aten("split.Tensor", "split_with_sizes", "chunk", "unsafe_chunk", "unsafe_split.Tensor", "unsafe_split_with_sizes",
      "tensor_split.sections")  # fmt: skip
def split(call: Call, self: Any, dim: int) -> Any:
    sizes = [meta.shape[dim] for meta in call.metas]
    if None in sizes:
        raise UnsupportedError(f"{call.where}: parts of unknown sizes")
    return self if len(sizes) == 1 else call.std("Split", self, sizes, count=len(sizes), axis=dim)


@aten("unbind.int")
def unbind(call: Call, self: Any, dim: int) -> Any:
    return tuple(call.reshaped(_cut(call, self, dim, i, i + 1), meta.shape) for i, meta in enumerate(call.metas))


@aten("cat", "concat", "concatenate")
def cat(call: Call, tensors: list[Any], dim: int) -> Any:
    # PyTorch's cat ignores empty vectors
    items = [call.cast(item, call.meta.dtype) for item in tensors if tuple(item.shape) != (0,)]
    return call.std("Concat", *items, axis=dim)


@aten("stack")
def stack(call: Call, tensors: list[Any], dim: int) -> Any:
    shape = list(call.meta.shape)
    shape[dim] = 1
    items = (call.reshaped(call.cast(item, call.meta.dtype), shape) for item in tensors)
    return call.std("Concat", *items, axis=dim % len(shape))


@aten("expand", "expand_as", "broadcast_to")
def expand(call: Call, self: Any) -> Any:
    wanted = call.meta.shape
    if tuple(self.shape) == wanted and None not in wanted:
        return self
    if None in wanted:
        raise call.needs_sizes(f"{self.shape} to {wanted}")
    return call.std("Expand", self, list(wanted))


@aten("repeat", "tile")
def repeat(call: Call, self: Any, counts: list[int], /) -> Any:
    rank = len(call.meta.shape)
    value = call.reshaped(self, (*(1,) * (rank - len(self.shape)), *self.shape))
    return call.std("Tile", value, [1] * (rank - len(counts)) + counts)


@aten("repeat_interleave.self_int")
def repeat_interleave(call: Call, self: Any, repeats: int, dim: int | None = None) -> Any:
    if dim is None:
        raise UnsupportedError(f"{call.where}: of all elements")
    axis, shape = dim % len(self.shape), list(self.shape)
    counts = [1] * (len(shape) + 1)
    counts[axis + 1] = repeats
    apart = call.reshaped(self, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    return call.reshaped(call.std("Tile", apart, counts), call.meta.shape)


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@aten("pad")
@aten("constant_pad_nd", mode="constant")
@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", mode="reflect")
@aten("replication_pad1d", "replication_pad2d", "replication_pad3d", mode="replicate")
def pad(call: Call, self: Any, pad: list[int], /, mode: str, value: float | None = None) -> Any:
    axes = [len(self.shape) - 1 - i for i in range(len(pad) // 2)]
    filling = call.cast(float(value or 0), self.dtype) if mode == "constant" else None
    return call.std("Pad", self, [*pad[::2], *pad[1::2]], filling, axes, mode=_MODES.get(mode, mode))


@aten("flip")
def flip(call: Call, self: Any, dims: list[int]) -> Any:
    return call.std("Slice", self, [-1] * len(dims), [-_END] * len(dims), dims, [-1] * len(dims))


@aten("roll")
def roll(call: Call, self: Any, shifts: Any, dims: Any) -> Any:
    if dims == []:
        raise UnsupportedError(f"{call.where}: of all axes as one")
    for shift, dim in zip(listed(shifts), listed(dims), strict=True):
        size = self.shape[dim]
        if size is None:
            raise call.needs_sizes(f"an axis of unknown size, {self.shape}")
        begin = -shift % size if size else 0
        if begin:
            parts = _cut(call, self, dim, begin, _END), _cut(call, self, dim, 0, begin)
            self = call.std("Concat", *parts, axis=dim)
    return self


aten("index_select")(lambda call, self, dim, index: call.std("Gather", self, index, axis=dim))
aten("embedding")(lambda call, weight, indices: call.std("Gather", weight, indices, axis=0))


@aten("index.Tensor")
def index(call: Call, self: Any, indices: list[Any]) -> Any:
    """Indexing by one tensor of indices; several tensors, or a mask, run on the host."""
    given = [(axis, places) for axis, places in enumerate(indices) if places is not None]
    if len(given) != 1 or _is_mask(given[0][1]):
        raise UnsupportedError(f"{call.where}: by {len(given)} tensors, or by a mask")
    return call.std("Gather", self, given[0][1], axis=given[0][0])


def _is_mask(item: Any) -> bool:
    return (item.dtype if isinstance(item, Value) else str(item.dtype)) in ("boolean", "bool", "u8", "uint8")


@aten("pixel_shuffle")
def pixel_shuffle(call: Call, self: Any, upscale_factor: int) -> Any:
    if len(self.shape) != 4:
        raise UnsupportedError(f"{call.where}: of shape {self.shape}")
    return call.std("DepthToSpace", self, blocksize=upscale_factor, mode="CRD")


def _moved(call: Call, item: Any, split: Any, order: list[int]) -> Any:
    """Reshapes an operand, permutes its axes, and reshapes it to the result."""
    return call.reshaped(call.std("Transpose", call.reshaped(item, split), perm=order), call.meta.shape)


@aten("pixel_unshuffle")
def pixel_unshuffle(call: Call, self: Any, downscale_factor: int) -> Any:
    wanted, by = call.meta.shape, downscale_factor
    if len(self.shape) != 4 or None in wanted:
        raise call.needs_sizes(f"of shape {self.shape}")
    n, _channels, h, w = wanted
    return _moved(call, self, (n, self.shape[1], h, by, w, by), [0, 1, 3, 5, 2, 4])


@aten("channel_shuffle")
def channel_shuffle(call: Call, self: Any, groups: int) -> Any:
    n, c, *space = self.shape
    if None in self.shape:
        raise call.needs_sizes(f"of shape {self.shape}")
    return _moved(call, self, (n, groups, c // groups, *space), [0, 2, 1, *range(3, 3 + len(space))])

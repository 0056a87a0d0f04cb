"""What moves elements and leaves them as they are; parts, and more of them."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedError
from ...graph import Value
from .table import Call, aten

_END = (1 << 63) - 1
# what products of matrices take as it lies
TURNS = frozenset({"aten.t.default", "aten.permute.default", "aten.transpose.int", "aten.numpy_T.default"})


@aten(
    "view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "squeeze", "squeeze.dim", "squeeze.dims",
    "unsqueeze", "_reshape_alias", "view_copy", "ravel", "view_as", "reshape_as",
    is_open=True,
)  # fmt: skip
def reshape(call: Call, self: Any, **_: Any) -> Any:
    return call.reshaped(self, call.meta.shape)


@aten("permute")
def permute(call: Call, self: Any, dims: list[int], **_: Any) -> Any:
    return _turned(call, self, [dim % len(dims) for dim in dims])


@aten("transpose.int")
def transpose(call: Call, self: Any, dim0: int, dim1: int, **_: Any) -> Any:
    order = list(range(len(self.shape)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return _turned(call, self, order)


@aten("t", "numpy_T", "mT", "adjoint", "matrix_H")
def turned(call: Call, self: Any, **_: Any) -> Any:
    rank = len(self.shape)
    last = (*range(rank - 2), *([rank - 1, rank - 2] if rank > 1 else range(rank)))
    return _turned(call, self, list(range(rank))[::-1] if call.node.op_type == "aten.numpy_T.default" else list(last))


@aten("movedim.intlist", "movedim.int")
def movedim(call: Call, self: Any, source: Any, destination: Any, **_: Any) -> Any:
    rank = len(self.shape)
    pairs = [[one % rank for one in (some if isinstance(some, list) else [some])] for some in (source, destination)]
    rest = iter(axis for axis in range(rank) if axis not in pairs[0])
    placed = dict(zip(pairs[1], pairs[0], strict=True))
    return _turned(call, self, [placed[axis] if axis in placed else next(rest) for axis in range(rank)])


def _turned(call: Call, item: Any, order: list[int]) -> Any:
    return item if order == sorted(order) else call.std("Transpose", item, perm=order)


@aten("slice.Tensor")
def part(call: Call, self: Any, dim: int, start: int | None, end: int | None, step: int, **_: Any) -> Any:
    end = _END if end is None else end
    return call.std("Slice", self, [start or 0], [end], [dim], [step])


@aten("narrow")
def narrow(call: Call, self: Any, dim: int, start: int, length: int, **_: Any) -> Any:
    if start < 0:
        raise UnsupportedError(f"{call.where}: start={start}")
    return call.std("Slice", self, [start], [start + length], [dim], [1])


@aten("select.int")
def select(call: Call, self: Any, dim: int, index: int, **_: Any) -> Any:
    taken = call.std("Slice", self, [index], [_END if index == -1 else index + 1], [dim], [1])
    return call.reshaped(taken, call.meta.shape)


@aten("split.Tensor", "split_with_sizes", "chunk", "unsafe_chunk", "unsafe_split.Tensor", "unsafe_split_with_sizes",
      "tensor_split.sections")  # fmt: skip
def split(call: Call, self: Any, dim: int, **_: Any) -> Any:
    metas = call.metas()
    sizes = [meta.shape[dim] for meta in metas]
    if None in sizes:
        raise UnsupportedError(f"{call.where}: parts of unknown sizes")
    if len(metas) == 1:
        return (self,)
    return call.std("Split", self, sizes, count=len(metas), axis=dim)


@aten("unbind.int")
def unbind(call: Call, self: Any, dim: int, **_: Any) -> Any:
    metas = call.metas()
    parts = (call.std("Slice", self, [i], [i + 1], [dim], [1]) for i in range(len(metas)))
    return tuple(call.reshaped(part, meta.shape) for part, meta in zip(parts, metas, strict=True))


@aten("cat", "concat", "concatenate")
def cat(call: Call, tensors: list[Any], dim: int, **_: Any) -> Any:
    dtype = call.meta.dtype
    # an empty vector stands for nothing, whatever the others are
    items = [call.cast(item, dtype) for item in tensors if tuple(item.shape) != (0,)]
    return call.std("Concat", *items, axis=dim)


@aten("stack")
def stack(call: Call, tensors: list[Any], dim: int, **_: Any) -> Any:
    meta = call.meta
    axis = dim % len(meta.shape)
    shape = (*meta.shape[:axis], 1, *meta.shape[axis + 1 :])
    return call.std("Concat", *(call.reshaped(call.cast(item, meta.dtype), shape) for item in tensors), axis=axis)


@aten("expand", "expand_as", "broadcast_to", is_open=True)
def expand(call: Call, self: Any, **_: Any) -> Any:
    wanted = call.meta.shape
    if tuple(self.shape) == wanted and None not in wanted:
        return self
    if None in wanted:
        kept = (*(1,) * (len(wanted) - len(self.shape)), *self.shape)
        raise call.needs_sizes(f"{kept} to {wanted}")
    return call.std("Expand", self, list(wanted))


@aten("repeat", "tile")
def repeat(call: Call, self: Any, **given: Any) -> Any:
    counts = given.get("repeats", given.get("dims")) or []
    rank = len(call.meta.shape)
    value = call.reshaped(self, (*(1,) * (rank - len(self.shape)), *self.shape))
    return call.std("Tile", value, [1] * (rank - len(counts)) + counts)


@aten("repeat_interleave.self_int")
def repeat_interleave(call: Call, self: Any, repeats: int, dim: int | None = None, **_: Any) -> Any:
    if dim is None:
        raise UnsupportedError(f"{call.where}: of all elements")
    axis, shape = dim % len(self.shape), tuple(self.shape)
    apart = call.reshaped(self, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    counts = [1] * (len(shape) + 1)
    counts[axis + 1] = repeats
    return call.reshaped(call.std("Tile", apart, counts), call.meta.shape)


@aten("pad")
def pad(call: Call, self: Any, pad: list[int], mode: str, value: float | None = None, **_: Any) -> Any:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return _padded(call, self, pad, modes[mode], value or 0.0)


@aten("constant_pad_nd")
def constant_pad(call: Call, self: Any, pad: list[int], value: float = 0, **_: Any) -> Any:
    return _padded(call, self, pad, "constant", value)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", mode="reflect")
@aten("replication_pad1d", "replication_pad2d", "replication_pad3d", mode="edge")
def edges(call: Call, self: Any, padding: list[int], mode: str, **_: Any) -> Any:
    return _padded(call, self, padding, mode, 0.0)


def _padded(call: Call, item: Any, pad: list[int], mode: str, value: float) -> Any:
    axes = [len(item.shape) - 1 - i for i in range(len(pad) // 2)]
    filling = call.cast(float(value), item.dtype) if mode == "constant" else None
    return call.std("Pad", item, [*pad[::2], *pad[1::2]], filling, axes, mode=mode)


@aten("flip")
def flip(call: Call, self: Any, dims: list[int], **_: Any) -> Any:
    return call.std("Slice", self, [-1] * len(dims), [-_END] * len(dims), dims, [-1] * len(dims))


@aten("roll")
def roll(call: Call, self: Any, shifts: Any, dims: Any, **_: Any) -> Any:
    shifts, dims = (some if isinstance(some, list) else [some] for some in (shifts, dims))
    if not dims:
        raise UnsupportedError(f"{call.where}: of all axes as one")
    for shift, dim in zip(shifts, dims, strict=True):
        size = self.shape[dim]
        if size is None:
            raise call.needs_sizes(f"an axis of unknown size, {self.shape}")
        cut = -shift % size if size else 0
        if cut:
            parts = [call.std("Slice", self, [a], [b], [dim], [1]) for a, b in ((cut, _END), (0, cut))]
            self = call.std("Concat", *parts, axis=dim)
    return self


@aten("index_select")
def index_select(call: Call, self: Any, dim: int, index: Any, **_: Any) -> Any:
    return call.std("Gather", self, index, axis=dim)


@aten("embedding")
def embedding(call: Call, weight: Any, indices: Any, **_: Any) -> Any:
    return call.std("Gather", weight, indices, axis=0)


@aten("index.Tensor")
def index(call: Call, self: Any, indices: list[Any], **_: Any) -> Any:
    """By one tensor of places; by several, or a mask, is the host's."""
    given = [(axis, one) for axis, one in enumerate(indices) if one is not None]
    if len(given) != 1 or _is_mask(given[0][1]):
        raise UnsupportedError(f"{call.where}: by {len(given)} tensors, or by a mask")
    ((axis, places),) = given
    return call.std("Gather", self, places, axis=axis)


def _is_mask(item: Any) -> bool:
    return (item.dtype if isinstance(item, Value) else str(item.dtype)) in ("boolean", "bool", "u8", "uint8")


@aten("pixel_shuffle")
def pixel_shuffle(call: Call, self: Any, upscale_factor: int, **_: Any) -> Any:
    if len(self.shape) != 4:
        raise UnsupportedError(f"{call.where}: of shape {self.shape}")
    return call.std("DepthToSpace", self, blocksize=upscale_factor, mode="CRD")


@aten("pixel_unshuffle")
def pixel_unshuffle(call: Call, self: Any, downscale_factor: int, **_: Any) -> Any:
    wanted, by = call.meta.shape, downscale_factor
    if len(self.shape) != 4 or None in wanted:
        raise call.needs_sizes(f"of shape {self.shape}")
    n, _channels, h, w = wanted
    c = self.shape[1]
    split = call.reshaped(self, (n, c, h, by, w, by))
    return call.reshaped(call.std("Transpose", split, perm=[0, 1, 3, 5, 2, 4]), wanted)


@aten("channel_shuffle")
def channel_shuffle(call: Call, self: Any, groups: int, **_: Any) -> Any:
    n, c, *space = self.shape
    if None in self.shape:
        raise call.needs_sizes(f"of shape {self.shape}")
    split = call.reshaped(self, (n, groups, c // groups, *space))
    order = [0, 2, 1, *range(3, 3 + len(space))]
    return call.reshaped(call.std("Transpose", split, perm=order), self.shape)

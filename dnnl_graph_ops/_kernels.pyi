"""Made by `python tools/make_stubs.py`; a test compares.

dtypes are DataType values, strides count elements.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

class Kernel:
    """One step of a plan."""

    @property
    def arity(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def by(self) -> str:
        """The name of the code that computes, as 'dot_bf16_avx512bf16_8x32', or ''."""

    def run(self, *operands: np.ndarray[Any, Any] | int) -> None:
        """Sources first, destination last; the operands are not checked."""

class ScratchKernel(Kernel):
    """Takes room to work in, aligned to 64 bytes, as the operand before its destination."""

    @property
    def scratch_bytes(self) -> int: ...
    @property
    def over_operands(self) -> bool:
        """Whether an operand of post-ops that lies as the destination does may be where that is."""
    @property
    def products(self) -> int: ...

def table() -> tuple[tuple[str, str, bool, tuple[tuple[str, str, str], ...], str, str, str], ...]:
    """Declarations: class, name, whether it is a value, parameters (name, type, default), result, operands, text."""

@final
class DepthwiseProblem:
    """A layer with a kernel for each channel, or groups of `width` channels in and out, and 1 to 3 spatial axes.
    Strides count elements: n, c, spatial for src and dst; c, kernel for the weights, or group, in channel, out
    channel, kernel. Sums are f32.
    """

    def __init__(
        self,
        layer: LayerSizes,
        dtype: int,
        src_strides: Sequence[int],
        weights_strides: Sequence[int],
        dst_strides: Sequence[int],
        width: int = 1,
    ) -> None: ...

@final
class Epilogue:
    """Post-ops: steps (op, left, right, to, alpha, beta) on registers, of which 0 is the value that is written,
    and on operands, numbered from OPERANDS. Operands are (spread, data type).
    """

    def __init__(
        self, steps: Sequence[tuple[str, int, int, int, float, float]] = (), operands: Sequence[tuple[str, int]] = ()
    ) -> None: ...
    # The number of the first operand.
    OPERANDS: ClassVar[int]
    # Registers that steps have.
    REGISTERS: ClassVar[int]
    # Elements that operands by channel go on for behind the last channel, beginning again with the first.
    REPEAT: ClassVar[int]
    def __bool__(self) -> bool:
        """Whether there are any steps."""
    @property
    def operands(self) -> int:
        """How many it adds to a kernel's operands."""

@final
class FilterProblem:
    """A transposed convolution, channels last. tile: results of a tile on each axis; 1 is the direct form of that
    axis, for any kernel; Winograd has 2, 3 and 4 for two taps per phase, 2 and 4 for three, without dilation; 4
    on the last two axes only if both have it. any_size: weights are packed as for large sizes, whatever the
    sizes are.
    """

    def __init__(
        self,
        batch: int,
        in_channels: int,
        out_channels: int,
        in_spatial: Sequence[int],
        out_spatial: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        pads_begin: Sequence[int],
        tile: Sequence[int],
        dilations: Sequence[int] = (),
        groups: int = 1,
        any_size: bool = False,
    ) -> None: ...
    def bf16_packed_size(self, direction: str) -> int:
        """Returns the bf16 elements of the packed weights of bf16_product."""
    def bf16_packing(self, direction: str) -> bytes:
        """Returns the parameters of bf16_pack as bytes, as `packing` does for filter_pack."""
    def col2im_refusal(self) -> str:
        """Returns why col2im_product does not compute the layer; empty if it does."""
    def packed_size(self, direction: str) -> int:
        """Returns the f32 elements of the packed weights of 'dgrad' or 'fprop'."""
    def packing(self, direction: str) -> bytes:
        """Returns the parameters of filter_pack as bytes, without the weights' layout and data: equal bytes, equal
        packed weights.
        """
    def refusal(self) -> str:
        """Returns why no filter kernel computes the layer; empty if they do."""
    def taps_apart(self) -> FilterProblem:
        """Returns the layer whose packed weights col2im_product takes for this one."""

@final
class IndexProblem:
    """Rows of data (outer, *sizes, row), elements of `item` bytes, and indices (count, axes), or with `each`
    (outer, count, row) on one axis. Negative indices count from the end.
    """

    def __init__(
        self, outer: int, sizes: Sequence[int], row: int, item: int, count: int, index_item: int = 8, each: bool = False
    ) -> None: ...

@final
class LayerSizes:
    """A layer that treats its channels alike, seen as a transposed convolution."""

    def __init__(
        self,
        n: int,
        c: int,
        src_spatial: Sequence[int],
        dst_spatial: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        pads_begin: Sequence[int],
        dilations: Sequence[int],
    ) -> None: ...

@final
class RowBands:
    """Divides the rows of a chain of layers into bands, whose results between layers fit `near` bytes. Each layer
    is (rows of the target, rows of the source, stride, rows of the source that a row depends on, padding before
    the source, bytes of a row of the target).
    """

    def __init__(
        self, rows: Sequence[tuple[int, int, int, int, int, int]], images: int, threads: int, near: int
    ) -> None: ...
    @property
    def count(self) -> int:
        """Rows of a band of the last result; 0 where not even one fits."""
    @property
    def parts(self) -> list[int]:
        """The parts of layers that differ, in the order of their use, four numbers each: the layer, rows of its
        target, of how many rows of the source, rows of padding before the source.
        """
    @property
    def starts(self) -> list[int]:
        """The byte offsets at which results between layers begin in a thread's scratch, and where they end."""
    @property
    def tasks(self) -> int:
        """Into how many ranges of rows an image is divided, so that all threads have work."""

@final
class Work:
    """The work of a run of a kernel, from which its time is estimated."""

    @property
    def products(self) -> float:
        """Multiplications, with those that only fill up vectors and register tiles."""
    @property
    def runs(self) -> float:
        """Rows of channels that are fetched or written one by one."""
    @property
    def values(self) -> float:
        """Elements that pass through a transform or a gather."""
    @property
    def weights(self) -> float:
        """Packed weights that are read, or sums of a gradient that are written."""

def attention(
    batch: Sequence[int],
    rows: int,
    keys: int,
    depth: int,
    width: int,
    q: Sequence[int],
    k: Sequence[int],
    v: Sequence[int],
    masks: Sequence[Sequence[int]],
    dst: Sequence[int],
    scale: float = 1.0,
    zeros: str = "none",
    seen: Sequence[int] = (),
) -> Kernel:
    """run(q (batch, rows, depth), k (batch, keys, depth), v (batch, keys, width), masks (batch, rows, keys)...,
    dst (batch, rows, width)): dst = softmax(scale * q k' + masks) v, in f32. Strides of each operand: the
    batch's axes, then row and depth of q, key and depth of k, key and width of v, row and key of a mask, row
    and width of dst. zeros names the rows of shares that become zeros: none, nan (rows of NaN) or unseen (rows
    whose scores are all -Inf). seen[row]: the row sees this many keys, from the first on; empty: all.
    """

def bf16_isa() -> tuple[str, str]:
    """Returns the instruction set of bf16 products: 'amx', 'avx512bf16', 'emulated', or '' for none; and why no
    better one is used, or ''.
    """

def bf16_pack(
    problem: FilterProblem,
    direction: str,
    weights_dtype: int,
    weights_strides: Sequence[int],
    threads: int = 0,
    isa: str = "",
) -> Kernel:
    """run(weights (in_channels, out_channels / groups, kernel), packed): packed = weights for bf16_product, with
    the strides of filter_pack. packed is bf16, and so are weights where tiles have one result.
    """

def bf16_product(
    problem: FilterProblem,
    direction: str,
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    bias_dtype: int = 0,
    threads: int = 0,
    epilogue: Epilogue = ...,
    isa: str = "",
) -> ScratchKernel:
    """run(src, packed, [bias], epilogue's..., scratch, dst): dst = bias + the convolution of src in a direction,
    as filter_dgrad and filter_fprop compute it, in products of bf16 with sums in f32. packed is bf16, and so is
    src where tiles have one result.
    """

def bf16_wgrad(
    problem: FilterProblem,
    src_dtype: int,
    src_strides: Sequence[int],
    diff_dst_dtype: int,
    diff_dst_strides: Sequence[int],
    weights_dtype: int,
    weights_strides: Sequence[int],
    threads: int = 0,
    isa: str = "",
) -> ScratchKernel:
    """run(src (batch, in_spatial, in_channels), diff_dst (batch, out_spatial, out_channels), scratch, diff_weights
    (in_channels, out_channels / groups, kernel)): diff_weights = the sum over batch and positions of src *
    diff_dst. src and diff_dst are bf16, sums f32, diff_weights bf16 or f32. The same number of threads gives
    the same bits.
    """

def col2im(
    layer: LayerSizes,
    col_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    has_bias: bool = False,
    bias_dtype: int | None = None,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(col (n, src_spatial, kernel, c), [bias (c)], epilogue's..., dst (n, c, dst_spatial)): dst[position] =
    bias + the sum of the f32 columns that meet the position: the reverse of im2col.
    """

def col2im_product(
    problem: FilterProblem,
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    bias_dtype: int = 0,
    threads: int = 0,
    epilogue: Epilogue = ...,
) -> ScratchKernel:
    """run(src (batch, in_spatial, in_channels), packed, [bias (out_channels)], epilogue's..., scratch, dst (batch,
    out_spatial, out_channels)): dst = bias + the transposed convolution of src, as filter_dgrad computes it, by
    products whose overlaps are added up. packed: the weights of problem.taps_apart(). The problem has one group
    and no dilation on the last axis.
    """

def col2im_takes_epilogue(channels: int, dst_strides: Sequence[int]) -> bool:
    """Returns whether col2im takes an epilogue for `channels` channels and these strides of dst."""

def col2im_work(problem: FilterProblem, isa: str = "") -> Work:
    """Returns the work of col2im_product."""

def copy(
    shape: Sequence[int], src_dtype: int, src_strides: Sequence[int], dst_dtype: int, dst_strides: Sequence[int]
) -> Kernel:
    """run(src (shape), dst (shape)): dst = src, element by element, converted to dst's type."""

def copy_list(
    items: Sequence[tuple[Sequence[int], int, Sequence[int], int, Sequence[int]]],
    src_dtype: int,
    dst_dtype: int,
    zero_elements: int = 0,
) -> Kernel:
    """run(src, dst): dst[0:zero_elements] = 0, then each item (shape, src_offset, src_strides, dst_offset,
    dst_strides) is copied.
    """

def cumsum(outer: int, length: int, inner: int, exclusive: bool = False, reverse: bool = False) -> Kernel:
    """run(src (outer, length, inner), dst (outer, length, inner)): dst[o, i, j] = the sum of src[o, 0 .. i, j],
    f32, all dense, summed in f64 and rounded once. exclusive: without element i; reverse: from the end.
    """

def depthwise_dgrad(
    problem: DepthwiseProblem,
    has_bias: bool = False,
    bias_dtype: int | None = None,
    packed: bool = False,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(src (n, c, src_spatial), weights (c, kernel), [bias (c)], epilogue's..., dst (n, c, dst_spatial)): dst =
    bias + the transposed convolution of src; every channel has its own kernel.
    """

def depthwise_fprop(
    problem: DepthwiseProblem,
    has_bias: bool = False,
    bias_dtype: int | None = None,
    packed: bool = False,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(diff_dst (n, c, dst_spatial), weights (c, kernel), [bias (c)], epilogue's..., diff_src (n, c,
    src_spatial)): diff_src = bias + the ordinary convolution of diff_dst; every channel has its own kernel.
    """

def depthwise_packing(problem: DepthwiseProblem, dgrad: bool) -> tuple[Kernel, int, list[int], list[int]]:
    """run(weights (c, kernel), packed): Returns the kernel that packs weights for kernels of the direction with
    packed=True, the floats of packed, and the shape and strides of the weights in packed.
    """

def depthwise_wgrad(problem: DepthwiseProblem) -> Kernel:
    """run(src (n, c, src_spatial), diff_dst (n, c, dst_spatial), diff_weights (c, kernel)): diff_weights[c, k] =
    the sum over n and positions of src * diff_dst, with the same bits for any number of threads. Groups: see
    `gathers_groups`.
    """

def elementwise(
    shape: Sequence[int],
    steps: Sequence[tuple[str, int, int, int, float, float]],
    operands: Sequence[tuple[int, Sequence[int]]],
    dst_dtype: int,
    dst_strides: Sequence[int],
) -> Kernel:
    """run(operands (shape)..., dst (shape)): dst = the value of the last step. Steps are those of Epilogue, but no
    register is written at first, and only the last step writes register 0. Operands are (data type, strides),
    each f32, bf16 or f16; strides may be 0. dst may be an operand of the same strides and item size.
    """

def elementwise_int(
    op: str, shape: Sequence[int], strides: Sequence[Sequence[int]], src_dtype: int, dst_dtype: int
) -> Kernel:
    """run(src_0 (shape), [src_1 (shape)], dst (shape)): dst = op(src_0, src_1) on integers, floats or truth values
    as they are, without conversion. strides of each operand count elements and are 0 where it is stretched.
    """

def epilogue(epilogue: Epilogue, positions: Sequence[int], channels: int, strides: Sequence[int]) -> Kernel:
    """run(epilogue's..., dst (positions, channels)): dst = the post-ops of dst, in place, f32, channels last.
    positions and strides are those of its axes without the channels, images first.
    """

def few_channels_gradient(
    layer: LayerSizes,
    channels: int,
    src_dtype: int,
    src_strides: Sequence[int],
    diff_dst_dtype: int,
    diff_dst_strides: Sequence[int],
    weights_dtype: int,
    weights_strides: Sequence[int],
) -> Kernel:
    """run(src (n, channels, src_spatial), diff_dst (n, c, dst_spatial), diff_weights (channels, c, kernel)):
    diff_weights = the sum over n and positions of src * diff_dst, for the layers of few_channels_product, with
    the strides of few_channels_product and few_channels_pack. The same number of threads gives the same bits.
    """

def few_channels_in_planes(layer: LayerSizes, channels: int) -> bool:
    """Returns whether vectors of few_channels_product hold results of neighbouring positions, not channels."""

def few_channels_pack(layer: LayerSizes, channels: int, weights_dtype: int, weights_strides: Sequence[int]) -> Kernel:
    """run(weights (channels, c, kernel), packed): packed = weights for few_channels_product. Strides: channel of
    src, channel of dst, kernel.
    """

def few_channels_packed_size(layer: LayerSizes, channels: int) -> int:
    """Returns the f32 elements of the packed weights of few_channels_product."""

def few_channels_product(
    layer: LayerSizes,
    channels: int,
    diff_dst_dtype: int,
    diff_dst_strides: Sequence[int],
    diff_src_dtype: int,
    diff_src_strides: Sequence[int],
    bias_dtype: int = 0,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(diff_dst (n, c, dst_spatial), packed, [bias (channels)], epilogue's..., diff_src (n, channels,
    src_spatial)): diff_src = bias + the ordinary convolution of diff_dst, which has few (c) channels, to
    `channels` channels. Strides: n, channel, spatial. A bias_dtype of 0 means no bias. Sums are f32.
    """

def few_channels_refusal(layer: LayerSizes, channels: int = 0) -> str:
    """Returns why few_channels_product does not compute a layer whose dst has c channels, or with 0 channels, why
    few_channels_gradient does not; empty if it does.
    """

def fill(shape: Sequence[int], dtype: int, strides: Sequence[int], value: float) -> Kernel:
    """run(dst (shape)): dst = value."""

def fill_channel(shape: Sequence[int], dtype: int, dst_strides: Sequence[int], axis: int, bias_dtype: int) -> Kernel:
    """run(bias (shape[axis]), dst (shape)): dst[..., i, ...] = bias[i], where i is the index on `axis`."""

def filter_dgrad(
    problem: FilterProblem,
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    bias_dtype: int = 0,
    threads: int = 0,
    epilogue: Epilogue = ...,
) -> ScratchKernel:
    """run(src (batch, in_spatial, in_channels), packed, [bias (out_channels)], epilogue's..., scratch, dst (batch,
    out_spatial, out_channels)): dst = bias + the transposed convolution of src. A bias_dtype of 0 means no
    bias. Strides: batch, then spatial axes; the channels are contiguous.
    """

def filter_fprop(
    problem: FilterProblem,
    diff_dst_dtype: int,
    diff_dst_strides: Sequence[int],
    diff_src_dtype: int,
    diff_src_strides: Sequence[int],
    bias_dtype: int = 0,
    threads: int = 0,
    epilogue: Epilogue = ...,
) -> ScratchKernel:
    """run(diff_dst (batch, out_spatial, out_channels), packed, [bias (in_channels)], epilogue's..., scratch,
    diff_src (batch, in_spatial, in_channels)): diff_src = bias + the ordinary convolution of diff_dst. Strides
    as in filter_dgrad.
    """

def filter_pack(
    problem: FilterProblem, direction: str, weights_dtype: int, weights_strides: Sequence[int], threads: int = 0
) -> Kernel:
    """run(weights (in_channels, out_channels / groups, kernel), packed): packed = weights for filter_dgrad or
    filter_fprop. weights_strides: in channel, out channel (of one group), taps; the in channels of the groups
    follow each other. threads 0: the number that OpenMP gives.
    """

def filter_wgrad(
    problem: FilterProblem,
    src_dtype: int,
    src_strides: Sequence[int],
    diff_dst_dtype: int,
    diff_dst_strides: Sequence[int],
    weights_dtype: int,
    weights_strides: Sequence[int],
    threads: int = 0,
) -> ScratchKernel:
    """run(src (batch, in_spatial, in_channels), diff_dst (batch, out_spatial, out_channels), scratch, diff_weights
    (in_channels, out_channels / groups, kernel)).
    """

def filter_work(
    problem: FilterProblem, direction: str, src_dtype: int, dst_dtype: int, threads: int = 0, isa: str = ""
) -> Work:
    """Returns the work of filter_* between dense activations, channels last. isa: the set of another CPU."""

def gather(
    outer: int, sizes: Sequence[int], inner: int, rows: int, item: int, index_item: int, batched: bool = False
) -> Kernel:
    """run(src (outer, sizes, inner), indices (outer if batched, rows, len(sizes)), dst (outer, rows, inner)):
    dst[o, r] = src[o, indices[o, r]], all dense. Elements of src have `item` bytes, indices `index_item` bytes.
    Negative indices count from the end; an index outside of its axis is an error.
    """

def gather_elements(problem: IndexProblem) -> Kernel:
    """run(data (outer, sizes, row), indices, dst (outer, count, row)): dst[o, i, j] = data[o, indices[o, i, j],
    j], or the row data[o, *indices[i]].
    """

def gathers_groups(channels: int, width: int, wgrad: bool = False) -> bool:
    """Returns whether this CPU has kernels for groups of `width` of `channels` channels."""

def grid_sample(
    images: int,
    channels: int,
    height: int,
    width: int,
    places: int,
    linear: bool = True,
    padding: str = "zeros",
    align_corners: bool = False,
) -> Kernel:
    """run(src (images, channels, height, width), grid (images, places, 2), dst (images, channels, places)): dst[n,
    c, i] = src[n, c] at the place grid[n, i] = (x, y), from -1 to 1, as ONNX's GridSample defines it; f32, all
    dense.
    """

def group_norm(
    n: int,
    channels: int,
    groups: int,
    spatial: Sequence[int],
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    epsilon: float,
    affine: bool = False,
    epilogue: Epilogue = ...,
    result: tuple[float, int, int, int] | None = None,
) -> Kernel:
    """run(src (n, channels, spatial), [scale (channels), shift (channels)], epilogue's..., dst (n, channels,
    spatial)): dst = (src - mean) / sqrt(variance + epsilon) * scale + shift, with the mean and variance of each
    group of channels of each image; scale and shift are f32 by channel. Strides: n, channel, spatial; src and
    dst are both channels last or both channels first, with an epilogue channels last. src may be s8 or u8,
    without a scale: a norm of scaled integers is that of the integers with epsilon / scale^2. From integers dst
    may be s8 or u8 as well, with result (scale, zero, low, high): quotients by scale, rounded, plus zero, from
    low to high. The bits are the same for any number of threads.
    """

def im2col(
    layer: LayerSizes, dst_dtype: int, dst_strides: Sequence[int], col_dtype: int, col_strides: Sequence[int]
) -> Kernel:
    """run(dst (n, c, dst_spatial), col (n, src_spatial, kernel, c)): col[n, src position, tap, c] = the element of
    a transposed convolution's dst that the source position meets by the tap, 0 where there is none. Strides
    count elements: n, source axes, kernel axes, c for col; n, c, spatial for dst.
    """

def int8_depthwise(
    layer: LayerSizes,
    dgrad: bool,
    src_dtype: int,
    src_strides: Sequence[int],
    src_zero: int,
    dst_dtype: int,
    dst_strides: Sequence[int],
    result: tuple[float, int, int, int] | None = None,
    bias_dtype: int = 0,
    epilogue: Epilogue = ...,
    isa: str = "",
) -> Kernel:
    """run(src (n, c, spatial), packed, scales (c), [bias (c)], epilogue's..., dst (n, c, spatial)): dst = results
    of the exact sums of (src - src_zero) * weights, as int8_product makes them. Strides: n, c, spatial;
    channels are contiguous.
    """

def int8_depthwise_gather(
    problem: DepthwiseProblem,
    dgrad: bool,
    src_zero: int,
    dst_dtype: int,
    result: tuple[float, int, int, int] | None = None,
    has_bias: bool = False,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(src (n, c, spatial), packed, scales (c), [bias (c)], epilogue's..., dst (n, c, spatial)): dst = results
    of the sums of src * weights, as int8_product makes them. The problem is of s8 or u8, channels last, at
    least 8; packed holds integers in f32, from depthwise_packing. Sums are f32, exact below 2^24.
    """

def int8_depthwise_pack(
    layer: LayerSizes,
    dgrad: bool,
    weights_dtype: int,
    weights_strides: Sequence[int],
    src_dtype: int,
    src_zero: int,
    isa: str = "",
) -> Kernel:
    """run(weights (c, kernel), packed): packed = weights for int8_depthwise. dgrad: for a transposed convolution.
    The zero point of weights in u8 is 128.
    """

def int8_depthwise_size(layer: LayerSizes, dgrad: bool, isa: str = "") -> int:
    """Returns the bytes of the packed weights of int8_depthwise."""

def int8_isa() -> tuple[str, str]:
    """Returns the instruction set of 8-bit products, or '' for none; and why no better one is used, or ''."""

def int8_layout(channels: int, src_dtype: int, isa: str = "") -> tuple[int, int, bool]:
    """Returns the layout of rows: bytes of an element, elements of a position, and whether src is rows as it lies."""

def int8_pack(
    problem: FilterProblem,
    direction: str,
    weights_dtype: int,
    weights_strides: Sequence[int],
    channels: int,
    has_points: bool = False,
    threads: int = 0,
    isa: str = "",
) -> Kernel:
    """run(weights (in_channels, out_channels / groups, kernel), [points (out_channels)], packed): packed = weights
    for int8_product, with the strides of filter_pack; sets that multiply words take tiles of several results.
    weights are s8 or u8, points s32. channels: how many in channels of a group the weights have; the weights of
    the others, which fill up a position of rows, are zero.
    """

def int8_pack_subtracts(isa: str = "") -> bool:
    """Returns whether int8_pack takes the zero points of weights, rather than int8_product."""

def int8_packed_size(problem: FilterProblem, direction: str, isa: str = "") -> int:
    """Returns the bytes of the packed weights of int8_product."""

def int8_packing(problem: FilterProblem, direction: str, isa: str = "") -> bytes:
    """Returns the parameters of int8_pack as bytes, as FilterProblem.packing does for filter_pack."""

def int8_product(
    problem: FilterProblem,
    direction: str,
    rows_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    src_dtype: int,
    src_zero: int,
    result: tuple[float, int, int, int] | None = None,
    has_points: bool = False,
    bias_dtype: int = 0,
    channels: int = 0,
    threads: int = 0,
    epilogue: Epilogue = ...,
    isa: str = "",
    has_scale: bool = False,
    has_zero: bool = False,
    residual: tuple[int, float, int, tuple[float, int, int, int] | None] | None = None,
) -> ScratchKernel:
    """run(rows, packed, scales (out_channels), [scale (1)], [zero (1)], [bias (out_channels)], [points
    (out_channels)], [residual], epilogue's..., scratch, dst): dst = scale * scales * sum + bias and the
    epilogue, where sum is exact: the sum of (rows - zero) * (weights - points). scales and bias are f32 for all
    out channels; scale is a factor of all of them; zero, in src's type, takes the place of src_zero; points are
    zero points of the weights in s32, for sets that multiply bytes. result, of a dst of s8 or u8, is (scale,
    zero, low, high): quotients by scale, rounded, plus zero, from low to high; a dst of s32 has the sums
    without scales. channels: as of int8_pack, 0: all. residual is (dtype, scale, zero, result): to integers by
    its result, (residual - zero) * scale is added before the quotients of dst; the operand is laid out as dst.
    """

def int8_rows(
    sizes: Sequence[int],
    strides: Sequence[int],
    channels: int,
    src_dtype: int,
    src_zero: int,
    threads: int = 0,
    isa: str = "",
    before: int = 0,
    pitch: int = 0,
    has_zero: bool = False,
) -> Kernel:
    """run(src (sizes, channels), [zero (1)], rows): rows[position, before + c] = src[position, c]: the left factor
    of int8_product. sizes and strides are those of all axes but the channels, which are contiguous. src_zero,
    or the operand zero of src's type, fills up `before` elements before the channels and the rest of `pitch`
    after them; a pitch of 0 is that of int8_layout.
    """

def isa() -> str:
    """Returns the instruction set in use: 'avx2' or 'avx512'."""

def isa_reason() -> str:
    """Returns why no wider set is used, or ''."""

def isfinite(items: Sequence[tuple[Sequence[int], int, Sequence[int]]]) -> Kernel:
    """run(src..., flag): flag = whether any element of the sources is Inf or NaN, as one s32. Each item is a
    shape, a data type (f32, bf16 or f16) and strides.
    """

def layer_norm(
    rows: int,
    width: int,
    src_dtype: int,
    src_pitch: int,
    dst_dtype: int,
    dst_pitch: int,
    epsilon: float,
    affine: bool = False,
) -> Kernel:
    """run(src (rows, width), [scale (width), shift (width)], dst (rows, width)): dst = (src - mean) /
    sqrt(variance + epsilon) * scale + shift, with the mean and variance of each row of neighbours; rows lie
    pitches apart, scale and shift are f32.
    """

def max_pool_gradient(
    n: int,
    c: int,
    src_spatial: Sequence[int],
    dst_spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    dtype: int,
    src_strides: Sequence[int],
    diff_strides: Sequence[int],
    to_strides: Sequence[int],
) -> Kernel:
    """run(src (n, c, src_spatial), diff_dst (n, c, dst_spatial), diff_src f32 (n, c, src_spatial)): diff_src = the
    gradient of a max pool: the element of diff_dst of each window is added at the window's first largest
    element of src. Strides: n, c, spatial; channels are contiguous.
    """

def mix_axis(
    outer: int,
    size: int,
    inner: int,
    dtype: int,
    starts: Sequence[int],
    sources: Sequence[int],
    weights: Sequence[float],
) -> Kernel:
    """run(src (outer, size, inner), dst f32 (outer, results, inner)): dst[o, r, j] = the sum of weights[i] *
    src[o, sources[i], j] for i from starts[r] up to starts[r + 1]; there is one result fewer than starts.
    """

def pool(
    n: int,
    c: int,
    src_spatial: Sequence[int],
    dst_spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    average: bool,
    exclude_pad: bool,
    scales: tuple[float, int, float, int] | None = None,
) -> Kernel:
    """run(src (n, c, src_spatial), dst (n, c, dst_spatial)): dst = the largest element of each window of src, or
    the mean. Strides: n, c, spatial; channels are contiguous. Results have src's type. With scales (scale and
    zero point of src, of dst) src is of 8-bit integers, dst too or f32: largest and sums are exact, and rounded
    once, ties to even.
    """

def recurrent(
    cell: str, steps: int, batch: int, width: int, size: int, backwards: bool, row_step: int, packed: bool = False
) -> Kernel:
    """run(src (steps, batch, width), input_weights (gates, size, width), input_bias (gates, size), weights (gates,
    size, size), bias (size), h (batch, size), c (batch, size), rows, last_h (batch, size), last_c (batch,
    size)): rows[t] = h of step t of one direction, in f32. input_bias holds all biases but `bias`, which
    gru_before_reset adds to the new state's product; weights are those of the state. The gates are i, o, f, c
    (lstm) or z, r and the new state (gru). Only lstm reads and writes c and last_c. h of step t lies at t *
    row_step. packed: both weights come packed.
    """

def recurrent_pack(cell: str, width: int, size: int) -> Kernel:
    """run(input_weights (gates, size, width), weights (gates, size, size), packed_input_weights, packed_weights):
    packed_input_weights, packed_weights = both weights for recurrent with packed=True, in f32.
    """

def recurrent_packed(cell: str, width: int, size: int) -> list[int]:
    """Returns the floats of packed_input_weights and of packed_weights."""

def reduce(
    kind: str,
    shape: Sequence[int],
    reduced: Sequence[bool],
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    scales: tuple[float, int, float, int] | None = None,
) -> Kernel:
    """run(src (shape), dst (shape)): dst = sum, mean, max, min, prod, l1 (sum of magnitudes) or l2 (root of the
    sum of squares) of src over the axes that are `reduced`, none of size 0; the strides of dst on these are
    ignored. Results are f32 or of src's type. With scales (scale and zero point of src, of dst) src is of 8-bit
    integers, dst too or f32: sum, mean and max are exact, and rounded once, ties to even.
    """

def resample(
    n: int,
    c: int,
    src_spatial: Sequence[int],
    dst_spatial: Sequence[int],
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    linear: bool,
    align_corners: bool,
    scales: tuple[float, int, float, int] | None = None,
) -> Kernel:
    """run(src (n, c, src_spatial), dst (n, c, dst_spatial)): dst = src at each result's place: the nearest
    element, or linear between its neighbours. Strides: n, c, spatial; channels are contiguous. Results have
    src's type. With scales (scale and zero point of src, of dst) src is of 8-bit integers, dst too or f32:
    their values are mixed in f32.
    """

def rms_norm(
    rows: int,
    width: int,
    src_dtype: int,
    src_pitch: int,
    dst_dtype: int,
    dst_pitch: int,
    epsilon: float,
    scaled: bool = False,
) -> Kernel:
    """run(src (rows, width), [scale (width)], dst (rows, width)): dst = src / sqrt(mean of src^2 + epsilon) *
    scale for each row of neighbours; rows lie pitches apart, scale is f32.
    """

def rotary(
    shape: Sequence[int], half: int, strides: Sequence[Sequence[int]], interleaved: bool = False, whole: bool = False
) -> Kernel:
    """run(src (shape, 2 half), cos (shape, half), sin (shape, half), dst (shape, 2 half)): dst = (a cos - b sin, b
    cos + a sin) for pairs (a, b) of 2 * half neighbours, in f32. Pairs are elements i and half + i or, if
    interleaved, 2 i and 2 i + 1. whole: cos and sin have further numbers for the second of each pair. Strides
    of each operand are those of the axes of shape.
    """

def row_product(
    images: int,
    rows: int,
    columns: int,
    depth: int,
    a_dtype: int,
    a_strides: Sequence[int],
    b_dtype: int,
    b_strides: Sequence[int],
    c_dtype: int,
    c_strides: Sequence[int],
    bias_dtype: int = 0,
    bias_axis: int = 1,
    epilogue: Epilogue = ...,
    epilogue_channels: int = 0,
    epilogue_sizes: Sequence[int] = (),
    epilogue_strides: Sequence[int] = (),
) -> Kernel:
    """run(a (images, rows, depth), b (images, columns, depth), [bias (columns or rows)], epilogue's..., c (images,
    rows, columns)): c[n, i, j] = bias[j] + sum over k of a[n, i, k] * b[n, j, k]; bias[i] where bias_axis is 0.
    Each operand is f32, bf16 or f16; sums are f32 and rounded once. Strides count elements: image, row and
    depth for a and b, one of whose last two has to be 1; image, row and column for c. Images of c with the
    stride 0 are summed. A bias_dtype of 0 means no bias. The epilogue is for c's channels, with the sizes and
    strides of its other axes, images first; columns are contiguous then.
    """

def row_product_work(rows: int, columns: int, depth: int, isa: str = "") -> Work:
    """Returns the work of row_product. depth: of all images together. Its weights are elements of the right factor
    that are transposed.
    """

def row_tiling(
    bands: RowBands,
    calls: Sequence[Sequence[tuple[Kernel, Sequence[tuple[int, int, int, int, bool, int]]]]],
    operands: int,
    scratch_bytes: int,
) -> Kernel:
    """run(sources..., scratch, dst): For each of the bands' parts a list of (kernel, its operands), which a thread
    runs in order, with scratch_bytes of scratch memory. An operand is (number of one of the `operands` here,
    from the end if negative; offset in bytes; bytes from image to image; from row to row; whether rows are the
    source's; the layer whose result in scratch it is, -1 for none).
    """

def scatter(problem: IndexProblem, how: str = "none") -> Kernel:
    """run(data (outer, sizes, row), indices, updates (outer, count, row), dst (outer, sizes, row)): dst = data,
    then each row at indices becomes its update (none; any item), or is combined with it in order, in f32: add,
    mul, max or min; the last two give NaN for any NaN.
    """

def select(shape: Sequence[int], strides: Sequence[Sequence[int]], item: int) -> Kernel:
    """run(cond (shape), src_0 (shape), src_1 (shape), dst (shape)): dst = src_0 where cond, of bytes, is not 0,
    else src_1. strides of each operand count elements of `item` bytes (1, 2, 4 or 8), and are 0 where it is
    stretched.
    """

def softmax(
    shape: Sequence[int],
    axis: int,
    src_dtype: int,
    src_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    logarithm: bool = False,
) -> Kernel:
    """run(src (shape), dst (shape)): dst = softmax of src over an axis, or its logarithm. In both src and dst the
    elements of the axis are neighbours, or those of another axis.
    """

def softmax_gradient(outer: int, length: int, inner: int, dtype: int, logarithm: bool = False) -> Kernel:
    """run(diff_dst (outer, length, inner), dst (outer, length, inner), diff_src (outer, length, inner)): diff_src
    = dst * (diff_dst - the sum of diff_dst * dst over the middle axis), or for the logarithm diff_dst - e^dst *
    the sum of diff_dst; all dense.
    """

def topk(outer: int, length: int, inner: int, count: int, largest: bool = True, has_values: bool = True) -> Kernel:
    """run(src (outer, length, inner), [values (outer, count, inner)], indices (outer, count, inner)): values,
    indices = the `count` largest (or smallest) f32 along the length, in order, and their indices in s64; all
    dense. Of equal values the first comes first; NaN counts as the largest.
    """

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
    """One kernel a channel, or groups of `width` channels in and out, 1 to 3 spatial axes. Strides count elements:
    n, c, spatial for src and dst; c, kernel for the weights, or group, in channel, out channel, kernel. Sums
    are f32.
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
    and operands, numbered from OPERANDS; operands are (spread, data type).
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
    """A transposed convolution, channels last. `tile`: results per tile and axis: 1 is the direct form of that
    axis, for any kernel; Winograd has 2, 3 and 4 for two taps per phase, 2 and 4 for three, without dilation; 4
    on the last two axes, alike. `any_size`: weights are packed as for large sizes, whatever the sizes are.
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
        """bf16 elements of the weights that bf16_product takes."""
    def bf16_packing(self, direction: str) -> bytes:
        """As `packing`, for bf16_pack."""
    def col2im_refusal(self) -> str:
        """Why col2im_product does not compute the layer; empty if it does."""
    def packed_size(self, direction: str) -> int:
        """f32 elements of the packed weights of 'dgrad' or 'fprop'."""
    def packing(self, direction: str) -> bytes:
        """What the packed weights depend on besides the weights' own layout and data: equal bytes, equal packing."""
    def refusal(self) -> str:
        """Why no filter kernel computes the layer; empty if they do."""
    def taps_apart(self) -> FilterProblem:
        """The layer whose packed weights col2im_product takes for this one."""

@final
class IndexProblem:
    """Rows of data (outer, *sizes, row) of `item` bytes an element. Indices (count, axes), or with `each` (outer,
    count, row) on one axis; negative ones count from the end.
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
class Work:
    """What a run of a kernel comes to; estimates of its time go by that."""

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
    dst (batch, rows, width)): f32: dst = softmax(scale * q k' + the masks) v. Strides of each: the batch's
    axes, then row and depth of q, key and depth of k, key and width of v, row and key of a mask, row and width
    of dst. zeros: rows of shares that become zeros: none, nan: those of NaN, unseen: those whose scores all are
    -Inf; seen: of each row, the keys from the first on that count at all.
    """

def bf16_isa() -> tuple[str, str]:
    """The instruction set of narrow products: 'amx', 'avx512bf16', 'emulated', or '' for none; and why no better
    one is used, or ''.
    """

def bf16_pack(
    problem: FilterProblem,
    direction: str,
    weights_dtype: int,
    weights_strides: Sequence[int],
    threads: int = 0,
    isa: str = "",
) -> Kernel:
    """run(weights (in_channels, out_channels / groups, kernel), packed): as filter_pack; packed is bf16, and so
    are weights where tiles have one result.
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
    """run(src, packed, [bias], epilogue's..., scratch, dst): as filter_dgrad or filter_fprop: packed is bf16, and
    so is src where tiles have one result; sums f32.
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
    (in_channels, out_channels / groups, kernel)): src and diff_dst in bf16, sums in f32, diff_weights in
    either. The same sums for the same number of threads.
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
    """run(col (n, src_spatial, kernel, c), [bias (c)], epilogue's..., dst (n, c, dst_spatial)): dst = bias + the
    sum of the f32 columns that meet a position; the reverse of im2col.
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
    out_spatial, out_channels)): as filter_dgrad; packed: of problem.taps_apart(). One group, a last axis
    without dilation.
    """

def col2im_takes_epilogue(channels: int, dst_strides: Sequence[int]) -> bool:
    """Whether col2im takes an epilogue for so many channels and these strides of dst."""

def col2im_work(problem: FilterProblem, isa: str = "") -> Work:
    """Of col2im_product."""

def copy(
    shape: Sequence[int], src_dtype: int, src_strides: Sequence[int], dst_dtype: int, dst_strides: Sequence[int]
) -> Kernel:
    """run(src (shape), dst (shape)): dst = src, element by element, converted."""

def copy_list(
    items: Sequence[tuple[Sequence[int], int, Sequence[int], int, Sequence[int]]],
    src_dtype: int,
    dst_dtype: int,
    zero_elements: int = 0,
) -> Kernel:
    """run(src, dst): dst[0:zero_elements] = 0, then every item (shape, src_offset, src_strides, dst_offset,
    dst_strides) as a copy.
    """

def cumsum(outer: int, length: int, inner: int, exclusive: bool = False, reverse: bool = False) -> Kernel:
    """run(src (outer, length, inner), dst (outer, length, inner)): f32 in a row: dst = the sums of src along the
    length up to each element, made in f64 and rounded once. exclusive: without the element itself; reverse:
    from the end.
    """

def depthwise_dgrad(
    problem: DepthwiseProblem,
    has_bias: bool = False,
    bias_dtype: int | None = None,
    packed: bool = False,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(src (n, c, src_spatial), weights (c, kernel), [bias (c)], epilogue's..., dst (n, c, dst_spatial)):
    transposed convolution.
    """

def depthwise_fprop(
    problem: DepthwiseProblem,
    has_bias: bool = False,
    bias_dtype: int | None = None,
    packed: bool = False,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(diff_dst (n, c, dst_spatial), weights (c, kernel), [bias (c)], epilogue's..., diff_src (n, c,
    src_spatial)): bias and epilogue are those of an ordinary convolution.
    """

def depthwise_packing(problem: DepthwiseProblem, dgrad: bool) -> tuple[Kernel, int, list[int], list[int]]:
    """run(weights (c, kernel), packed): for kernels of the direction with packed=True; the floats of packed, and
    the shape and the strides there of what is copied.
    """

def depthwise_wgrad(problem: DepthwiseProblem) -> Kernel:
    """run(src (n, c, src_spatial), diff_dst (n, c, dst_spatial), diff_weights (c, kernel)): the same sums for any
    number of threads. No groups.
    """

def elementwise(
    shape: Sequence[int],
    steps: Sequence[tuple[str, int, int, int, float, float]],
    operands: Sequence[tuple[int, Sequence[int]]],
    dst_dtype: int,
    dst_strides: Sequence[int],
) -> Kernel:
    """run(operands (shape)..., dst (shape)): element-wise steps as of Epilogue, but no register is written at
    first and the last step alone writes register 0. Operands are (data type, strides), each f32, bf16 or f16;
    strides may be 0. dst may be an operand of the same strides and item size.
    """

def elementwise_int(
    op: str, shape: Sequence[int], strides: Sequence[Sequence[int]], src_dtype: int, dst_dtype: int
) -> Kernel:
    """run(src_0 (shape), [src_1 (shape)], dst (shape)): an element-wise op on numbers or truth values as they are;
    strides: of each operand, in elements, 0 where it is stretched.
    """

def epilogue(epilogue: Epilogue, positions: Sequence[int], channels: int, strides: Sequence[int]) -> Kernel:
    """run(epilogue's..., dst (positions, channels)): the post-ops on dst itself, f32, channels last; positions:
    the sizes of its axes without the channels, images first, and their strides.
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
    """run(src (n, channels, src_spatial), diff_dst (n, c, dst_spatial), diff_weights (channels, c, kernel)): wgrad
    of the layers of few_channels_product, strides as of few_channels_product and few_channels_pack; the same
    sums for the same number of threads.
    """

def few_channels_pack(layer: LayerSizes, channels: int, weights_dtype: int, weights_strides: Sequence[int]) -> Kernel:
    """run(weights (channels, c, kernel), packed): Strides: channel of src, channel of dst, kernel."""

def few_channels_packed_size(layer: LayerSizes, channels: int) -> int:
    """f32 elements of the packed weights."""

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
    src_spatial)): fprop of a layer whose dst has c channels, few, and src `channels`. Strides: n, channel,
    spatial; bias_dtype 0 means none. Sums are f32.
    """

def few_channels_refusal(layer: LayerSizes) -> str:
    """Why few_channels_product does not compute a layer whose dst has c channels; empty if it does."""

def fill(shape: Sequence[int], dtype: int, strides: Sequence[int], value: float) -> Kernel:
    """run(dst (shape)): dst = value."""

def fill_channel(shape: Sequence[int], dtype: int, dst_strides: Sequence[int], axis: int, bias_dtype: int) -> Kernel:
    """run(bias (shape[axis]), dst (shape)): dst = bias of the element's index on `axis`."""

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
    out_spatial, out_channels)): bias_dtype 0 means none. Strides: batch, then spatial axes; the channels are
    contiguous.
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
    diff_src (batch, in_spatial, in_channels)): bias and epilogue are those of an ordinary convolution.
    """

def filter_pack(
    problem: FilterProblem, direction: str, weights_dtype: int, weights_strides: Sequence[int], threads: int = 0
) -> Kernel:
    """run(weights (in_channels, out_channels / groups, kernel), packed): weights_strides: in channel, out channel
    (of one group), taps; the in channels of the groups follow each other. threads 0: as many as OpenMP gives.
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
    """Of filter_* between dense activations, channels last; isa: of another CPU."""

def gather(
    outer: int, sizes: Sequence[int], inner: int, rows: int, item: int, index: int, batched: bool = False
) -> Kernel:
    """run(src (outer, sizes, inner), places (outer if batched, rows, len(sizes)), dst (outer, rows, inner)): all
    in a row, src of `item` and places of `index` bytes: dst[o, r] = src[o, places[o, r]]. Places below 0 count
    from the end; what lies outside is an error.
    """

def gather_elements(problem: IndexProblem) -> Kernel:
    """run(data (outer, sizes, row), indices, dst (outer, count, row)): dst = the elements, each by its own index."""

def gathers_groups(channels: int, width: int) -> bool:
    """Whether groups of `width` of all channels have kernels on this CPU."""

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
    """run(src (images, channels, height, width), grid (images, places, 2), dst (images, channels, places)): f32 in
    a row: images read at x and y from -1 to 1, as ONNX's GridSample has them.
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
) -> Kernel:
    """run(src (n, channels, spatial), [scale (channels), shift (channels)], epilogue's..., dst (n, channels,
    spatial)): each group of channels of each image to mean 0 and variance 1, then scaled and shifted by channel
    (f32). Strides: n, channel, spatial; src and dst are both channels last or both channels first, with an
    epilogue channels last. The same bits for any number of threads.
    """

def im2col(
    layer: LayerSizes, dst_dtype: int, dst_strides: Sequence[int], col_dtype: int, col_strides: Sequence[int]
) -> Kernel:
    """run(dst (n, c, dst_spatial), col (n, src_spatial, kernel, c)): the positions of a transposed convolution's
    dst that every source position meets, zero where there is none. Strides count elements: n, source axes,
    kernel axes, c for col; n, c, spatial for dst.
    """

def int8_depthwise(
    layer: LayerSizes,
    dgrad: bool,
    src_dtype: int,
    src_strides: Sequence[int],
    src_zero: int,
    dst_dtype: int,
    dst_strides: Sequence[int],
    dst_scale: float = 1.0,
    dst_zero: int = 0,
    dst_low: int = -128,
    dst_high: int = 255,
    bias_dtype: int = 0,
    epilogue: Epilogue = ...,
    isa: str = "",
) -> Kernel:
    """run(src (n, c, spatial), packed, scales (c), [bias (c)], epilogue's..., dst (n, c, spatial)): Strides: n, c,
    spatial, channels contiguous. Sums are exact; results as of int8_product.
    """

def int8_depthwise_gather(
    problem: DepthwiseProblem,
    dgrad: bool,
    src_zero: int,
    dst_dtype: int,
    dst_scale: float = 1.0,
    dst_zero: int = 0,
    dst_low: int = -128,
    dst_high: int = 255,
    has_bias: bool = False,
    epilogue: Epilogue = ...,
) -> Kernel:
    """run(src (n, c, spatial), packed, scales (c), [bias (c)], epilogue's..., dst (n, c, spatial)): a problem of
    s8 or u8, channels last; packed: as depthwise_packing wrote it, of whole numbers. Sums are f32, exact where
    they stay below 2^24; results as of int8_product.
    """

def int8_depthwise_gathers(problem: DepthwiseProblem) -> bool:
    """Whether int8_depthwise_gather takes a problem."""

def int8_depthwise_pack(
    layer: LayerSizes,
    dgrad: bool,
    weights_dtype: int,
    weights_strides: Sequence[int],
    src_dtype: int,
    src_zero: int,
    has_points: bool = False,
    isa: str = "",
) -> Kernel:
    """run(weights (c, kernel), [points (c)], packed): dgrad: of a transposed convolution. points: zero points in
    s32, for sets that multiply words; u8 has the zero point 128 for the others.
    """

def int8_depthwise_size(layer: LayerSizes, dgrad: bool, isa: str = "") -> int:
    """Bytes of the weights that int8_depthwise takes."""

def int8_isa() -> tuple[str, str]:
    """The instruction set of integer products, or '' for none; and why no better one is used, or ''."""

def int8_layout(channels: int, src_dtype: int, isa: str = "") -> tuple[int, int, bool]:
    """Of rows: bytes of an element, elements of a position, and whether src is its rows as it lies."""

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
    """run(weights (in_channels, out_channels / groups, kernel), [points (out_channels)], packed): as filter_pack,
    tiles of several results where the set multiplies words; weights are s8 or u8, points s32. channels: of a
    group, what weights have of those that are read; the others fill up a position of rows, and their weights
    are zero.
    """

def int8_pack_subtracts(isa: str = "") -> bool:
    """Whether zero points of weights go to int8_pack rather than to int8_product."""

def int8_packed_size(problem: FilterProblem, direction: str, isa: str = "") -> int:
    """Bytes of the weights that int8_product takes."""

def int8_packing(problem: FilterProblem, direction: str, isa: str = "") -> bytes:
    """As FilterProblem.packing, for int8_pack."""

def int8_product(
    problem: FilterProblem,
    direction: str,
    rows_strides: Sequence[int],
    dst_dtype: int,
    dst_strides: Sequence[int],
    src_dtype: int,
    src_zero: int,
    dst_scale: float = 1.0,
    dst_zero: int = 0,
    dst_low: int = -128,
    dst_high: int = 255,
    has_points: bool = False,
    bias_dtype: int = 0,
    position: int = 0,
    threads: int = 0,
    epilogue: Epilogue = ...,
    isa: str = "",
    has_scale: bool = False,
    has_zero: bool = False,
) -> ScratchKernel:
    """run(rows, packed, scales (out_channels), [scale (1)], [zero (1)], [bias (out_channels)], [points
    (out_channels)], [sums], epilogue's..., scratch, dst): Sums are exact; scales and bias are f32 of all out
    channels; scale: a factor of all of them; zero: src's zero point, in src's type, in place of src_zero;
    points: zero points of the weights in s32; sums: of int8_sums. Results in s8 or u8, from dst_low to
    dst_high, are rounded quotients by dst_scale, plus dst_zero; in s32 they are the sums, without scales.
    `position`: elements of dst from one position to the next; strides of dst are multiples of it.
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
    """run(src (sizes, channels), [zero (1)], rows): Sizes and strides: of all axes but the channels, which are
    contiguous; src_zero: src's zero point, which may be an operand of src's type, and fills up `before`
    elements before the channels, and what is left of `pitch` behind them; 0: as int8_layout says.
    """

def int8_sums(
    problem: FilterProblem,
    direction: str,
    rows_strides: Sequence[int],
    channels: int,
    src_dtype: int,
    src_zero: int,
    threads: int = 0,
    has_zero: bool = False,
) -> Kernel:
    """run(rows, [zero (1)], sums): The sums in s32 of what each position of dst reads in each group, (batch,
    spatial, groups), of rows of bytes less src's zero point, which may be an operand of src's type. channels:
    of a group, the first of a position of rows.
    """

def isa() -> str:
    """The instruction set in use: 'avx2' or 'avx512'."""

def isa_reason() -> str:
    """Why that is not a wider one, or ''."""

def isfinite(items: Sequence[tuple[Sequence[int], int, Sequence[int]]]) -> Kernel:
    """run(src..., flag): flag, one s32, = whether any element of the sources is Inf or NaN. Each item is a shape,
    a data type (f32, bf16 or f16) and strides.
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
    """run(src (rows, width), [scale (width), shift (width)], dst (rows, width)): rows of neighbours, pitches
    apart, less their means, divided by the roots of their variances plus epsilon, then scaled and shifted
    (f32).
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
    """run(src (n, c, src_spatial), diff_dst (n, c, dst_spatial), diff_src f32 (n, c, src_spatial)): the gradient
    of the largest element of each window, which goes to the first of the largest. Strides: n, c, spatial;
    channels lie side by side.
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
    """run(src (outer, size, inner), dst f32 (outer, results, inner)): Weighted sums along an axis: result r, of
    one less than there are starts, is the sum of weights[i] times the element sources[i], for i from starts[r]
    up to starts[r + 1].
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
    """run(src (n, c, src_spatial), dst (n, c, dst_spatial)): the largest of each window, or the mean. Strides: n,
    c, spatial; channels lie side by side. Results have src's type. With scales (scale and zero point of src, of
    dst) src is of 8-bit integers, dst too or f32: largest and sums are exact, and rounded once, ties to even.
    """

def recurrent(
    cell: str, steps: int, batch: int, width: int, size: int, backwards: bool, row_step: int, packed: bool = False
) -> Kernel:
    """run(src (steps, batch, width), input_weights (gates, size, width), input_bias (gates, size), weights (gates,
    size, size), bias (size), h (batch, size), c (batch, size), rows, last_h (batch, size), last_c (batch,
    size)): all f32: one direction. input_bias holds all biases but `bias`, that gru_before_reset adds to the
    new state's product; weights: of the state. The gates are i, o, f, c (lstm) or z, r and the new state (gru).
    c and last_c are read and written for lstm only; rows: h of step t at t * row_step. packed: both weights
    come so.
    """

def recurrent_pack(cell: str, width: int, size: int) -> Kernel:
    """run(input_weights (gates, size, width), weights (gates, size, size), packed_input_weights, packed_weights):
    all f32.
    """

def recurrent_packed(cell: str, width: int, size: int) -> list[int]:
    """The floats of packed_input_weights and of packed_weights."""

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
    """run(src (shape), dst (shape)): sum, mean, max, min, prod, l1 (sum of magnitudes) or l2 (root of the sum of
    squares) over the axes that are `reduced`, none of size 0. The strides of dst on these do not count. Results
    are f32 or of src's type. With scales (scale and zero point of src, of dst) src is of 8-bit integers, dst
    too or f32: sum, mean and max are exact, and rounded once, ties to even.
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
    """run(src (n, c, src_spatial), dst (n, c, dst_spatial)): linear between, or the nearest of, the elements.
    Strides: n, c, spatial; channels lie side by side. Results have src's type. With scales (scale and zero
    point of src, of dst) src is of 8-bit integers, dst too or f32: what they stand for is mixed in f32.
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
    """run(src (rows, width), [scale (width)], dst (rows, width)): rows of neighbours, pitches apart, divided by
    the roots of their mean squares plus epsilon, and scaled (f32).
    """

def rotary(
    shape: Sequence[int], half: int, strides: Sequence[Sequence[int]], interleaved: bool = False, whole: bool = False
) -> Kernel:
    """run(src (shape, 2 half), cos (shape, half), sin (shape, half), dst (shape, 2 half)): f32: pairs (a, b) of 2
    * half neighbours become a cos - b sin and b cos + a sin; they are i and half + i, or, interleaved, 2 i and
    2 i + 1. whole: cos and sin have further numbers for the second of each pair. Strides of each operand for
    the axes of shape.
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
    Each is f32, bf16 or f16; sums are f32 and rounded once. Strides count elements: image, row and depth for a
    and b, one of whose last two has to be 1; image, row and column for c. Images of c with the stride 0 are
    summed. A bias_dtype of 0: no bias. The epilogue is for c's channels, with the sizes and strides of its
    other axes, images first; columns are contiguous then.
    """

def row_product_work(rows: int, columns: int, depth: int, isa: str = "") -> Work:
    """Of row_product; depth: of all images. weights: elements of the right factor that are put across."""

def row_tiling(
    kernels: Sequence[Kernel],
    tasks: Sequence[Sequence[tuple[int, Sequence[tuple[int, int]]]]],
    operands: int,
    scratch_bytes: int,
    threads: int,
) -> Kernel:
    """run(sources..., scratch, dst): every task is a list of (number of a kernel, its operands as (number of one
    of the `operands` here, offset in bytes)) that a thread runs in order, with scratch_bytes of scratch of its
    own.
    """

def scatter(problem: IndexProblem, how: str = "none") -> Kernel:
    """run(data (outer, sizes, row), indices, updates (outer, count, row), dst (outer, sizes, row)): dst = data
    with updates in the place of rows (none), of any item, or of f32 combined with them in their order: add,
    mul, max or min, the last two NaN of any NaN.
    """

def select(shape: Sequence[int], strides: Sequence[Sequence[int]], item: int) -> Kernel:
    """run(cond (shape), src_0 (shape), src_1 (shape), dst (shape)): src_0 where cond, of bytes, is not 0, else
    src_1; strides: of each operand, in elements of `item` bytes (1, 2, 4 or 8), 0 where it is stretched.
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
    """run(src (shape), dst (shape)): softmax over an axis, or its logarithm. In both src and dst the elements of
    the axis are neighbours, or those of another axis.
    """

def softmax_gradient(outer: int, length: int, inner: int, dtype: int, logarithm: bool = False) -> Kernel:
    """run(diff_dst (outer, length, inner), dst (outer, length, inner), diff_src (outer, length, inner)): the
    gradient of a softmax over the middle axis, or of its logarithm, from the results dst; all in a row.
    """

def topk(outer: int, length: int, inner: int, count: int, largest: bool = True, has_values: bool = True) -> Kernel:
    """run(src (outer, length, inner), [values (outer, count, inner)], places (outer, count, inner)): f32, and s64
    for places, in a row: the largest or smallest along the length in their order, of equal ones the first; NaN
    counts as the largest.
    """

"""Works around defects of the library's kernels by copies around a native step.

Copies replace views that the library cannot describe, misreads or is slow on; convolutions and gradients of weights
that it computes wrong are computed in f32, or from a padded source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from .. import dtypes, schema
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import FPROP, WGRAD, ConvProblem
from ..ir.rewrites import Rewrite
from ..program.program import (
    Ints,
    NativeOp,
    NativeStep,
    Operand,
    Place,
    Program,
    Step,
    View,
    describable,
    is_dense,
    order_of,
)
from ..runtime import cpu
from ..strides import channels_last

COPY_VIEWS = Rewrite(
    "copy_views",
    "an op of the library runs on copies of views that it cannot describe, misreads, or is slow on",
    (
        "one element stands for several",
        "the axes lie in an order that it misreads",
        "16 MB or more are written to the caller's array",
    ),
)
WIDEN_GRADIENT = Rewrite(
    "widen_gradient",
    "a gradient of weights in bf16 or f16 is the one in f32, rounded",
    ("it is not in f32", "its window is longer than the source, or in padding alone"),
)
WIDEN_CONVOLUTION = Rewrite(
    "widen_convolution",
    "a convolution in bf16 or f16 is the one in f32, rounded",
    ("it is not in f32", "tiles hold channels of several taps, or cross from depth to depth"),
)
PAD_GRADIENT = Rewrite(
    "pad_gradient",
    "a gradient of weights is that of a source with its padding in front",
    ("there are three spatial axes", "its window leaves the padding in front over the end"),
)
_WIDE = "f32"
_TILE_DEPTH = 32  # elements of bf16 or f16 in a row of a tile


def staged(step: NativeStep, literal: bool = False, tiles: bool = False) -> list[Step]:
    """Returns steps instead of a native step: copies around it, so that the library computes it right and fast.

    `literal`: leaves out the copies that only make the step faster. `tiles`: the library multiplies bf16 in tiles.
    """
    program = Program(step.group, step.condition)
    if (len(step.ops) == 1 and _is_widened(step.ops[0])) or (tiles and any(map(_is_widened_of_tiles, step.ops))):
        floats = (view for view in _views(step) if view.dtype in (_WIDE, *cpu.HALVES))
        twins = {view: program.scratch(view.shape, _WIDE, order_of(view)) for view in floats}
        return _on_copies(program, step, twins, staged, "to f32", "from f32")
    ops = tuple(_with_zeros_in_front(program, op) for op in step.ops)
    if program.steps:
        step = replace(step, ops=ops)
    misread = {view for op in step.ops for view in _misread(op)}
    odd = [view for view in _views(step) if view.size and (view in misread or not _taken(view))]
    twins = {} if literal else {view: program.scratch(view.shape, view.dtype, order) for view, order in _slow(step)}
    twins |= {view: program.like(view, view.dtype) for view in _to_be_aligned(step)}
    twins |= {view: program.scratch(view.shape, view.dtype) for view in odd}
    if twins:
        COPY_VIEWS.fired(step.label)
    return _on_copies(program, step, twins, lambda on: [on], "copy of a strided view", "copy to a strided view")


def _views(step: NativeStep) -> list[View]:
    return list(dict.fromkeys((*step.reads, *step.writes)))


def _on_copies(
    program: Program,
    step: NativeStep,
    twins: Mapping[View, View],
    then: Callable[[NativeStep], list[Step]],
    before: str,
    after: str,
) -> list[Step]:
    """Returns the steps of `program`, the copies to twins, the step on the twins by `then`, and the copies from twins.

    `twins`: the views that are replaced, and their copies.
    """
    reads, writes = step.reads, step.writes
    for view, twin in twins.items():
        if view in reads:
            program.copy(view, twin, before)
    program.steps += then(on_views(step, twins) if twins else step)
    for view, twin in twins.items():
        if view in writes:
            program.copy(twin, view, after)
    return program.steps


def _taken(view: View) -> bool:
    """Whether the library can read this view as it is.

    Seen in 3.2: elementwise ops, PReLU and BatchNorm end in SIGSEGV on one element that is broadcast along all axes.
    """
    spread = [stride for stride, size in zip(view.strides, view.shape, strict=True) if size > 1]
    return describable(view) and (not spread or any(spread))


def _misread(op: NativeOp) -> list[View]:
    """Returns the operands of an op that the library, 3.2, reads wrongly.

    A reduction gives its result the layout of its source: along an axis of stride 0 all results become the same
    element. PReLU reads wrong slopes unless its source and result are both row-major or both channels last.
    """
    views = [item for item in op.inputs if isinstance(item, View)]
    if op.kind.startswith("Reduce") or op.kind == "BiasAddBackward":
        spread = [
            v for v in views if any(stride == 0 < size - 1 for stride, size in zip(v.strides, v.shape, strict=True))
        ]
        if not spread:
            COPY_VIEWS.declined(op.name, "one element stands for several")
        return spread
    if op.kind != "PReLU":
        return []
    wide = [item for item in (views[0], *op.outputs) if isinstance(item, View) and item.ndim > 2]
    last = op.attrs["data_format"] == "NCX" and all(v.permute(channels_last(v.ndim)).row_major for v in wide)
    if last or all(view.row_major for view in wide):
        COPY_VIEWS.declined(op.name, "the axes lie in an order that it misreads")
        return []
    return wide


_VAST_BYTES = 16 << 20


def _to_be_aligned(step: NativeStep) -> list[View]:
    """Returns results in the caller's arrays, aligned or not, that the library writes by non-temporal stores.

    Seen in 3.2: a resampling to 16 MB or more ends in SIGSEGV if the result is not aligned to 64 bytes.
    """
    if all(op.kind != "Interpolate" for op in step.ops):
        return []
    outputs = (view for view in step.writes if view.buffer.place is Place.OUTPUT)
    vast = [view for view in outputs if view.size * dtypes.itemsize(view.dtype) >= _VAST_BYTES]
    if not vast:
        COPY_VIEWS.declined(step.label, "16 MB or more are written to the caller's array")
    return vast


# ops whose kernels in the library take any strides; the library reorders operands itself where it has to
_TAKING_ANY = schema.kinds("any_strides").union(CONV_KINDS)


def _slow(step: NativeStep) -> list[tuple[View, Ints]]:
    """Returns the views for which the library, 3.2, has only reference kernels, with an order of axes for fast ones."""
    head = step.ops[0]
    first = head.inputs[0]
    orders = {}
    if not any(op.kind in _TAKING_ANY for op in step.ops):
        orders = {view: order_of(view) for view in _views(step) if view.size > 1 and not is_dense(view)}
    if head.kind.startswith("Reduce") and isinstance(first, View):
        axes = {axis % first.ndim for axis in head.attrs["axes"]}
        wide = [axis for axis in order_of(first) if first.shape[axis] > 1]
        finest = wide[len(wide) - len(axes.intersection(wide)) :]
        # a reduction over the last axes, which are not the fastest in memory, is fast in row-major order only
        if axes == set(range(first.ndim - len(axes), first.ndim)) and not axes.issuperset(finest):
            orders[first] = tuple(range(first.ndim))
    return list(orders.items())


def on_views(step: NativeStep, twins: Mapping[View, View]) -> NativeStep:
    """Returns the step with the views that have a twin replaced by their twins.

    If twins are in f32, so are the tensors between its ops.
    """
    replaced: dict[Operand, Operand] = dict(twins.items())
    if any(twin.dtype != view.dtype for view, twin in twins.items()):
        edges = (output for item in step.ops for output in item.outputs if not isinstance(output, View))
        replaced |= {edge: replace(edge, dtype=_WIDE) for edge in edges if edge.dtype in cpu.HALVES}

    def op(item: NativeOp) -> NativeOp:
        inputs, outputs = (
            tuple(replaced.get(operand, operand) for operand in some) for some in (item.inputs, item.outputs)
        )
        return replace(item, inputs=inputs, outputs=outputs)

    return replace(step, ops=tuple(map(op, step.ops)))


# gradients of weights, and the input over which the window of taps moves
_WINDOWED = {k: m.inputs.index("x") for k, m in CONV_KINDS.items() if m.direction == WGRAD}


class _Window(NamedTuple):
    """The window of taps on one spatial axis of a gradient of weights.

    Source size, extent of the dilated kernel, number of positions of the window, stride, pads_begin and pads_end.
    """

    size: int
    reach: int
    places: int
    stride: int
    begin: int
    end: int


def _spatial_of(shape: Ints, op: NativeOp) -> Ints:
    """Returns the kernel's sizes, of the shape of an op's weights."""
    return shape[:-2] if op.attrs.get("weights_format", "X").startswith("X") else shape[2:]


def _windows(op: NativeOp) -> list[_Window]:
    """Returns the windows of a gradient of weights by spatial axis; none for other ops, or if an operand is an Edge."""
    if op.kind not in _WINDOWED:
        return []
    source, moved, target = op.inputs[_WINDOWED[op.kind]], op.inputs[1 - _WINDOWED[op.kind]], op.outputs[0]
    if not (isinstance(source, View) and isinstance(moved, View)):
        return []
    attrs, first = op.attrs, _first_axis(op)
    kernel = _spatial_of(target.shape, op)
    return [
        _Window(source.shape[first + i], d * (k - 1) + 1, moved.shape[first + i], stride, begin, end)
        for i, (k, d, stride, begin, end) in enumerate(
            zip(kernel, *(attrs[n] for n in ("dilations", "strides", "pads_begin", "pads_end")), strict=True)
        )
    ]


def _first_axis(op: NativeOp) -> int:
    return 1 if op.attrs.get("data_format", "NXC") == "NXC" else 2


def _with_zeros_in_front(program: Program, op: NativeOp) -> NativeOp:
    """Returns the op, or where the library computes it wrong, the op on a source that includes padding in front.

    A copy of the source, in which the first spatial axis begins with its padding, is appended to `program`.
    """
    windows = _windows(op)
    if not windows:
        return op
    unmet = ""
    if len(windows) != 3:
        unmet = "there are three spatial axes"
    elif not _goes_wrong(windows[0]):
        unmet = "its window leaves the padding in front over the end"
    PAD_GRADIENT.tell(op.name, unmet)
    if unmet:
        return op
    position, axis, (size, *_, pad, _) = _WINDOWED[op.kind], _first_axis(op), windows[0]
    source = op.inputs[position]
    assert isinstance(source, View)
    shape = (*source.shape[:axis], pad + size, *source.shape[axis + 1 :])
    padded = program.scratch(shape, source.dtype, order_of(source))
    program.fill(padded.narrow(axis, 0, pad), 0.0, "zeros in front")
    program.copy(source, padded.narrow(axis, pad, size), "after zeros")
    attrs = {**op.attrs, "pads_begin": (0, *op.attrs["pads_begin"][1:])}
    return replace(op, attrs=attrs, inputs=(*op.inputs[:position], padded, *op.inputs[position + 1 :]))


def _goes_wrong(window: _Window) -> bool:
    """Whether the library computes a 3-D gradient of weights wrong for this window on the first spatial axis.

    It does if the source has padding in front and is shorter than the window. It also does if this padding is longer
    than the stride, and the first window without any of it ends past the source. Seen in oneDNN 3.2 on CPUs with
    AVX-512, in f32 and bf16: the gradients of taps are wrong, or memory after them is overwritten.
    """
    size, reach, places, stride, pad, _ = window
    inside = -(-pad // stride)
    leaves = pad > stride and inside < places and inside * stride - pad + reach > size
    return pad > 0 and (reach > size or leaves)


def _is_widened(op: NativeOp) -> bool:
    """Whether a gradient of weights in bf16 or f16 is computed in f32 instead, and rounded."""
    if op.kind not in _WINDOWED:
        return False
    unmet = ""
    if op.outputs[0].dtype == _WIDE:
        unmet = "it is not in f32"
    elif not wrong_when_narrow(op):
        unmet = "its window is longer than the source, or in padding alone"
    WIDEN_GRADIENT.tell(op.name, unmet)
    return not unmet


def wrong_when_narrow(op: NativeOp) -> bool:
    """Whether the library, computing in bf16, gets this gradient of weights wrong or writes past its memory.

    Seen in oneDNN 3.2 on a CPU with AVX512-BF16, if on some axis the window is longer than the source, or is as long
    and there is padding, or has one position and there is padding. All other random layers were right, and so are these
    in f32.
    """
    padded = ((window, window.begin > 0 or window.end > 0) for window in _windows(op))
    return any(one.reach > one.size - pads or (one.places == 1 and pads) for one, pads in padded)


_FPROP = {kind for kind, conv in CONV_KINDS.items() if conv.direction == FPROP}


def _is_widened_of_tiles(op: NativeOp) -> bool:
    """Whether a convolution in bf16 or f16 is computed in f32 instead, and rounded, as `wrong_in_tiles` says."""
    if op.kind not in _FPROP:
        return False
    (source, weights), y, attrs = op.inputs[:2], op.outputs[0], op.attrs
    unmet = ""
    if source.dtype not in cpu.HALVES:
        unmet = "it is not in f32"
    else:
        channels = source.shape[-1 if attrs.get("data_format", "NXC") == "NXC" else 1]
        kernel, depth = _spatial_of(weights.shape, op), y.shape[_first_axis(op)]
        if not wrong_in_tiles(channels, attrs["groups"], kernel, attrs["strides"], depth):
            unmet = "tiles hold channels of several taps, or cross from depth to depth"
    WIDEN_CONVOLUTION.tell(op.name, unmet)
    return not unmet


def wrong_in_tiles(channels: int, groups: int, kernel: Sequence[int], strides: Sequence[int], depth: int) -> bool:
    """Whether the library, computing in tiles, may get a convolution wrong.

    `channels`: those of all groups. `depth`: positions of the result on its first spatial axis.
    """
    if groups == 1 and splits_tiles(channels, kernel[-1]):
        return True
    return crosses_depths(channels // groups, kernel, strides, depth)


def splits_tiles(channels: int, taps: int) -> bool:
    """Whether the library, computing in tiles, may get a convolution of one group wrong.

    `taps`: those of the innermost axis. Seen in oneDNN 3.2 on CPUs with AMX, in bf16: where the channels of all taps of
    a row fill whole tiles and those of one tap do not, it takes the row for one long tap, and reads wrong weights,
    mostly with a stride of 2 or more. 570 random layers with other channels were right.
    """
    depth = channels * taps
    return taps > 1 and depth > _TILE_DEPTH and depth % _TILE_DEPTH == 0 and channels % _TILE_DEPTH != 0


def crosses_depths(channels: int, kernel: Sequence[int], strides: Sequence[int], depth: int) -> bool:
    """Whether the library, computing in tiles, may get a 3-D convolution of one tap wrong.

    `channels`: those of x in a group. Seen in oneDNN 3.2 on CPUs with AMX, in bf16: where it copies x first, as strides
    or channels that fill no whole tiles make it, it copies too little for a block of positions of several depths. One
    layer of 20 was wrong; 2-D layers, and 3-D ones whose x it reads as it lies, were right.
    """
    copied = max(strides) > 1 or (channels > _TILE_DEPTH and channels % _TILE_DEPTH != 0)
    return len(kernel) == 3 and max(kernel) == 1 and depth > 1 and copied


def is_misread(problem: ConvProblem) -> bool:
    """Whether the library gets the op of a problem in bf16 or f16 wrong where it computes it in tiles."""
    g = problem.geometry
    return problem.direction == FPROP and wrong_in_tiles(g.x_channels, g.groups, g.kernel, g.strides, g.y[0])

"""Lays out the bias and post-ops that a kernel applies to its results, as the kernel takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from .. import dtypes
from ..strides import are_alike, extent
from ..symbolic import are_multiples, gcd, kernels
from .element_ops import FLOATS, MOST_OPERANDS, OPS, Code, Op, code_of
from .epilogue import Epilogue
from .program import Buffer, CopyItem, Place, Program, View


class Fused(NamedTuple):
    """Bias and post-ops that a kernel applies to its result.

    `epilogue`: the post-ops as kernels take them. `bias`: the code of the bias's dtype, 0 without a bias. `views`: the
    bias, if any, and the operands of the post-ops, which the kernel reads in this order.
    """

    epilogue: Any
    bias: int = 0
    views: tuple[View, ...] = ()


NOTHING = Fused(kernels.Epilogue())


def fused(
    program: Program, epilogue: Epilogue, dst: View, bias: View | None = None, expressed: Expressed | None = None
) -> Fused:
    """Returns a bias (C) and post-ops that kernels can apply, as the kernel that writes `dst` takes them.

    Appends copies of operands whose layout does not follow that of `dst` to `program`. `expressed`: what `expressed_on`
    returns, where that is known.
    """
    after = fused_or_none(program, epilogue, dst, bias, expressed)
    if after is None:
        raise RuntimeError(f"no program for {', '.join(op.kind for op in epilogue)} on {dst.shape}")
    return after


def fused_or_none(
    program: Program, epilogue: Epilogue, dst: View, bias: View | None = None, expressed: Expressed | None = None
) -> Fused | None:
    """Returns what `fused` does, and None, with nothing appended, for post-ops that no kernel can apply."""
    native, views = NOTHING.epilogue, [] if bias is None else [bias]
    if epilogue:
        expressed = expressed or expressed_on(epilogue, dst)
        if expressed is None:
            return None
        operands, code = expressed
        code.tell(epilogue[-1].name)
        laid = [_laid(program, view, dst) for view in operands]
        native = kernels.Epilogue(code.steps, [(spread, dtypes.CODES[view.dtype]) for spread, view in laid])
        views += (view for _, view in laid)
    return Fused(native, 0 if bias is None else dtypes.CODES[bias.dtype], tuple(views))


# the views that post-ops read besides the result, and the steps by which kernels apply them
Expressed = tuple[list[View], Code]


def expresses(epilogue: Epilogue, dst: View) -> bool:
    """Whether builtin kernels that write a view like `dst` (N, C, spatial...) can apply the post-ops."""
    return expressed_on(epilogue, dst) is not None


def expressed_on(epilogue: Epilogue, dst: View) -> Expressed | None:
    """Returns post-ops as kernels that write a view like `dst` (N, C, spatial...) apply them; None if they cannot."""
    if not OPS.keys() >= {op.kind for op in epilogue} or 0 in dst.shape or dst.dtype not in FLOATS:
        return None
    views, calls = calls_of(epilogue)
    if len(views) > MOST_OPERANDS or not all(view.dtype in FLOATS and _spread(view, dst) is not None for view in views):
        return None
    code = code_of(tuple(calls), head=True)
    return None if code is None else (views, code)


def calls_of(epilogue: Epilogue) -> tuple[list[View], list[Op]]:
    views = list(dict.fromkeys([o for op in epilogue for o in op.operands if isinstance(o, View)]))
    return views, [
        OPS[op.kind](op.attrs).on([o if isinstance(o, int) else -1 - views.index(o) for o in op.operands])
        for op in epilogue
    ]


def _channels_last(dst: View) -> bool:
    """Whether dst (N, C, spatial...) has contiguous channels and pixels at multiples of a pitch of at least C elements.

    Kernels with post-ops tell the channel of an element by its offset.
    """
    channels, strides = dst.shape[1], dst.strides
    if channels > 1 and strides[1] != 1:
        return False
    # the pitch itself follows from axes of more than one position, which depend on sizes
    return are_multiples((strides[0], *strides[2:]), channels) or _pixel_pitch(dst) >= channels


def _pixel_pitch(dst: View) -> int:
    strides = [s for axis, (s, n) in enumerate(zip(dst.strides, dst.shape, strict=True)) if axis != 1 and n > 1]
    pitch: int = gcd(*strides) if strides else max(dst.shape[1], 1)
    return pitch


def _images_apart(dst: View) -> bool:
    """Whether the images of dst do not interleave in memory, so that the offset of an element tells its image."""
    sizes = [(s, n) for axis, (s, n) in enumerate(zip(dst.strides, dst.shape, strict=True)) if axis > 1]
    reach = sum((n - 1) * s for s, n in sizes)
    return dst.shape[0] == 1 or reach + dst.shape[1] <= dst.strides[0]


def _spread(view: View, dst: View) -> str | None:
    """Returns the kernels' name for how an operand is broadcast over dst, such as "channel"; None if they have none."""
    if view.ndim == 1:  # a bias
        return "channel" if view.shape == dst.shape[1:2] and _channels_last(dst) else None
    varies = tuple([axis for axis, size in enumerate(view.shape) if size != 1])
    if view.ndim != dst.ndim or any(view.shape[axis] != dst.shape[axis] for axis in varies):
        return None
    if not varies:
        return "one"
    if not _channels_last(dst):
        return None
    if varies == (1,):
        return "channel"
    if varies in ((0,), (0, 1)) and any(n > 1 for n in dst.shape[2:]) and _images_apart(dst):
        return "image_channel"
    if view.shape == dst.shape:
        return "full"
    return "pixel" if view.shape == (dst.shape[0], 1, *dst.shape[2:]) else None


def _laid(program: Program, view: View, dst: View) -> tuple[str, View]:
    """Returns the spread of an operand, and the operand as kernels read it: itself, or a copy that is appended."""
    spread = _spread(view, dst)
    if spread == "one":
        return "one", view
    if spread == "channel":
        vector = view if view.ndim == 1 else replace(view, shape=view.shape[1:2], strides=view.strides[1:2])
        return "channel", _vectors(program, vector, dst)
    if spread == "image_channel":
        return "image_channel", _vectors(program, view, dst)
    pitch = _pixel_pitch(dst) if spread == "pixel" else 1
    strides = tuple(0 if n == 1 else s // pitch for s, n in zip(dst.strides, view.shape, strict=True))
    return str(spread), laid_as(program, view, strides)


def laid_as(program: Program, view: View, strides: tuple[int, ...]) -> View:
    """Returns a view whose elements lie by the strides of a result: itself, or a copy that is appended."""
    if are_alike(view.shape, view.strides, strides):
        return view
    laid = View(Buffer(Place.SCRATCH, view.dtype, extent(view.shape, strides)), view.shape, strides)
    program.copy(view, laid, "operand laid out as the result")
    return laid


def _vectors(program: Program, view: View, dst: View) -> View:
    """Appends a copy of an operand's channels to f32 vectors (images or 1, C + REPEAT), and returns their view.

    Element C + i repeats element i, so that a kernel reads on past the last channel in a run over several pixels.
    """
    channels, pitch = dst.shape[1], dst.shape[1] + kernels.Epilogue.REPEAT
    images = 1 if view.ndim == 1 else dst.shape[0]
    by_image, by_channel = [0, *_steps_of(view)] if view.ndim == 1 else _steps_of(view)[:2]
    rounds, rest = divmod(pitch, channels)
    items: list[CopyItem] = [((images, rounds, channels), 0, (by_image, 0, by_channel), 0, (pitch, channels, 1))]
    if rest:
        items.append(((images, rest), 0, (by_image, by_channel), rounds * channels, (pitch, 1)))
    vectors = program.scratch((images, pitch), "f32")
    program.copy_list(items, view, vectors, "vectors of channels")
    return vectors


def _steps_of(view: View) -> list[int]:
    """Returns the strides of a view, with 0 for axes of size 1."""
    return [0 if n == 1 else s for s, n in zip(view.strides, view.shape, strict=True)]

"""The table of motions: for each op kind how its outputs follow from its inputs along the streamed axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from ..errors import UnsupportedError
from ..graph import Node, Value
from ..ir import order_of
from ..schema import kinds
from ..schema.arguments import INT64_MAX
from ..shapes import Attributes
from ..shapes.windows import resolve
from .motion import Ints, Motion, Part, Window, pointwise

# from this end on a slice reads up to the end, as exporters write it
_OPEN_END = (1 << 31) - 1
_MOST_PHASES = 64


@dataclass(frozen=True)
class Site:
    """An op of a net, and the streamed axis of each operand; None for one that does not run along it."""

    node: Node
    axes: tuple[int | None, ...]
    # where the op stands, for messages
    place: str

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.node.attrs

    @property
    def streamed(self) -> list[int]:
        return [index for index, axis in enumerate(self.axes) if axis is not None]

    @property
    def rank(self) -> int:
        return self.node.inputs[0].ndim

    def refuse(self, why: str) -> NoReturn:
        raise UnsupportedError(f"{self.place}: cannot run in chunks: {why}")

    def only(self, index: int = 0) -> int:
        """Returns the axis of an operand, the only one that may run along it."""
        others = [self.node.inputs[i].name for i in self.streamed if i != index]
        axis = self.axes[index]
        if others or axis is None:
            self.refuse(f"its operand {(others or ['?'])[0]!r} runs along the axis")
        return axis

    def apart(self, *axes: int, what: str) -> None:
        """Raises if the streamed axis of operand 0 is one of `axes`, over which the op does `what`."""
        if self.axes[0] in {axis % self.rank for axis in axes}:
            self.refuse(f"it {what} the streamed axis as a whole")

    def spatial(self, what: str) -> int | None:
        """Returns which spatial axis is streamed, None for the batch; raises for the channels."""
        axis = self.only()
        last = self.attrs["data_format"] == "NXC"
        if axis == (self.rank - 1 if last else 1):
            self.refuse(f"it {what} the streamed axis as channels")
        return None if axis == 0 else axis - (1 if last else 2)


Rule = Callable[[Site], Motion]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enters a function into the table."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def motion_of(site: Site) -> Motion:
    """Returns the motion of an op.

    Raises:
        UnsupportedError: the op cannot run in chunks; the message names it.
    """
    node = site.node
    found = RULES.get(node.kind)
    if found is None:
        site.refuse(f"there is no rule for {node.kind}")
    return found(site)


# -- each sample by itself ------------------------------------------------------------------------------------


@rule(*(kind for kind in kinds("same_shape") if not kind.endswith("Backward")))
def same(site: Site) -> Motion:
    return pointwise(site.only(), [0])


@rule("Add", "Divide", "GreaterEqual", "Maximum", "Minimum", "Multiply", "Select", "SquaredDifference", "Subtract")
def broadcast(site: Site) -> Motion:
    """Operands are aligned at their last axes; what does not run along the axis must be the same for all samples."""
    behind = {value.ndim - axis for value, axis in zip(site.node.inputs, site.axes, strict=True) if axis is not None}
    if len(behind) > 1:
        site.refuse("its operands have the streamed axis at different places")
    (place,) = behind
    for value, axis in zip(site.node.inputs, site.axes, strict=True):
        if axis is None and value.ndim >= place and value.shape[-place] != 1:
            site.refuse(f"its operand {value.name!r} of shape {value.shape} has samples of its own along the axis")
    return pointwise(max(value.ndim for value in site.node.inputs) - place, site.streamed)


@rule("BiasAdd", "BatchNormInference", "PReLU")
def by_channel(site: Site) -> Motion:
    if site.node.inputs[1].ndim > 1 or not site.attrs.get("per_channel_broadcast", True):
        return broadcast(site)
    site.spatial("takes")
    return pointwise(site.only(), [0])


@rule("Quantize", "Dequantize")
def quantize(site: Site) -> Motion:
    if site.attrs["qtype"] != "per_tensor":
        site.apart(site.attrs["axis"], what="scales")
    return pointwise(site.only(), [0])


@rule("SoftMax", "LogSoftmax")
def softmax(site: Site) -> Motion:
    site.apart(site.attrs["axis"], what="normalizes")
    return pointwise(site.only(), [0])


@rule("LayerNorm", "RMSNorm")
def norm(site: Site) -> Motion:
    site.apart(*range(site.attrs["begin_norm_axis"] % site.rank, site.rank), what="normalizes")
    return pointwise(site.only(), [0])


@rule("GenIndex")
def gen_index(site: Site) -> Motion:
    site.apart(site.attrs["axis"], what="counts")
    return pointwise(site.only(), [0])


@rule("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
def reduce(site: Site) -> Motion:
    axes = {axis % site.rank for axis in site.attrs["axes"]}
    site.apart(*axes, what="reduces")
    axis = site.only()
    return pointwise(axis if site.attrs["keep_dims"] else axis - sum(other < axis for other in axes), [0])


@rule("StaticTranspose")
def transpose(site: Site) -> Motion:
    return pointwise(order_of(site.node).index(site.only()), [0])


@rule("MatMul")
def matmul(site: Site) -> Motion:
    src, weights = site.node.inputs[:2]
    if min(src.ndim, weights.ndim) < 2 or (len(site.axes) > 2 and site.axes[2] is not None):
        site.refuse("its operands are no matrices")
    summed = (
        src.ndim - (2 if site.attrs["transpose_a"] else 1),
        weights.ndim - (1 if site.attrs["transpose_b"] else 2),
    )
    rank = max(src.ndim, weights.ndim)
    places = set()
    for value, axis, over, row in zip((src, weights), site.axes, summed, (rank - 2, rank - 1), strict=False):
        if axis == over:
            site.refuse("it sums over the streamed axis as a whole")
        if axis is not None:
            places.add(row if axis >= value.ndim - 2 else axis + rank - value.ndim)
    if len(places) > 1 or (len(site.streamed) > 1 and max(places) >= rank - 2):
        site.refuse("each of its results depends on two samples")
    (place,) = places
    if len(site.axes) > 2 and place == rank - 1:
        site.refuse("its bias has samples of its own along the axis")
    for value, axis in zip((src, weights), site.axes, strict=False):
        if axis is None and place < rank - 2 and value.ndim >= rank - place and value.shape[place - rank] != 1:
            site.refuse(f"its operand {value.name!r} of shape {value.shape} has samples of its own along the axis")
    return pointwise(place, site.streamed)


@rule("Gather")
def gather(site: Site) -> Motion:
    src, indices = site.node.inputs
    along = site.attrs["axis"] % src.ndim
    if site.axes[1] is not None:
        return pointwise(along + site.only(1), [1])
    site.apart(along, what="picks from")
    axis = site.only()
    return pointwise(axis if axis < along else axis + indices.ndim - 1, [0])


# -- places that move -----------------------------------------------------------------------------------------


def _around(shape: Sequence[int | None]) -> tuple[int, int]:
    """Returns the product of the known sizes, and the number of the unknown ones."""
    return math.prod(dim for dim in shape if dim is not None), sum(dim is None for dim in shape)


@rule("StaticReshape")
def reshape(site: Site) -> Motion:
    """The axis stays, as the product of the sizes before it stays; or it is merged with the one after it, or split."""
    axis = site.only()
    src, dst = site.node.inputs[0].shape, site.node.outputs[0].shape
    if src.count(None) > 2:
        site.refuse(f"several unknown sizes of {src} move with the axis")
    before, (behind, open_behind) = _around(src[:axis]), _around(src[axis + 1 :])
    for place in range(len(dst)):
        found, still_open = _around(dst[place + 1 :])
        if dst[place] is None and _around(dst[:place]) == before and still_open == open_behind and found:
            return _merged(place, Fraction(behind, found))
    site.refuse(f"it makes {dst} of {src}, where the axis is none of its own")


def _merged(axis: int, parts: Fraction) -> Motion:
    """Returns the motion of a reshape that makes `parts` samples of each sample, or a sample of several."""
    many, of = parts.numerator, parts.denominator

    def build(part: Part) -> Sequence[Value]:
        # many = 1 or of = 1 but for shapes such as (6, n, 2) and (6, n, 3), where blocks move
        begin, end = part.begin // many, -(-part.end // many)
        block = part.window(0, begin * of, end * of)
        (value,) = part.add([block], {"shape": part.shape((end - begin) * many), "special_zero": False})
        return [part.cut(value, axis, part.begin - begin * many, part.end - begin * many)]

    return Motion(
        axis,
        parts,
        lambda made, _: made[0] // of * many,
        lambda totals: totals[0] * many // of,
        lambda m: (m // many * of,),
        build,
    )


@rule("Concat")
def concat(site: Site) -> Motion:
    rank = site.rank
    axis, over = next(axis for axis in site.axes if axis is not None), site.attrs["axis"] % rank
    if any(other not in (axis, None) for other in site.axes):
        site.refuse("its operands have the streamed axis at different places")
    if axis != over:
        if len(site.streamed) < len(site.axes):
            site.refuse("an operand does not run along the streamed axis")
        return pointwise(axis, site.streamed)
    if len(site.streamed) > 1:
        site.refuse("an operand begins where another one ends")
    (index,) = site.streamed
    sizes = [value.shape[axis] for value in site.node.inputs]
    before, behind = sizes[:index], sizes[index + 1 :]
    if None in before or None in behind:
        site.refuse("an operand other than the streamed one has an unknown size")
    lead, more = sum(map(int, before)), sum(map(int, behind))  # type: ignore[arg-type]

    def build(part: Part) -> Sequence[Value]:
        pieces = [part.operand(i) for i in range(index)] if part.first else []
        begin, end = max(part.begin - lead, 0), part.end - lead - (more if part.last else 0)
        pieces += [part.window(index, begin, end)] if end > begin else []
        pieces += [part.operand(i) for i in range(index + 1, len(sizes))] if part.last else []
        return part.add(pieces) if len(pieces) > 1 else pieces

    return Motion(
        axis,
        Fraction(1),
        lambda made, _: made[0] + lead,
        lambda totals: totals[0] + lead + more,
        lambda m: (m - lead,),
        build,
    )


@rule("Slice")
def part_of(site: Site) -> Motion:
    axis, attrs = site.only(), site.attrs
    count = len(attrs["starts"])
    axes = [one % site.rank for one in attrs.get("axes") or range(count)]
    steps = list(attrs.get("steps") or [1] * count)
    if axis not in axes:
        return pointwise(axis, [0])
    at = axes.index(axis)
    start, end, step = attrs["starts"][at], attrs["ends"][at], steps[at]
    if start < 0 or step < 0:
        site.refuse("its begin depends on the length")
    if 0 <= end < _OPEN_END:
        site.refuse(f"it ends at sample {end}")
    behind = -end if end < 0 else 0

    def few(known: int) -> int:
        return -((start - known) // step)

    def build(part: Part) -> Sequence[Value]:
        block = part.window(0, start + part.begin * step, start + (part.end - 1) * step + 1)
        if steps == [1] and axes == [axis]:
            return [block]
        starts, ends = list(attrs["starts"]), list(attrs["ends"])
        starts[at], ends[at] = 0, INT64_MAX
        return part.add([block], {"starts": starts, "ends": ends, "axes": axes, "steps": steps})

    return Motion(
        axis,
        Fraction(1, step),
        lambda made, totals: few(min(made[0], totals[0] - behind)),
        lambda totals: max(few(totals[0] - behind), 0),
        lambda m: (start + m * step,),
        build,
    )


# the samples of an operand that the pads at an end repeat, and as many as there are pads
_MIRRORS = {"constant": 0, "edge": 1, "reflect": 1}


@rule("Pad")
def pad(site: Site) -> Motion:
    axis, attrs = site.only(), site.attrs
    mode = attrs["mode"]
    lead, more = attrs["pads_begin"][axis], attrs["pads_end"][axis]
    if not lead and not more:
        return pointwise(axis, [0])
    if mode not in _MIRRORS:
        site.refuse(f"its pads by {mode} at the begin depend on the end")
    # samples that the pads of an end need
    begin_of, end_of = ((count if mode == "reflect" else 0) + _MIRRORS[mode] * (count > 0) for count in (lead, more))
    kept = max(end_of, 1) if more else 0

    def done(made: Ints, totals: Ints) -> int:
        return made[0] + lead if made[0] >= max(begin_of, kept, 1) else -1

    def build(part: Part) -> Sequence[Value]:
        ends = {"pads_begin": list(attrs["pads_begin"]), "pads_end": list(attrs["pads_end"])}
        ends["pads_begin"][axis], ends["pads_end"][axis] = lead * part.first, more * part.last
        begin = max(part.begin - lead, 0)
        end = part.end - lead - more * part.last
        early = max(min(begin, end - kept), 0) if part.last else begin
        block = part.window(0, early, end)
        if any(map(any, ends.values())):
            (block,) = part.add([block], {**attrs, **ends})
        return [part.cut(block, axis, begin - early, begin - early + part.end - part.begin)]

    return Motion(
        axis,
        Fraction(1),
        done,
        lambda totals: totals[0] + lead + more,
        lambda m: (m - lead - kept,),
        build,
    )


# -- windows --------------------------------------------------------------------------------------------------


def _window(site: Site, kernel: Sequence[int | None], at: int) -> tuple[Window, dict[str, list[int]]]:
    """Returns the window on the streamed spatial axis, and the pads of all axes."""
    attrs, count = site.attrs, len(kernel)
    taps, stride = kernel[at], attrs["strides"][at]
    if taps is None:
        site.refuse("its kernel is of unknown size")
    dilations = attrs.get("dilations") or [1] * count
    reach = (taps - 1) * dilations[at] + 1
    sides = {name: list(attrs[name]) for name in ("pads_begin", "pads_end")}
    if attrs.get("auto_pad", "None") != "None":
        if attrs["auto_pad"] != "VALID" and stride != 1:
            site.refuse(f"its pads by {attrs['auto_pad']} depend on the length")
        shape = site.node.inputs[0].shape
        sizes = list(shape[1:-1] if attrs["data_format"] == "NXC" else shape[2:])
        sizes[at] = reach * stride
        found = resolve(site.place, attrs, tuple(sizes), tuple(kernel))
        if None in found:
            site.refuse(f"its pads by {attrs['auto_pad']} depend on other unknown sizes")
        windows = [window for window in found if window is not None]
        sides = {"pads_begin": [one.begin for one in windows], "pads_end": [one.end for one in windows]}
    return Window(stride, reach, sides["pads_begin"][at], sides["pads_end"][at]), sides


def _windowed(site: Site, kernel: Sequence[int | None], zeros: bool) -> Motion:
    """Returns the motion of an op of windows; `zeros`: whether pads are zeros as any others."""
    axis, at = site.only(), site.spatial("sums over")
    if at is None:
        return pointwise(axis, [0])
    window, sides = _window(site, kernel, at)
    if not zeros and site.attrs.get("rounding_type", "floor") != "floor":
        site.refuse("its last window by rounding_type=ceil depends on the length")

    def build(part: Part) -> Sequence[Value]:
        block, left, right, early = window.read(part)
        begin, end = list(sides["pads_begin"]), list(sides["pads_end"])
        begin[at], end[at] = left, right
        changes: dict[str, Any] = {"pads_begin": tuple(begin), "pads_end": tuple(end), "auto_pad": "None"}
        if isinstance(site.attrs, Attributes):
            attrs: Mapping[str, Any] = replace(site.attrs, resolved=None, **changes)
        else:
            attrs = {**site.attrs, **changes}
        (value,) = part.add([block, *(part.operand(i) for i in range(1, len(site.axes)))], attrs)
        return [part.cut(value, axis, early, early + part.end - part.begin)]

    return Motion(axis, Fraction(1, window.stride), window.done, window.total, window.need, build, zeros)


@rule("Convolution")
def convolution(site: Site) -> Motion:
    assert isinstance(site.attrs, Attributes)
    return _windowed(site, site.attrs.geometry.kernel, True)


@rule("AvgPool", "MaxPool")
def pool(site: Site) -> Motion:
    return _windowed(site, site.attrs["kernel"], False)


@rule("ConvTranspose")
def conv_transpose(site: Site) -> Motion:
    axis, at = site.only(), site.spatial("sums over")
    if at is None:
        return pointwise(axis, [0])
    assert isinstance(site.attrs, Attributes)
    attrs, geometry = site.attrs, site.attrs.geometry
    taps, stride = geometry.kernel[at], geometry.strides[at]
    if taps is None:
        site.refuse("its kernel is of unknown size")
    reach = (taps - 1) * geometry.dilations[at] + 1
    before, behind = geometry.pads_begin[at], geometry.pads_end[at] - geometry.output_padding[at]
    # a sample is kept where the last outputs are output_padding alone
    spare = int(behind < reach - stride <= 0)

    def first_of(m: int) -> int:
        """Returns the first input that begins before output `m` and reaches it, or else the one before it."""
        return min((m + before - reach) // stride + 1, (m + before) // stride)

    def build(part: Part) -> Sequence[Value]:
        begin = max(min(first_of(part.begin), part.known(0) - 1), 0)
        end = min(part.known(0), (part.end - 1 + before) // stride + 1)
        left = part.begin - (begin * stride - before)
        right = (end - 1) * stride - before + reach - part.end
        sides: dict[str, Any] = {"auto_pad": "None"}
        for name, here in (("pads_begin", left), ("pads_end", max(right, 0)), ("output_padding", max(-right, 0))):
            each = list(getattr(geometry, name))
            each[at] = here
            sides[name] = tuple(each)
        block = part.window(0, begin, end)
        rest = [part.operand(i) for i in range(1, len(site.axes))]
        return part.add([block, *rest], replace(attrs, resolved=None, **sides))

    return Motion(
        axis,
        Fraction(stride),
        lambda made, _: made[0] * stride - before,
        lambda totals: max((totals[0] - 1) * stride + reach - before - behind, 0) if totals[0] else 0,
        lambda m: (first_of(m) - spare,),
        build,
    )


# -- resizes --------------------------------------------------------------------------------------------------


@rule("Interpolate")
def interpolate(site: Site) -> Motion:
    axis, at = site.only(), site.spatial("resizes")
    attrs, scales = site.attrs, site.attrs.get("scales")
    if at is None:
        return pointwise(axis, [0])
    if not scales or len(site.axes) > 1:
        site.refuse("its size does not follow from the length")
    many = int(scales[at])
    if many != scales[at]:
        site.refuse(f"it resizes by {scales[at]}; only whole factors")
    if many == 1:
        return pointwise(axis, [0])
    nearest = attrs["mode"] == "nearest"
    if not nearest and attrs["coordinate_transformation_mode"] != "half_pixel":
        site.refuse("its coordinates depend on the length")

    def low(m: int) -> int:
        """Returns the first sample that output `m` is interpolated of: the floor of (m + 1/2) / many - 1/2."""
        return m // many if nearest else (2 * m + 1 - many) // (2 * many)

    def build(part: Part) -> Sequence[Value]:
        begin = max(low(part.begin), 0)
        end = min(part.known(0), low(part.end - 1) + (1 if nearest else 2))
        (value,) = part.add([part.window(0, begin, end)])
        return [part.cut(value, axis, part.begin - begin * many, part.end - begin * many)]

    def done(made: Ints, totals: Ints) -> int:
        # linear: below (n - 1/2) * many - 1/2 both samples are there
        return made[0] * many if nearest else -((many + 1 - 2 * made[0] * many) // 2)

    return Motion(axis, Fraction(many), done, lambda totals: totals[0] * many, lambda m: (low(m),), build)

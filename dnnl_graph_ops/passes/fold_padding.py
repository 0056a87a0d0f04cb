"""Folds zeros around the source of a convolution, and cropping of its result, into its pads."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Node, Value
from ..ir import GraphView, conv_twin, dims
from ..ir.rewrites import ALONE, NOT_RETURNED, READ_ONCE, Rewrite
from ..shapes import Attributes
from ..shapes.rearrange import ranges

Ints = tuple[int, ...]

FOLD_PADDING = Rewrite(
    "fold_padding",
    "a Pad of zeros in front of a Convolution is part of its pads",
    (
        *ALONE,
        "the Pad adds zeros",
        "the Pad extends spatial axes only",
        "every window has a tap outside of the padding",
    ),
)
FOLD_CROPPING = Rewrite(
    "fold_cropping",
    "a Slice after a Convolution or ConvTranspose is part of its pads",
    (
        *ALONE,
        "the Slice takes neighbouring elements",
        "the Slice leaves elements",
        "the Slice cuts spatial axes only",
        "pads express the cut at the convolution's strides",
        "every window has a tap outside of the padding",
    ),
)
_REWRITES = {
    ("Pad", "Convolution"): FOLD_PADDING,
    ("Convolution", "Slice"): FOLD_CROPPING,
    ("ConvTranspose", "Slice"): FOLD_CROPPING,
}


def run(graph: GraphView) -> None:
    """Folds Pads before convolutions, and Slices after them, into pads_begin, pads_end and output_padding."""
    for node in graph:
        first = node.inputs[0].node if node.inputs else None
        rewrite = None if first is None or first not in graph else _REWRITES.get((first.kind, node.kind))
        if first is None or rewrite is None:
            continue
        if graph.reads(node.inputs[0]) > 1:
            rewrite.declined(node, READ_ONCE)
        elif node.inputs[0] in graph.returned:
            rewrite.declined(node, NOT_RETURNED)
        elif head := _padded(first, node) if rewrite is FOLD_PADDING else _cropped(first, node):
            rewrite.fired(node)
            graph.remove(first)
            graph.replace(node, head)


def _padded(pad: Node, head: Node) -> Node | None:
    if pad.attrs["mode"] != "constant" or pad.attrs["value"] != 0:
        return FOLD_PADDING.declined(head, "the Pad adds zeros")
    begin, end = (_spatial(head, pad.attrs[name]) for name in ("pads_begin", "pads_end"))
    if sum(begin) + sum(end) < sum(pad.attrs["pads_begin"]) + sum(pad.attrs["pads_end"]):
        return FOLD_PADDING.declined(head, "the Pad extends spatial axes only")
    own = _attributes(head).geometry
    begin, end = _sums(own.pads_begin, begin), _sums(own.pads_end, end)
    if not _reaches(head, begin, end):
        return FOLD_PADDING.declined(head, "every window has a tap outside of the padding")
    return _with(head, pad, (pad.inputs[0], *head.inputs[1:]), begin, end, ())


def _cropped(head: Node, part: Node) -> Node | None:
    """Returns the convolution with a Slice of its result folded into its pads; None, with a report, if it cannot be."""
    result = dims(head.outputs[0])
    fronts, behind = [0] * len(result), [0] * len(result)
    for axis, (start, size, step) in ranges(result, part.attrs, part.name).items():
        assert start is not None and size is not None
        if size == 0:
            return FOLD_CROPPING.declined(part, "the Slice leaves elements")
        if step != 1 and size > 1:
            return FOLD_CROPPING.declined(part, "the Slice takes neighbouring elements")
        fronts[axis], behind[axis] = start, result[axis] - start - size
    front, back = _spatial(head, fronts), _spatial(head, behind)
    if sum(front) + sum(back) < sum(fronts) + sum(behind):
        return FOLD_CROPPING.declined(part, "the Slice cuts spatial axes only")
    pads = (_pads_of_ordinary if head.kind == "Convolution" else _pads_of_transposed)(head, front, back)
    if pads is None:
        return FOLD_CROPPING.declined(part, "pads express the cut at the convolution's strides")
    if not _reaches(head, *pads[:2]):
        return FOLD_CROPPING.declined(part, "every window has a tap outside of the padding")
    return _with(head, part, head.inputs, *pads)


def _pads_of_ordinary(head: Node, front: Ints, back: Ints) -> tuple[Ints, Ints, Ints] | None:
    """Returns pads of a Convolution without the first `front` and last `back` positions of its result.

    Returns None where no pads express the cut at its strides.
    """
    own = _attributes(head).geometry
    begins, ends = [], []
    sizes = (_spatial(head, dims(value)) for value in (head.inputs[0], head.outputs[0]))
    for axis, (size, positions) in enumerate(zip(*sizes, strict=True)):
        stride, taps = own.strides[axis], ((own.kernel[axis] or 0) - 1) * own.dilations[axis] + 1
        begin, count = own.pads_begin[axis] - front[axis] * stride, positions - front[axis] - back[axis]
        end = max((count - 1) * stride + taps - size - begin, 0)
        if begin < 0 or (size + begin + end - taps) // stride + 1 != count:
            return None
        begins.append(begin)
        ends.append(end)
    return tuple(begins), tuple(ends), ()


def _pads_of_transposed(head: Node, front: Ints, back: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns pads and output_padding of a ConvTranspose without the first `front` and last `back` positions."""
    own = _attributes(head).geometry
    # the positions that output_padding has added are cut off first
    ends = [p - more + cut for p, more, cut in zip(own.pads_end, own.output_padding, back, strict=True)]
    padding = tuple(max(-end, 0) for end in ends)
    return _sums(own.pads_begin, front), tuple(max(end, 0) for end in ends), padding


def _attributes(head: Node) -> Attributes:
    assert isinstance(head.attrs, Attributes)
    return head.attrs


def _spatial(head: Node, values: Sequence[int]) -> Ints:
    return tuple(values[2:] if head.attrs["data_format"] == "NCX" else values[1:-1])


def _sums(a: Ints, b: Ints) -> Ints:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _reaches(head: Node, begin: Ints, end: Ints) -> bool:
    """Whether every position has a tap outside of these pads; there are no kernels for windows in padding alone."""
    own = _attributes(head).geometry
    reach = [((taps or 0) - 1) * dilation for taps, dilation in zip(own.kernel, own.dilations, strict=True)]
    return all(max(edges) <= most for *edges, most in zip(begin, end, reach, strict=True))


def _with(head: Node, gone: Node, inputs: tuple[Value, ...], begin: Ints, end: Ints, padding: Ints) -> Node:
    """Returns the convolution with other inputs and pads, which has absorbed the node `gone`."""
    padded = conv_twin(head, inputs, auto_pad="None", pads_begin=begin, pads_end=end, output_padding=padding)
    padded.mark(gone)
    return padded

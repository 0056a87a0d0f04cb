"""Edges that a convolution brings along: zeros around its source, and the ends of its result that are cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from ..graph import Node, Value
from ..shapes import Attributes, resolved
from ..shapes.pieces import ranges

Ints = tuple[int, ...]


def trimmed(nodes: Sequence[Node], kept: Collection[Value]) -> list[Node]:
    """The nodes, with Pads in front of convolutions and Slices behind them taken into their pads.

    `kept`: values that must stay as they are.
    """
    readers = Counter(value for node in nodes for value in node.inputs)
    found: dict[Node, None] = {}
    for node in nodes:
        made = None
        source = node.inputs[0] if node.inputs else None
        if source is not None and source.node in found and readers[source] == 1 and source not in kept:
            made = _joined(source.node, node)
        if made is None or source is None or source.node is None:
            found[node] = None
            continue
        del found[source.node]
        found[made] = None
        made.outputs = node.outputs
        node.outputs[0].node = made
    return list(found)


def _joined(first: Node, second: Node) -> Node | None:
    """Both as one node, or None."""
    if (first.kind, second.kind) == ("Pad", "Convolution"):
        return _padded(first, second)
    if first.kind in ("Convolution", "ConvTranspose") and second.kind == "Slice":
        return _cropped(first, second)
    return None


def _padded(pad: Node, head: Node) -> Node | None:
    assert isinstance(head.attrs, Attributes)
    if pad.attrs["mode"] != "constant" or pad.attrs["value"] != 0:
        return None
    begin, end = (_spatial(head, pad.attrs[name]) for name in ("pads_begin", "pads_end"))
    if sum(begin) + sum(end) < sum(pad.attrs["pads_begin"]) + sum(pad.attrs["pads_end"]):
        return None
    own = head.attrs.geometry
    begin, end = _sums(own.pads_begin, begin), _sums(own.pads_end, end)
    return _with(head, (pad.inputs[0], *head.inputs[1:]), begin, end, (*head.absorbed, pad))


def _cropped(head: Node, part: Node) -> Node | None:
    """The convolution with the slice of its result in its pads."""
    result = head.outputs[0].shape
    taken = ranges(result, part.attrs, part.name)
    fronts, behind = [0] * len(result), [0] * len(result)
    for axis, (start, size, step) in taken.items():
        whole = result[axis]
        if start is None or size is None or whole is None or size == 0 or (step != 1 and size > 1):
            return None
        fronts[axis], behind[axis] = start, whole - start - size
    front, back = _spatial(head, fronts), _spatial(head, behind)
    if sum(front) + sum(back) < sum(fronts) + sum(behind):
        return None
    absorbed = (*head.absorbed, part)
    return (
        _less_of_ordinary(head, front, back, absorbed)
        if head.kind == "Convolution"
        else _less_of_transposed(head, front, back, absorbed)
    )


def _less_of_ordinary(head: Node, front: Ints, back: Ints, absorbed: tuple[Node, ...]) -> Node | None:
    assert isinstance(head.attrs, Attributes)
    own = head.attrs.geometry
    begins, ends = [], []
    spatial = (_spatial(head, one.shape) for one in (head.inputs[0], head.outputs[0]))  # type: ignore[arg-type]
    for axis, (given, made) in enumerate(zip(*spatial, strict=True)):
        stride, kernel = own.strides[axis], own.kernel[axis]
        if kernel is None:
            return None
        taps = (kernel - 1) * own.dilations[axis] + 1
        begin, count = own.pads_begin[axis] - front[axis] * stride, made - front[axis] - back[axis]
        end = max((count - 1) * stride + taps - given - begin, 0)
        if begin < 0 or (given + begin + end - taps) // stride + 1 != count:
            return None
        begins.append(begin)
        ends.append(end)
    return _with(head, head.inputs, tuple(begins), tuple(ends), absorbed)


def _less_of_transposed(head: Node, front: Ints, back: Ints, absorbed: tuple[Node, ...]) -> Node | None:
    assert isinstance(head.attrs, Attributes)
    own = head.attrs.geometry
    # what output_padding has added is cut off first
    ends = [p - more + cut for p, more, cut in zip(own.pads_end, own.output_padding, back, strict=True)]
    padding = tuple(max(-end, 0) for end in ends)
    end = tuple(max(end, 0) for end in ends)
    return _with(head, head.inputs, _sums(own.pads_begin, front), end, absorbed, padding)


def _spatial(head: Node, values: Sequence[int]) -> Ints:
    return tuple(values[2:] if head.attrs["data_format"] == "NCX" else values[1:-1])


def _sums(a: Ints, b: Ints) -> Ints:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _with(
    head: Node, inputs: tuple[Value, ...], begin: Ints, end: Ints, absorbed: tuple[Node, ...], padding: Ints = ()
) -> Node | None:
    """The convolution with other pads; None where taps would lie in nothing but these, for which no kernel is made."""
    assert isinstance(head.attrs, Attributes)
    own = head.attrs.geometry
    for edges, taps, dilation in zip(zip(begin, end, strict=True), own.kernel, own.dilations, strict=True):
        if taps is None or max(edges) > (taps - 1) * dilation:
            return None
    changed = replace(
        head.attrs, resolved=None, auto_pad="None", pads_begin=begin, pads_end=end, output_padding=padding
    )
    attrs = resolved(head.kind, [value.shape for value in inputs], changed, head.name)
    made = Node(head.id, head.kind, head.name, inputs, attrs)
    made.absorbed = absorbed
    return made

"""Convolutions of a captured graph that read repeated elements, as layers of the sources of these.

Between an `interpolate` and the convolution there may be pads, and a `cat` of channels with other tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch.nn import functional

from . import upsampled
from .spec import Ints, Spec, each, ordinary
from .upsampled import Layer

Nodes: TypeAlias = Collection[fx.Node]

# the arguments of each function, in order
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_INTERPOLATE = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")
_CAT, _PAD = ("tensors", "dim"), ("input", "pad", "mode", "value")
_PADS = (torch._C._nn.pad, functional.pad)
_IN_PLACE = (
    "iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow", "irshift", "isub", "itruediv",
    "ixor", "setitem",
)  # fmt: skip
_BETWEEN = (functional.interpolate, torch.cat, *_PADS)


def fold(convolution: fx.Node, axes: int) -> bool:
    """Lets a convolution of a captured graph read what its operand repeats instead; returns whether it repeats any.

    The ops that the convolution computes itself are those next to it that no other op reads: nothing is written between
    them, nor is recording switched. The sources are kept for the gradients, so that no later op may write to them.
    """
    arguments = _arguments(convolution, _CONVOLUTION)
    spec, node, near = _spec_of(arguments, axes), convolution.prev, []
    while node.target in _BETWEEN:
        near.append(node)
        node = node.prev
    if spec is None:
        return False
    inner = {node for node in near if len(node.users) == 1 and "out" not in node.kwargs}
    values, layer = _joined(arguments["input"], inner, Layer.plain(spec))
    parts = [_source_of(value, inner, layer) for value in values]
    if all(max(part.scales) == 1 for _, part in parts) or _is_written([source for source, _ in parts], convolution):
        return False
    convolution.target = _called([part for _, part in parts], _format(convolution))
    convolution.args = (arguments["weight"], arguments.get("bias"), *(source for source, _ in parts))
    convolution.kwargs = {}
    for node in near:
        if not node.users:
            convolution.graph.erase_node(node)
    return True


def _called(layers: Sequence[Layer], memory_format: torch.memory_format) -> Callable[..., Tensor]:
    def upsampled_convolution(weight: Tensor, bias: Tensor | None, *sources: Tensor) -> Tensor:
        return upsampled.joined(sources, weight, bias, layers).contiguous(memory_format=memory_format)

    return upsampled_convolution


def _format(convolution: fx.Node) -> torch.memory_format:
    """Returns the format of a result, which ops behind it may count on."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    formats = (last.get(example.ndim) for example in _examples([convolution]) if not example.is_contiguous())
    return next(filter(None, formats), torch.contiguous_format)


def _is_written(sources: Sequence[fx.Node], after: fx.Node) -> bool:
    """Whether ops after one, or whoever is handed them, may write to what lies in the memory of one of the sources."""
    kept, node = set(map(_memory, _examples(sources))), after.next
    while node.op != "output":
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        # relu_, setitem, iadd, relu(x, inplace=True) or relu(x, True), add(x, y, out=z)
        in_place = name.endswith("_") or name in _IN_PLACE or any(arg is True for arg in node.args)
        in_place = in_place or node.kwargs.get("inplace") or "out" in node.kwargs
        in_place = in_place or getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        if in_place and not kept.isdisjoint(map(_memory, _examples(node.all_input_nodes))):
            return True
        node = node.next
    return not kept.isdisjoint(map(_memory, _examples(node.all_input_nodes)))


def _spec_of(arguments: Mapping[str, Any], axes: int) -> Spec | None:
    """Returns the convolution that the arguments state; None if these are no numbers, or its input is one image."""
    stride, padding, dilation = (
        each(arguments.get(name, default), axes) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    groups = arguments.get("groups", 1)
    plain = all(type(n) is int for n in (*stride, *padding, *dilation, groups))
    if not plain or len(_shape(arguments["input"])) != axes + 2:
        return None
    return ordinary(stride, padding, dilation, groups)


def _joined(value: fx.Node, inner: Nodes, layer: Layer) -> tuple[Sequence[fx.Node], Layer]:
    """Returns the values whose channels a convolution's operand joins, and the convolution with the pad around them."""
    pad = _pad_of(value, inner, layer)
    if pad is not None and not any(pad[1].edges):
        value, layer = pad[0], Layer.plain(pad[1].padded)
    if value not in inner or value.target is not torch.cat or layer.spec.groups > 1:
        return [value], layer
    arguments, rank = _arguments(value, _CAT), len(_shape(value))
    tensors: Sequence[fx.Node] = arguments["tensors"]
    examples = _examples(tensors)
    alike = len(examples) == len(tensors) and len({(example.ndim, example.dtype) for example in examples}) == 1
    return tensors if alike and arguments.get("dim", 0) in (1, 1 - rank) else [value], layer


def _source_of(value: fx.Node, inner: Nodes, layer: Layer) -> tuple[fx.Node, Layer]:
    """Returns what an operand of a convolution repeats, and the convolution of this; as given if it repeats nothing."""
    larger, padded = _pad_of(value, inner, layer) or (value, layer)
    if larger not in inner or larger.target is not functional.interpolate:
        return value, layer
    arguments = _arguments(larger, _INTERPOLATE)
    scales = _scales_of(arguments)
    mode = "constant" if value is larger else _arguments(value, _PAD).get("mode", "constant")
    far = mode == "reflect" and any(edge >= scale for edge, scale in zip(padded.edges, scales, strict=False) if edge)
    # a reflection of fewer elements than the scale is of one element
    return (arguments["input"], padded._replace(scales=scales)) if scales and not far else (value, layer)


def _scales_of(arguments: Mapping[str, Any]) -> Ints:
    """Returns how often an `interpolate` with these arguments repeats elements along each axis; () if it does not."""
    before, size = _shape(arguments["input"])[2:], arguments.get("size")
    if not before or arguments.get("mode", "nearest") not in ("nearest", "nearest-exact") or arguments.get("antialias"):
        return ()
    if size is None:
        return upsampled.whole_scales(arguments.get("scale_factor"), len(before))
    sizes = each(size, len(before))
    if not all(type(n) is int and n for n in (*sizes, *before)):
        return ()
    return upsampled.whole_scales([m / n for m, n in zip(sizes, before, strict=True)], len(before))


def _pad_of(value: fx.Node, inner: Nodes, layer: Layer) -> tuple[fx.Node, Layer] | None:
    """Returns what a pad before a convolution extends evenly, and the convolution with it; None if there is none."""
    if value not in inner or value.target not in _PADS:
        return None
    arguments, axes = _arguments(value, _PAD), len(layer.scales)
    amounts, mode = arguments["pad"], arguments.get("mode", "constant")
    if not all(type(n) is int and n >= 0 for n in amounts) or any(amounts[2 * axes :]) or amounts[::2] != amounts[1::2]:
        return None
    # the last axis comes first
    evenly = (*amounts[::2], *(0,) * axes)[:axes][::-1]
    if mode == "constant" and not arguments.get("value"):
        return arguments["input"], layer._replace(zeros=evenly)
    return (arguments["input"], layer._replace(edges=evenly)) if mode in ("reflect", "replicate") else None


def _arguments(node: fx.Node, names: Sequence[str]) -> dict[str, Any]:
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _shape(node: Any) -> Sequence[int]:
    """Returns the shape of a tensor as it was captured; () if the node is none."""
    return next((example.shape for example in _examples([node])), ())


def _examples(nodes: Iterable[Any]) -> list[Tensor]:
    """Returns tensors without elements like those of a captured graph, which share memory where these do."""
    metas = (node.meta.get("example_value") for node in nodes if isinstance(node, fx.Node))
    return [example for example in metas if isinstance(example, Tensor)]


def _memory(example: Tensor) -> int:
    return example.untyped_storage()._cdata

"""Replaces convolutions of upsampled tensors in a captured graph by layers that read the source.

Pads, and a `cat` of channels with other tensors, may be between an `interpolate` and the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch.nn import functional

from ..layers import upsampled
from ..layers.conv_params import ConvParams, Ints, each, ordinary
from ..layers.upsampled import Layer
from ..private import pad

Nodes: TypeAlias = Collection[fx.Node]

# the arguments of each function, in order
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_INTERPOLATE = ("input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")
_CAT, _PAD = ("tensors", "dim"), ("input", "pad", "mode", "value")
_PADS = (pad, functional.pad)
_IN_PLACE = (
    "iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow", "irshift", "isub", "itruediv",
    "ixor", "setitem",
)  # fmt: skip
_BETWEEN = (functional.interpolate, torch.cat, *_PADS)


def fold(convolution: fx.Node, axes: int) -> bool:
    """Makes a convolution read the source of its upsampled operand; returns whether its operand is upsampled.

    Fuses ops next to the convolution that no other op reads, without writes or switched recording between them. The
    sources are kept for the gradients, so no later op may write to them.
    """
    arguments = _arguments(convolution, _CONVOLUTION)
    spec, node, near = _params_of(arguments, axes), convolution.prev, []
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
    """Returns the memory format of a result, which later ops may rely on."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    formats = (last.get(example.ndim) for example in _examples([convolution]) if not example.is_contiguous())
    return next(filter(None, formats), torch.contiguous_format)


def _is_written(sources: Sequence[fx.Node], after: fx.Node) -> bool:
    """Whether later ops, or receivers of their results, may write to the memory of a source."""
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


def _params_of(arguments: Mapping[str, Any], axes: int) -> ConvParams | None:
    """Returns the convolution of the arguments; None if they are no numbers, or the input has no batch axis."""
    stride, padding, dilation = (
        each(arguments.get(name, default), axes) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    groups = arguments.get("groups", 1)
    plain = all(type(n) is int for n in (*stride, *padding, *dilation, groups))
    if not plain or len(_shape(arguments["input"])) != axes + 2:
        return None
    return ordinary(stride, padding, dilation, groups)


def _joined(value: fx.Node, inner: Nodes, layer: Layer) -> tuple[Sequence[fx.Node], Layer]:
    """Returns the values that a convolution's operand concatenates, and the convolution with their padding."""
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
    """Returns the source of an upsampled operand and the layer on it; unchanged if it is not upsampled."""
    larger, padded = _pad_of(value, inner, layer) or (value, layer)
    if larger not in inner or larger.target is not functional.interpolate:
        return value, layer
    arguments = _arguments(larger, _INTERPOLATE)
    scales = _scales_of(arguments)
    mode = "constant" if value is larger else _arguments(value, _PAD).get("mode", "constant")
    far = mode == "reflect" and any(edge >= scale for edge, scale in zip(padded.edges, scales, strict=False) if edge)
    # a reflection by fewer elements than the scale repeats one element
    return (arguments["input"], padded._replace(scales=scales)) if scales and not far else (value, layer)


def _scales_of(arguments: Mapping[str, Any]) -> Ints:
    """Returns the integer scale of an `interpolate` along each axis; () if it is not nearest by integers."""
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
    """Returns the operand of an even pad before a convolution, and the convolution with it; None if there is none."""
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
    """Returns the captured shape of a tensor; () if the node is no tensor."""
    return next((example.shape for example in _examples([node])), ())


def _examples(nodes: Iterable[Any]) -> list[Tensor]:
    """Returns fake tensors of a captured graph, which share memory where the graph's tensors do."""
    metas = (node.meta.get("example_value") for node in nodes if isinstance(node, fx.Node))
    return [example for example in metas if isinstance(example, Tensor)]


def _memory(example: Tensor) -> int:
    return example.untyped_storage()._cdata

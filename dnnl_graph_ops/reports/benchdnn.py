"""Writes the convolutions of a plan as lines for oneDNN's benchmark driver, benchdnn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..backends.backend import FusionGroup
from ..convolution.nodes import CONV_KINDS
from ..convolution.problem import WGRAD
from ..graph import Node
from ..shapes import resolved
from ..shapes.descriptor import descriptor

_TAGS = {"NXC": "axb", "NCX": "abx"}


def lines(groups: Sequence[FusionGroup]) -> Iterator[str]:
    """Yields a line for each convolution, transposed convolution and gradient of these, in the order of the plan."""
    for group in groups:
        for node in group.nodes:
            if node.kind in CONV_KINDS:
                yield _line(node, group.nodes)


def _line(node: Node, beside: Sequence[Node]) -> str:
    conv = CONV_KINDS[node.kind]
    record = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    transposed = not conv.ordinary
    tag = _TAGS[record.data_format]
    geometry = record.geometry
    small, large = (geometry.in_channels, geometry.src), (geometry.out_channels, geometry.dst)
    shape = descriptor(geometry, small, large) if transposed else descriptor(geometry, large, small)
    name = "".join(letter if letter.isalnum() or letter in ".:/-" else "_" for letter in node.name)
    return (
        f"--{'deconv' if transposed else 'conv'} --reset --dir={_direction(node)} --dt={_types(node, beside)} "
        f'--stag={tag} --wtag=any --dtag={tag} {shape}n"{name}"'
    )


def _direction(node: Node) -> str:
    """Returns the value of --dir: FWD_B for forward with a bias, FWD_I without a bias, BWD_D or BWD_W for gradients."""
    if node.kind.endswith("BackwardData"):
        return "BWD_D"
    forward = "FWD_B" if len(node.inputs) > 2 else "FWD_I"
    return "BWD_W" if CONV_KINDS[node.kind].direction == WGRAD else forward


def _types(node: Node, beside: Sequence[Node]) -> str:
    """Returns the value of --dt: the dtype, or "operand:operand:result" where the dtypes differ, such as "u8:s8:f32".

    In an int8 pattern, Dequantize before an operand and Quantize after the result (in `beside`) give the dtypes.
    """
    integers = {other.outputs[0]: other.inputs[0].dtype for other in beside if other.kind == "Dequantize"}
    results = [other.outputs[0].dtype for other in beside if other.kind == "Quantize"]
    types = [integers.get(value, value.dtype) for value in node.inputs[:2]] + (results or [node.outputs[0].dtype])[:1]
    return types[0] if len(set(types)) == 1 else ":".join(types)

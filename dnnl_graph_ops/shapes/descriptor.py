"""Writes benchdnn's descriptors of convolution problems, such as `mb1_ic16ih8_oc8oh16_kh4sh2ph1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_AXES = "dhw"


def descriptor(problem: Any, src: tuple[Any, Sequence[Any]], dst: tuple[Any, Sequence[Any]]) -> str:
    """Returns the descriptor with an entry for every axis; the pads at the end follow from the sizes.

    Args:
        problem: a `Geometry` whose sizes are known, or a record with its batch, groups, kernel, strides, pads_begin
            and dilations.
        src, dst: channels and spatial sizes of the operation, ordinary or transposed.

    Source: oneDNN's benchdnn documentation, knobs_desc and driver_conv.
    """
    axes = _AXES[3 - len(problem.strides) :]

    def spell(kind: str, values: Sequence[int]) -> str:
        return "".join(f"{kind}{axis}{value}" for axis, value in zip(axes, values, strict=True))

    (ic, spatial), (oc, out_spatial) = src, dst
    parts = [f"g{problem.groups}" if problem.groups > 1 else "", f"mb{problem.batch}"]
    parts += [f"_ic{ic}{spell('i', spatial)}", f"_oc{oc}{spell('o', out_spatial)}", "_" + spell("k", problem.kernel)]
    parts.append(spell("s", problem.strides) if any(s > 1 for s in problem.strides) else "")
    parts.append(spell("p", problem.pads_begin))
    if any(d > 1 for d in problem.dilations):
        # benchdnn writes 0 for no dilation
        parts.append(spell("d", [d - 1 for d in problem.dilations]))
    return "".join(parts)

"""benchdnn's descriptors of convolution problems, written: `mb1_ic16ih8_oc8oh16_kh4sh2ph1`."""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import Geometry

_AXES = "dhw"


def descriptor(
    *,
    batch: int,
    groups: int,
    in_channels: int,
    out_channels: int,
    spatial: Sequence[int],
    out_spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads_begin: Sequence[int],
    dilations: Sequence[int],
) -> str:
    """Every entry of the axes written out; what is padded behind follows from the sizes.

    Source: oneDNN's benchdnn documentation, knobs_desc and driver_conv.
    """
    axes = _AXES[3 - len(spatial) :]

    def spell(kind: str, values: Sequence[int]) -> str:
        return "".join(f"{kind}{axis}{value}" for axis, value in zip(axes, values, strict=True))

    parts = [f"g{groups}" if groups > 1 else "", f"mb{batch}"]
    parts.append(f"_ic{in_channels}{spell('i', spatial)}")
    parts.append(f"_oc{out_channels}{spell('o', out_spatial)}")
    parts.append("_" + spell("k", kernel))
    parts.append(spell("s", strides) if any(s > 1 for s in strides) else "")
    parts.append(spell("p", pads_begin))
    if any(d > 1 for d in dilations):
        # 0 there means none
        parts.append(spell("d", [d - 1 for d in dilations]))
    return "".join(parts)


def descriptor_of(g: Geometry, transposed: bool) -> str:
    """The descriptor of a resolved problem whose sizes are known."""
    small, large = (g.in_channels, g.src), (g.out_channels, g.dst)
    (ic, spatial), (oc, out_spatial) = (small, large) if transposed else (large, small)
    return descriptor(
        batch=g.batch,  # type: ignore[arg-type]
        groups=g.groups,
        in_channels=ic,  # type: ignore[arg-type]
        out_channels=oc,  # type: ignore[arg-type]
        spatial=spatial,  # type: ignore[arg-type]
        out_spatial=out_spatial,  # type: ignore[arg-type]
        kernel=g.kernel,  # type: ignore[arg-type]
        strides=g.strides,
        pads_begin=g.pads_begin,
        dilations=g.dilations,
    )

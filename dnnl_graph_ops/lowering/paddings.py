"""Splits pads_end and output_padding of a transposed convolution into what the library's ops take and the rest."""

from __future__ import annotations

from ..shapes.attributes import Geometry

Ints = tuple[int, ...]


def forward(g: Geometry) -> tuple[Ints, Ints, Ints]:
    """Returns, by axis: pads_end and output_padding for the library, and how many last positions of dst no tap reaches.

    pads_end removes positions from the end of dst, output_padding adds positions, so only their difference counts. The
    library takes an output_padding below the stride; if it is larger, 0 is returned, and the caller has to fill the
    added positions, which no tap reaches. For example, pads_end 1 and output_padding 4 at stride 2 give 0, 0 and 3.
    """
    ends, paddings, surplus = [], [], []
    for pe, op, s in zip(g.pads_end, g.output_padding, g.strides, strict=True):
        right = pe - op
        ends.append(max(right, 0))
        fits = -right < s
        paddings.append(max(-right, 0) if fits else 0)
        surplus.append(0 if fits else -right)
    return tuple(ends), tuple(paddings), tuple(surplus)


def backward(g: Geometry) -> tuple[Ints, Ints]:
    """Returns, by axis: pads_end for the library, and how many last positions of diff_dst no tap reads.

    These positions are the output_padding beyond pads_end; the caller leaves them out.
    """
    pairs = list(zip(g.pads_end, g.output_padding, strict=True))
    return tuple(max(pe - op, 0) for pe, op in pairs), tuple(max(op - pe, 0) for pe, op in pairs)

"""benchdnn's problem descriptors (`mb1ic64ih32oc64oh64kh4sh2ph1`), read and written.

The grammar and its defaults follow oneDNN's benchdnn documentation (knobs_desc, driver_conv): entries in any
order, `_` between them ignored, mb 2, g 1, strides 1, dilations 0 (there 0 means none), missing smaller axes
copied from the larger one, a missing output computed, a missing padding derived from the output. What tells the
op there, the driver, may stand before a descriptor: `--conv mb1ic64ih32oc64kh3ph1`, `--deconv mb1...`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..errors import InvalidArgumentError
from ..shapes.descriptor import descriptor
from .problem import OPS, Problem

_AXES: Final = "dhw"
_SPATIAL: Final = tuple(kind + axis for kind in "iokspd" for axis in _AXES)
_KEYS: Final = ("mb", "ic", "oc", *_SPATIAL, "g")
_ENTRY: Final = re.compile(rf"({'|'.join(_KEYS)})(\d*)")
DRIVERS: Final = dict(zip(("--deconv", "--conv"), OPS, strict=True))
_DRIVER: Final = re.compile(rf"^\s*({'|'.join(DRIVERS)})\s+")
_LOOKS_LIKE: Final = re.compile(r"^_?(?:(?:g|mb|ic|oc|[iokspd][dhw])\d+_?)+(?:n.*)?$", re.DOTALL)


@dataclass
class _Axis:
    """One spatial axis in benchdnn's terms; pad None means not given."""

    letter: str
    i: int = 0
    o: int = 0
    k: int = 0
    s: int = 1
    p: int | None = None
    d: int = 0
    transposed: bool = True

    @property
    def absent(self) -> bool:
        return not (self.i or self.o or self.k or self.d) and self.s == 1 and not self.p

    @property
    def trivial(self) -> bool:
        return (self.i, self.o, self.k, self.s, self.p or 0, self.d) == (1, 1, 1, 1, 0, 0)

    @property
    def extent(self) -> int:
        return (self.k - 1) * (self.d + 1) + 1

    def beyond(self) -> int:
        """How far the taps reach beyond the larger side, at both ends."""
        small, large = (self.i, self.o) if self.transposed else (self.o, self.i)
        return (small - 1) * self.s + self.extent - large

    def computed(self) -> int:
        """The output with this padding at both ends."""
        if self.transposed:
            return (self.i - 1) * self.s + self.extent - 2 * (self.p or 0)
        return (self.i + 2 * (self.p or 0) - self.extent) // self.s + 1

    def complete(self, text: str) -> None:
        for value, name in ((self.i, "i"), (self.k, "k"), (self.s, "s")):
            if value < 1:
                raise _malformed(text, f"{name}{self.letter} is missing or 0")
        if not self.o:
            self.p = self.p or 0
            self.o = self.computed()
            if self.o < 1:
                raise _malformed(text, f"o{self.letter} comes out as {self.o}")
        elif self.p is None:
            # C++ division truncates towards zero
            self.p = int(self.beyond() / 2)
        if self.p < 0:
            raise _malformed(text, f"p{self.letter} comes out as {self.p}")
        if not self.transposed and self.beyond() - self.p <= -self.s:
            raise _malformed(text, f"o{self.letter} {self.o} leaves more than a stride of i{self.letter} unread")


def looks_like_descriptor(text: str) -> bool:
    """True if `text` reads as a descriptor rather than as the name of a suite or of a file."""
    return bool(_LOOKS_LIKE.match(split_driver(text)[1].strip()))


def split_driver(text: str) -> tuple[str, str]:
    """The driver of a descriptor (`--deconv` where none is named), and the rest."""
    found = _DRIVER.match(text)
    return (found.group(1), text[found.end() :]) if found else (next(iter(DRIVERS)), text)


def parse(
    text: str, *, name: str | None = None, batch: int = 0, keep_unit_axes: bool = False, op: str = OPS[0]
) -> Problem:
    """A `Problem` from a descriptor of a convolution or deconvolution.

    Args:
        text: the descriptor. `n` starts its name, which may be quoted.
        name: overrides the descriptor's name.
        batch: overrides mb unless 0 (benchdnn's `--mb`).
        keep_unit_axes: keep leading axes whose sizes are all 1, as benchdnn does; by default they are
            dropped, since a canonical descriptor writes every problem as a 3D one.
        op: whose descriptor it is, where no driver stands before it.

    Raises:
        InvalidArgumentError: the descriptor is malformed; the message names the entry.
    """
    if _DRIVER.match(text):
        driver, text = split_driver(text)
        op = DRIVERS[driver]
    sizes, own_name = _scan(text)
    for key in ("ic", "oc"):
        if sizes.get(key, 0) < 1:
            raise _malformed(text, f"{key} is missing or 0")
    if sizes.get("g", 1) < 1:
        raise _malformed(text, "g must be at least 1")
    axes = _complete_axes(text, sizes, op == OPS[0])
    while not keep_unit_axes and len(axes) > 1 and axes[0].trivial:
        axes = axes[1:]
    # what is cut off is padding at the end, what lies beyond the last tap output padding
    over = [axis.beyond() - (axis.p or 0) for axis in axes]
    return Problem(
        name=name or own_name or text,
        batch=batch or sizes.get("mb", 2),
        in_channels=sizes["ic"],
        out_channels=sizes["oc"],
        spatial=tuple(a.i for a in axes),
        kernel=tuple(a.k for a in axes),
        strides=tuple(a.s for a in axes),
        pads_begin=tuple(a.p or 0 for a in axes),
        pads_end=tuple(max(v, 0) for v in over),
        output_padding=tuple(max(-v, 0) if a.transposed else 0 for a, v in zip(axes, over, strict=True)),
        dilations=tuple(a.d + 1 for a in axes),
        groups=sizes.get("g", 1),
        op=op,
    )


def format_descriptor(problem: Problem) -> str:
    """The descriptor of a problem, every entry of its axes written out; before that of an ordinary one its driver."""
    src, dst = (problem.in_channels, problem.spatial), (problem.out_channels, problem.out_spatial)
    text = descriptor(problem, src, dst)
    return text if problem.transposed else f"--conv {text}"


def _scan(text: str) -> tuple[dict[str, int], str]:
    """The numbers by key, and the name."""
    sizes: dict[str, int] = {}
    rest = text.strip()
    if not rest:
        raise _malformed(text, "it is empty")
    position = 0
    while position < len(rest):
        if rest[position] == "_":
            position += 1
            continue
        if rest[position] == "n":
            return sizes, rest[position + 1 :].strip().strip('"')
        match = _ENTRY.match(rest, position)
        if match is None:
            raise _malformed(text, f"nothing known starts at {rest[position : position + 12]!r}")
        key, digits = match.groups()
        if not digits:
            raise _malformed(text, f"{key} has no number")
        sizes[key] = int(digits)
        position = match.end()
    return sizes, ""


def _complete_axes(text: str, sizes: dict[str, int], transposed: bool) -> list[_Axis]:
    axes = [_Axis(letter, transposed=transposed) for letter in _AXES]
    for axis in axes:
        for kind in "iokspd":
            if kind + axis.letter in sizes:
                setattr(axis, kind, sizes[kind + axis.letter])
        if not axis.absent:
            axis.complete(text)
    depth, height, width = axes
    given = [not axis.absent for axis in axes]
    if not any(given):
        raise _malformed(text, "it has no spatial axis")
    if given[0] and given[1] != given[2]:
        raise _malformed(text, "a 3D problem needs both h and w or neither")
    if given[0] and not given[1]:
        height = width = depth
    if not given[0] and given[1] and not given[2]:
        width = height
    used = (depth, height, width)
    return list(used[given.index(True) :])


def _malformed(text: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"descriptor {text!r}: {reason}; the format is gXmbX_icXidXihXiwX_ocXodXohXowX_kdXkhXkwX_sdXshXswX_"
        "pdXphXpwX_ddXdhXdwX_nNAME, smaller axes left out are copied from the larger one"
    )

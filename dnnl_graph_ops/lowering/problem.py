"""A member of the convolution families in normal form: one geometry and strided views on named axes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ..shapes.attributes import Attributes, Geometry
from ..shapes.weights import channel_axes
from .program import View
from .tail import Tail

FORWARD = "forward"
BACKWARD_DATA = "backward_data"
BACKWARD_WEIGHTS = "backward_weights"
# which of a problem's views are read, and which is written
READ = {FORWARD: ("src", "weights"), BACKWARD_DATA: ("dst", "weights"), BACKWARD_WEIGHTS: ("src", "dst")}
RESULT = {FORWARD: "dst", BACKWARD_DATA: "src", BACKWARD_WEIGHTS: "weights"}


@dataclass(frozen=True, slots=True)
class Sizes(Geometry):
    """A geometry with every size known."""

    batch: int
    in_channels: int
    out_channels: int
    src: tuple[int, ...]
    kernel: tuple[int, ...]
    dst: tuple[int, ...]

    @classmethod
    def of(cls, geometry: Geometry) -> Sizes:
        return cls(**{field.name: getattr(geometry, field.name) for field in fields(geometry)})

    @property
    def macs(self) -> int:
        """Multiplications of the definition, taps that meet padding included."""
        total = self.batch * self.in_channels * (self.out_channels // self.groups)
        for n, k in zip(self.src, self.kernel, strict=True):
            total *= n * k
        return total


@dataclass(frozen=True)
class Problem:
    """A layer in one direction, which algorithms compute.

    Axes: src and dst are (N, C, spatial...), weights (G, IC/G, OC/G, kernel...), whatever the memory order. In the
    backward directions src, weights and dst stand for the tensors of that shape: backward data reads dst (diff_dst)
    and weights and writes src (diff_src); backward weights reads src and dst and writes weights (diff_weights).

    An ordinary convolution is backward data with a bias and post-ops on src; its dst here is what it reads.
    """

    direction: str
    geometry: Sizes
    src: View
    weights: View
    dst: View
    bias: View | None = None
    # post-ops on the result
    tail: Tail = ()

    @property
    def dtype(self) -> str:
        """Of what is read; a result may be wider where post-ops follow."""
        return self.dst.dtype if self.direction == BACKWARD_DATA else self.src.dtype

    @property
    def read(self) -> list[View]:
        return [getattr(self, name) for name in READ[self.direction]]

    @property
    def result(self) -> View:
        view: View = getattr(self, RESULT[self.direction])
        return view

    @property
    def macs(self) -> int:
        """Multiplications of the definition, taps that meet padding included."""
        return self.geometry.macs

    def with_views(self, **views: Any) -> Problem:
        """The same problem on other views, or with other post-ops."""
        return replace(self, **views)


def data_view(view: View, data_format: str) -> View:
    """An activation as (N, C, spatial...)."""
    if data_format == "NCX":
        return view
    last = view.ndim - 1
    return view.permute((0, last, *range(1, last)))


def weights_view(view: View, attrs: Attributes, exchanged: bool) -> View:
    """Weights as (G, IC/G, OC/G, kernel...), for either grouped shape and any format; `exchanged`: I and O are."""
    i, o = channel_axes(attrs.weights_format, view.ndim)
    if exchanged:
        i, o = o, i
    kernel = tuple(axis for axis in range(view.ndim) if axis not in (i, o))
    ordered = view.permute((i, o, *kernel))
    groups = attrs.groups
    if attrs.known.weights.documented:
        split = ordered.split(1, (groups, ordered.shape[1] // groups))
        return split.permute((1, 0, 2, *range(3, split.ndim)))
    return ordered.split(0, (groups, ordered.shape[0] // groups))


def mergeable_groups(weights: View) -> bool:
    """Whether (G, IC/G, ...) is one strided axis, as the library's grouped shape needs."""
    return weights.can_merge(0)


def is_channels_last(view: View) -> bool:
    """Whether the channels of an activation are contiguous."""
    return view.strides[1] == 1 or view.shape[1] <= 1


def channels_apart(problem: Problem) -> bool:
    """Whether an activation's channels are not contiguous."""
    return not (is_channels_last(problem.src) and is_channels_last(problem.dst))

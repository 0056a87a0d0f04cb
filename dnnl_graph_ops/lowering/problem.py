"""Describes a convolution in one direction as a `Problem`: geometry, and strided views with axes in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ..shapes.attributes import Attributes, Geometry
from ..shapes.weights import channel_axes
from .epilogue import Epilogue
from .program import View

FORWARD = "forward"
BACKWARD_DATA = "backward_data"
BACKWARD_WEIGHTS = "backward_weights"
# direction -> the views of a problem that are read, and the view that is written
READ = {FORWARD: ("src", "weights"), BACKWARD_DATA: ("dst", "weights"), BACKWARD_WEIGHTS: ("src", "dst")}
RESULT = {FORWARD: "dst", BACKWARD_DATA: "src", BACKWARD_WEIGHTS: "weights"}


@dataclass(frozen=True, slots=True)
class Sizes(Geometry):
    """A geometry in which no size is unknown."""

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
        """The number of multiplications by the definition, including products of taps with padding."""
        total = self.batch * self.in_channels * (self.out_channels // self.groups)
        for n, k in zip(self.src, self.kernel, strict=True):
            total *= n * k
        return total


@dataclass(frozen=True)
class Problem:
    """A convolution in one direction, as algorithms compute it.

    Axes: src and dst are (N, C, spatial...), weights (G, IC/G, OC/G, kernel...), in any memory order. In the backward
    directions src, weights and dst name the tensors of these shapes: backward data reads dst (the user's diff_dst) and
    weights, and writes src (diff_src); backward weights reads src and dst, and writes weights (diff_weights).

    All problems are those of a ConvTranspose. An ordinary convolution is the backward data of one, with a bias and
    post-ops on src: it reads dst and writes src.
    """

    direction: str
    geometry: Sizes
    src: View
    weights: View
    dst: View
    bias: View | None = None
    # post-ops on the result
    epilogue: Epilogue = ()

    @property
    def dtype(self) -> str:
        """The dtype of the tensors that are read; the result may have a wider dtype if post-ops follow."""
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
        """The number of multiplications by the definition, including products of taps with padding."""
        return self.geometry.macs

    def with_views(self, **views: Any) -> Problem:
        """Returns the problem with other views or post-ops in the named fields."""
        return replace(self, **views)


def data_view(view: View, data_format: str) -> View:
    """Returns a view of an activation with the axes (N, C, spatial...)."""
    if data_format == "NCX":
        return view
    last = view.ndim - 1
    return view.permute((0, last, *range(1, last)))


def weights_view(view: View, attrs: Attributes, exchanged: bool) -> View:
    """Returns a view of weights with the axes (G, IC/G, OC/G, kernel...), from any format and either grouped shape.

    `exchanged`: the weights are an ordinary convolution's, whose O is IC here, and whose I is OC.
    """
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


def is_channels_last(view: View) -> bool:
    """Whether the channels of an activation (N, C, spatial...) are contiguous."""
    return view.strides[1] == 1 or view.shape[1] <= 1


def channels_apart(problem: Problem) -> bool:
    """Whether the channels of src or dst are not contiguous."""
    return not (is_channels_last(problem.src) and is_channels_last(problem.dst))

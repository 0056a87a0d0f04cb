"""Describes a convolution in one direction as a `ConvProblem`: sizes, and strided views with axes in a fixed order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from ..once import once
from ..program import kernel_post_ops
from ..program.epilogue import Epilogue, map_views
from ..program.program import Buffer, Ints, Place, View, dense_in
from ..record import record
from ..schema import OPS
from ..shapes.attributes import Attributes, Geometry
from ..shapes.common import channel_axes
from ..strides import channels_last
from ..symbolic import current, int_of, plain
from .quantization import Quantization, Residual

# Directions of an ordinary convolution y = x * w: of y, of the gradient of x, of the gradient of w. A ConvTranspose is
# a dgrad. Recorded times, constants in `fits` and builtin kernels use these names.
FPROP, DGRAD, WGRAD = "fprop", "dgrad", "wgrad"
# direction -> the views of a problem that are read, and the view that is written
READ = {DGRAD: ("y", "w"), FPROP: ("x", "w"), WGRAD: ("y", "x")}
RESULT = {DGRAD: "x", FPROP: "y", WGRAD: "w"}


# fields of Sizes that a geometry, which is that of a ConvTranspose, has under other names
_OF_GEOMETRY = {"y_channels": "in_channels", "x_channels": "out_channels", "y": "src", "x": "dst"}
_PER_AXIS = ("y", "kernel", "x", "strides", "pads_begin", "pads_end", "dilations", "output_padding")


@record()
class Sizes:
    """The sizes of a convolution of x to y, of which `x` and `y` are the spatial ones.

    x = strides * (y - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding
    """

    batch: int
    groups: int
    y_channels: int
    x_channels: int
    y: Ints
    kernel: Ints
    x: Ints
    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    # last positions of x that no position of y reads, beyond those that pads_end makes up for
    output_padding: Ints

    @classmethod
    def of(cls, geometry: Geometry) -> Sizes:
        """Returns the sizes of a geometry, which is that of a ConvTranspose: its src is y, and its dst x."""
        return cls(*_FIELDS_OF_GEOMETRY(geometry))

    @property
    def rank(self) -> int:
        return len(self.strides)

    @property
    def fields(self) -> tuple[Any, ...]:
        """All sizes in order."""
        fields: tuple[Any, ...] = _FIELDS(self)
        return fields

    def resized(self, batch: int, y: Ints, x: Ints, pads_begin: Ints, pads_end: Ints, output_padding: Ints) -> Sizes:
        """Returns the sizes of the same layer on other positions, in a fraction of the time of `replace`."""
        return Sizes(
            batch, self.groups, self.y_channels, self.x_channels, y, self.kernel, x, self.strides, pads_begin, pads_end,
            self.dilations, output_padding,
        )  # fmt: skip

    @property
    def macs(self) -> int:
        """The number of multiplications by the definition, including products of taps with padding."""
        total = self.batch * self.y_channels * (self.x_channels // self.groups)
        for n, k in zip(self.y, self.kernel, strict=True):
            total *= n * k
        return total


_FIELDS = attrgetter(*(field.name for field in fields(Sizes)))
_FIELDS_OF_GEOMETRY = attrgetter(*(_OF_GEOMETRY.get(field.name, field.name) for field in fields(Sizes)))


@record(slots=False)
class ConvProblem:
    """A direction of the convolution y = x * w, as algorithms compute it.

    Axes: x is (N, C, spatial...), y (N, K, spatial...), w (G, K/G, C/G, kernel...), in any memory order. In each
    direction x, w and y name the tensors of these shapes: fprop reads x and w, and writes y; dgrad reads y (a gradient)
    and w, and writes x; wgrad reads y and x, and writes w.

    A transposed convolution is the dgrad of an ordinary one, with a bias and post-ops on x: its src is y, its dst is x.
    Its backward data is fprop, its backward weights wgrad.
    """

    direction: str
    geometry: Sizes
    y: View
    w: View
    x: View
    bias: View | None = None
    # post-ops on the result
    epilogue: Epilogue = ()
    # the layer is in f32, and in a narrow type by the precision that the user asked for
    narrowed: bool = False
    # of a layer of 8-bit integers, whose post-ops compute in f32
    quantization: Quantization | None = None

    @once
    def dtype(self) -> str:
        """The dtype of the tensors that are read; the result may have a wider dtype if post-ops follow."""
        return self.x.dtype if self.direction == FPROP else self.y.dtype

    @property
    def read(self) -> list[View]:
        return [getattr(self, name) for name in READ[self.direction]]

    @property
    def result(self) -> View:
        view: View = getattr(self, RESULT[self.direction])
        return view

    @property
    def residual(self) -> Residual | None:
        """Returns what is added to the integers of the result; None if nothing is."""
        return None if self.quantization is None else self.quantization.residual

    @property
    def macs(self) -> int:
        """The number of multiplications by the definition, including products of taps with padding."""
        return self.geometry.macs

    @property
    def weights_axis(self) -> int:
        """The axis of w (G, K/G, C/G, kernel...) with the channels of the result, for fprop and dgrad."""
        return 2 if self.direction == DGRAD else 1

    @once
    def answers(self) -> dict[Hashable, Any]:
        """Answers that algorithms have worked out of the problem, by their keys: several algorithms ask the same.

        They depend neither on the bias nor on post-ops.
        """
        return {}

    def shares(self, answers: dict[Hashable, Any]) -> None:
        """Takes the answers of a layer that differs from this one in the bias and in post-ops alone."""
        self.__dict__["answers"] = answers

    @once
    def floats(self) -> ConvProblem:
        """The layer as algorithms in floats compute it: itself, or if it is quantized, on buffers in f32.

        These are for estimates only; weights that are constant are described.
        """
        if self.quantization is None:
            return self
        w = self.w.buffer
        place = Place.CONSTANT if self.w.is_constant else Place.SCRATCH
        weights = replace(self.w, buffer=Buffer(place, "f32", w.elements))
        return replace(self, y=as_floats(self.y), x=as_floats(self.x), w=weights, quantization=None)

    @once
    def functions(self) -> list[Sequence[float]]:
        """The nanoseconds of the functions, such as Tanh, among the post-ops, as the op table has them."""
        return [nanoseconds for op in self.epilogue if (nanoseconds := OPS[op.kind].nanoseconds)]

    @property
    def takes_epilogue(self) -> bool:
        """Whether a kernel that writes channels-last results can apply the post-ops."""
        return self.expressed is not None

    @once
    def expressed(self) -> kernel_post_ops.Expressed | None:
        """The post-ops as kernels that write channels-last results can apply them; None where they cannot.

        A result of another layout counts as channels last, because it is copied from channels-last scratch afterwards.
        """
        result = as_floats(self.result) if self.quantization is not None else self.result
        if not is_channels_last(result):
            strides = dense_in(result.shape, channels_last(result.ndim))
            result = View(result.buffer, result.shape, strides, result.offset)
        return kernel_post_ops.expressed_on(self.epilogue, result)

    def resized(self, geometry: Sizes, y: View, x: View, epilogue: Epilogue = ()) -> ConvProblem:
        """Returns the same layer on other positions, in a fraction of the time of `replace`."""
        return ConvProblem(
            self.direction, geometry, y, self.w, x, self.bias, epilogue, self.narrowed, self.quantization
        )

    def with_views(self, **views: Any) -> ConvProblem:
        """Returns the problem with other views or post-ops in the named fields; itself where they are the same."""
        return self if all(getattr(self, name) is view for name, view in views.items()) else replace(self, **views)


def as_floats(view: View) -> View:
    """Returns a view in f32 with the same strides: post-ops in a kernel see results so, before they are rounded."""
    return replace(view, buffer=Buffer(Place.SCRATCH, "f32", view.buffer.elements))


def at_values(problem: ConvProblem) -> ConvProblem:
    """Returns the problem with the values that its sizes have in a trace, for estimates: these add no conditions."""
    if current() is None:
        return problem
    return replace(
        problem,
        geometry=Sizes(*plain(problem.geometry.fields)),
        y=problem.y.at_values(),
        w=problem.w.at_values(),
        x=problem.x.at_values(),
        epilogue=map_views(problem.epilogue, View.at_values),
    )


def without_last_axes(problem: ConvProblem) -> ConvProblem:
    """Returns the problem without last spatial axes of one position and one tap, but for its first axis.

    Kernels go along the last axis, where such a one leaves them nothing to go along.
    """
    g = problem.geometry
    rank = g.rank
    while rank > 1 and 1 == g.x[rank - 1] == g.y[rank - 1] == g.kernel[rank - 1] and not g.pads_begin[rank - 1]:
        rank -= 1
    if rank == g.rank:
        return problem
    changed = {name: getattr(g, name)[:rank] for name in _PER_AXIS}

    def cut(view: View) -> View:
        return view.without_last(g.rank - rank) if view.ndim > 1 else view

    return problem.with_views(
        geometry=replace(g, **changed),
        y=cut(problem.y),
        w=cut(problem.w),
        x=cut(problem.x),
        epilogue=map_views(problem.epilogue, cut),
    )


def without_idle_taps(problem: ConvProblem) -> ConvProblem:
    """Returns the problem without first and last taps that meet nothing but padding, such as 8 of 3x3 on images of 1x1.

    In wgrad such taps have a result, a gradient of zero, and stay.
    """
    if problem.direction == WGRAD or not problem.macs:
        return problem
    g, w = problem.geometry, problem.w
    kernel, pads_begin, pads_end = list(g.kernel), list(g.pads_begin), list(g.pads_end)
    for axis, step in enumerate(g.dilations):
        # pads stay at least 0
        while kernel[axis] > 1 and pads_begin[axis] >= step and not _is_used(g, axis, -pads_begin[axis]):
            kernel[axis] -= 1
            pads_begin[axis] -= step
            w = w.narrow(3 + axis, 1, kernel[axis])
        while (
            kernel[axis] > 1
            and pads_end[axis] >= step
            and not _is_used(g, axis, (kernel[axis] - 1) * step - pads_begin[axis])
        ):
            kernel[axis] -= 1
            pads_end[axis] -= step
            w = w.narrow(3 + axis, 0, kernel[axis])
    if w is problem.w:
        return problem
    g = replace(g, kernel=tuple(kernel), pads_begin=tuple(pads_begin), pads_end=tuple(pads_end))
    return problem.with_views(geometry=g, w=w)


def _is_used(g: Sizes, axis: int, first: int) -> bool:
    """Whether a tap meets any position of x along an axis; `first`: where it lies for the first position of y.

    A tap that meets one in the sizes of a trace stays for other ones as well.
    """
    stride = g.strides[axis]
    skipped = max(-(first // stride), 0)
    last = first + skipped * stride
    if skipped < int_of(g.y[axis]) and last < int_of(g.x[axis]):
        return True
    trace = current()
    return trace is not None and not trace.allows(lambda: skipped >= g.y[axis] or last >= g.x[axis])


def data_view(view: View, data_format: str) -> View:
    """Returns a view of an activation with the axes (N, C, spatial...)."""
    if data_format == "NCX":
        return view
    last = view.ndim - 1
    return view.permute((0, last, *range(1, last)))


def weights_view(view: View, attrs: Attributes, ordinary: bool) -> View:
    """Returns a view of weights with the axes (G, K/G, C/G, kernel...), from any format and either grouped shape.

    `ordinary`: the weights are an ordinary convolution's, whose O is K, and whose I is C; a transposed one's I is K.
    """
    i, o = channel_axes(attrs.weights_format, view.ndim)
    k, c = (o, i) if ordinary else (i, o)
    groups, ordered = attrs.groups, view
    if (k, c) != (0, 1):
        ordered = view.permute((k, c, *[axis for axis in range(view.ndim) if axis not in (k, c)]))
    if groups == 1 and not attrs.known.weights.documented:
        # `split` in a third of the time
        first = ordered.shape[0] * ordered.strides[0]
        return View(ordered.buffer, (1, *ordered.shape), (first, *ordered.strides), ordered.offset)
    if attrs.known.weights.documented:
        split = ordered.split(1, (groups, ordered.shape[1] // groups))
        return split.permute((1, 0, 2, *range(3, split.ndim)))
    return ordered.split(0, (groups, ordered.shape[0] // groups))


def is_channels_last(view: View) -> bool:
    """Whether the channels of an activation (N, C, spatial...) are contiguous."""
    return view.strides[1] == 1 or view.shape[1] <= 1


def channels_apart(problem: ConvProblem) -> bool:
    """Whether the channels of x or y are not contiguous."""
    return not (is_channels_last(problem.x) and is_channels_last(problem.y))

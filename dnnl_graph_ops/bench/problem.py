"""A transposed or ordinary convolution as a problem to measure: its sizes, its arithmetic, its bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, NamedTuple

from ..errors import InvalidArgumentError, ShapeError

OPS: Final = ("conv_transpose", "conv")
DIRECTIONS: Final = ("fwd", "bwd_d", "bwd_w")
LAYOUTS: Final = ("NXC", "NCX")
_PER_AXIS: Final = ("kernel", "strides", "pads_begin", "pads_end", "output_padding", "dilations")
_TRANSPOSED, _ORDINARY = OPS
# classes of layers that a report gives means of: each is bound by something else
THREE, OTHER, POINTWISE, GROUPED, FIRST = CLASSES = (
    "3x3 stride 1",
    "other",
    "1x1",
    "depthwise and small groups",
    "first layers",
)
_FIRST_CHANNELS: Final = 4
_THREE_CHANNELS: Final = 32


class Axis(NamedTuple):
    """One spatial axis of a problem."""

    size: int
    kernel: int
    stride: int
    pad_begin: int
    pad_end: int
    output_padding: int
    dilation: int
    transposed: bool = True

    @property
    def extent(self) -> int:
        """Kernel size with its dilation."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def out(self) -> int:
        if not self.transposed:
            return (self.size + self.pad_begin + self.pad_end - self.extent) // self.stride + 1
        return self.stride * (self.size - 1) + self.extent - self.pad_begin - self.pad_end + self.output_padding

    def target(self, index: int, tap: int) -> int:
        """Where a tap of a transposed convolution puts an input, within the output or not."""
        return index * self.stride + tap * self.dilation - self.pad_begin

    def sources(self, tap: int) -> range:
        """The inputs that a tap puts within the output."""
        start = self.target(0, tap)
        return range(max(0, -(start // self.stride)), min(self.size, (self.out - 1 - start) // self.stride + 1))


@dataclass(frozen=True)
class Problem:
    """Sizes of one layer. Every per-axis field has one value per spatial axis; dilation 1 means none.

    `op` is "conv_transpose" or "conv"; `spatial` is the input of its forward, whose output is `out_spatial`.
    """

    name: str
    batch: int
    in_channels: int
    out_channels: int
    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    bias: bool = False
    family: str = ""
    source: str = ""
    op: str = _TRANSPOSED

    def __post_init__(self) -> None:
        rank = len(self.spatial)
        for name, fallback in zip(_PER_AXIS, (None, 1, 0, None, 0, 1), strict=True):
            value = tuple(getattr(self, name))
            if not value:
                value = self.pads_begin if fallback is None else (fallback,) * rank
            object.__setattr__(self, name, value)
        object.__setattr__(self, "spatial", tuple(self.spatial))
        self._validate()

    def _validate(self) -> None:
        where = f"problem {self.name!r}"
        if self.op not in OPS:
            raise InvalidArgumentError(f"{where}: op {self.op!r}; known: {', '.join(OPS)}")
        if not 1 <= len(self.spatial) <= 3:
            raise ShapeError(f"{where}: 1 to 3 spatial axes are measured, got {list(self.spatial)}")
        for name in _PER_AXIS:
            value = getattr(self, name)
            if len(value) != len(self.spatial):
                raise ShapeError(
                    f"{where}: {name} {list(value)} needs one value per spatial axis of {list(self.spatial)}"
                )
            least = 1 if name in ("kernel", "strides", "dilations") else 0
            if any(not isinstance(v, int) or v < least for v in value):
                raise InvalidArgumentError(f"{where}: {name} must be integers >= {least}, got {list(value)}")
        for name in ("batch", "in_channels", "out_channels", "groups"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise InvalidArgumentError(f"{where}: {name} must be an integer >= 1, got {getattr(self, name)!r}")
        if any(v < 1 for v in self.spatial):
            raise ShapeError(f"{where}: spatial sizes must be >= 1, got {list(self.spatial)}")
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                raise ShapeError(f"{where}: {name} {getattr(self, name)} is not a multiple of groups {self.groups}")
        if any(v < 1 for v in self.out_spatial):
            remedy = "lower the padding" if self.transposed else "a smaller kernel or more padding gives one"
            raise ShapeError(f"{where}: the sizes leave an output of {list(self.out_spatial)}; {remedy}")
        if any(self.output_padding) and not self.transposed:
            raise InvalidArgumentError(
                f"{where}: output_padding {list(self.output_padding)} is of transposed convolutions; pad with pads_end"
            )

    @property
    def transposed(self) -> bool:
        """Whether the op is a transposed convolution."""
        return self.op == _TRANSPOSED

    @property
    def adjoint(self) -> Problem:
        """The transposed convolution with these weights; of an ordinary one, its backward data as a forward.

        Its src is this dst and its dst this src; weights and multiply-adds are the same.
        """
        if self.transposed:
            return self
        return replace(
            self,
            op=_TRANSPOSED,
            in_channels=self.out_channels,
            out_channels=self.in_channels,
            spatial=self.out_spatial,
            # what the last window leaves of src
            output_padding=tuple((a.size + a.pad_begin + a.pad_end - a.extent) % a.stride for a in self.axes),
            bias=False,
        )

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.spatial)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Sizes and attributes by spatial axis."""
        each = (self.spatial, self.kernel, self.strides, self.pads_begin, self.pads_end, self.output_padding)
        return tuple(map(Axis, *each, self.dilations, (self.transposed,) * self.rank))

    @property
    def extent(self) -> tuple[int, ...]:
        """Kernel size with its dilation."""
        return tuple(axis.extent for axis in self.axes)

    @property
    def out_spatial(self) -> tuple[int, ...]:
        """Spatial sizes of dst."""
        return tuple(axis.out for axis in self.axes)

    def attributes(self, layout: str) -> dict[str, Any]:
        """Keywords of the op for data of this layout and weights of `weights_shape`."""
        left_out = ("kernel",) if self.transposed else ("kernel", "output_padding")
        named = {name: getattr(self, name) for name in (*_PER_AXIS, "groups") if name not in left_out}
        return {**named, "data_format": layout, "weights_format": "IOX" if self.transposed else "OIX"}

    def src_shape(self, layout: str = "NCX") -> tuple[int, ...]:
        """(N, IC, spatial...) for NCX, (N, spatial..., IC) for NXC."""
        return _activation_shape(self.batch, self.in_channels, self.spatial, layout)

    def dst_shape(self, layout: str = "NCX") -> tuple[int, ...]:
        """(N, OC, spatial...) for NCX, (N, spatial..., OC) for NXC."""
        return _activation_shape(self.batch, self.out_channels, self.out_spatial, layout)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The layout of PyTorch and ONNX: IOX, (IC, OC/groups, k...); of an ordinary one OIX, (OC, IC/groups, k...)."""
        if not self.transposed:
            return (self.out_channels, self.in_channels // self.groups, *self.kernel)
        return (self.in_channels, self.out_channels // self.groups, *self.kernel)

    @property
    def macs(self) -> int:
        """Multiply-adds of the direct algorithm, taps outside the tensors not counted (as in benchdnn)."""
        taps = math.prod(sum(len(a.sources(tap)) for tap in range(a.kernel)) for a in self.adjoint.axes)
        return self.batch * self.in_channels * self.out_channels // self.groups * taps

    def elements(self) -> dict[str, int]:
        """{tensor: number of its elements} of src, weights and dst."""
        return {
            "src": math.prod(self.src_shape()),
            "weights": math.prod(self.weights_shape),
            "dst": math.prod(self.dst_shape()),
        }

    @property
    def depthwise(self) -> bool:
        """Whether each group has one input and one output channel."""
        return self.groups > 1 and self.groups == self.in_channels == self.out_channels

    @property
    def layer_class(self) -> str:
        """One of `CLASSES`: what bounds it. Three taps may be of one, two or three axes, and dilated."""
        if self.groups > 1:
            return GROUPED
        if self.in_channels <= _FIRST_CHANNELS:
            return FIRST
        if set(self.kernel) == {1}:
            return POINTWISE
        wide = min(self.in_channels, self.out_channels) >= _THREE_CHANNELS
        return THREE if wide and set(self.kernel) == {3} and set(self.strides) == {1} else OTHER

    def limited(self, max_gmacs: float | None) -> Problem | None:
        """The problem with its batch halved until it is below `max_gmacs`; None if one image is above."""
        problem = self
        while max_gmacs is not None and problem.macs > max_gmacs * 1e9:
            if problem.batch == 1:
                return None
            problem = replace(problem, batch=problem.batch // 2)
        return problem

    def as_dict(self) -> dict[str, Any]:
        """The problem as dicts and lists, which JSON can hold."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Problem:
        """Inverse of `as_dict`. Unknown or missing keys raise InvalidArgumentError naming them."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(record) - known)
        missing = sorted({"batch", "in_channels", "out_channels", "spatial", "kernel"} - set(record))
        if unknown or missing:
            raise InvalidArgumentError(
                f"problem {record.get('name', '?')!r}: unknown keys {unknown}, missing keys {missing}; "
                f"the keys are {sorted(known)}"
            )
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else v for k, v in record.items()
        }
        values.setdefault("name", "unnamed")
        try:
            return cls(**values)
        except TypeError as error:
            raise InvalidArgumentError(f"problem {values['name']!r}: {error}") from None


def way(op: str, direction: str) -> str:
    """A direction in words that tell the ops apart: "fwd", "conv fwd"."""
    return direction if op == _TRANSPOSED else f"{op} {direction}"


def _activation_shape(batch: int, channels: int, spatial: tuple[int, ...], layout: str) -> tuple[int, ...]:
    return (batch, channels, *spatial) if layout == "NCX" else (batch, *spatial, channels)

"""Random graphs whose arrays are small integers, so that every result has one exact value."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from reference.data import EXTENTS, integers
from reference.rounding import DTYPES

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

T = TypeVar("T")


class Again(Exception):
    """The sizes that were drawn make no graph of the kind that is wanted."""


class Draw:
    """A graph being drawn. In half of the draws all extents are one number: a wrong axis has the right shape there.

    `outputs`: the values that the net returns. `tolerance`: of the largest result, where results are not exact.
    `exact`: numbers below it are, of whole and half ones. `options`: how the net is compiled. `forced`: attributes of
    modules that hold meanwhile, where an estimate decides else. `nets`: how many are compiled, and live together.
    `turned`: whether results lie in the reverse order of their axes.
    """

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = dgo.Graph()
        self.arrays: dict[dgo.Value, np.ndarray] = {}
        self.outputs: list[dgo.Value] = []
        self.tolerance = 0.0
        # sums of a few such numbers are exact in f32
        self.exact = 2.0**20
        self.options: dict[str, Any] = {}
        self.nets = 1
        self.forced: list[tuple[Any, str, Any]] = []
        self.extent = int(self.rng.choice(EXTENTS)) if self.chance() else None
        self.turned = self.chance(0.2)

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, *items: T) -> T:
        return items[self.whole(0, len(items) - 1)]

    def size(self, low: int = 1, high: int = 6) -> int:
        return self.whole(low, high) if self.extent is None else self.extent

    def sizes(self, rank: int) -> list[int]:
        return [self.size() for _ in range(rank)]

    # ---- tensors -----------------------------------------------------------------------------------------------------

    def input(self, shape: Sequence[int], dtype: str = "f32", limit: int = 2) -> dgo.Value:
        array = integers(self.rng, shape, "f32", limit)
        array = np.abs(array) if dtype == "u8" else array
        value = self.graph.input(f"in{len(self.arrays)}", shape, dtype)
        self.arrays[value] = array.astype(DTYPES[dtype])
        return value

    def constant(self, shape: Sequence[int], limit: int = 2, dtype: str = "f32") -> dgo.Value:
        array = integers(self.rng, shape, "f32", limit)
        return self.graph.constant((np.abs(array) if dtype == "u8" else array).astype(DTYPES[dtype]))

    def number(self, *choices: float, shape: Sequence[int] = ()) -> dgo.Value:
        return self.graph.constant(np.full(shape, self.pick(*choices), np.float32))

    def either(self, shape: Sequence[int], limit: int = 2) -> dgo.Value:
        return self.constant(shape, limit) if self.chance() else self.input(shape, limit=limit)

    # ---- pieces of graphs --------------------------------------------------------------------------------------------

    def images(self, rank: int, data_format: str, dtype: str = "f32", channels: int | None = None) -> dgo.Value:
        """An input (N, C, spatial...) or (N, spatial..., C)."""
        n, c, *spatial = self.sizes(rank + 2)
        c = c if channels is None else channels
        return self.input((n, c, *spatial) if data_format == "NCX" else (n, *spatial, c), dtype)

    def before(self, value: dgo.Value) -> dgo.Value:
        """The value, or what an op makes of it."""
        return ops.relu(value) if self.chance(0.3) else value

    def after(self, value: dgo.Value) -> dgo.Value:
        if value.dtype != "f32" or self.chance(0.7):
            return value
        return self.pick(ops.abs, ops.relu, lambda v: v + self.either(v.shape))(value)

    def leave(self, value: dgo.Value) -> None:
        """The net returns it, or what ops make of it."""
        self.outputs.append(self.after(value))

    def read_again(self, value: dgo.Value) -> None:
        """One more reader, whose result the net returns."""
        if value.dtype == "boolean":
            self.outputs.append(ops.select(value, self.number(1.0), self.number(2.0)))
        else:
            self.outputs.append(self.pick(ops.abs, ops.relu, ops.square)(value))

    def between(self, value: dgo.Value, unmet: str | None) -> dgo.Value:
        """A value that lies between the parts of a rewrite: with another reader, or returned, where that is wanted."""
        if unmet is not None and unmet.startswith("no other op reads"):
            self.read_again(value)
        if unmet is not None and unmet.startswith("the net does not return"):
            self.outputs.append(value)
        return value


class Window:
    """Kernel, pads, strides and dilations of a convolution on (N, C, spatial...), whose sizes fit."""

    def __init__(self, d: Draw, rank: int, data_format: str, **chosen: Any) -> None:
        self.rank, self.data_format = rank, data_format
        self.kernel = [d.whole(1, 3) for _ in range(rank)]
        self.strides = [d.pick(1, 1, 2) for _ in range(rank)]
        self.dilations = [d.pick(1, 1, 2) for _ in range(rank)]
        self.pads_begin = [d.whole(0, reach) for reach in self.reach]
        self.pads_end = [d.whole(0, reach) for reach in self.reach]
        vars(self).update(chosen)

    @property
    def reach(self) -> list[int]:
        """How far the last tap is from the first."""
        return [(k - 1) * d for k, d in zip(self.kernel, self.dilations, strict=True)]

    def fits(self, shape: Sequence[int]) -> None:
        spatial = shape[2:] if self.data_format == "NCX" else shape[1:-1]
        edges = zip(spatial, self.pads_begin, self.pads_end, self.reach, strict=True)
        if any(size + begin + end <= reach for size, begin, end, reach in edges):
            raise Again

    @property
    def keywords(self) -> dict[str, Any]:
        names = ("strides", "dilations", "pads_begin", "pads_end", "data_format")
        return {name: getattr(self, name) for name in names}


def channels_of(value: dgo.Value, data_format: str) -> int:
    return int(value.shape[1 if data_format == "NCX" else -1] or 0)


def convolution(
    d: Draw, x: dgo.Value, window: Window, *, bias: bool | None = None, constant: bool = True, transposed: bool = False
) -> dgo.Value:
    """A Convolution, or ConvTranspose, of x with weights and bias of small integers."""
    channels, groups = channels_of(x, window.data_format), 1
    made = d.size()
    if d.chance(0.2):
        groups = channels
        made = d.pick(1, 2) if d.extent is None else 1
    make = d.constant if constant else d.input
    shape = (channels // groups, made if transposed else made * groups, *window.kernel)
    if transposed:
        shape = (channels, made, *window.kernel)
        more = {"output_padding": [d.whole(0, s - 1) for s in window.strides]}
    else:
        shape = (made * groups, channels // groups, *window.kernel)
        more = {}
        window.fits(x.shape)
    weights = make(shape, limit=2)
    biased = d.chance() if bias is None else bias
    operands = (make((made * groups,)),) if biased else ()
    builder = ops.conv_transpose if transposed else ops.convolution
    order = "IOX" if transposed else "OIX"
    try:
        return builder(x, weights, *operands, **window.keywords, **more, groups=groups, weights_format=order)
    except dgo.ShapeError as refused:
        raise Again from refused

"""Stages that build graphs at a call, when the ranks of their inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...compile.specialise import Options
from ...graph import Graph, Value
from ...net.net import Net, made
from ...net.sizes import Parts
from ...runtime.locks import Builds
from .node import Tensor
from .section import Section
from .stages import Stage, plain, several

# most graphs of a stage, for different dtypes and ranks
_MOST = 8
Variant = tuple[tuple[Tensor, ...], Options, Net]


class _Last(NamedTuple):
    """The dtypes and shapes of the last call, its options, its net, and the tensors that the net takes."""

    described: list[Any]
    options: Options
    net: Net
    places: tuple[int, ...]


@dataclass(eq=False)
class SubModel(Section, Stage):
    """A section with a graph for each set of ranks.

    Sizes count as fixed until they change, and are dynamic from then on.
    """

    build: Callable[[Sequence[Tensor]], Graph]
    info_of: Callable[[Any], Tensor]
    _variants: list[Variant] = field(default_factory=list)
    _last: _Last | None = None
    _builds: Builds = field(default_factory=Builds)

    title = "nodes whose ranks a call tells"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.inputs

    @property
    def gives(self) -> tuple[str, ...]:
        return self.outputs

    def __call__(self, values: Sequence[Any], options: Options) -> Sequence[Any]:
        # iterations of a loop are alike and need no search for a net
        described, last = [_described(value) for value in values], self._last
        if last is None or None in described or last.described != described or last.options is not options:
            last = self._last = self._looked_up(values, options, described)
        return several(last.net(*[plain(values[i]) for i in last.places]))

    def outputs_like(self, values: Sequence[Any], options: Options) -> Sequence[Value]:
        """Returns the outputs, with their types, of the graph for these inputs, which does not run."""
        last = self._looked_up(values, options, [_described(value) for value in values])
        return tuple(last.net.outputs.values())

    def _looked_up(self, values: Sequence[Any], options: Options, described: list[Any]) -> _Last:
        given = [self.info_of(value) for value in values]
        net = self._builds.once(lambda: self._find(given, options), lambda: self._made(given, options))
        return _Last(described, options, net, tuple(self.inputs.index(name) for name in net.input_names))

    def parts(self, known: Mapping[str, Tensor]) -> Parts:
        return Parts((), (self.title,))

    def nets(self) -> Sequence[Net]:
        return [net for _, _, net in list(self._variants)]

    def _find(self, given: Sequence[Tensor], options: Options) -> Net | None:
        for infos, chosen, net in list(self._variants):
            if chosen == options and all(map(_fits, given, infos)):
                return net
        return None

    def _made(self, given: Sequence[Tensor], options: Options) -> Net:
        near = next((one for one in self._variants if one[1] == options and all(map(_alike, given, one[0]))), None)
        infos = tuple(given) if near is None else tuple(map(Tensor.common, given, near[0]))
        net = made(self.build(infos), None, options)
        kept = [one for one in self._variants if one is not near]
        self._variants = [*kept[-_MOST + 1 :], (infos, options, net)]
        return net


def _described(value: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Returns the dtype and shape of an array; None for a sequence."""
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else None


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two descriptions differ in sizes only."""
    return (one.code, one.kind, one.shape is None) == (other.code, other.kind, other.shape is None) and len(
        one.shape or ()
    ) == len(other.shape or ())


def _fits(given: Tensor, stated: Tensor) -> bool:
    sizes = zip(given.shape or (), stated.shape or (), strict=False)
    return _alike(given, stated) and all(want in (None, got) for got, want in sizes)

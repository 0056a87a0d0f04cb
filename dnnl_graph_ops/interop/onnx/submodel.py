"""A part of a model that becomes graphs at a call, when the ranks of what it reads are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...compile.net import Net, made
from ...compile.specialise import Options
from ...graph import Graph
from ...runtime.locks import Builds
from .node import Array, Info, OnnxNode

# graphs of a part, for tensors of other types or ranks
_MOST = 8
Variant = tuple[tuple[Info, ...], Options, Net]


@dataclass(eq=False)
class SubModel:
    """Nodes as a function of tensors, by the names `inputs`; each set of ranks has a graph.

    Sizes are taken for granted until they change; those that did are known at the call only.
    """

    where: str
    nodes: Sequence[OnnxNode]
    arrays: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    build: Callable[[SubModel, Sequence[Info]], Graph]
    info_of: Callable[[Any], Info]
    # what it may compute as it is built
    budget: int
    engine: Any = None
    _variants: list[Variant] = field(default_factory=list)
    _builds: Builds = field(default_factory=Builds)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_variants", "_builds")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _variants=[], _builds=Builds())

    def __call__(self, values: Sequence[Any], options: Options) -> list[Any]:
        given = [self.info_of(value) for value in values]
        net = self._builds.once(lambda: self._find(given, options), lambda: self._made(given, options))
        by_name = dict(zip(self.inputs, values, strict=True))
        found = net(*(by_name[name] for name in net.input_names))
        return list(found) if isinstance(found, tuple) else [found]

    @property
    def nets(self) -> list[Net]:
        return [net for _, _, net in list(self._variants)]

    def _find(self, given: Sequence[Info], options: Options) -> Net | None:
        for infos, chosen, net in list(self._variants):
            if chosen == options and all(map(_fits, given, infos)):
                return net
        return None

    def _made(self, given: Sequence[Info], options: Options) -> Net:
        near = next((one for one in self._variants if one[1] == options and all(map(_alike, given, one[0]))), None)
        infos = tuple(given) if near is None else tuple(map(_common, given, near[0]))
        net = made(self.build(self, infos), None, options)
        kept = [one for one in self._variants if one is not near]
        self._variants = [*kept[-_MOST + 1 :], (infos, options, net)]
        return net


def _alike(one: Info, other: Info) -> bool:
    """Whether they differ in sizes only."""
    return (one.code, one.kind, one.shape is None) == (other.code, other.kind, other.shape is None) and len(
        one.shape or ()
    ) == len(other.shape or ())


def _fits(given: Info, stated: Info) -> bool:
    sizes = zip(given.shape or (), stated.shape or (), strict=False)
    return _alike(given, stated) and all(want in (None, got) for got, want in sizes)


def _common(one: Info, other: Info) -> Info:
    if one.shape is None or other.shape is None:
        return one
    return one._replace(shape=tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True)))

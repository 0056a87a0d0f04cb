"""Runs the passes in order, and collects the graph, its groups or its steps as text after each pass and stage."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from ..ir import GraphView
from ..lowering.env import Env
from . import fold_affine, fold_constants, fold_padding, fuse_patterns, mixed_precision, propagate_qdq

IN_F32 = "f32"
_DUMP = "DNNL_GRAPH_OPS_DUMP"


@dataclass
class Setting:
    """The environment and options of passes, and the results of `mixed_precision`.

    `prepare`: returns a function that computes a value from constants. `precision`: the dtype that products may be
    computed in. `refused`: names of products that stay in f32. `weighed`: whether products are narrow only in regions
    that gain more than their conversions cost.

    Results: `wide`: names of products that stay in f32 although another precision was asked for, and why. `narrow`:
    names of the other products, and the seconds that each gains by estimate.
    """

    env: Env
    prepare: fold_constants.Prepare
    precision: str = IN_F32
    refused: tuple[str, ...] = ()
    weighed: bool = True
    wide: Mapping[str, str] = field(default_factory=dict)
    narrow: Mapping[str, float] = field(default_factory=dict)


class Pass(NamedTuple):
    """A pass over a graph, which `run` changes; `on_device`: whether it also runs for tensors in a device's memory."""

    name: str
    run: Callable[[GraphView, Setting], None]
    on_device: bool = True


def _fold_constants(graph: GraphView, setting: Setting) -> None:
    fold_constants.run(graph, setting.prepare)


def _mixed_precision(graph: GraphView, setting: Setting) -> None:
    if setting.precision == IN_F32:
        return
    if setting.env.fpmath_mode == "strict":
        setting.wide, setting.narrow = mixed_precision.run(
            graph, setting.precision, setting.env, setting.refused, weighed=setting.weighed
        )
    else:
        setting.wide = mixed_precision.obeying(graph.nodes(), setting.env)


def _alone(run: Callable[[GraphView], None]) -> Callable[[GraphView, Setting], None]:
    return lambda graph, _: run(graph)


PASSES: tuple[Pass, ...] = (
    Pass("fold_constants", _fold_constants, on_device=False),
    Pass("fold_padding", _alone(fold_padding.run)),
    Pass("fold_affine", _alone(fold_affine.run)),
    Pass("fuse_patterns", _alone(fuse_patterns.run)),
    Pass("decompose_batch_norm", _alone(fold_affine.decompose_batch_norm), on_device=False),
    Pass("propagate_qdq", _alone(propagate_qdq.run), on_device=False),
    Pass("mixed_precision", _mixed_precision),
)

# the stages after the passes, from ops to a plan; on a device and with tune="off" some have nothing to do
STAGES = (
    "fuse_groups", "fold_dequantize", "choose_layouts", "lower", "tile_rows", "onednn_workarounds", "pack_weights",
    "compile_partitions", "place_memory",
)  # fmt: skip

_watching: ContextVar[list[tuple[str, str]] | None] = ContextVar("_watching", default=None)


def run(graph: GraphView, setting: Setting) -> None:
    """Runs all passes on `graph`, one after the other."""
    tell = teller()
    tell("as given", graph.listing)
    for each in PASSES:
        if each.on_device or setting.env.engine.on_host:
            each.run(graph, setting)
            tell(f"after {each.name}", graph.listing)


# takes what a text is of, and a function that makes the text
Tell = Callable[[str, Callable[[], str]], None]


def teller() -> Tell:
    """Returns a function that adds a graph as text to the lists of `watching`, or drops it if nobody watches.

    DNNL_GRAPH_OPS_DUMP=passes prints the text to stderr.
    """
    seen = _watching.get()
    dumps = os.environ.get(_DUMP) == "passes"

    def tell(name: str, text: Callable[[], str]) -> None:
        told = text()
        if seen is not None:
            seen.append((name, told))
        if dumps:
            print(f"dnnl_graph_ops, graph {name}:\n{told}\n", file=sys.stderr)

    return tell if dumps or seen is not None else _drop


def _drop(name: str, text: Callable[[], str]) -> None:
    return None


@contextmanager
def watching() -> Iterator[list[tuple[str, str]]]:
    """Collects name and text of the graph after each pass and stage, of nets that this thread compiles meanwhile."""
    seen: list[tuple[str, str]] = []
    token = _watching.set(seen)
    try:
        yield seen
    finally:
        _watching.reset(token)

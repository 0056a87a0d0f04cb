"""Lists the passes over a graph in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..ir import GraphView
from ..ir.env import Env
from ..ir.stages import Stage
from . import (
    fold_affine,
    fold_branches,
    fold_constants,
    fold_padding,
    fold_pooling,
    fold_upsampling,
    fuse_patterns,
    mixed_precision,
    propagate_qdq,
)
from .folding import layers

IN_F32 = "f32"


@dataclass
class Setting:
    """A graph, the environment and options of passes over it, and the results of `mixed_precision`.

    `prepare`: returns a function that computes a value from constants. `precision`: the dtype that products may be
    computed in. `refused`: names of products that stay in f32. `weighed`: whether products are narrow only in regions
    that gain more than their conversions cost. `selected`: names of ops for which the user selects algorithms.

    Results: `wide`: names of products that stay in f32 although another precision was asked for, and why. `narrow`:
    names of the other products, and the seconds that each gains by estimate.
    """

    graph: GraphView
    env: Env
    prepare: fold_constants.Prepare
    precision: str = IN_F32
    refused: tuple[str, ...] = ()
    weighed: bool = True
    selected: frozenset[str] = frozenset()
    wide: Mapping[str, str] = field(default_factory=dict)
    narrow: Mapping[str, float] = field(default_factory=dict)


def _asked(s: Setting) -> layers.Asked:
    return layers.Asked(s.env, s.selected, s.precision != IN_F32 or s.env.fpmath_mode != "strict")


def _mixed_precision(s: Setting) -> None:
    if s.precision == IN_F32:
        return
    if s.env.fpmath_mode == "strict":
        s.wide, s.narrow = mixed_precision.run(s.graph, s.precision, s.env, s.refused, weighed=s.weighed)
    else:
        s.wide = mixed_precision.obeying(s.graph.nodes(), s.env)


def _branches(s: Setting) -> None:
    if fold_branches.run(s.graph, _asked(s)):
        # what scales or shifts their sums
        fold_affine.run(s.graph)


def _pass(name: str, run: Callable[[Setting], None], on_device: bool = True) -> Stage[Setting]:
    """Returns a pass over a graph; `on_device`: whether it also runs for tensors in a device's memory."""
    return Stage(name, run, lambda s: s.graph.listing(), lambda s: on_device or s.env.engine.on_host)


PASSES: tuple[Stage[Setting], ...] = (
    _pass("fold_constants", lambda s: fold_constants.run(s.graph, s.prepare), on_device=False),
    _pass("fold_padding", lambda s: fold_padding.run(s.graph)),
    _pass("fold_affine", lambda s: fold_affine.run(s.graph)),
    _pass("fold_branches", _branches, on_device=False),
    _pass("fuse_patterns", lambda s: fuse_patterns.run(s.graph)),
    _pass("decompose_batch_norm", lambda s: fold_affine.decompose_batch_norm(s.graph), on_device=False),
    _pass("fold_upsampling", lambda s: fold_upsampling.run(s.graph, _asked(s)), on_device=False),
    _pass("fold_pooling", lambda s: fold_pooling.run(s.graph, _asked(s)), on_device=False),
    _pass("propagate_qdq", lambda s: propagate_qdq.run(s.graph), on_device=False),
    _pass("mixed_precision", _mixed_precision),
)

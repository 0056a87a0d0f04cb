"""From problems and options to cases (one row each) and their entrants (one competitor process each)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .options import FEWER, Options
from .peers.registry import OWN, Peer
from .peers.task import ModelTask, Task
from .problem import Problem, way
from .quantized import DTYPE

# precisions by the dtypes of the cases that they are for
_PRECISIONS: Final = {"f32": FEWER, DTYPE: ("f32",)}
# the competitor that compiles a net of this package for each size alone
FIXED: Final = "fixed"


@dataclass(frozen=True)
class Case:
    """One row of the report: a problem, a direction, a data type; or a whole model (`models.Model.text`)."""

    problem: Problem
    direction: str
    dtype: str
    weights: str
    source_batch: int = 0
    model: str = ""
    real: bool = False

    @property
    def key(self) -> str:
        """Names the case across runs."""
        if self.model:
            return f"{self.problem.name}|model|{self.dtype}"
        parts = [
            self.problem.name,
            *([] if self.problem.transposed else [self.problem.op]),
            self.direction,
            self.dtype,
            f"mb{self.problem.batch}",
            self.weights,
        ]
        return "|".join(parts)

    @property
    def label(self) -> str:
        if self.model:
            return self.problem.name
        return f"{self.problem.name} {way(self.problem.op, self.direction)} {self.dtype}"


@dataclass(frozen=True)
class Entrant:
    """A competitor with the settings that it runs under; `role`: another name than its peer's in reports."""

    peer: Peer
    layout: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    label: str = ""
    role: str = ""

    @property
    def side(self) -> str:
        """Whom a report counts it among."""
        return self.role or self.peer.name

    def task(self, case: Case, options: Options, threads: int) -> Task | ModelTask:
        if case.model:
            return ModelTask(**json.loads(case.model), layout=self.layout, threads=threads, options=self.options)
        return Task(
            case.problem,
            case.direction,
            case.dtype,
            self.layout,
            case.weights,
            threads,
            self.options,
            options.seed,
            case.real,
        )


@dataclass(frozen=True)
class Wanted:
    """A problem with what its own source says of how to run it (empty: as the options say)."""

    problem: Problem
    directions: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    model: str = ""


def expand(wanted: Iterable[Wanted], options: Options) -> tuple[list[Case], list[Case]]:
    """Cases to measure, and cases that are over `max_gmacs` even with one image."""
    cases: dict[str, Case] = {}
    over: dict[str, Case] = {}
    for item in wanted:
        limited = item.problem.limited(options.max_gmacs)
        directions = item.directions or options.directions
        for direction, dtype in itertools.product(directions, item.dtypes or options.dtypes):
            if dtype == DTYPE and direction != "fwd":
                continue
            case = Case(
                limited or item.problem,
                direction,
                dtype,
                options.weights if direction == "fwd" else "variable",
                item.problem.batch,
                item.model,
                real=bool(options.precisions) and dtype == "f32" and not item.model,
            )
            (over if limited is None else cases).setdefault(case.key, case)
    return list(cases.values()), list(over.values())


def _fixed(entrant: Entrant) -> Entrant:
    """The one that competes with it by a net for each size."""
    label, role = (f"{name} {FIXED}" for name in (entrant.label, OWN))
    return replace(entrant, label=label, role=role, options={**entrant.options, FIXED: True})


def _precise(entrant: Entrant, dtype: str, options: Options) -> list[Entrant]:
    """Those that compute the same with more bits or fewer."""
    found = [name for name in options.precisions if name in _PRECISIONS.get(dtype, ())]
    return [
        replace(
            entrant,
            label=f"{entrant.label} {name}",
            role=f"{OWN} {name}",
            options={**entrant.options, "precision": name},
        )
        for name in found
    ]


def entrants(case: Case, own: Peer, peers: Sequence[Peer], options: Options) -> list[Entrant]:
    """Who runs a case: every variant of this package, and the peers that know the direction and type."""
    if case.model:
        return _of_model(own, peers, options)
    found = _variants(own, options.layouts, options)
    found += [one for each in found for one in _precise(each, case.dtype, options)]
    for peer in peers:
        if case.direction in peer.directions and case.dtype in peer.dtypes:
            # one that knows a single layout runs in it whatever ours is
            known = [v for v in peer.layouts if v in options.layouts] if len(peer.layouts) > 1 else peer.layouts
            found += [Entrant(peer, layout, dict(peer.options), f"{peer.name} {layout}") for layout in known]
    return found


def _of_model(own: Peer, peers: Sequence[Peer], options: Options) -> list[Entrant]:
    """`own` is `registry.OPTIMIZED` where modules are asked for."""
    own, *rivals = (replace(peer, module=peer.models) for peer in (own, *peers) if peer.takes_models(options.train))
    if options.optimized:
        found = [Entrant(own, layout, dict(own.options), f"{OWN} {layout}", OWN) for layout in own.layouts]
    else:
        found = _variants(own, ("NCX",), options)
        found += [one for each in found for one in _precise(each, "f32", options)]
        found += [_fixed(each) for each in found if options.fixed]
    return found + [
        Entrant(peer, layout, dict(peer.options), f"{peer.name} {layout}") for peer in rivals for layout in peer.layouts
    ]


def _variants(own: Peer, layouts: Sequence[str], options: Options) -> list[Entrant]:
    found = []
    spaces = {"tune": options.tune, "algorithm": options.algorithm}
    for layout in layouts:
        for values in itertools.product(*spaces.values()):
            variant: dict[str, Any] = dict(zip(spaces, values, strict=True))
            named = [str(v) for k, v in variant.items() if len(spaces[k]) > 1]
            variant["engine"] = options.engine
            found.append(Entrant(own, layout, variant, " ".join([OWN, layout, *named])))
    return found

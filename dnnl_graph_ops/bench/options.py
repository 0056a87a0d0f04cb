"""Defines the options of a run: one frozen record, filled by the command line or by `bench.run`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from ..dtypes import usual
from ..errors import InvalidArgumentError
from ..ir.env import ALGORITHMS
from ..passes.mixed_precision import AUTO
from ..passes.mixed_precision import PRECISIONS as NARROW
from ..schema.arguments import suggest
from ..words import VALUES
from .problem import DIRECTIONS, LAYOUTS
from .sizes import parse as parse_sizes

DTYPES: Final = ("f32", "bf16", "f16", "int8")
# fewer bits than f32, as `Graph.compile` takes them
FEWER: Final = (*NARROW, AUTO)
PRECISIONS: Final = (*FEWER, "f32")


@dataclass(frozen=True)
class Options:
    """Settings of a run; times in seconds. The command line has one option for each, with these words.

    Attributes:
        directions: of fwd, bwd_d, bwd_w; with `quick` all.
        dtypes: of f32, bf16, f16, int8 (layers in QDQ format, u8 to u8, weights by channel).
        layouts: of NXC, NCX.
        peers: all (installed ones), none, or names; onednn@FILE and dgo@FILE take another libdnnl.so.3.
        weights: the forward's, constant or variable; the backward ops always take theirs at the call.
        tune: of off, heuristic, measure: variants of this package, each combination a competitor.
        algorithm: of auto, direct, fast: further variants.
        engine: cpu or gpu, for this package.
        threads: of every competitor; 0: one for each core.
        sizes: call each model, its sizes unknown when it is compiled, with COUNT different ones in random order,
            LOW:HIGH[:STEP]xCOUNT: every extent of its first input from LOW to HIGH, a multiple of STEP (of what the
            model needs): first and later calls, and resident memory. Empty: each has its own size.
        fixed: with sizes: also one net of this package for each size.
        optimized: models of the zoo as PyTorch's modules, called under inference_mode in both layouts:
            dnnl_graph_ops.torch.optimize(module), and PyTorch's module.
        train: training steps of these (forward, mean squared error, backward, Adam), the first one's gradients checked.
        wait: how threads wait inside a parallel region: library, as the libraries do, or passive, for machines in use.
        precisions: of bf16, f16, auto: f32 layers (of normal numbers then) and models computed by this package in fewer
            bits too, each a column: its time over that in f32, and its error; f32: int8 layers in floats too.
        clock: wall, or process: the processor's time, for 1 thread on a machine that other processes use all the time.
        interval: rounds are added until the 95 % interval of every ratio is narrower than this (relative).
        min_rounds: at least so many.
        max_rounds: at most so many.
        case_seconds: at most so long in rounds for a row. A competitor that takes more than 5 times that, and more than
            20 s, to prepare or to check it has failed.
        burst: longest burst of one competitor in one round.
        budget: of the whole run: problems get fewer rounds as it runs out, and those left then are skipped; 0: none.
        max_gmacs: halve the batch until a layer has at most so many 1e9 products; skip it if one image has more.
        seed: of operands, sizes and turns.
    """

    directions: tuple[str, ...] = ("fwd",)
    dtypes: tuple[str, ...] = ("f32",)
    layouts: tuple[str, ...] = LAYOUTS
    peers: tuple[str, ...] = ("all",)
    weights: str = "constant"
    tune: tuple[str, ...] = ("heuristic",)
    algorithm: tuple[str, ...] = ("auto",)
    engine: str = "cpu"
    threads: int = 0
    sizes: str = ""
    fixed: bool = False
    optimized: bool = False
    train: bool = False
    wait: str = "library"
    precisions: tuple[str, ...] = ()
    clock: str = "wall"
    interval: float = 0.06
    min_rounds: int = 7
    max_rounds: int = 31
    case_seconds: float = 20.0
    burst: float = 0.06
    budget: float = 0.0
    max_gmacs: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            values = tuple(_understood(v, name, allowed) for v in ((value,) if isinstance(value, str) else value))
            object.__setattr__(self, name, values[0] if isinstance(value, str) else values)
            unknown = [v for v in values if v not in allowed]
            if unknown:
                hint = suggest(unknown[0], allowed)
                raise InvalidArgumentError(f"{name}: unknown {unknown}; known: {', '.join(allowed)}{hint}")
        for name in ("directions", "dtypes", "layouts", "tune", "algorithm"):
            if not getattr(self, name):
                raise InvalidArgumentError(f"{name}: at least one is needed; known: {', '.join(_CHOICES[name])}")
        object.__setattr__(self, "peers", tuple(self.peers))
        for name, low in _LEAST.items():
            if getattr(self, name) < low:
                raise InvalidArgumentError(f"{name} must be at least {low}, got {getattr(self, name)}")
        if self.max_rounds < self.min_rounds:
            raise InvalidArgumentError(
                f"max_rounds {self.max_rounds} is below min_rounds {self.min_rounds}: give both --min-rounds and "
                f"--max-rounds"
            )
        if self.sizes:
            parse_sizes(self.sizes)
        elif self.fixed:
            raise InvalidArgumentError("fixed: a net for each of which sizes? give sizes too")
        if self.train:
            object.__setattr__(self, "optimized", True)
        for one, others in _APART.items():
            given = [f.name for f in fields(self) if f.name in others and getattr(self, f.name) != f.default]
            if getattr(self, one) and given:
                raise InvalidArgumentError(f"{given[0]} and {one}: leave one out; {one} knows no {', '.join(others)}")
        if self.max_gmacs is not None and self.max_gmacs <= 0:
            raise InvalidArgumentError(f"max_gmacs must be positive, got {self.max_gmacs}")

    def quick(self) -> Options:
        """The same within a few minutes on two cores."""
        return replace(
            self, interval=0.1, min_rounds=6, max_rounds=15, case_seconds=4.0, burst=0.03, budget=self.budget or 140.0
        )

    def as_dict(self) -> dict[str, Any]:
        """The options as dicts and lists, which JSON can hold."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Options:
        """Inverse of `as_dict`; keys of other versions are left out."""
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items() if k in known}
        return cls(**values)


def described() -> dict[str, str]:
    """The words of each option."""
    told = inspect.cleandoc(Options.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w|\Z)", told, re.MULTILINE | re.DOTALL)
    return {name: " ".join(words.split()) for name, words in found}


_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "directions": DIRECTIONS,
    "dtypes": DTYPES,
    "layouts": LAYOUTS,
    "weights": ("constant", "variable"),
    "precisions": PRECISIONS,
    "tune": ("off", "heuristic", "measure"),
    "algorithm": ALGORITHMS,
    "wait": ("library", "passive"),
    "clock": ("wall", "process"),
}
_DIRECTIONS: Final = {
    "forward": "fwd",
    "backward_data": "bwd_d",
    **dict.fromkeys(("backward_weights", "backward_filter"), "bwd_w"),
}


def _understood(word: Any, name: str, allowed: tuple[str, ...]) -> Any:
    """The one of `allowed` that another package's word means; any other word as it is."""
    if word in allowed or not isinstance(word, str):
        return word
    if name == "dtypes":
        return usual(word)
    if name == "directions":
        return _DIRECTIONS.get(word.lower(), word)
    return VALUES.get(word.lower(), (word,))[0] if name == "layouts" else word


# what has no meaning for which
_APART: Final = {
    "train": ("sizes",),
    "optimized": ("tune", "algorithm", "engine", "fixed", "precisions"),
}
# six rounds are the fewest whose median has a 95 % interval
_LEAST: Final = {"threads": 0, "interval": 0.001, "min_rounds": 1, "case_seconds": 0.1, "burst": 0.0005, "budget": 0}

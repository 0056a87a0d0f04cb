"""A measured row: one case, everybody who ran it, and the ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .peers.registry import OWN
from .problem import OPS, Problem, way

# times a later call that a first call may take before it is one in excess
EXCUSED: Final = 1.3


@dataclass
class Calls:
    """Of a model called with one size after another: first calls compared with later ones. Seconds and bytes.

    Attributes:
        laters: the median of each size's later calls.
        later: their median.
        excess, excess_p95: what a first call takes beyond EXCUSED times a later one of its size: median, 95th
            percentile.
        total: every size called once.
        after_bytes: resident after all of them.
        alone_bytes: resident in a process that was called with the largest size only.
    """

    laters: list[float]
    later: float
    excess: float
    excess_p95: float
    total: float
    after_bytes: int = 0
    alone_bytes: int = 0

    @property
    def growth_bytes(self) -> int:
        """Bytes that calls at the other sizes left allocated."""
        return self.after_bytes - self.alone_bytes


@dataclass
class Entry:
    """One competitor on one case. Times are in seconds per execution.

    Attributes:
        status: "ok", "unsupported", "failed", "wrong" (its numbers differ from the reference) or "slow" (one
            execution took so long that it was not raced).
        rounds: the median of its burst in every kept round; the same rounds for every entry of a row.
        native: the same without Python, for competitors that measure it (this package).
        error: largest deviation from the reference, relative to the largest expected value.
        p50, p90, p99: percentiles of single executions.
        calls: of a model called with one size after another; `rounds` are its first calls of each then.
        before_bytes: what the process had after its imports.
        memory_bytes, peak_bytes: what loading, compiling and running it twice added at most to what the process had
            after its imports, and the most that the process had.
    """

    label: str
    peer: str
    layout: str
    status: str
    reason: str = ""
    detail: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    compile_s: float | None = None
    first_s: float | None = None
    error: float | None = None
    median: float | None = None
    minimum: float | None = None
    spread: float | None = None
    rounds: list[float] = field(default_factory=list)
    native: float | None = None
    gflops: float | None = None
    peak_share: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    calls: Calls | None = None
    before_bytes: int | None = None
    memory_bytes: int | None = None
    peak_bytes: int | None = None
    flags: list[str] = field(default_factory=list)


def _entry(record: Mapping[str, Any]) -> Entry:
    calls = record.get("calls")
    return Entry(**{**record, "calls": Calls(**calls) if calls else None})


@dataclass
class Ratio:
    """The speedup against a peer: its best variant's time divided by the time of this package's best variant."""

    peer: str
    entry: str
    own: str
    median: float
    low: float
    high: float
    rounds: list[float] = field(default_factory=list)


@dataclass
class Row:
    """`peak_rounds`: what a MatMul reached in every kept round, 1e9 operations a second.

    `peak_busy`: whether other processes used the machine in most of them, so that the peak may be higher.

    `model`: of a whole model, its file, its name in the zoo, the shapes of its inputs and outputs; its problem says
    nothing then.
    """

    key: str
    name: str
    family: str
    direction: str
    dtype: str
    weights: str
    problem: dict[str, Any]
    descriptor: str
    gmacs: float
    status: str = "ok"
    reason: str = ""
    entries: list[Entry] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    peak_rounds: list[float] = field(default_factory=list)
    peak_busy: bool = False
    rounds_dropped: int = 0
    machine: int = 0
    when: str = ""
    model: dict[str, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """The op of the problem; results of versions with a single op have none."""
        return str(self.problem.get("op", OPS[0]))

    @property
    def way(self) -> str:
        """The direction, with the op where that is not a transposed convolution."""
        return way(self.op, self.direction)

    @property
    def title(self) -> str:
        """The row in a line of text."""
        return self.name if self.model else f"{self.name} {self.way} {self.dtype}"

    @property
    def said(self) -> str:
        """The outcome of the row as a line of text."""
        own = self.own
        if own is None or own.median is None:
            return f"{self.title}: {self.status} ({self.reason})"
        ratios = [f"{r.peer} {r.median:.2f}x" for r in self.ratios]
        return f"{self.title}: " + ", ".join([f"{1e3 * own.median:.3g} ms", *ratios, *self.flags])

    @property
    def layer_class(self) -> str:
        """The problem's."""
        return Problem.from_dict(self.problem).layer_class

    def best(self, peer: str) -> Entry | None:
        """The fastest entry of a competitor that gave right numbers."""
        usable = [e for e in self.entries if e.peer == peer and e.median is not None]
        return min(usable, key=lambda e: e.median or math.inf, default=None)

    @property
    def own(self) -> Entry | None:
        """This package's fastest entry that gave right numbers."""
        return self.best(OWN)

    def ratio(self, peer: str) -> Ratio | None:
        """The speedup against a peer; None if the peer or this package has no time."""
        return next((r for r in self.ratios if r.peer == peer), None)

    def as_dict(self) -> dict[str, Any]:
        """The row as dicts and lists, which JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Row:
        """Inverse of `as_dict`."""
        return cls(
            **{
                **record,
                "entries": [_entry(e) for e in record["entries"]],
                "ratios": [Ratio(**r) for r in record["ratios"]],
            }
        )

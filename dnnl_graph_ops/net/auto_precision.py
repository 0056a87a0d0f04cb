"""Compiles with `precision="auto"`: in bf16 or f16 as many ops as a bound on the errors on samples allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from ..compile.specialise import Options
from ..errors import InvalidArgumentError
from ..once import once
from ..passes import mixed_precision as precision
from ..reports.precision import OpReport, PrecisionReport
from .net import Net
from .samples import Sample, as_samples, differences

MAX_ERROR = 0.01
_WHERE = "Graph.compile"
Make = Callable[[Options], Net]


def within(make: Make, options: Options, samples: Any, bound: float) -> Net:
    """Returns the net in the narrow type that saves most time with errors up to `bound`, or in f32 if no type does.

    `make` compiles the net with other options. The net gets a `precision_report`.

    Raises:
        InvalidArgumentError, ShapeError, TypeError: there are no samples, or the net does not take them.
    """
    if samples is None:
        raise InvalidArgumentError(
            f"{_WHERE}: precision='auto' measures errors on samples; pass samples=[x, ...], arrays to call the net with"
        )
    wide = make(replace(options, precision="f32"))
    search = _Search(make, options, wide, as_samples(wide, samples, _WHERE), bound)
    dtypes = () if wide.graph.fpmath_mode != "strict" else precision.multiplied(wide._env())
    trials = [trial for trial in map(search.best, dtypes) if trial.report.ops]
    best = max((trial for trial in trials if trial.gains), key=lambda trial: sum(trial.gains.values()), default=None)
    if best is None:
        why = _why_wide(wide, dtypes, bool(trials), bound)
        ops = tuple(replace(op, dtype="f32") for op in trials[0].report.ops) if trials else ()
        best = _Trial(wide, {}, PrecisionReport("f32", bound, ops, (), why))
    best.net.precision_report = best.report
    return best.net


def checked_bound(max_error: Any) -> float:
    """Returns `max_error` of Graph.compile as a float; 0.01 for None."""
    if max_error is None:
        return MAX_ERROR
    if isinstance(max_error, bool) or not isinstance(max_error, int | float):
        raise TypeError(f"{_WHERE}: 'max_error' must be a number, got {type(max_error).__name__}")
    if not (isfinite(max_error) and max_error >= 0):
        raise InvalidArgumentError(
            f"{_WHERE}: 'max_error' is a part of an output's largest value, 0.01 say, got {max_error!r}"
        )
    return float(max_error)


def _why_wide(net: Net, dtypes: Sequence[str], some_are_faster: bool, bound: float) -> str:
    if net.graph.fpmath_mode != "strict":
        return f"the graph's fpmath_mode is {net.graph.fpmath_mode!r}, which its ops obey"
    if not dtypes:
        return f"this CPU does not multiply {' or '.join(precision.PRECISIONS)} faster"
    tried = " or ".join(dtypes)
    return (
        f"in {tried} the error exceeds {bound:g}" if some_are_faster else f"no product is faster in {tried} by estimate"
    )


@dataclass(frozen=True)
class _Trial:
    """A net, the estimated seconds that each of its products in the narrow type saves, and the report on its errors."""

    net: Net
    gains: Mapping[str, float]
    report: PrecisionReport


@dataclass
class _Search:
    make: Make
    options: Options
    wide: Net
    samples: Sequence[Sample]
    bound: float

    @once
    def results(self) -> list[Sample]:
        """The f32 net's results of the samples."""
        return [self.wide.run(sample) for sample in self.samples]

    def best(self, dtype: str) -> _Trial:
        """Returns the net in `dtype` with errors within the bound, and with as few products kept in f32 as needed.

        Products that cause the largest errors, each measured as the only narrow product, are kept in f32 first.
        """
        options = replace(self.options, precision=dtype)
        trial = self._tried(options)
        names, costs = tuple(trial.gains), dict[str, float]()
        if names and trial.report.largest_error > self.bound:
            costs = {name: self._alone(name, names, options) for name in names}
            trial = self._fewest(sorted(names, key=lambda name: -costs[name]), options)
        ops = tuple(OpReport(name, dtype if name in trial.gains else "f32", costs.get(name)) for name in names)
        return replace(trial, report=replace(trial.report, ops=ops))

    def _fewest(self, names: Sequence[str], options: Options) -> _Trial:
        """Returns the net within the bound that keeps the fewest names in f32, the first ones; else the f32 net."""
        low, high, best = 0, len(names), None
        while high - low > 1:
            middle = (low + high) // 2
            trial = self._tried(replace(options, wide=tuple(names[:middle])))
            if trial.report.largest_error <= self.bound:
                high, best = middle, trial
            else:
                low = middle
                trial.net.clear_plans()
        return best or _Trial(self.wide, {}, PrecisionReport("f32", self.bound))

    def _alone(self, name: str, names: Sequence[str], options: Options) -> float:
        """Returns the largest error with one product narrow, even if its conversions take longer than it saves."""
        tune = "heuristic" if options.tune == "measure" else options.tune
        others = tuple(other for other in names if other != name)
        trial = self._tried(replace(options, tune=tune, wide=others, weighed=False))
        trial.net.clear_plans()
        return trial.report.largest_error

    def _tried(self, options: Options) -> _Trial:
        net = self.make(options)
        gains: dict[str, float] = {}

        def results() -> Iterator[Sample]:
            for sample in self.samples:
                yield net.run(sample)
                gains.update(net._narrow())

        errors = differences(zip(self.results, results(), strict=True), net.output_names)
        return _Trial(net, gains, PrecisionReport(options.precision, self.bound, (), errors))

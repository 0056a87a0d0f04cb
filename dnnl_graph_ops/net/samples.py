"""Reads the samples that a net is measured on, and measures by how much the results of two nets differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from ..reports.precision import OutputReport
from ..words import counted
from .net import Net

Sample = Mapping[str, Any]


def as_samples(net: Net, samples: Any, where: str) -> list[Sample]:
    """Returns each sample as {input name: array}; a user gives arrays, tuples of arrays, or such mappings.

    Leaves out arrays for inputs of the graph that the net does not read. An error names the sample by its number.

    Raises:
        TypeError, ShapeError, InvalidArgumentError: no list of samples, or a sample that the net refuses.
    """
    single = ""
    if isinstance(samples, Mapping):
        single = f"a mapping of {', '.join(map(repr, samples))}"
    elif hasattr(samples, "__array__") and not (len(net.inputs) == 1 and np.ndim(samples) == net.inputs[0].ndim + 1):
        # an array with one axis more than the net's only input is a list
        single = f"one array of shape {np.shape(samples)}"
    if single:
        raise InvalidArgumentError(f"{where}: 'samples' is a list of samples, got {single}; pass [sample] for one")
    if isinstance(samples, str | bytes) or not isinstance(samples, Iterable):
        raise TypeError(
            f"{where}: 'samples' must be a list of inputs, got {type(samples).__name__}; pass [x] for one array x, "
            f"or a tuple of arrays or {{input name: array}} in its place"
        )
    unread = {value.name for value in net.graph.inputs} - {*net.input_names}
    named: list[Sample] = []
    for number, given in enumerate(samples):
        label = f"{where}: sample {number}"
        named.append({name: array for name, array in _by_name(net, given, label).items() if name not in unread})
        net._check(named[-1], label)
    if not named:
        raise InvalidArgumentError(f"{where}: needs at least one sample; pass a list of inputs, [x] for one array x")
    return named


def _by_name(net: Net, sample: Any, where: str) -> Sample:
    if isinstance(sample, Mapping):
        return dict(sample)
    values = sample if isinstance(sample, tuple) else (sample,)
    if len(values) != len(net.input_names):
        raise InvalidArgumentError(
            f"{where} has {counted(len(values), 'array')}, the net takes {len(net.input_names)} "
            f"({', '.join(net.input_names)})"
        )
    return dict(zip(net.input_names, values, strict=True))


class _Sums:
    """Sums up the errors of one output over the samples."""

    def __init__(self) -> None:
        self.worst = self.largest = self.noise = self.signal = 0.0
        self.count = 0

    def add(self, wanted: Any, got: Any) -> None:
        exact, found = (np.atleast_1d(array).astype(np.float64) for array in (wanted, got))
        with np.errstate(invalid="ignore"):
            error = np.abs(found - exact)
        error[(found == exact) | (np.isnan(found) & np.isnan(exact))] = 0
        error[np.isnan(error)] = np.inf
        values = np.abs(exact[np.isfinite(exact)])
        self.worst = max(self.worst, float(error.max(initial=0)))
        self.largest = max(self.largest, float(values.max(initial=0)))
        self.noise += float((error**2).sum())
        self.signal += float((values**2).sum())
        self.count += error.size

    def report(self, name: str) -> OutputReport:
        with np.errstate(divide="ignore"):
            decibels = 10 * np.log10(self.signal / self.noise) if self.noise and self.signal else np.inf
        relative = self.worst / self.largest if self.largest else (np.inf if self.worst else 0.0)
        rms = float(np.sqrt(self.noise / max(self.count, 1)))
        return OutputReport(name, self.worst, rms, float(decibels), float(relative))


def differences(results: Iterable[tuple[Sample, Sample]], names: Sequence[str]) -> tuple[OutputReport, ...]:
    """Returns the errors at each output of numbers; `results`: what is wanted and what was found for each sample."""
    sums: dict[str, _Sums] = {}
    for want, got in results:
        for name in names:
            if isinstance(want[name], np.ndarray) and want[name].dtype.kind not in "OUSTc":
                sums.setdefault(name, _Sums()).add(want[name], got[name])
    return tuple(one.report(name) for name, one in sums.items())

"""Traces of profiles in Chrome's format: events with a name, a track, a start and a duration in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

from .explain import StepTime

_STEPS, _LAYERS = 1, 2


def trace(profile: Sequence[StepTime], threads: int) -> dict[str, Any]:
    """Returns a trace of a profile: the events of its steps, one after the other, and of layers above them.

    The durations of the steps add up to the profile's seconds, and so do those of the layers.
    """
    ends = list(accumulate(step.seconds * 1e6 for step in profile))
    starts = [0.0, *ends][: len(ends)]
    events: list[dict[str, Any]] = [
        _named("process_name", 0, "dnnl_graph_ops"),
        _named("thread_name", _STEPS, f"steps, each on {threads} thread{'s' * (threads != 1)}"),
        _named("thread_name", _LAYERS, "layers"),
    ]
    for step, start in zip(profile, starts, strict=True):
        events.append(_event(step.step, _STEPS, start, step.seconds * 1e6, {**_told(step), "threads": threads}))
    for layer, some in groupby(zip(profile, starts, strict=True), key=lambda pair: pair[0].of or pair[0].step):
        pairs = list(some)
        spent = sum(step.seconds * 1e6 for step, _ in pairs)
        told = {"steps": len(pairs), "bytes": sum(step.bytes for step, _ in pairs)}
        events.append(_event(layer, _LAYERS, pairs[0][1], spent, told))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _named(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}


def _event(name: str, track: int, start: float, duration: float, told: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "X", "pid": 1, "tid": track, "ts": start, "dur": duration, "args": told}


def _told(step: StepTime) -> dict[str, Any]:
    return {
        "layer": step.of,
        "ops": list(step.ops),
        "algorithm": step.algorithm,
        "reads": list(step.reads),
        "writes": list(step.writes),
        "bytes": step.bytes,
        "share": step.share,
        "of_peak": step.of_peak,
    }

"""Defines the task that a competitor prepares, and its answer. Shared by the parent and every worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from .. import data
from ..problem import Problem


@dataclass(frozen=True)
class Task:
    """One problem for one competitor.

    Attributes:
        layout: order of the activations that it is given and that it writes.
        weights: "constant" (known when it compiles) or "variable" (passed at every call).
        threads: how many it may use.
        options: the competitor's own (tune, algorithm, engine).
        real: normal numbers, not integers.
    """

    problem: Problem
    direction: str
    dtype: str
    layout: str
    weights: str
    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    real: bool = False

    def operands(self) -> dict[str, np.ndarray]:
        return data.operands(self.problem, self.direction, self.seed, self.dtype, self.real)

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "problem": self.problem.as_dict(), "options": dict(self.options)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Task:
        return cls(**{**record, "problem": Problem.from_dict(record["problem"])})


@dataclass(frozen=True)
class ModelTask:
    """One whole model for one competitor: the fields of `models.Model`, and how to run it.

    Attributes:
        sizes: of a model whose sizes are not known; it has no arrays then.
        train: a training step instead of its inference; the result are the gradients, over their scales.
    """

    name: str
    path: str
    arrays: str
    zoo: str
    layout: str
    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: str = ""
    train: bool = False

    def inputs(self) -> list[np.ndarray]:
        """In the order of the model's."""
        return self._held("x")

    def targets(self) -> list[np.ndarray]:
        """The target values of a training step, in the order of its outputs."""
        return self._held("t")

    def scales(self) -> np.ndarray:
        """Of the gradients of each parameter."""
        with np.load(self.arrays) as held:
            return np.asarray(held["s"])

    def _held(self, letter: str) -> list[np.ndarray]:
        with np.load(self.arrays) as held:
            return [held[key] for key in data.numbered(held, letter)]

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "options": dict(self.options)}


def task_of(record: Mapping[str, Any]) -> Task | ModelTask:
    """Returns the task of a dict that `as_dict` returned."""
    return Task.from_dict(record) if "problem" in record else ModelTask(**record)


def flattened(outputs: Iterable[Any]) -> np.ndarray:
    """The result of a model: all its outputs, one after the other."""
    return np.concatenate([np.ravel(np.asarray(output)).astype(np.float32) for output in outputs])


@dataclass
class Prepared:
    """A problem held ready.

    Attributes:
        run: one execution.
        result: the last execution's result as float32 in NCX order, or in that of the weights.
        detail: what runs, in a few words.
        poison: overwrites the result, so that an execution that writes nothing shows.
        native: seconds of each of n executions without any Python in between, where the competitor has that.
        hold: objects that must stay alive.
        compile_s: seconds of loading and compiling, where the preparation does more.
    """

    run: Callable[[], object]
    result: Callable[[], np.ndarray]
    detail: str
    poison: Callable[[], object] | None = None
    native: Callable[[int], list[float]] | None = None
    hold: tuple[object, ...] = ()
    compile_s: float | None = None


@dataclass(frozen=True)
class Loaded:
    """A model held ready for inputs of any size.

    Attributes:
        take: arrays in the competitor's own terms.
        call: one execution of what `take` returned, its results made anew.
        read: these, as `flattened` gives them.
    """

    take: Callable[[list[np.ndarray]], Any]
    call: Callable[[Any], Any]
    read: Callable[[Any], np.ndarray]
    detail: str


def keeping(compute: Callable[[], Any], read: Callable[[Any], np.ndarray], detail: str) -> Prepared:
    """A problem whose result is what `compute` returned last, as `read` turns it into an array."""
    state: dict[str, Any] = {}

    def run() -> None:
        state["out"] = compute()

    return Prepared(run, lambda: read(state["out"]), detail, state.clear)


def symmetric_padding(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...] | None]:
    """The padding in the terms of a framework that has one value per axis: padding, output padding, crop.

    Of a transposed convolution. The published models that pad unevenly crop the framework's result; so does `crop`
    (None: nothing to cut).
    """
    padding, extra, crop = [], [], []
    for axis in problem.axes:
        pb, pe, op, most = axis.pad_begin, axis.pad_end, axis.output_padding, max(axis.stride, axis.dilation)
        more = pb - pe + op
        if 0 <= more < most:
            padding.append(pb)
            extra.append(more)
            crop.append(slice(0, axis.out))
            continue
        both = min(pb, pe)
        padding.append(both)
        # whatever of the padding at the end the crop does not cut must be added there
        missing = max(0, op - (pe - both))
        if missing >= most:
            raise UnsupportedError(
                f"output padding {op} is at least the stride {axis.stride}: no such transposed convolution"
            )
        extra.append(missing)
        crop.append(slice(pb - both, pb - both + axis.out))
    lengths = [
        a.stride * (a.size - 1) + a.extent - 2 * p + op for a, p, op in zip(problem.axes, padding, extra, strict=True)
    ]
    whole = all(c.start == 0 and c.stop == n for c, n in zip(crop, lengths, strict=True))
    return tuple(padding), tuple(extra), None if whole else tuple(crop)


def padding_before(problem: Problem) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...] | None]:
    """The same of an ordinary convolution: padding, and what src is padded with before it (None: nothing).

    The published models that pad unevenly pad their input so.
    """
    padding, before = [], []
    for axis in problem.axes:
        # what the last window does not reach may be padded or not
        same = axis._replace(pad_end=axis.pad_begin).out == axis.out
        both = axis.pad_begin if same else min(axis.pad_begin, axis.pad_end)
        padding.append(both)
        before.append((0, 0) if same else (axis.pad_begin - both, axis.pad_end - both))
    return tuple(padding), tuple(before) if any(map(any, before)) else None


def raised(problem: Problem) -> Problem:
    """The same layer with two axes where it has one: of height 1. Its operands are the same numbers."""
    if problem.rank > 1:
        return problem
    return replace(
        problem,
        spatial=(1, *problem.spatial),
        kernel=(1, *problem.kernel),
        strides=(1, *problem.strides),
        pads_begin=(0, *problem.pads_begin),
        pads_end=(0, *problem.pads_end),
        output_padding=(0, *problem.output_padding),
        dilations=(1, *problem.dilations),
    )

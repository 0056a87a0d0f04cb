"""Proves rewrites: draws graphs that match one, or miss one of its conditions, and judges what their nets compute.

A prover is a function of a draw and the condition that must not hold (None: the graph matches). It adds the outputs.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from reference.data import strided, unwritten
from reference.graph import evaluate_built
from shrinking import Part, opened, script, shrunk

import dnnl_graph_ops as dgo
from dnnl_graph_ops.ir import rewrites

from .draw import Again, Draw

Prover = Callable[[Draw, str | None], None]
PROVERS: dict[str, Prover] = {}
# of draws, for each that is wanted
MOST_TRIES = 25


def proves(name: str) -> Callable[[Prover], Prover]:
    def registered(prover: Prover) -> Prover:
        assert name not in PROVERS
        PROVERS[name] = prover
        return prover

    return registered


@dataclass
class Count:
    """Draws, and the reports of rewrites over them: (name, condition), "" where it fired."""

    graphs: int = 0
    reports: Counter[tuple[str, str]] = field(default_factory=Counter)


def prove(name: str, unmet: str | None, count: int, seed: int, first: int = 0, counts: Count | None = None) -> None:
    """Draws until a rewrite has fired on, or declined, so many graphs; all results are judged.

    Raises:
        AssertionError: wrong results, or too few such graphs.
    """
    counts = Count() if counts is None else counts
    hits, tries = 0, MOST_TRIES * max(count, 5)
    for number in range(first, first + tries):
        if hits == count:
            return
        seeds = (seed, number, *map(ord, f"{name} {unmet}"))
        d = Draw(*seeds)
        try:
            PROVERS[name](d, unmet)
            with rewrites.listening() as reports:
                judge(d, f"--seed={seed}: prove({name!r}, {unmet!r}, 1, {seed}, {number})")
        except (Again, dgo.ShapeError):
            continue
        counts.graphs += 1
        counts.reports.update((report.rewrite, report.condition) for report in reports)
        hits += any(report.rewrite == name and report.condition == (unmet or "") for report in reports)
    raise AssertionError(f"{name}: {unmet or 'fired'}: {hits} of {count} in {tries} draws (--seed={seed})")


def judge(d: Draw, where: str) -> None:
    """The net's results are those of NumPy, at each call, its outputs filled with what is no result before.

    Raises:
        Again: the types cannot hold a value of the graph exactly.
        AssertionError: they are not, or nothing is compiled; the message has the smallest part of the graph that fails.
    """
    part = Part(d.graph, d.arrays, tuple(dict.fromkeys(d.outputs)))
    expected = evaluate_built(part.graph, part.arrays)
    if not d.tolerance and max(map(_largest, expected.values())) >= d.exact:
        raise Again
    wanted = [expected[value] for value in part.outputs]
    try:
        _compare(d, part, wanted)
        if d.chance(0.2) and (unknown := _opened(d, part, expected)) is not None:
            _compare(d, unknown, wanted)
    except Exception as wrong:
        text = script(shrunk(part, lambda smaller: _is_wrong(d, smaller)))
        raise AssertionError(f"{where}\n{text}\n{wrong}") from wrong


def _opened(d: Draw, part: Part, known: Mapping[dgo.Value, np.ndarray]) -> Part | None:
    """With sizes that the call tells, if the ops take such."""
    try:
        return opened(part, known, d.whole(0, 3))
    except dgo.Error:
        return None


def _largest(array: np.ndarray) -> float:
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def _is_wrong(d: Draw, part: Part) -> bool:
    expected = evaluate_built(part.graph, part.arrays)
    try:
        _compare(d, part, [expected[value] for value in part.outputs])
    except Exception:
        return True
    return False


def _given(part: Part) -> dict[str, np.ndarray]:
    return {value.name: array for value, array in part.arrays.items()}


def _run(net: dgo.Net, part: Part, wanted: Sequence[np.ndarray], turned: bool) -> list[np.ndarray]:
    given = {name: array for name, array in _given(part).items() if name in net.input_names}
    out = [unwritten(array.shape, value.dtype) for array, value in zip(wanted, part.outputs, strict=True)]
    if turned:
        out = [strided(array, range(array.ndim)[::-1]) if array.ndim else array for array in out]
    net.run(given, out={f"out{i}": array for i, array in enumerate(out)})
    return out


def _compare(d: Draw, part: Part, wanted: Sequence[np.ndarray]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for forced in d.forced:
            patch.setattr(*forced)
        samples = {"samples": [_given(part)]} if d.options.get("precision") == "auto" else {}
        outputs = {f"out{i}": value for i, value in enumerate(part.outputs)}
        nets = [part.graph.compile(outputs, **d.options, **samples) for _ in range(d.nets)]
        results = [_run(net, part, wanted, d.turned) for net in (*nets, nets[-1])]
    for got, want in (pair for out in results for pair in zip(out, wanted, strict=True)):
        if d.tolerance and want.size:
            atol = d.tolerance * max(_largest(want), 1.0)
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=atol)
        else:
            np.testing.assert_array_equal(got, want)

"""onnx's own tests of nodes through a session that claims every node, beside a session of the CPU provider."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from frontends.node_cases import node_cases

from .sessions import cpu, ours

# a part of the tests; all in the fullest tier
CASES = (60, 400, 10_000)


def outcome(make: Any, case: Any) -> list[Any] | str:
    """The results of each data set, or the error."""
    try:
        session = make(case.model.SerializeToString())
        names = [info.name for info in session.get_inputs()]
        return [session.run(None, dict(zip(names, given, strict=False))) for given, _ in case.data_sets]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def differs(case: Any, expected: list[Any], results: list[Any]) -> bool:
    """Whether a result is farther from what is expected than the test allows, or of another type or shape."""
    for one, other in zip(expected, results, strict=True):
        for a, b in zip(one, other, strict=True):
            if not isinstance(a, np.ndarray):
                continue
            if a.dtype != b.dtype or a.shape != b.shape:
                return True
            rtol, atol = max(case.rtol, 1e-3), max(case.atol, 1e-5)
            if a.dtype.kind in "fc" and not np.allclose(b, a, rtol, atol, equal_nan=True):
                return True
            # rounding before a conversion to integers
            if a.dtype.kind in "iu" and np.abs(a.astype("f8") - b.astype("f8")).max(initial=0) > (a.itemsize == 1):
                return True
    return False


@pytest.mark.slow
def test_every_node_claimed(rng, amount, monkeypatch):
    """No test fails that the CPU provider passes; results are its, or those that onnx states."""
    monkeypatch.setenv("DNNL_GRAPH_OPS_EP", "all")
    cases = node_cases()
    failed = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in rng.permutation(len(cases))[: amount(*CASES)]:
            case = cases[i]
            expected = outcome(cpu, case)
            if isinstance(expected, str):
                continue
            results = outcome(ours, case)
            if isinstance(results, str):
                failed[case.name] = results
            elif all(differs(case, right, results) for right in (expected, [right for _, right in case.data_sets])):
                failed[case.name] = "wrong"
    assert not failed

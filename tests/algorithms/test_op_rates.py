"""Every op, in every dtype and layout, runs by builtin code or by vector code of the library, but for exceptions."""

import pytest
from scripts import script

import dnnl_graph_ops as dgo

op_rates = script("op_rates")

# kinds, or a kind and a label, that NumPy or a reference kernel of the library computes, and why
EXCEPTIONS = {
    "Cos": "NumPy's float32 vectors: builtin code has no reduction of large angles",
    "Sin": "NumPy's float32 vectors: builtin code has no reduction of large angles",
    "Dropout": "the bits are a random generator's, which oneDNN 3.2 does not have",
    "GenIndex": "NumPy: indices that do not depend on data, computed once where sizes are known",
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", op_rates.FLOATS)
@pytest.mark.parametrize("kind", op_rates.KINDS)
def test_no_op_is_left_to_a_reference_kernel(kind, dtype):
    for case in op_rates.cases_of(kind, size=8):
        net = op_rates.compiled(case, dtype)
        if net is None or not {kind, (kind, case.label)}.isdisjoint(EXCEPTIONS):
            continue
        slow = [step for step in net.explain().steps if step.reference or "NumPy" in step.implementation]
        assert not slow, f"{case}\n{slow}"


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_exceptions_are_needed(exception):
    kind, label = exception if isinstance(exception, tuple) else (exception, None)
    found = [op_rates.compiled(case, "f32") for case in op_rates.cases_of(kind, size=8) if label in (None, case.label)]
    steps = [step for net in found if net is not None for step in net.explain().steps]
    assert any(step.reference or "NumPy" in step.implementation for step in steps)


def test_all_kinds_have_cases():
    for kind in op_rates.KINDS:
        cases = list(op_rates.cases_of(kind, size=8))
        assert any(op_rates.compiled(case, dtype) for case in cases for dtype in op_rates.FLOATS), kind


def test_rows_are_flagged_by_rate_and_implementation():
    case = op_rates.OpCase("Abs", "", ((4,),), {})
    rows = [
        op_rates.Row(each, "f32", rate, 1.0, reference, "any")
        for each, rate, reference in (
            (case, 0.2, False), (case, 0.09, False), (case, 0.2, True), (case._replace(macs=1), 0.06, False),
            (case._replace(macs=1), 0.04, False),
        )
    ]  # fmt: skip
    assert [row.slow for row in rows] == [False, True, True, False, True]
    assert "(reference kernel)" in str(rows[2])


@pytest.mark.bench
def test_a_case_is_measured():
    row = op_rates.measure(op_rates.OpCase("Abs", "", ((4, 5),), {}), "bf16")
    assert row.rate > 0 and row.milliseconds > 0 and not row.reference and "builtin" in row.implementation
    assert op_rates.measure(op_rates.OpCase("Quantize", "", ((4, 5),), {"scales": [1.0], "zps": [0]}), "bf16") is None
    assert dgo.get_num_threads() >= 1

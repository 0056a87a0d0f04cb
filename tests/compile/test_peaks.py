"""The peaks that percentages are of: short runs, a peak for each dtype, marks where others use the machine."""

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import peaks


@pytest.fixture
def engine():
    return dgo.engine("cpu")


def test_peaks_are_measured_once(engine):
    peak = peaks.of_products(engine, "f32", 1)
    assert peak.rate > 1e8 and peaks.of_copies(engine, 1).rate > 1e7
    assert peaks.of_products(engine, "f32", 1) is peak
    assert peaks.of_copies(engine, 1) is peaks.of_copies(engine, 1)


def test_integers_have_one_peak(engine):
    assert peaks.of_products(engine, "u8", 1) is peaks.of_products(engine, "s8", 1)


def test_a_dtype_that_the_cpu_lacks_has_the_peak_of_f32(engine, monkeypatch):
    monkeypatch.setattr(peaks.cpu, "computes_natively", lambda dtype, engine: False)
    assert peaks.of_products(engine, "f16", 1) is peaks.of_products(engine, "f32", 1)


def test_runs_are_shorter_than_a_millisecond(engine, monkeypatch):
    """The largest matrices whose runs are, by runs that others do not disturb: here of a made-up clock."""
    rates = {side: 1e11 * side / (side + 100) for side in peaks.SIDES}

    def product(engine, dtype, side, threads):
        return lambda count: [side**3 / rates[side]] * count

    monkeypatch.setattr(peaks, "_product", product)
    peaks._fastest_product.cache_clear()
    try:
        peak = peaks.products_now(engine, "f32", 1, 0.01)
    finally:
        peaks._fastest_product.cache_clear()
    largest = max(side for side in peaks.SIDES if side**3 / rates[side] <= peaks.LONGEST)
    assert peak == peaks.Peak(pytest.approx(rates[largest]), False)


def test_a_busy_machine_is_told_by_the_spread():
    quiet = [1.0, 1.01, 1.05] * 10
    assert not peaks.is_busy(quiet)
    # a turn of another process in one of fifteen runs
    assert peaks.is_busy([*quiet, 8.0, 9.0])


@pytest.mark.parametrize(
    ("share", "busy", "fewer", "text"),
    [
        (0.5, False, False, "50%"),
        (0.5, True, False, "~50%"),
        (1.5, False, False, "~150%"),
        (1.5, False, True, "150%"),
        (1.5, True, True, "~150%"),
    ],
)
def test_a_share_is_marked_where_the_peak_is_no_bound(share, busy, fewer, text):
    assert peaks.share_text(share, busy=busy, fewer=fewer) == text

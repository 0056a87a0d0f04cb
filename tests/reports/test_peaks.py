"""The peaks that percentages are of: short runs, a peak for each dtype, marks where others use the machine."""

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.reports import peaks

CACHES = (peaks._of_products, peaks._fastest_product)


@pytest.fixture
def engine():
    return dgo.engine("cpu")


@pytest.fixture
def rates(monkeypatch):
    """Made-up multiply-adds per second by the size of the matrices; others disturb no run."""
    rates = {side: 1e11 * side / (side + 100) for side in peaks.SIDES}
    monkeypatch.setattr(peaks, "_product", lambda *key: lambda count: [key[2] ** 3 / rates[key[2]]] * count)
    for cache in CACHES:
        cache.cache_clear()
    yield rates
    for cache in CACHES:
        cache.cache_clear()


@pytest.mark.bench
def test_peaks_are_measured_once(engine):
    peak = peaks.of_products(engine, "f32", 1)
    assert peak.rate > 1e8 and peaks.of_copies(engine, 1).rate > 1e7
    assert peaks.of_products(engine, "f32", 1) is peak
    assert peaks.of_copies(engine, 1) is peaks.of_copies(engine, 1)
    assert peaks.of_products(engine, "s8", 1).rate > 1e8


def test_there_is_a_peak_for_each_dtype(engine, rates):
    found = {dtype: peaks.of_products(engine, dtype, 1) for dtype in ("f32", "s8")}
    assert found["f32"] is peaks.of_products(engine, "f32", 1) is not found["s8"]
    assert peaks.of_products(engine, "u8", 1) is found["s8"]


def test_a_dtype_that_the_cpu_lacks_has_the_peak_of_f32(engine, rates, monkeypatch):
    monkeypatch.setattr(peaks.cpu, "computes_natively", lambda dtype, engine: False)
    assert peaks.of_products(engine, "f16", 1) is peaks.of_products(engine, "f32", 1)


def test_the_largest_matrices_are_taken_whose_runs_are_shorter_than_a_millisecond(engine, rates):
    largest = max(side for side in peaks.SIDES if side**3 / rates[side] <= peaks.LONGEST)
    assert peaks.products_now(engine, "f32", 1, 0.01) == peaks.Peak(pytest.approx(rates[largest]), False)


def test_a_disturbed_peak_is_measured_again():
    for disturbed, count in ((0, 1), (2, 3), (9, peaks.TRIES)):
        found = [peaks.Peak(100.0 + i, i < disturbed) for i in range(10)]
        left = iter(found)
        assert peaks._undisturbed(lambda: next(left)) == max(found[:count])  # noqa: B023
        assert next(left) == found[count]


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

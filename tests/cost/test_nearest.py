"""What recorded layers say of estimates: for them and their like alone, and of the constants that they belong to."""

import math

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import similar_sums
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.bench.times import Elsewhere, described
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.cost import fits, nearest
from dnnl_graph_ops.runtime import cpu

ISA = "avx512_core_bf16"
LAYER = Problem("a layer", 1, 64, 32, (24, 24), (4, 4), (2, 2), (1, 1), (1, 1))


@pytest.fixture(autouse=True)
def without_fits_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fits.source.cache_clear()
    yield
    fits.source.cache_clear()
    nearest.forget()


def env(isa=ISA):
    return Elsewhere(dgo.engine("cpu"), 1, name=isa)


def written(monkeypatch, tmp_path, rows):
    """The package's rows replaced by these: direction, forms, and hundredths of features and weights."""
    path = tmp_path / "rows.txt"
    path.write_bytes(nearest.written("nowhere", rows))
    monkeypatch.setattr(nearest, "package_file", lambda key, dtype: path)
    nearest.forget()


@pytest.mark.parametrize("key", sorted({row.fit for row in cpu.SETS}))
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("direction", [DGRAD, FPROP, WGRAD])
def test_the_packages_files(key, dtype, direction):
    """Each belongs to constants, is whole and names forms that there are."""
    if rows := nearest.read(key, dtype, direction):
        assert dtype in fits.package(key).constants
        assert set(rows.forms) <= {form.name for form in table.ALGORITHMS if form.direction == direction}
        assert rows.features.shape == (len(rows.features), len(nearest.SCALES))
        assert rows.weights.shape == (len(rows.features), len(rows.forms))
        assert np.isfinite(rows.features).all() and np.isfinite(rows.weights).all()


def test_a_row_corrects_its_like_and_nothing_far(monkeypatch, tmp_path):
    problem = described(LAYER, DGRAD, "NXC", False)
    place = nearest.features(problem, env())
    row = np.rint(100 * np.array([[*place, 0.5]]))
    written(monkeypatch, tmp_path, {DGRAD: (["phases"], row)})
    assert nearest.factors(problem, env()) == pytest.approx({"phases": math.exp(0.5)}, rel=1e-3)
    plain = {form.name: form.seconds(problem, env()) for form in table.usable(problem, env())}
    found = {form.name: seconds for form, seconds in table.candidates(problem, env())}
    assert found == pytest.approx({**plain, "phases": plain["phases"] * math.exp(0.5)}, rel=1e-3)
    far = Problem("another", 64, 2048, 2, (2, 2), (1, 1), (1, 1), (0, 0), (0, 0))
    assert nearest.factors(described(far, DGRAD, "NCX", True), env())["phases"] == pytest.approx(1, abs=0.05)
    assert nearest.factors(described(LAYER, FPROP, "NXC", False), env()) == {}


@pytest.mark.parametrize("forms", [1, 2, 3])
def test_what_is_written_is_read(monkeypatch, tmp_path, rng, forms):
    names, count = [f"form {i}" for i in range(forms)], len(nearest.SCALES)
    numbers = rng.integers(-32767, 32768, (50, count + forms))
    # other directions lie before and behind
    other = ["a form"], rng.integers(-32767, 32768, (7, count + 1))
    written(monkeypatch, tmp_path, {DGRAD: other, WGRAD: (names, numbers), FPROP: other})
    rows = nearest.read("avx2", "f32", WGRAD)
    assert rows.forms == tuple(names)
    np.testing.assert_array_equal(np.hstack([rows.features, rows.weights]), numbers / 100)
    with pytest.raises(ValueError, match="328"):
        nearest.written("nowhere", {WGRAD: (names, numbers * 0 + 32768)})


def test_similarity_is_that_of_the_distance(rng):
    rows = np.rint(rng.uniform(-500, 500, (50, len(nearest.SCALES)))) / 100
    place = rows[7] + rng.choice([0, 0.01, 1], len(nearest.SCALES))
    for at in (place, rows[7]):
        distance = np.sqrt(3) * np.linalg.norm(rows - at, axis=1)
        similarity = nearest.near(rows, at)
        np.testing.assert_allclose(similarity, (1 + distance) * np.exp(-distance), rtol=1e-10)
        weights = rng.integers(-300, 300, (50, 3))
        hundredths = np.hstack([np.rint(100 * rows), weights]).astype(np.int16)
        sums = similar_sums(hundredths, at.tolist())
        np.testing.assert_allclose(sums, similarity @ weights / 100, rtol=1e-10, atol=1e-12)
    assert similarity[7] == pytest.approx(1, abs=1e-12)
    with pytest.raises(ValueError, match="rows of 50 features"):
        similar_sums(hundredths, [0.0] * 50)
    assert similar_sums(hundredths[:0], at.tolist()) == [0, 0, 0]


def test_constants_without_rows_are_not_corrected():
    problem = described(LAYER, DGRAD, "NXC", False)
    assert nearest.read("avx2", "f32", DGRAD) is None
    assert nearest.factors(problem, env("avx2")) == {}
    assert nearest.factors(problem, env()) != {}


@pytest.mark.parametrize("direction", [DGRAD, FPROP, WGRAD])
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_factors_of_odd_problems_are_finite(direction, layout):
    for size in ((1,), (1, 1), (100000,), (1, 7, 1)):
        one = (1,) * len(size)
        zero = (0,) * len(size)
        layer = Problem("odd", 1, 3, 5, size, one, one, zero, zero)
        for dtype in ("f32", "bf16", "f16"):
            found = nearest.factors(described(layer, direction, layout, False, dtype), env())
            assert all(0.05 < factor < 20 for factor in found.values())

"""What the cost model's choices cost on machines whose times were recorded: tests/lowering/times/*.json.

A row holds the least seconds of every formulation of one layer of the suite, which were run in turn; each file says on
which CPU, with which library, and how far layers were halved. `bench.fit --save` writes such files.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from corpora.cases import FITS, FITS_VARIABLE

from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.bench import fit
from dnnl_graph_ops.bench import nearest as bench
from dnnl_graph_ops.lowering import nearest
from dnnl_graph_ops.lowering.registry import FORMULATIONS

TIMES = Path(__file__).with_name("times")
XEON = "avx512_core_amx_fp16"
DIRECTIONS = (fit.FORWARD, fit.BACKWARD_DATA, fit.BACKWARD_WEIGHTS)
# what choosing may cost in the mean, and once: forward, backward data, backward weights
LIMITS = {
    "zen5_f32": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_f32_both_ops": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_bf16": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_f16": ((1.03, 2), (1.03, 2), (1.03, 2)),
    "xeon_amx_f32": ((1.02, 2), (1.02, 2), (1.02, 2)),
    # other layers do not help in the gradients, of 61 rows each: their constants stand alone
    "xeon_amx_bf16": ((1.02, 2), (1.08, 2), (1.06, 3)),
    "xeon_amx_f16": ((1.02, 2), (1.03, 2), (1.03, 2)),
}
# what the package's tables of recorded layers are made of: files of times, the first of the constants' machine
MADE_OF = {
    "avx512_f32": ("zen5_f32_both_ops", "zen5_f32", "zen5_f16", "xeon_amx_f32"),
    "avx512_bf16": ("zen5_bf16",),
    "avx512_amx_f32": ("xeon_amx_f32",),
    "avx512_amx_bf16": ("xeon_amx_bf16",),
    "avx512_amx_f16": ("xeon_amx_f16",),
}
# by what layers of other names say of each: what corrections are worth for a layer that nobody recorded
LIMITS_BY_OTHERS = {
    "avx512_f32": (1.05, 1.06, 1.045),
    "avx512_bf16": (1.055, 1.05, 1.045),
    "avx512_amx_f32": (1.055, 1.055, 1.04),
    "avx512_amx_bf16": (1.09,),
    "avx512_amx_f16": (1.02, 1.08),
}


@pytest.fixture(autouse=True)
def without_fits_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fit.fits.find.cache_clear()
    yield
    fit.fits.find.cache_clear()


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("name", LIMITS)
def test_choices_by_estimates(name):
    recorded = fit.read(TIMES / f"{name}.json")
    forms = {(form.direction, form.name) for form in FORMULATIONS}
    gone = {(row["direction"], form) for row in recorded.rows for form in row["seconds"]} - forms
    assert not gone, "forms were renamed: measure again, or rename them in the file"
    found = losses(recorded)
    assert sum(map(len, found.values())) == len(recorded.rows)
    for direction, (limit, once) in zip(DIRECTIONS, LIMITS[name], strict=True):
        mean = fit.mean(found[direction])
        print(f"{name}, {direction}: {mean - 1:.1%} in the mean; the worst: {found[direction][:5]}")
        assert mean < limit, "forms count otherwise: `python -m dnnl_graph_ops.bench.nearest`"
        assert found[direction][0].times < once


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS_BY_OTHERS)
def test_choices_by_other_layers(name):
    """All rows of a layer are left out of what corrects its estimates; and the package's tables are those of today."""
    if name in ("avx512_f32", "avx512_bf16") and not kernels.narrow_isa()[0]:
        pytest.skip(
            "which forms there are for few channels and for bf16 is asked of this CPU, which has no such vectors"
        )
    samples = bench.gathered([fit.read(TIMES / f"{part}.json") for part in MADE_OF[name]])
    there = nearest.read(*name.rsplit("_", 1))
    assert list(there) == list(DIRECTIONS[: len(LIMITS_BY_OTHERS[name])])
    for direction, limit in zip(there, LIMITS_BY_OTHERS[name], strict=True):
        mine = [(sample, away) for sample, away in samples if sample.direction == direction]
        regressed = bench.regressed(mine)
        found = bench.losses([sample for sample, _ in mine], regressed.others)
        mean = fit.mean([loss for loss, (_, away) in zip(found, mine, strict=True) if not away])
        print(f"{name}, {direction}: {mean - 1:.1%} in the mean by other layers")
        assert mean < limit
        again = "forms count otherwise: make it again by `python -m dnnl_graph_ops.bench.nearest`"
        assert there[direction].forms == regressed.rows.forms, again
        np.testing.assert_allclose(there[direction].features, regressed.rows.features, atol=0.01)
        np.testing.assert_allclose(there[direction].weights, regressed.rows.weights, atol=0.05, err_msg=again)


@pytest.mark.parametrize("name", ["avx512_amx_f16"])
def test_a_table_is_written_as_the_package_has_it(name, tmp_path):
    sources = [str(TIMES / f"{part}.json") for part in MADE_OF[name]]
    directions = list(nearest.read(*name.rsplit("_", 1)))
    bench.main([*sources, "--directions", *directions, "--write", str(tmp_path / "rows.json")])
    written, there = (
        json.loads(path.read_text("utf-8"))
        for path in (tmp_path / "rows.json", nearest.package_file(*name.rsplit("_", 1)))
    )
    assert written["rows"] == there["rows"]
    assert list(written["directions"]) == directions


def before_strips(sample):
    """A row measured when no direct sums ran in strips, which fetch no runs: without the times of those that do now."""
    gone = "own direct" if sample.direction != fit.BACKWARD_WEIGHTS else ""
    return sample._replace(forms=tuple(f for f in sample.forms if f.name != gone or f.counts.runs > 0))


def losses(recorded, taken=lambda sample: sample):
    """What choosing by the present estimates costs in each row, by direction, the worst first."""
    found = {direction: [] for direction in DIRECTIONS}
    for sample in map(taken, fit.samples(recorded)):
        by = nearest.factors(sample.problem, sample.env)
        found[sample.direction].append(fit.loss(sample, fit.present(sample), by))
    return {direction: sorted(some, reverse=True) for direction, some in found.items()}


@pytest.mark.skipif(not FITS or not FITS.is_dir(), reason=f"{FITS_VARIABLE} is not set")
@pytest.mark.parametrize(("dtype", "max_gmacs"), [("f32", 0.3), ("bf16", 0.3), ("f16", 0.15)])
def test_every_row_of_a_xeon(dtype, max_gmacs):
    """A dtype and an op that the library leaves to its reference kernels cost hundreds of times the best form."""
    recorded = fit.read(FITS / f"xeon_amx_{dtype}.json", {"isa": XEON, "max_gmacs": max_gmacs})
    for direction, found in losses(recorded, before_strips).items():
        print(f"{dtype}, {direction}: {fit.mean(found) - 1:.1%} in the mean; the worst: {found[:5]}")
        assert fit.mean(found) <= 1.10

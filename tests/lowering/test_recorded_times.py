"""What the cost model's choices cost on machines whose times were recorded: tests/lowering/times/*.json.

A row holds the least seconds of every formulation of one layer of the suite, which were run in turn; each file says on
which CPU, with which library, and how far layers were halved. `bench.fit --save` writes such files.
"""

from pathlib import Path

import pytest
from corpora.cases import FITS, FITS_VARIABLE

from dnnl_graph_ops.bench import fit
from dnnl_graph_ops.lowering.registry import FORMULATIONS

TIMES = Path(__file__).with_name("times")
XEON = "avx512_core_amx_fp16"
DIRECTIONS = (fit.FORWARD, fit.BACKWARD_DATA, fit.BACKWARD_WEIGHTS)
# what choosing may cost in the mean, and once: forward, backward data, backward weights
LIMITS = {
    "zen5_f32": ((1.09, 7), (1.06, 3), (1.04, 2)),
    "zen5_f32_both_ops": ((1.07, 4), (1.06, 5), (1.06, 3)),
    "zen5_bf16": ((1.10, 3), (1.05, 2), (1.05, 2)),
    "zen5_f16": ((1.11, 3), (1.09, 3), (1.05, 2)),
    "xeon_amx_f32": ((1.08, 12), (1.08, 3), (1.05, 3)),
    "xeon_amx_bf16": ((1.10, 3), (1.10, 5), (1.06, 3)),
    "xeon_amx_f16": ((1.03, 2), (1.06, 2), (1.03, 2)),
}


@pytest.fixture(autouse=True)
def without_fits_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fit.fits.find.cache_clear()
    yield
    fit.fits.find.cache_clear()


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
        assert mean < limit
        assert found[direction][0].times < once


def before_strips(sample):
    """A row measured when no direct sums ran in strips, which fetch no runs: without the times of those that do now."""
    gone = "own direct" if sample.direction != fit.BACKWARD_WEIGHTS else ""
    return sample._replace(forms=tuple(f for f in sample.forms if f.name != gone or f.counts.runs > 0))


def losses(recorded, taken=lambda sample: sample):
    """What choosing by the present constants costs in each row, by direction, the worst first."""
    found = {direction: [] for direction in DIRECTIONS}
    for sample in map(taken, fit.samples(recorded)):
        found[sample.direction].append(fit.loss(sample, fit.present(sample)))
    return {direction: sorted(some, reverse=True) for direction, some in found.items()}


@pytest.mark.skipif(not FITS or not FITS.is_dir(), reason=f"{FITS_VARIABLE} is not set")
@pytest.mark.parametrize(("dtype", "max_gmacs"), [("f32", 0.3), ("bf16", 0.3), ("f16", 0.15)])
def test_every_row_of_a_xeon(dtype, max_gmacs):
    """A dtype and an op that the library leaves to its reference kernels cost hundreds of times the best form."""
    recorded = fit.read(FITS / f"xeon_amx_{dtype}.json", {"isa": XEON, "max_gmacs": max_gmacs})
    for direction, found in losses(recorded, before_strips).items():
        print(f"{dtype}, {direction}: {fit.mean(found) - 1:.1%} in the mean; the worst: {found[:5]}")
        assert fit.mean(found) <= 1.10

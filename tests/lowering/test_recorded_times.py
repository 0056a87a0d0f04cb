"""What the cost model's choices cost on machines whose times were recorded: tests/lowering/times/*.json.

A row holds the least seconds of every formulation of one layer of the suite, which were run in turn; each file says on
which CPU, with which library, and how far layers were halved. `bench.fit --save` writes such files.
"""

from pathlib import Path

import pytest

from dnnl_graph_ops.bench import fit

TIMES = Path(__file__).with_name("times")
# what choosing may cost in the mean, and once: forward, backward data, backward weights
LIMITS = {
    "zen5_f32": ((1.09, 7), (1.06, 3), (1.04, 2)),
    "zen5_bf16": ((1.11, 3), (1.05, 2), (1.05, 2)),
    "xeon_amx_f32": ((1.10, 12), (1.08, 3), (1.05, 3)),
    "xeon_amx_bf16": ((1.12, 3), (1.11, 5), (1.07, 3)),
    "xeon_amx_f16": ((1.06, 2), (1.08, 2), (1.03, 2)),
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
    samples = fit.samples(recorded)
    assert len(samples) == len(recorded.rows)
    timed = sum(len(row["seconds"]) for row in recorded.rows)
    assert sum(len(s.forms) for s in samples) == timed, "a form was renamed: measure again, or rename it in the file"
    for direction, (limit, once) in zip(
        (fit.FORWARD, fit.BACKWARD_DATA, fit.BACKWARD_WEIGHTS), LIMITS[name], strict=True
    ):
        losses = [fit.loss(sample, fit.present(sample).prices) for sample in samples if sample.direction == direction]
        worst = sorted(losses, reverse=True)[:5]
        print(f"{name}, {direction}: {fit.mean(losses) - 1:.1%} in the mean; the worst: {worst}")
        assert fit.mean(losses) < limit
        assert worst[0].times < once

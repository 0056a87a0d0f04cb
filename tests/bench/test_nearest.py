"""The command that makes the package's tables of recorded layers, and the recorded saved that it reads."""

import json

import numpy as np
import pytest
from scripts import FOLDER, script

from dnnl_graph_ops.algorithms.table import ALGORITHMS
from dnnl_graph_ops.bench import fit, regression, times
from dnnl_graph_ops.convolution.problem import DGRAD, WGRAD
from dnnl_graph_ops.cost import nearest

bench = script("nearest")
choices = script("choices")
TIMES = FOLDER / "times"
FORMS = {(form.direction, form.name) for form in ALGORITHMS}


@pytest.mark.parametrize("path", sorted(TIMES.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_times_name_forms_that_exist(path):
    """Where one was renamed: measure again, or rename it in the file."""
    recorded = times.read(path)
    assert {"cpu", "isa", "onednn", "threads", "dtype", "max_gmacs"} <= recorded.head.keys()
    assert {(row["direction"], form) for row in recorded.rows for form in row["seconds"]} <= FORMS


def test_a_written_table_is_read_and_corrects_its_rows(tmp_path, monkeypatch):
    recorded = times.read(TIMES / "sapphire_rapids_f16.json")
    rows = [row for row in recorded.rows if row["direction"] == DGRAD][:12]
    saved, table = tmp_path / "times.json", tmp_path / "rows.json"
    saved.write_text(json.dumps({**recorded.head, "rows": rows}), "utf-8")
    bench.main([str(saved), "--directions", DGRAD, "--write", str(table)])
    monkeypatch.setattr(nearest, "package_file", lambda key, dtype: table)
    nearest.forget()
    try:
        written = nearest.read("avx512_amx", "f16", DGRAD)
        assert np.isfinite(written.weights).all() and nearest.read("avx512_amx", "f16", WGRAD) is None
        samples = fit.samples(times.Recorded(recorded.head, rows))
        by_constants = bench.losses(samples)
        corrected = bench.losses(samples, [nearest.factors(sample.problem, sample.env) for sample in samples])
        assert len(written.features) == len(samples) == len(rows)
        assert regression.mean(corrected) <= regression.mean(by_constants)
    finally:
        nearest.forget()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({files[0] for files in choices.MADE_OF.values()}))
def test_tables_are_of_what_algorithms_count_now(name):
    """Where an algorithm counts otherwise: make the tables of `choices.MADE_OF` again by benchmarks/nearest.py."""
    losses, limits = choices.losses(choices.read(name)), choices.LIMITS[name]
    for (direction, found), (most, _) in zip(losses.items(), limits, strict=True):
        assert regression.mean(found) < most, (direction, max(found))

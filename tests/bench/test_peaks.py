"""Shares of the peak in tables: marked where other processes used the machine, or without a reason above 100 %."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dnnl_graph_ops.bench import measure, peaks
from dnnl_graph_ops.bench.document import Document
from dnnl_graph_ops.bench.report import summary, table

from . import synthetic


def reaching(share: float, detail: str = "builtin direct in f32 (own, avx2)", busy: bool = False) -> Document:
    """A row whose rounds reach `share` of peaks that were measured beside others' work, or not."""
    race = synthetic.race()
    row = synthetic.row(0, race)
    peak = 2 * row.gmacs / row.own.median / share
    for one in race.rounds:
        one["dgo NXC"] = replace(one["dgo NXC"], peak=peak, peak_busy=busy)
    measure._fill(row, race, synthetic.PEER_OF)
    for entry in row.entries:
        entry.detail = detail
    return replace(synthetic.document(1), rows=[row])


@pytest.mark.parametrize(
    ("share", "detail", "busy", "marked"),
    [
        (0.5, "builtin direct", False, False),
        (0.5, "builtin direct", True, True),
        (2.0, "builtin direct", False, True),
        (2.0, "Winograd 2", False, False),
        (2.0, "Winograd 2", True, True),
    ],
)
def test_a_share_is_marked_where_the_peak_is_no_bound(share, detail, busy, marked):
    document = reaching(share, f"{detail} in f32 (own, avx2)", busy)
    (row,) = document
    cells = dict(zip(summary.columns(["torch"]), summary.cells(row, ["torch"]), strict=True))
    assert cells["of peak"].text == f"{'~' if marked else ''}{row.own.peak_share:.0%}"
    assert ("~ other processes used the machine" in table.text(document)) == busy


@pytest.mark.bench
def test_a_round_measures_products_of_any_dtype():
    for dtype in ("f32", "bf16", "int8"):
        rate, _ = peaks.product(dtype, 1, 0.001)
        assert np.isfinite(rate) and rate > 0.1

"""Results for other programs: CSV with one line per competitor."""

from __future__ import annotations

import csv
import io

from ..document import Document

_FIELDS = (
    "key", "name", "family", "op", "layer_class", "direction", "dtype", "weights", "descriptor", "gmacs",
    "peer", "label", "layout", "status", "reason", "median_s", "minimum_s", "spread", "native_s", "rounds",
    "total", "later", "excess", "excess_p95", "before_bytes", "after_bytes", "alone_bytes",
    "p50", "p90", "p99", "memory_bytes", "peak_bytes",
    "compile_s", "first_s", "error", "gflops", "peak_share",
    "ratio", "ratio_low", "ratio_high", "flags", "detail", "cpu", "isa", "threads", "when",
)  # fmt: skip


def as_csv(document: Document) -> str:
    """One line per row and competitor; times in seconds, `ratio` on the entry that a ratio was taken of."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _FIELDS, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in document:
        machine = document.machines[row.machine] if document.machines else {}
        derived = {"op": row.op, "layer_class": row.layer_class, "flags": ", ".join(row.flags)}
        common = {**machine, **vars(row), **derived}
        if not row.entries:
            writer.writerow(common)
        for entry in row.entries:
            values = {
                "median_s": entry.median,
                "minimum_s": entry.minimum,
                "native_s": entry.native,
                "rounds": len(entry.rounds),
                "flags": ", ".join([*row.flags, *entry.flags]),
            }
            ratio = next((r for r in row.ratios if r.entry == entry.label), None)
            if ratio:
                values |= {"ratio": ratio.median, "ratio_low": ratio.low, "ratio_high": ratio.high}
            calls = vars(entry.calls) if entry.calls else {}
            writer.writerow({**common, **vars(entry), **calls, **values})
    return out.getvalue()

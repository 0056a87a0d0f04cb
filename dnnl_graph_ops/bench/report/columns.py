"""Results for other programs: CSV with one line per competitor, and the columns that benchdnn prints."""

from __future__ import annotations

import csv
import io

from ..descriptor import split_driver
from ..document import Document
from ..peers.registry import OWN

_FIELDS = (
    "key", "name", "family", "op", "layer_class", "direction", "dtype", "weights", "descriptor", "gmacs", "gbytes",
    "peer", "label", "layout", "status", "reason", "median_s", "minimum_s", "spread", "native_s", "rounds",
    "total", "later", "excess", "excess_p95", "before_bytes", "after_bytes", "alone_bytes",
    "p50", "p95", "p99", "throughput", "memory_bytes", "peak_bytes",
    "compile_s", "first_s", "error", "gflops", "peak_share", "bandwidth_share",
    "ratio", "ratio_low", "ratio_high", "flags", "detail", "cpu", "isa", "threads", "when",
)  # fmt: skip
_DIRECTIONS = {"fwd": "FWD_D", "bwd_d": "BWD_D", "bwd_w": "BWD_W"}
_TAGS = {"NXC": "axb", "NCX": "abx"}


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


def as_benchdnn(document: Document) -> str:
    """This package's entries in benchdnn's default performance template; times in milliseconds.

    The creation time is that of the compile, the average time is the median over rounds.
    """
    lines = [
        "Output template: perf,%engine%,%impl%,%name%,%prb%,%Gops%,%+ctime%,%-time%,%-Gflops%,%0time%,%0Gflops%",
        "perf,engine,impl,name,prb,Gops,max_ctime,min_time,min_Gflops,avg_time,avg_Gflops",
    ]
    for row in document:
        for entry in row.entries:
            if row.model or entry.peer != OWN or entry.median is None or entry.minimum is None:
                continue
            gops = 2 * row.gmacs
            kind = _DIRECTIONS[row.direction]
            if kind == "FWD_D" and row.problem.get("bias"):
                kind = "FWD_B"
            tag = _TAGS[entry.layout]
            # the driver's name comes first there
            driver, descriptor = split_driver(row.descriptor)
            problem = f"--mode=P {driver} --dir={kind} --dt={row.dtype} --stag={tag} --dtag={tag} {descriptor}"
            detail = (entry.detail or "graph").replace(",", ";")
            numbers = (
                gops,
                1e3 * (entry.compile_s or 0.0),
                1e3 * entry.minimum,
                gops / entry.minimum,
                1e3 * entry.median,
                gops / entry.median,
            )
            shown = ",".join(f"{n:.6g}" for n in numbers)
            lines.append(f'perf,{entry.options.get("engine", "cpu")},{detail},"{row.name}",{problem},{shown}')
    return "\n".join(lines) + "\n"

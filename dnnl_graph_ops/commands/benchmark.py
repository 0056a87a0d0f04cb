"""`dnnl-graph-ops benchmark MODEL`: the latency and the throughput of a model's calls on this machine."""

from __future__ import annotations

import argparse
import csv
import io
import json
import time
from dataclasses import asdict

from ..bench.document import check_writable, write_text
from ..bench.latency import latency
from ..errors import InvalidArgumentError
from ..runtime import get_num_threads
from ..words import counted
from . import models

_SECONDS, _WARM_UP = 5.0, 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    models.add_file(parser)
    models.add_inputs(parser)
    parser.add_argument(
        "--seconds", type=_seconds, default=_SECONDS, help=f"how long calls are measured ({_SECONDS:g})"
    )
    parser.add_argument(
        "--warm-up", type=_seconds, default=_WARM_UP, metavar="SECONDS", help=f"calls before that ({_WARM_UP:g})"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - for the terminal, without text")
    parser.add_argument("--csv", metavar="FILE", help="write the figures as a line of CSV below a line of names")
    models.add_options(parser)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds, such as 5") from None


def run(options: argparse.Namespace) -> int:
    """Inputs without a file are random numbers, as if `--random` were given."""
    for path in filter(None, (options.csv, options.json)):
        if path != "-":
            check_writable(path)
    for name, value in (("--seconds", options.seconds), ("--warm-up", options.warm_up)):
        if not 0 <= value < 1e6:
            raise InvalidArgumentError(f"{name} {value:g}: must be from 0 to 1,000,000")
    options.random = True
    begin = time.perf_counter()
    net = models.compiled(options.model, options)
    compiled = time.perf_counter() - begin
    arrays = models.arrays_of(net, options)
    begin = time.perf_counter()
    net(*arrays)
    first = time.perf_counter() - begin
    found = latency(lambda: net(*arrays), options.seconds, options.warm_up)
    record = {
        "model": options.model,
        "threads": get_num_threads(),
        "shapes": " ".join(f"{name}={models.spelt(a.shape)}" for name, a in zip(net.input_names, arrays, strict=True)),
        "load_and_compile_s": compiled,
        "first_call_s": first,
        **{name if name in ("samples", "throughput") else f"{name}_s": v for name, v in asdict(found).items()},
    }
    if options.json == "-":
        print(json.dumps(record, indent=2))
    else:
        print(f"{options.model}, {record['threads']} thread{'s' * (record['threads'] != 1)}, {record['shapes']}")
        print(f"load and compile {compiled * 1e3:.1f} ms, first call {first * 1e3:.2f} ms")
        parts = (("50 %", found.p50), ("90 %", found.p90), ("95 %", found.p95), ("99 %", found.p99))
        print("latency, ms: " + ", ".join(f"{name} {seconds * 1e3:.3f}" for name, seconds in parts))
        print(f"mean {found.mean * 1e3:.3f}, lowest {found.minimum * 1e3:.3f}, highest {found.maximum * 1e3:.3f}")
        print(f"throughput {found.throughput:.1f} calls a second, from {counted(found.samples, 'sample')}")
        if options.json:
            write_text(options.json, json.dumps(record, indent=2) + "\n")
    if options.csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, record, lineterminator="\n")
        writer.writeheader()
        writer.writerow(record)
        write_text(options.csv, text.getvalue())
    return 0

"""Times builtin kernels one by one: `python -m dnnl_graph_ops.bench.kernels [NAME ...] [--shape size=number ...]`.

The declaration of each kernel gives its operands (`bench.kernel_cases`). A row has the time of the fastest run,
its multiply-adds and bytes of operands in a second, and their shares of this machine's peaks: the library's
matrix product in the kernel's dtype, and a copy of more bytes than the caches hold. A kernel whose operands stay in the
caches may have more than 100 % of the bandwidth. The kernels farthest from both limits come first. `--save FILE` keeps
the rows, `--table FILE` prints those of such a file. With one thread times are those of the process, so that other
processes on the machine count less.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from .. import engine
from ..errors import Error, InvalidArgumentError
from ..reports import peaks
from ..runtime import cache_files, threads
from . import machine, timing
from .document import check_writable, json_lines
from .kernel_cases import CASES, build

ROUNDS, SECONDS = 5, 0.05
HEAD: Final = ("kernel", "sizes", "us", "GMAC/s", "of peak", "GB/s", "of bandwidth")


class Row(NamedTuple):
    """A measured kernel. seconds, macs, moved: time, multiply-adds and bytes of a run; both shares are of the peaks."""

    kernel: str
    by: str
    sizes: Mapping[str, int]
    unit: str
    seconds: float
    macs: int
    moved: int
    share_of_rate: float
    share_of_bandwidth: float

    @property
    def distance(self) -> float:
        """The larger one of both shares: low values are far from both limits."""
        return max(self.share_of_rate, self.share_of_bandwidth)


def measure(name: str, shape: Mapping[str, int], count: int, seconds: float = SECONDS) -> Row:
    """Returns the row of a kernel with `count` threads: the fastest run of `ROUNDS` rounds of `seconds` each.

    Raises:
        InvalidArgumentError: there is no such kernel or size.
    """
    case = build(name, shape)
    here = engine("cpu")

    def run() -> None:
        case.kernel.run(*case.operands)

    run()
    now = time.process_time if count == 1 else time.perf_counter
    best = min(min(timing.burst(run, seconds, now=now)) for _ in range(ROUNDS))
    rate = peaks.of_products(here, case.unit, count).rate if case.macs else 0.0
    return Row(
        name,
        case.kernel.by,
        {**CASES[name].sizes, **shape},
        case.unit,
        best,
        case.macs,
        case.moved,
        case.macs / best / rate if rate else 0.0,
        case.moved / best / peaks.of_copies(here, count).rate,
    )


def table(rows: Iterable[Row]) -> str:
    """Returns the rows as a table in Markdown, the farthest from both limits first."""
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|---:|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda row: row.distance):
        sizes = ", ".join(f"{name} {size}" for name, size in row.sizes.items())
        rate = (f"{row.macs / row.seconds / 1e9:.1f}", f"{row.share_of_rate:.0%}") if row.share_of_rate else ("", "")
        moved = (f"{row.moved / row.seconds / 1e9:.1f}", f"{row.share_of_bandwidth:.0%}")
        lines.append(f"| {' | '.join((row.kernel, sizes, f'{row.seconds * 1e6:.0f}', *rate, *moved))} |")
    return "\n".join(lines)


def document(rows: Sequence[Row], count: int) -> dict[str, Any]:
    """Returns the rows with the machine and the date, as `--save` keeps them."""
    here = {key: value for key, value in machine.record(count, []).items() if key != "host"}
    return {"machine": here, "date": date.today().isoformat(), "rows": [row._asdict() for row in rows]}


def read(path: Path) -> list[Row]:
    """Returns the rows of a file that `--save` wrote.

    Raises:
        InvalidArgumentError: the file holds something else.
    """
    try:
        return [Row(**row) for row in json.loads(path.read_text("utf-8"))["rows"]]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidArgumentError(f"{path} has no rows of kernels ({error}); name a file that --save wrote") from None


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as n=1") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m dnnl_graph_ops.bench.kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels of _core.kernels; all of them by default")
    parser.add_argument(
        "--shape", nargs="+", type=_size, default=[], metavar="SIZE=N", help="other sizes of one kernel"
    )
    parser.add_argument("--threads", type=int, default=1, help="1 by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each of {ROUNDS} rounds")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the rows as JSON")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the rows of a file, and measure nothing")
    options = parser.parse_args(arguments)
    try:
        if options.table is not None:
            print(table(read(options.table)))
            return 0
        if options.shape and len(options.names) != 1:
            raise InvalidArgumentError("--shape gives the sizes of one kernel; name it")
        if options.save is not None:
            check_writable(options.save)
        return _measured(options)
    except (Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _measured(options: argparse.Namespace) -> int:
    rows: list[Row] = []
    failures = 0
    with threads.using(options.threads):
        for name in options.names or CASES:
            try:
                rows.append(measure(name, dict(options.shape), options.threads, options.seconds))
            except Error as error:
                if options.names:
                    raise
                # an instruction set that this CPU lacks
                failures += 1
                print(f"{name}: {error}", file=sys.stderr)
    print(table(rows))
    if options.save is not None:
        cache_files.write(options.save, json_lines(document(rows, options.threads), 2))
    return 1 if failures == len(CASES) else 0


if __name__ == "__main__":
    sys.exit(main())

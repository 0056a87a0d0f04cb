"""`python -m dnnl_graph_ops.trial`: tests which fused int8 partitions a oneDNN library computes correctly, and measures
its post-ops.

For each limit of the instruction set child processes try all combinations; a crash ends one process only. A log has a
line for each combination, and an interrupted run continues where its log ends. Exact combinations form the table for
`onednn.exact_int8` and this release of the library, and errors of post-ops that for `program.post_op_errors`: the
package's, or without --package the user's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..onednn import exact_int8
from ..onednn.exact_int8 import RELU, SWISH, Features
from ..program import post_op_errors
from ..runtime import cache_files, libraries
from . import post_op_table
from .child import APART, EXACT, REFUSED, WRONG
from .combinations import PLAIN, combinations
from .graphs import SIZES

_LIMITS = ("DEFAULT", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI")
# post-ops in bf16 and f16 depend on more sets
_HALVES = ("AVX512_CORE_BF16", "AVX512_CORE_FP16")
# a combination that is exact for some sizes is tried for more; of several verdicts the last of this list holds
_FINE = (APART, EXACT)
CRASHED = "crashed"
_ORDER = (*_FINE, REFUSED, WRONG, CRASHED)


class Verdict(NamedTuple):
    """The verdict on a combination, and the number of sizes for which it was tried."""

    verdict: str
    sizes: int


Verdicts = Mapping[Features, Verdict]
Said = dict[str, dict[Features, Verdict]]
Box = tuple[frozenset[Any], ...]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m dnnl_graph_ops.trial", description=__doc__)
    parser.add_argument("--library", help="a libdnnl.so.3 (default: the bundled one)")
    parser.add_argument("--limit", action="append", help=f"of ONEDNN_MAX_CPU_ISA (default: {', '.join(_LIMITS)})")
    parser.add_argument("--only", choices=("int8", "post-ops"), help="try int8 partitions, or measure post-ops, alone")
    parser.add_argument(
        "--log", type=Path, default=Path("trial.jsonl"), help="what happened, a line for each; another for each library"
    )
    parser.add_argument("--package", action="store_true", help="write the package's table")
    options = parser.parse_args(arguments)
    if options.only != "int8":
        _post_ops(options)
    if options.only != "post-ops":
        _int8(options)


def _post_ops(options: argparse.Namespace) -> None:
    for limit in options.limit or (*_LIMITS, *_HALVES):
        library = post_op_table.measure(options.library, limit, options.log)
    written = post_op_errors.package_file if options.package else post_op_errors.user_file
    _write(written(*library), post_op_table.text(post_op_table.read(options.log)))


def _write(path: Path, text: str) -> None:
    cache_files.write(path, text)
    path.chmod(0o644)
    print(path)


def _int8(options: argparse.Namespace) -> None:
    for limit in options.limit or _LIMITS:
        library = _try_all(combinations(), options.library, limit, options.log)
    said = _read(options.log)
    for isa, verdicts in said.items():
        print(isa, *(f"{count} {verdict}" for verdict, count in _counts(verdicts).items()), sep=", ")
    _write((exact_int8.package_file if options.package else exact_int8.user_file)(*library), _text(said))


# ---- trying ----------------------------------------------------------------------------------------------------------


def _try_all(rows: Sequence[Features], path: str | None, limit: str, log: Path) -> tuple[str, str]:
    """Appends the verdicts of a limit that a log lacks; returns the library's runtime and release."""
    (library,) = _child([], 0, path, limit)
    isa = library["isa"]
    for size in range(len(SIZES)):
        done = _read(log).get(isa, {})
        left = [row for row in rows if row not in done or (done[row].sizes <= size and done[row].verdict in _FINE)]
        with log.open("a", encoding="utf-8") as file:
            for row, verdict, kernel in _tried(left, size, path, limit):
                line = {"isa": isa, "size": size, "row": row, "verdict": verdict, "kernel": kernel}
                print(json.dumps(line), file=file, flush=True)
    return library["runtime"], library["onednn"]


def _tried(rows: Sequence[Features], size: int, path: str | None, limit: str) -> Iterator[tuple[Features, str, str]]:
    """Yields the verdict and kernel of each row; after a crash another process continues with the next row."""
    left = rows
    while left:
        tried = 0
        for line in _child(left, size, path, limit):
            if "row" in line:
                yield left[line["row"]], line["verdict"], line["kernel"]
                tried = line["row"] + 1
        if tried < len(left):
            yield left[tried], CRASHED, ""
        left = left[tried + 1 :]


def _child(rows: Sequence[Features], size: int, path: str | None, limit: str) -> Iterator[dict[str, Any]]:
    """Yields the lines of a child process, up to a crash.

    Raises:
        SystemExit: the process ended for another reason.
    """
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": limit}
    if path is not None:
        environment[libraries.ENVIRONMENT] = path
    command = [sys.executable, "-m", f"{__package__}.child"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        json.dump({"rows": rows, "size": size}, child.stdin)
        child.stdin.close()
        yield from map(json.loads, child.stdout)
    if child.returncode > 0:
        raise SystemExit(f"a process that tries combinations ended with status {child.returncode}")


def _read(log: Path) -> Said:
    """Returns the verdicts of a log by instruction set."""
    said: Said = {}
    if log.exists():
        lines = map(json.loads, log.read_text("utf-8").splitlines())
        for line in (line for line in lines if "row" in line):
            verdicts, row = said.setdefault(line["isa"], {}), Features(*line["row"])
            before = verdicts.get(row, Verdict(APART, 0))
            worse = max(before.verdict, line["verdict"], key=_ORDER.index)
            verdicts[row] = Verdict(worse, max(before.sizes, line["size"] + 1))
    return said


# ---- the table -------------------------------------------------------------------------------------------------------


def _counts(verdicts: Verdicts) -> dict[str, int]:
    return dict(sorted(Counter(row.verdict for row in verdicts.values()).items()))


def _text(said: Said) -> str:
    """Returns a table's text: counts for each instruction set, and exact combinations for equal sets together."""
    tables: dict[str, list[str]] = {}
    for isa, verdicts in said.items():
        like, boxes = _table(verdicts)
        lines = ",\n   ".join(json.dumps([sorted(values) for values in box]) for box in boxes)
        tables.setdefault(f'"like ReLU": {json.dumps(like)},\n  "exact": [\n   {lines}]', []).append(isa)
    tried = ",\n  ".join(f"{json.dumps(isa)}: {json.dumps(_counts(verdicts))}" for isa, verdicts in said.items())
    rows = ",\n ".join(f'{{"isa": {json.dumps(names)}, {text}}}' for text, names in tables.items())
    return f'{{"tried": {{\n  {tried}}},\n"tables": [\n {rows}]}}\n'


def _table(tried: Verdicts) -> tuple[dict[str, list[str]], list[Box]]:
    """Returns, by head, the post-ops that are exact wherever ReLU is, and the other exact combinations as boxes."""
    # a product that is wrong for some dtypes may be exact for others by chance, from leftover memory
    wrong = [row for row, said in tried.items() if said.verdict == WRONG and row.post_ops in PLAIN]
    doubted = {row[:3] for row in wrong if row.weights and "axis" not in row.src + row.weights}
    exact = {row for row, said in tried.items() if said.verdict == EXACT and row[:3] not in doubted}
    like: dict[str, list[str]] = {}
    texts = {row.post_ops.removeprefix("bias, ") for row in tried if row.post_ops.startswith("bias, ") and not row.skip}
    for head in sorted({row.head for row in tried}):
        mine = [row for row in tried if row.head == head]
        for text in sorted(text for text in texts if len(text.split()) == 1 or text == SWISH):
            swapped = [(row, row._replace(post_ops=f"bias, {RELU}")) for row in mine if row.post_ops == f"bias, {text}"]
            if swapped and all(row in exact or twin not in exact for row, twin in swapped):
                like.setdefault(head, []).append(text)
    rows = {row for row in exact if row.post_ops.removeprefix("bias, ") not in {*like.get(row.head, ())} - {RELU}}
    return like, _boxes(rows)


def _boxes(rows: Collection[Features]) -> list[Box]:
    """Returns the rows as boxes: products of sets of values that together equal the rows."""
    boxes: set[Box] = {tuple(frozenset([value]) for value in row) for row in rows}
    count = 0
    while len(boxes) != count:
        count = len(boxes)
        for axis in range(len(Features._fields)):
            joined: dict[Box, frozenset[Any]] = {}
            for box in sorted(boxes, key=str):
                rest = (*box[:axis], *box[axis + 1 :])
                joined[rest] = joined.get(rest, frozenset()) | box[axis]
            boxes = {(*rest[:axis], values, *rest[axis:]) for rest, values in joined.items()}
    return sorted(boxes, key=lambda box: [sorted(map(str, values)) for values in box])


if __name__ == "__main__":
    main()

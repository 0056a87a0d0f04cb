"""`.ci/against COMMIT`: builds a commit and the working tree, and says what they plan, compute and take."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from . import builds, compare, graphs, models, pairs, rows, verdict

TESTS = Path(__file__).resolve().parents[1]
# what keeps the package and the library to a set; without, they use the widest that the CPU has
SETS: Mapping[str, Mapping[str, str]] = {
    "avx2": {"DNNL_GRAPH_OPS_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "widest": {},
}
MOST_SHOWN = 12
FURTHER = 1


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    old = options.commit if Path(options.commit).is_dir() else builds.of_commit(options.commit)
    versions = [Path(old).resolve(), options.new.resolve() if options.new else builds.of_tree()]
    names = _chosen(graphs.QUICK if options.quick else graphs.NAMES, options.only)
    timings = _chosen(rows.names(options.quick), options.only)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        environment = _environment(scratch / "cache")
        files = _models(versions[1], [*names, *(name for row in timings for name in rows.models(row))])
        report: dict[str, Any] = {"versions": [str(version) for version in versions]}
        expected = compare.expected(options.expect)
        wrong = _dumped(names, versions, files, scratch, environment, expected, report)
        # the quick list is timed with the widest set alone
        for name in ("widest",) if options.quick else SETS:
            groups = {row: rows.group(row, options.quick) for row in timings}
            wrong += _timed(name, groups, versions, files, environment, expected, report)
    for line in wrong:
        print(f"FAILED {line}")
    print("the versions differ" if wrong else "no difference that counts")
    if options.report:
        options.report.write_text(json.dumps({**report, "failed": wrong}, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=".ci/against", description="The working tree against a commit: its plans, its results' bytes, its times."
    )
    parser.add_argument("commit", help="a commit, or a folder that holds the installed package")
    parser.add_argument("--new", type=Path, metavar="FOLDER", help="an installed package instead of the working tree")
    parser.add_argument("--quick", action="store_true", help="twelve graphs and a short list of times")
    parser.add_argument("--only", metavar="GLOB", help='graphs and rows by name: "zoo *", "layer * bf16"')
    parser.add_argument(
        "--expect", type=Path, metavar="FILE", help="globs of nets and rows that may differ, '#' and why behind"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write all figures and differences as JSON")
    return parser


def _chosen(names: Sequence[str], only: str | None) -> list[str]:
    return [name for name in names if only is None or fnmatchcase(name, only)]


def _environment(cache: Path) -> dict[str, str]:
    """One thread, the same hashes, and nothing that an earlier run tuned or fitted."""
    settings = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "XDG_CACHE_HOME": str(cache)}
    return {**os.environ, **settings, "PYTHONPATH": str(TESTS)}


def _models(package: Path, names: Sequence[str]) -> Path:
    """The folder of the models among `names`."""
    folder = builds.cache() / "models" / models.sources(package)
    wanted = dict.fromkeys(name for name in names if name.split()[0] in models.SUFFIXES)
    missing = [name for name in wanted if not models.path(folder, name).exists()]
    if missing:
        command = [sys.executable, "-m", "against.models", str(package), str(folder), *missing]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(TESTS)}, check=True)
    return folder


def _dumped(
    names: Sequence[str],
    versions: Sequence[Path],
    files: Path,
    scratch: Path,
    environment: Mapping[str, str],
    globs: Sequence[str],
    report: dict[str, Any],
) -> list[str]:
    """Dumps of both versions by instruction set; what differs and was not expected to."""
    targets = {(name, i): scratch / f"{name}_{i}.jsonl" for name in SETS for i in (0, 1)}

    def dump(key: tuple[str, int]) -> None:
        name, i = key
        command = [sys.executable, "-m", "against.dump", str(versions[i]), str(files), str(targets[key]), *names]
        done = subprocess.run(command, env={**environment, **SETS[name]}, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the dump of {versions[i]} ended with code {done.returncode}:\n{done.stderr[-3000:]}")

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(dump, targets))
    wrong, report["dumps"] = [], {}
    for name in SETS:
        count, found = compare.compared(targets[name, 0], targets[name, 1])
        left = compare.unexpected(found, globs)
        print(f"{name}: {count} nets, {len(found)} differ, {len(found) - len(left)} of these as expected")
        for item in left[:MOST_SHOWN]:
            print("\n".join([f"  {item.net}: {item.kind}", *(f"    {line}" for line in item.lines)]))
        if len(left) > MOST_SHOWN:
            print(f"  and {len(left) - MOST_SHOWN} more (--report FILE has them all)")
        report["dumps"][name] = {"nets": count, "differences": [vars(item) for item in found]}
        wrong += [f"{name} {item.net}: {item.kind}" for item in left]
    return wrong


def _timed(
    name: str,
    groups: Mapping[str, str],
    versions: Sequence[Path],
    files: Path,
    environment: Mapping[str, str],
    globs: Sequence[str],
    report: dict[str, Any],
) -> list[str]:
    """Times of the rows of `groups` with an instruction set; the rows and groups that are slower in two runs."""
    if not groups:
        return []
    print(f"{name}: old / new (above 1: the working tree is faster)")
    environment = {**environment, **SETS[name]}
    first = pairs.run(list(groups), versions, files, environment, again=False)
    doubtful = verdict.doubtful(pairs.ratios(first, [], groups))
    if doubtful:
        print(f"again, {len(doubtful)} rows:")
    second = pairs.run(doubtful, versions, files, environment, again=True) if doubtful else []
    # a kernel's time may depend on where its process has scratch memory: slow is what is slow in each of several
    for _ in range(FURTHER):
        slow = [row.row for row in second if row.ratio < verdict.LEAST_ROW]
        if not slow:
            break
        print("once more:")
        further = {row.row: row for row in pairs.run(slow, versions, files, environment, again=True)}
        second = [max(row, further.get(row.row, row), key=lambda each: each.ratio) for row in second]
    ratios = pairs.ratios(first, second, groups)
    means = verdict.means(ratios)
    for group, (mean, again) in means.items():
        print(f"  {mean:6.3f}{'' if again is None else f', then {again:.3f}'}  geometric mean of {group}")
    report.setdefault("times", {})[name] = {
        "means": means,
        "first": [row.record() for row in first],
        "second": [row.record() for row in second],
    }
    odd = [
        f"{name} {row.row}: {'only one version refuses it' if row.refused else 'other results'}"
        for row in first
        if not row.same and not compare.allowed(row.row, globs)
    ]
    return [*odd, *(f"{name} {line}" for line in verdict.failures(ratios))]

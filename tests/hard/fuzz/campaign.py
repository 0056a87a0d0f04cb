"""A fuzzer in child processes, started again after each that a finding ended, until its time is over."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from children import TESTS, surroundings

from .recent import read

# a target that cannot even run its seeds need not be tried for minutes
MOST_STARTS = 50
# to start, and for the last case to hang in
GRACE = 180
# of libFuzzer: when a process ends well, when by a finding, and now and then
_COUNTS = re.compile(r"^stat::number_of_executed_units: (\d+)|^#(\d+)\s", re.MULTILINE)
_ARTIFACT = re.compile(r"Test unit written to (\S+)")


@dataclass
class Outcome:
    """What a fuzzer did. A finding is what happened and the command that makes it happen again."""

    target: str
    seconds: float = 0.0
    executions: int = 0
    starts: int = 0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.executions} executions in {self.seconds / 60:.1f} minutes, "
            f"{self.starts} processes, {len(self.findings)} findings"
        )


def hunt(target: str, seconds: float, folder: Path) -> Outcome:
    """Fuzz for so long, guided by coverage; findings and what was learned stay in `folder`."""
    outcome = Outcome(target)
    begin = time.monotonic()
    while outcome.starts < MOST_STARTS and (left := seconds - (time.monotonic() - begin)) >= 1:
        output, code = _process(target, int(left), folder)
        outcome.starts += 1
        outcome.executions += max((int(a or b) for a, b in _COUNTS.findall(output)), default=0)
        found = [line.removeprefix("FINDING ") for line in output.splitlines() if line.startswith("FINDING ")]
        if code:
            found.append(_ending(target, output, code, folder))
        outcome.findings += [line for line in found if line not in outcome.findings]
    outcome.seconds = time.monotonic() - begin
    return outcome


def _process(target: str, seconds: int, folder: Path) -> tuple[str, int]:
    command = [sys.executable, "-m", "hard.fuzz", target, "--seconds", str(seconds), "--into", str(folder)]
    log = folder / f"log-{time.time_ns()}"
    with log.open("wb") as file:
        try:
            code = subprocess.run(
                command,
                cwd=TESTS,
                env=surroundings(),
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds + GRACE,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    return log.read_text("utf-8", "replace"), code


def _ending(target: str, output: str, code: int, folder: Path) -> str:
    """How a process was ended, and by which input."""
    artifact = _ARTIFACT.search(output)
    files = [Path(artifact[1])] if artifact else _kept(folder)
    said = [line for line in output.splitlines() if line.startswith(("==", "Fatal", "terminate", "free(", "malloc"))]
    place = [line.strip() for line in output.splitlines() if line.startswith('  File "') and "dnnl_graph_ops" in line]
    return f"exit {code}: {' '.join((*said[:2], *place[:1]))[:300]}: python -m hard.fuzz {target} {_text(files)}"


def _kept(folder: Path) -> list[Path]:
    """The cases before a signal, as files; the last one alone may be harmless where the heap is damaged."""
    cases = read(folder / "recent")
    made = folder / f"signal-{zlib.crc32(cases[-1] if cases else b''):08x}"
    made.mkdir(exist_ok=True)
    files = [made / f"{number:02}" for number in range(len(cases))]
    for file, case in zip(files, cases, strict=True):
        file.write_bytes(case)
    return files


def _text(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0].parent}/*" if files else "(before the first case)"

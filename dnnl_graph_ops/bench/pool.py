"""The parent's side of a competitor's process."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from ..errors import Error, UnsupportedError
from . import contention
from .peers.registry import Peer

_THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# a process is quiet when its threads ran for less than this share of a look of this length
_LOOK: Final = 0.001
_QUIET_SHARE: Final = 0.1
_SETTLE_LIMIT: Final = 0.08


class WorkerLost(Error):
    """The process ended or did not answer in time."""


def answered(line: str | bytes) -> dict[str, Any]:
    """A worker's answer.

    Raises:
        UnsupportedError: the competitor cannot do this.
        Error: the command failed.
    """
    answer: dict[str, Any] = json.loads(line)
    if answer.pop("ok"):
        return answer
    raise (UnsupportedError if answer["unsupported"] else Error)(answer["error"])


def cpu_list(threads: int) -> list[int]:
    """The CPUs that every competitor is pinned to: one per core first, then their siblings."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    firsts: list[int] = []
    others: list[int] = []
    seen: set[tuple[str, str]] = set()
    for cpu in allowed:
        core = _core_of(cpu)
        (others if core in seen else firsts).append(cpu)
        seen.add(core)
    return (firsts + others)[:threads]


def physical_cores() -> int:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len({_core_of(cpu) for cpu in allowed})


def _core_of(cpu: int) -> tuple[str, str]:
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (topology / "physical_package_id").read_text(), (topology / "core_id").read_text()
    except OSError:
        return ("", str(cpu))


class WorkerProcess:
    """A competitor in a process of its own, pinned, with the given number of threads.

    Args:
        peer: who.
        threads, cpus: how many threads, and the CPUs that they share.
        wait: "library" leaves waiting inside parallel regions to each library's default; "passive" sets
            OMP_WAIT_POLICY=passive, for machines that others use too.
    """

    def __init__(self, peer: Peer, threads: int, cpus: list[int], wait: str = "library") -> None:
        self.peer = peer
        environment = {**os.environ, **peer.environment, "PYTHONUNBUFFERED": "1"}
        environment |= dict.fromkeys(_THREAD_VARIABLES, str(threads))
        if wait == "passive":
            environment |= {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        start = str(Path(__file__).with_name("worker_start.py"))
        real = "1" if peer.ours else "0"
        self._process = subprocess.Popen(
            [sys.executable, start, peer.module, ",".join(map(str, cpus)), real, peer.first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe("stdout"), selectors.EVENT_READ)
        self._partial = b""
        self._asked = "anything"
        self.lost = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, do: str, **arguments: Any) -> None:
        if self.lost:
            raise WorkerLost(self.lost)
        self._asked = do
        try:
            self._pipe("stdin").write((json.dumps({"do": do, **arguments}) + "\n").encode())
            self._pipe("stdin").flush()
        except (BrokenPipeError, OSError):
            self._end("ended before it was asked")

    def receive(self, timeout: float = 120.0) -> dict[str, Any]:
        """The answer to the last command.

        Raises:
            WorkerLost: the process ended, or is killed here because it took longer than `timeout` seconds.
            UnsupportedError: the competitor cannot do this.
            Error: the command failed.
        """
        deadline = time.monotonic() + timeout
        while b"\n" not in self._partial:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                self._end(f"did not answer {self._asked} within {timeout:.0f} s")
            chunk = os.read(self._pipe("stdout").fileno(), 1 << 16)
            if not chunk:
                self._end("ended")
            self._partial += chunk
        line, _, self._partial = self._partial.partition(b"\n")
        return answered(line)

    def ask(self, do: str, timeout: float = 120.0, **arguments: Any) -> dict[str, Any]:
        self.send(do, **arguments)
        return self.receive(timeout)

    def settle(self) -> None:
        """Waits until its threads have stopped spinning, or for `_SETTLE_LIMIT` seconds."""
        begin = time.perf_counter()
        before = contention.process_times(self.pid).ran
        while time.perf_counter() - begin < _SETTLE_LIMIT:
            time.sleep(_LOOK)
            after = contention.process_times(self.pid).ran
            if (after - before) * 1e-9 < _QUIET_SHARE * _LOOK:
                return
            before = after

    def dismiss(self) -> None:
        """Lets the process end, without waiting for that."""
        with contextlib.suppress(OSError):
            self._pipe("stdin").close()

    def close(self) -> None:
        self.dismiss()
        if self._process.poll() is None:
            try:
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _pipe(self, name: str) -> Any:
        pipe = getattr(self._process, name)
        if pipe is None:
            raise WorkerLost(f"{self.peer.name}: the process has no {name}")
        return pipe

    def _end(self, what: str) -> None:
        self._process.kill()
        code = self._process.wait()
        self._log.seek(0)
        last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
        reason = f"signal {-code}" if code < 0 and "answer" not in what else f"exit code {code}"
        self.lost = f"the {self.peer.name} process {what} ({reason})" + (f": {last[0][:200]}" if last else "")
        raise WorkerLost(self.lost)

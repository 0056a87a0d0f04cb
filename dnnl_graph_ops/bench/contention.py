"""Who else wants the cores: steal time, run-queue waiting and load, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SystemTimes:
    """Ticks of all CPUs since boot; zero where the system does not say."""

    total: int = 0
    busy: int = 0
    steal: int = 0


def system_times() -> SystemTimes:
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return SystemTimes()
    ticks = [int(w) for w in words[:8]] + [0] * 8
    # user nice system idle iowait irq softirq steal
    return SystemTimes(sum(ticks[:8]), sum(ticks[:3]) + ticks[5] + ticks[6], ticks[7])


def steal_share(before: SystemTimes, after: SystemTimes) -> float:
    """Share of the CPUs' time that the hypervisor gave to others."""
    return (after.steal - before.steal) / max(1, after.total - before.total)


@dataclass(frozen=True)
class ProcessTimes:
    """Nanoseconds that the threads of a process ran, and waited for a CPU while they could have run."""

    ran: int = 0
    waited: int = 0


def process_times(pid: int | str = "self") -> ProcessTimes:
    """Summed over the threads alive now; zeros where the kernel keeps no schedstat."""
    ran = waited = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return ProcessTimes()
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                words = file.read().split()
        except OSError:
            continue
        ran += int(words[0])
        waited += int(words[1])
    return ProcessTimes(ran, waited)


def load_average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def available_memory() -> int | None:
    """Bytes that can be taken without swapping; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None

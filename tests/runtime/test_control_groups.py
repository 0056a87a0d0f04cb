"""The memory and CPU time that a process may take, read from files like those of Linux."""

import os

import pytest

from dnnl_graph_ops.runtime import threads
from dnnl_graph_ops.runtime.control_groups import cpu_limit, memory_limit

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
NONE_V1 = "9223372036854771712"

CASES = {
    "v2, of its own": ("0::/app", "cgroup2", "/", {"app/memory.max": "1000"}, 1000),
    "v2, of a parent": ("0::/a/b", "cgroup2", "/", {"a/b/memory.max": "max", "a/memory.max": "2000"}, 2000),
    "v2, both": ("0::/a/b", "cgroup2", "/", {"a/b/memory.max": "3000", "a/memory.max": "2000"}, 2000),
    "v2, a container's": ("0::/", "cgroup2", "/", {"memory.max": "4000"}, 4000),
    "v2, none": ("0::/app", "cgroup2", "/", {"app/memory.max": "max"}, MACHINE),
    "v1": (
        "5:cpu,memory:/docker/x",
        "cgroup",
        "/",
        {"docker/x/memory.limit_in_bytes": "1000", "memory.limit_in_bytes": NONE_V1},
        1000,
    ),
    "v1, mounted from its group on": (
        "5:memory:/docker/x",
        "cgroup",
        "/docker/x",
        {"memory.limit_in_bytes": "5000"},
        5000,
    ),
    "v1, none": ("5:memory:/", "cgroup", "/", {"memory.limit_in_bytes": NONE_V1}, MACHINE),
    "v1, a neighbour's": ("5:memory:/a", "cgroup", "/", {"b/memory.limit_in_bytes": "1"}, MACHINE),
    "v1, elsewhere": ("5:memory:/a", "cgroup", "/b", {"memory.limit_in_bytes": "6000"}, 6000),
    "another controller": ("5:cpu:/a", "cgroup", "/", {"a/memory.limit_in_bytes": "1"}, MACHINE),
    "nonsense": ("0::/a", "cgroup2", "/", {"a/memory.max": "much\n"}, MACHINE),
}


CPUS = {
    "v2": ("0::/app", "cgroup2", "/", {"app/cpu.max": "200000 100000"}, 2),
    "v2, a share": ("0::/app", "cgroup2", "/", {"app/cpu.max": "50000 100000"}, 1),
    "v2, and a share": ("0::/app", "cgroup2", "/", {"app/cpu.max": "250000 100000"}, 2),
    "v2, none": ("0::/app", "cgroup2", "/", {"app/cpu.max": "max 100000"}, None),
    "v2, of a parent": ("0::/a/b", "cgroup2", "/", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
    "v1": ("3:cpu,cpuacct:/x", "cgroup", "/", {"x/cpu.cfs_quota_us": "400000", "x/cpu.cfs_period_us": "100000"}, 4),
    "v1, none": ("3:cpu:/", "cgroup", "/", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None),
    "nonsense": ("0::/a", "cgroup2", "/", {"a/cpu.max": "1 0"}, None),
    "empty": ("0::/a", "cgroup2", "/", {"a/cpu.max": ""}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_limits_of_groups(case, tmp_path):
    *given, expected = CASES[case]
    written(tmp_path, *given)
    assert memory_limit(tmp_path) == expected


@pytest.mark.parametrize("case", CPUS)
def test_cpus_of_groups(case, tmp_path):
    *given, expected = CPUS[case]
    written(tmp_path, *given)
    assert cpu_limit(tmp_path) == expected


def test_the_default_number_of_threads_is_within_the_limit(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_openmp_threads", lambda: 8)
    for limit, expected in ((None, 8), (1, 1), (3, 3), (64, 8)):
        monkeypatch.setattr(threads, "cpu_limit", lambda limit=limit: limit)
        assert threads._default() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setattr(threads, "cpu_limit", lambda: 1)
    assert threads._default() == 8


def written(tmp_path, group, kind, root, files):
    """Files like those of a process in this group."""
    mount = tmp_path / "mount"
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(f"{text}\n")
    (tmp_path / "cgroup").write_text(f"9:name=systemd:/other\n{group}\n")
    (tmp_path / "mountinfo").write_text(
        "1 0 0:1 / / rw shared:1 - ext4 /dev/root rw\n"
        f"2 1 0:2 {root} {mount} rw,relatime shared:2 master:1 - {kind} {kind} rw\n"
    )


def test_without_groups(tmp_path):
    assert memory_limit(tmp_path) == MACHINE
    assert cpu_limit(tmp_path) is None
    assert 0 < memory_limit() <= MACHINE

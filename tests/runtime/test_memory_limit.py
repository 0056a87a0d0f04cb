"""The memory that a process may take, read from files like those of Linux."""

import os

import pytest

from dnnl_graph_ops.runtime.memory_limit import memory_limit

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


@pytest.mark.parametrize("case", CASES)
def test_limits_of_groups(case, tmp_path):
    group, kind, root, files, expected = CASES[case]
    mount = tmp_path / "mount"
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(f"{text}\n")
    (tmp_path / "cgroup").write_text(f"9:name=systemd:/other\n{group}\n")
    (tmp_path / "mountinfo").write_text(
        "1 0 0:1 / / rw shared:1 - ext4 /dev/root rw\n"
        f"2 1 0:2 {root} {mount} rw,relatime shared:2 master:1 - {kind} {kind} rw\n"
    )
    assert memory_limit(tmp_path) == expected


def test_without_groups(tmp_path):
    assert memory_limit(tmp_path) == MACHINE
    assert 0 < memory_limit() <= MACHINE

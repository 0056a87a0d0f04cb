"""What the scripts and workflows that make packages say, where that must be the same in two places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def extra(name: str) -> str:
    (found,) = re.findall(rf"^{name} = \[(.*?)\]$", PROJECT, re.M | re.S)
    return str(found)


@pytest.mark.parametrize("name", ["bench", "torch"])
def test_extras_for_users_leave_their_pytorch(name: str) -> None:
    assert re.search(r'"torch>=[\d.]+"', extra(name))
    assert "==" not in extra(name)


def test_the_version_has_one_home() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT, re.M)
    files = [*(ROOT / "dnnl_graph_ops").rglob("*.py"), ROOT / "CMakeLists.txt", *WORKFLOWS]
    assert not [path for path in files if f'"{version}"' in path.read_text("utf-8")]


@pytest.mark.skipif(not WORKFLOWS, reason="the workflows are not in this copy")
def test_workflows_call_scripts_that_are_there() -> None:
    called = {name for path in WORKFLOWS for name in re.findall(r"(?<!\w)\.ci/(\w+)", path.read_text("utf-8"))}
    called |= set(re.findall(r"\.ci/(\w+)", PROJECT))
    assert {"run", "oldest", "repair", "try_wheel"} <= called
    assert all((ROOT / ".ci" / name).stat().st_mode & 0o111 for name in called)
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    assert "secrets." not in text and "://" not in text
    # a workflow that another one calls is there
    assert all((ROOT / name).is_file() for name in re.findall(r"uses: \./(\S+)", text))


def test_every_supported_python_is_built_and_tried() -> None:
    supported = re.findall(r"Python :: (3\.\d+)", PROJECT)
    (built,) = re.findall(r'^build = "(.*)"$', PROJECT, re.M)
    assert built.split() == [f"cp{version.replace('.', '')}-*" for version in supported]
    wheels = ROOT / ".github" / "workflows" / "wheels.yml"
    if wheels.is_file():
        assert re.findall(r'"(3\.\d+)"', wheels.read_text("utf-8")) == supported

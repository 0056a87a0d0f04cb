"""What the scripts and workflows that make packages say, where that must be the same in two places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
# built and tried, though not declared
FREE_THREADED = ("3.14t",)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
needs_workflows = pytest.mark.skipif(not WORKFLOWS, reason="the workflows are not in this copy")


def extra(name: str) -> str:
    (found,) = re.findall(rf"^{name} = \[(.*?)\]$", PROJECT, re.M | re.S)
    return str(found)


@pytest.mark.parametrize("name", ["bench", "torch"])
def test_extras_for_users_leave_their_pytorch(name: str) -> None:
    assert re.search(r'"torch>=[\d.]+"', extra(name))
    assert "==" not in extra(name)


def test_the_version_has_one_home() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT, re.M)
    files = [*(ROOT / "dnnl_graph_ops").rglob("*.py"), ROOT / "CMakeLists.txt", ROOT / "CITATION.cff", *WORKFLOWS]
    assert not [path for path in files if f'"{version}"' in path.read_text("utf-8")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert not [path for path in pages if re.search(r"dnnl_graph_ops-\d", path.read_text("utf-8"))]


@needs_workflows
def test_workflows_call_scripts_that_are_there() -> None:
    called = {name for path in WORKFLOWS for name in re.findall(r"(?<!\w)\.ci/(\w+)", path.read_text("utf-8"))}
    called |= set(re.findall(r"\.ci/(\w+)", PROJECT))
    assert {"run", "oldest", "repair", "inspect", "try_wheel", "releasable"} <= called
    assert all((ROOT / ".ci" / name).stat().st_mode & 0o111 for name in called)
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    assert "secrets." not in text and "://" not in text
    # a workflow that another one calls is there
    assert all((ROOT / name).is_file() for name in re.findall(r"uses: \./(\S+)", text))


@needs_workflows
def test_actions_are_named_by_commit() -> None:
    """A tag can be moved to other code; dependabot renews the commits, and the comment behind says which version."""
    commits: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for action, rest in re.findall(r"uses: ([^.\s@][^\s@]*)(.*)$", path.read_text("utf-8"), re.M):
            assert re.fullmatch(r"@[0-9a-f]{40} # v[\d.]+", rest), f"{path.name}: {action}{rest}"
            commits.setdefault(action, set()).add(rest)
    assert {action for action, versions in commits.items() if len(versions) > 1} == set()
    assert "package-ecosystem: github-actions" in (ROOT / ".github" / "dependabot.yml").read_text("utf-8")


@needs_workflows
@pytest.mark.parametrize("name", ["tests.yml", "wheels.yml", "docs.yml"])
def test_pull_requests_are_tested_packed_and_documented(name: str) -> None:
    text = (ROOT / ".github" / "workflows" / name).read_text("utf-8")
    assert re.search(r"^  pull_request:$", text, re.M)


def test_every_supported_python_is_built_and_tried() -> None:
    supported = [*re.findall(r"Python :: (3\.\d+)", PROJECT), *FREE_THREADED]
    (built,) = re.findall(r'^build = "(.*)"$', PROJECT, re.M)
    assert built.split() == [f"cp{version.replace('.', '')}-*" for version in supported]
    wheels = ROOT / ".github" / "workflows" / "wheels.yml"
    if wheels.is_file():
        assert re.findall(r'"(3\.\d+t?)"', wheels.read_text("utf-8")) == supported


def test_the_recipe_is_for_the_oldest_systems() -> None:
    assert 'manylinux-x86_64-image = "manylinux_2_28"' in PROJECT
    assert 'repair-wheel-command = "{project}/.ci/repair {wheel} {dest_dir}"' in PROJECT


def test_free_threading_is_declared_by_all_or_none() -> None:
    """As long as the extension makes Python take its lock again, neither the metadata nor a page claims more."""
    module = (ROOT / "bindings" / "module.cpp").read_text("utf-8")
    declared = "mod_gil_not_used" in module
    assert ("Free Threading" in PROJECT) == declared
    assert ("re-enables the GIL" in (ROOT / "docs" / "install.md").read_text("utf-8")) == (not declared)

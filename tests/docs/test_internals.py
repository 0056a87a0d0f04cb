"""Pages for maintainers name files that exist, and show diffs that apply to the tree, or are in it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in PAGES}
# where a name of a file begins: at the root, in the package, in the vector code's folders
BASES = [ROOT, *(ROOT / name for name in ("dnnl_graph_ops", "bindings", "bindings/kernels", "bindings/kernels/isa"))]
# made by commands, or a user's
MADE = {".venv", "build/docs"}
SUFFIXES = "py|pyi|md|cpp|hpp|inc|json|toml|txt|sh"
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIFFS = [(name, match[1]) for name, text in TEXTS.items() for match in DIFF.finditer(text)]


def paths_of(text: str) -> set[str]:
    """Names between backticks that are paths: with a slash or the ending of a file, and nothing but a path."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    names = {name.split("::")[0] for name in re.findall(r"`([^`\n]+)`", plain)}
    return {
        name
        for name in names
        if re.fullmatch(r"[\w./*-]+", name) and (re.search(r"\w/|/\w", name) or re.search(rf"\w\.({SUFFIXES})$", name))
    }


def exists(name: str) -> bool:
    """Whether a path is in the tree; a file's name alone may be in any folder."""
    if any(next(base.glob(name.rstrip("/")), None) for base in BASES):
        return True
    folders = ("dnnl_graph_ops", "bindings", "tests", "docs", "benchmarks")
    return "/" not in name and any(next((ROOT / folder).rglob(name), None) for folder in folders)


@pytest.mark.parametrize("page", TEXTS)
def test_files_that_a_page_names_exist(page):
    assert sorted(name for name in paths_of(TEXTS[page]) - MADE if not exists(name)) == []


@pytest.mark.parametrize("page", TEXTS)
def test_commands_run_scripts_that_exist(page):
    assert [name for name in re.findall(r"(?<![\w/.])(\.ci/\w+)", TEXTS[page]) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("text", ["`compile/gone.py`", "`lowering/`", "`gone.hpp`"])
def test_names_of_files_that_are_gone_are_seen(text):
    assert [exists(name) for name in paths_of(f"In {text} and `a == b`, `x / y`.")] == [False]


def test_the_pages_have_diffs():
    assert len(DIFFS) >= 8


@pytest.mark.child
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize(("page", "diff"), DIFFS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(DIFFS)])
def test_a_diff_applies_or_is_in_the_tree(page, diff):
    told = [
        subprocess.run(
            ["git", "apply", "--check", *way], input=diff, text=True, capture_output=True, check=False, cwd=ROOT
        )
        for way in ([], ["-R"])
    ]
    assert 0 in [one.returncode for one in told], told[0].stderr

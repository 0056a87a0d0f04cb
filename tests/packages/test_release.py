"""A release is refused until the owner has filled in what only the owner knows, and goes on then."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from .contents import ROOT
from .release import PAGES

AUTHORS = 'authors = [{ name = "A Person", email = "person@example.org" }]\n'
URLS = "urls = { " + ", ".join(f'{page} = "https://example.org/{page}"' for page in PAGES) + " }\n"


@pytest.fixture
def release(tmp_path):
    """Runs the check on this project with the owner's lines, a version and a first heading of the changes."""

    def run(tag: str, owner: str = AUTHORS + URLS, version: str = "0.2.0", heading: str = "0.2.0, 2026-12-01"):
        project = (ROOT / "pyproject.toml").read_text("utf-8")
        project = re.sub(r"^(authors|urls) = .*\n", "", project, flags=re.M)
        project = re.sub(r'^version = ".*"\n', f'version = "{version}"\n{owner}', project, flags=re.M)
        (tmp_path / "pyproject.toml").write_text(project, "utf-8")
        (tmp_path / "CHANGELOG.md").write_text(f"# Changes\n\n## {heading}\n\n## 0.1.0\n", "utf-8")
        command = [sys.executable, ROOT / ".ci" / "releasable", tag, tmp_path]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


def test_a_release_with_all_filled_in_goes_on(release):
    done = release("v0.2.0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_release_candidate_stands_under_its_version(release):
    assert release("v0.2.0rc1", version="0.2.0rc1").returncode == 0


@pytest.mark.parametrize(
    "changed, complaint",
    [
        ({"owner": URLS}, "authors: a name and an address"),
        ({"owner": AUTHORS.replace("person@example.org", "") + URLS}, "authors: a name and an address"),
        ({"owner": AUTHORS.replace("A Person", "") + URLS}, "authors: a name and an address"),
        ({"owner": AUTHORS}, "urls: Documentation\n  urls: Source\n  urls: Issues\n  urls: Changelog"),
        ({"owner": AUTHORS + URLS.replace("https://example.org/Issues", "")}, "urls: Issues"),
        ({"version": "0.2.1"}, "version: it is 0.2.1, the tag is v0.2.0"),
        ({"version": "0.2.0.dev0"}, "0.2.0.dev0 is not X.Y.Z"),
        ({"heading": "0.2.0, unreleased"}, "first section is '0.2.0, unreleased'"),
        ({"heading": "0.1.9, 2026-12-01"}, "first section is '0.1.9, 2026-12-01'"),
    ],
)
def test_a_release_is_refused(changed, complaint, release):
    done = release("v0.2.0", **changed)
    assert done.returncode == 1
    assert complaint in done.stdout


def test_this_tree_says_what_only_its_owner_knows():
    """As long as it is not filled in, the project itself is the case that is refused."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "releasable", "v0.2.0"], capture_output=True, text=True, timeout=60
    )
    assert ("authors:" in done.stdout) == (not re.search(r"^authors = ", project, re.M))
    assert ("urls: Source" in done.stdout) == (not re.search(r"^urls = ", project, re.M))


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_pages_that_name_a_contact_refer_to_the_metadata(name):
    text = (ROOT / name).read_text("utf-8")
    assert "pip show dnnl-graph-ops" in text
    assert "@" not in text

"""Refuses a release that its owner or its changes are not ready for: .ci/releasable TAG [ROOT].

The owner's name, address and pages stand in pyproject.toml, which all else refers to; the tag is the version there; the
changes of that version are at the top of CHANGELOG.md, with a date. Ends with status 1, and says what is missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:
    from pip._vendor import tomli as tomllib

PAGES = ("Documentation", "Source", "Issues", "Changelog")
ADDRESS = r"[^@\s]+@[^@\s]+\.[^@\s]+"
PAGE = r"https://[^/\s]+\.[^/\s]+(/\S*)?"


def owner(project: dict[str, Any]) -> Iterator[str]:
    """Lists what the owner has not filled in of `authors` and `urls`."""
    authors = project.get("authors", [])
    if not any(author.get("name") and re.fullmatch(ADDRESS, author.get("email", "")) for author in authors):
        yield "authors: a name and an address that reports of security and conduct can be sent to"
    for page in PAGES:
        if not re.fullmatch(PAGE, project.get("urls", {}).get(page, "")):
            yield f"urls: {page}"


def version(project: dict[str, Any], tag: str) -> Iterator[str]:
    """Says where the tag and the version disagree, or the version is none of a release."""
    if tag != f"v{project['version']}":
        yield f"version: it is {project['version']}, the tag is {tag}"
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", project["version"]):
        yield f"version: {project['version']} is not X.Y.Z or X.Y.ZrcN"


def changes(text: str, tag: str) -> Iterator[str]:
    """Says where the top of the changes is another version, or has no date."""
    top = re.search(r"^## (.*)$", text, re.M)
    heading = top[1] if top else "nothing"
    wanted = tag.removeprefix("v").partition("rc")[0]
    if not re.fullmatch(rf"{re.escape(wanted)}, \d{{4}}-\d\d-\d\d", heading):
        yield f"CHANGELOG.md: its first section is {heading!r}, expected '{wanted}, YEAR-MONTH-DAY'"


def main() -> int:
    tag = sys.argv[1]
    root = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    log = (root / "CHANGELOG.md").read_text("utf-8")
    missing = [*owner(project), *version(project, tag), *changes(log, tag)]
    if missing:
        print(f"{tag} cannot be released; pyproject.toml and CHANGELOG.md lack:", *missing, sep="\n  ")
    return bool(missing)

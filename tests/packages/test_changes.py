"""CHANGELOG.md is a list of versions, each with Added, Changed and Fixed, a change a line."""

from __future__ import annotations

import re

from .contents import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text("utf-8")
SECTIONS = re.split(r"^## ", TEXT, flags=re.M)[1:]


def test_the_first_section_is_the_version_to_come():
    (version,) = re.findall(
        r'^version = "(\d+\.\d+\.\d+)(?:rc\d+)?(?:\.dev0)?"$', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert re.match(rf"{re.escape(version)}, (unreleased|\d{{4}}-\d\d-\d\d)\n", SECTIONS[0])


def test_a_change_is_a_line_under_a_heading_of_its_kind():
    for section in SECTIONS:
        version, _, body = section.partition("\n")
        kinds = re.findall(r"^### (.*)$", body, re.M)
        assert kinds == [kind for kind in ("Added", "Changed", "Removed", "Fixed") if kind in kinds], version
        lines = [line for line in body.splitlines() if line and not line.startswith("### ")]
        assert [line for line in lines if not line.startswith("- ")] == [], version
        assert re.match(r"\s*### ", body), version

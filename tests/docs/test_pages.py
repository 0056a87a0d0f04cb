"""What the pages of the site show runs, and prints what they say; links between them lead somewhere."""

import re
from importlib.util import find_spec
from pathlib import Path

import doctests
import pytest

DOCS = (Path(__file__).parents[2] / "docs").resolve()
MADE = {"api", "examples", "ops"}  # by the build
PAGES = {
    str(path.relative_to(DOCS)): path.read_text("utf-8")
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).parts[0] not in MADE
}
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_CODE = [name for name, text in PAGES.items() if BLOCK.search(text)]


@pytest.mark.docs
@pytest.mark.parametrize("name", WITH_CODE)
def test_code_of_a_page(name, tmp_path, monkeypatch):
    text = PAGES[name]
    needs = re.search(r"<!-- needs: (.*) -->", text)
    for module in needs[1].split(", ") if needs else ():
        if not find_spec(module):
            pytest.skip(f"needs {module}")
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match[1] == "python":
            exec(compile("\n" * (line - 1) + match[2], str(DOCS / name), "exec"), scope)
        else:
            doctests.run(match[2], f"{name}, line {line}", scope)


def test_pages_were_found():
    assert len(WITH_CODE) >= 12 and len(PAGES) >= 35


@pytest.mark.docs
@pytest.mark.parametrize("name", PAGES)
def test_every_fence_is_closed(name):
    assert PAGES[name].count("```") % 2 == 0


@pytest.mark.docs
@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_pages(name):
    """The build looks at them too, anchors among them; this needs nothing installed."""
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+\.(?:md|py))", PAGES[name]):
        # glossary and others are also read on their own, where links to examples lead to their files
        path = ((DOCS / name).parent / target).resolve()
        assert path.exists() or path.parent in (DOCS / "ops", DOCS / "api"), target

"""After a build of HTML: every link inside leads somewhere, and pages load nothing from elsewhere."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

# what a page loads by itself; links (a, canonical and the like) are followed by readers only
_LOADED = {("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src"), ("object", "data")}
_LINKED = {"stylesheet", "icon", "preload", "modulepreload"}


class _Page(HTMLParser):
    """The anchors of a page, and where it leads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []  # with whether the page loads it
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        for name in ("href", "src", "data"):
            target = given.get(name)
            if target:
                loaded = (tag, name) in _LOADED or (tag == "link" and (given.get("rel") or "").split(" ")[0] in _LINKED)
                self.links.append((target, loaded))


def problems(root: Path) -> Iterator[str]:
    """What is wrong with the pages in a folder."""
    pages = {path: _Page(path) for path in root.rglob("*.html") if "_static" not in path.parts}
    for path, page in pages.items():
        here = path.relative_to(root)
        for target, loaded in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if loaded and parts.scheme != "data":
                    yield f"{here} loads {target}"
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            place = place / "index.html" if place.is_dir() else place
            if not place.exists():
                yield f"{here} leads to {target}, which is not there"
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors:
                yield f"{here} leads to {target}, which has no such place"


def check(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        found = sorted(set(problems(Path(app.outdir).resolve())))
        if found:
            raise ExtensionError("\n".join(["the pages are not closed:", *found]))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}

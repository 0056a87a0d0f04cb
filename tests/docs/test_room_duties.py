"""CONTRIBUTING tells each room of the package with the sentence of its `__init__`, below the rooms that it uses."""

import ast
import re
from pathlib import Path

import pytest
import test_storeys

import dnnl_graph_ops

PACKAGE = Path(dnnl_graph_ops.__file__).parent
TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
TABLE = re.search(r"^\| room \| duty \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
assert TABLE is not None
ROOMS = dict(re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", TABLE[1], re.MULTILINE))


def duty(folder: Path) -> str:
    """The first line of a room's docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    return text.splitlines()[0] if text else ""


def room_of(module: str) -> str | None:
    """The innermost room in the table that holds a module, None for one beside the rooms."""
    parts = module.split(".")
    return next((name for n in range(len(parts), 0, -1) if (name := "/".join(parts[:n])) in ROOMS), None)


def test_every_folder_is_a_room_with_its_duty():
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}
    assert {str(path.relative_to(PACKAGE)): duty(path) for path in folders} == ROOMS


def test_a_duty_is_one_sentence():
    """A capital letter, no full stop but the last."""
    assert [text for text in ROOMS.values() if not re.fullmatch(r"[A-Z](?:[^.]|\.(?! |$)|\.\.\.)*\.", text)] == []


@pytest.mark.docs
def test_a_room_stands_below_those_that_it_uses():
    places = {name: number for number, name in enumerate(ROOMS)}
    up = {
        (user, used)
        for arrow in test_storeys.all_arrows()
        if (user := room_of(arrow.importer)) and (used := room_of(arrow.imported)) and not test_storeys.listed(arrow)
        # rooms in rooms: the outer one lists the inner ones, which take its common parts
        if user.split("/")[0] != used.split("/")[0] and places[user] < places[used]
    }
    assert up == set()

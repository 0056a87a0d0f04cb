"""The rooms of the kernels, read from all includes: no two of them include each other, however long the way."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

BINDINGS = Path(__file__).parents[2] / "bindings"
INCLUDE = re.compile(r'^#include "(kernels/.+)"', re.MULTILINE)


def room(path: str) -> str:
    """The room of a file by its path below bindings/: kernels/dot/ and kernels/isa/dot/ are one; "" joins all rooms."""
    folders = path.split("/")[1:-1]
    return "/".join(folders[1:] if folders[:1] == ["isa"] else folders)


def includes(bindings: Path) -> dict[str, dict[str, list[str]]]:
    """For each room the rooms that its files include, with "file includes file" for each."""
    arrows: dict[str, dict[str, list[str]]] = {}
    for path in sorted((bindings / "kernels").rglob("*.[ch]pp")):
        name = path.relative_to(bindings).as_posix()
        rooms = arrows.setdefault(room(name), {})
        for included in INCLUDE.findall(path.read_text("utf-8")):
            if room(included) != room(name):
                rooms.setdefault(room(included), []).append(f"{name} includes {included}")
    # files outside of the rooms join their tables, and hold what all of them share
    joint = arrows.pop("", {})
    assert joint, "kernels/isa.hpp joins the tables of the rooms"
    return {name: {other: where for other, where in rooms.items() if other} for name, rooms in arrows.items()}


def test_no_rooms_include_each_other():
    TopologicalSorter(includes(BINDINGS)).prepare()  # names the rooms of a circle


def test_shared_code_includes_no_room():
    arrows = includes(BINDINGS)
    assert arrows["vector"] == {}
    # what sums pass through when they are finished, and products, on which kernels stand
    assert arrows["epilogue"].keys() == {"vector"}
    assert arrows["product"].keys() == {"vector", "epilogue"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [("kernels/isa.hpp", ""), ("kernels/isa/table.cpp", ""), ("kernels/dot/int8.cpp", "dot"),
     ("kernels/isa/dot/int8.cpp", "dot"), ("kernels/isa/vector/lanes.hpp", "vector")],
)  # fmt: skip
def test_rooms_have_two_folders(path, expected):
    assert room(path) == expected


def test_circles_are_found(tmp_path):
    for name, included in {
        "isa": "a/x",
        "a/x": "isa/vector/v",
        "isa/a/y": "b/z",
        "b/z": "a/x",
        "isa/vector/v": "isa",
    }.items():
        path = tmp_path / f"kernels/{name}.hpp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#include "kernels/{included}.hpp"\n')
    with pytest.raises(ValueError, match="cycle") as raised:
        TopologicalSorter(includes(tmp_path)).prepare()
    assert set(raised.value.args[1]) == {"a", "b"}

"""The gallery of examples has a card with a picture for each; the chart of the first page a bar for each machine."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def page_maker(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    return importlib.import_module("example_pages")


def test_an_example_that_draws_nothing_has_what_it_prints_as_picture(page_maker, tmp_path):
    source = tmp_path / "two.py"
    source.write_text('"""Adds one and <one>."""\n')
    card = "\n".join(page_maker.card(source, tmp_path / "two", "first & second\n\nthird"))
    assert ":link: two\n" in card and ":img-top: two/thumbnail.svg\n" in card and "Adds one and <one>." in card
    drawing = (tmp_path / "two" / "thumbnail.svg").read_text("utf-8")
    assert re.findall(r">([^<>]+)</text>", drawing) == ["first &amp; second", "third"]
    assert page_maker.pictures(tmp_path / "two") == []


def test_an_example_that_draws_has_its_first_picture(page_maker, tmp_path):
    source, drawn = tmp_path / "one.py", tmp_path / "one" / "build" / "net.svg"
    source.write_text('"""Draws a net."""\n')
    drawn.parent.mkdir(parents=True)
    drawn.write_text("<svg/>")
    assert ":img-top: one/build/net.svg\n" in "\n".join(page_maker.card(source, tmp_path / "one", ""))


def test_the_chart_has_a_bar_for_each_machine(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    charts = importlib.import_module("charts")

    def record(**speedups):
        rows = [
            {"suite": "calls", "name": name, "dtype": "f32", "ours": 1.0, "others": {"torch": speedup}}
            for name, speedup in speedups.items()
        ]
        return {"rows": [*rows, {**rows[0], "suite": "memory"}]}

    rows = charts.values([record(a=1.0, b=4.0, c=9.0), record(a=2.0, b=0.5)], "calls")
    assert list(rows.items()) == [("a", [1.0, 2.0]), ("b", [4.0, 0.5])]
    drawing = charts.bars(rows, ["one", "two"])
    assert re.findall(r">([^<>]+)</text>", drawing) == [
        "one", "two", "a", "1.00", "2.00", "b", "4.00", "0.50", "equally fast",
    ]  # fmt: skip
    assert drawing.count("--pst-color-danger") == 1

"""The recorded outputs of examples, which their pages show, are those of the files as they are."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    sys.modules.pop("recorded", None)
    import recorded

    return recorded


def test_every_example_has_the_record_of_its_file(recorded):
    assert recorded.stale() == [], "python docs/_ext/recorded.py renews them"
    assert list(recorded.texts()) == [path.stem for path in recorded.sources()]


def test_a_record_names_its_machine_and_date(recorded):
    for name, record in recorded.texts().items():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"]), name
        assert "thread" in record["machine"] and "ISA" in record["machine"], name
        assert record["text"].strip(), name


def test_pictures_of_times_are_drawn_by_examples(recorded):
    sources = "".join(path.read_text() for path in recorded.sources())
    assert all(name in sources for name in recorded.TIMED)


def test_an_example_that_changed_is_recorded_anew(recorded, monkeypatch, tmp_path):
    source = tmp_path / "01_one.py"
    source.write_text("print('one')")
    monkeypatch.setattr(recorded, "EXAMPLES", tmp_path)
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "recorded")
    monkeypatch.setattr(recorded, "TEXTS", tmp_path / "recorded" / "outputs.json")
    monkeypatch.setattr(recorded, "run", lambda source, folder: _left(folder, source.read_text()))
    monkeypatch.delenv("DNNL_GRAPH_OPS_EXAMPLES", raising=False)
    assert recorded.stale() == ["01_one"]
    recorded.renew(recorded.stale())
    assert recorded.stale() == [] and recorded.texts()["01_one"]["text"] == "print('one')"
    source.write_text("print('two')")
    assert recorded.stale() == ["01_one"]
    given = tmp_path / "given" / "01_one"
    _left(given, "two")
    monkeypatch.setenv("DNNL_GRAPH_OPS_EXAMPLES", str(given.parent))
    recorded.renew(recorded.stale())
    assert json.loads(recorded.TEXTS.read_text())["01_one"]["text"] == "two"


def _left(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "output.txt").write_text(text + "\n")

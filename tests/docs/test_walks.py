"""The page on the life of a call names every room that its three walks enter, seen by a profile hook."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dnnl_graph_ops

PACKAGE = Path(dnnl_graph_ops.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "life_of_a_call.md").read_text("utf-8")
INTRODUCTION, *WALKS = PAGE.split("\n## ")
# runs each walk's code, and prints the files of the package that each entered; all modules are imported before
HOOKED = """
import importlib, json, pkgutil, sys
import dnnl_graph_ops
for module in pkgutil.walk_packages(dnnl_graph_ops.__path__, "dnnl_graph_ops."):
    if module.name.split(".")[1] not in ("bench", "trial", "stubs", "__main__"):
        importlib.import_module(module.name)
folder, scope, walks = sys.argv[1], {}, []
for code in json.loads(sys.argv[2]):
    entered = set()
    def hook(frame, event, argument):
        if event == "call":
            entered.add(frame.f_code.co_filename)
    sys.setprofile(hook)
    exec(code, scope)
    sys.setprofile(None)
    walks.append(sorted(name[len(folder) + 1 :] for name in entered if name.startswith(folder + "/")))
print(json.dumps(walks))
"""


def rooms_of(names: list[str]) -> set[str]:
    """The rooms, folders of the package, that paths begin with."""
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    return {name.split("/")[0] for name in names if "/" in name} & rooms


@pytest.mark.child
@pytest.mark.docs
def test_walks_enter_no_room_that_the_page_does_not_name(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("torch")
    codes = [re.findall(r"^```python\n(.*?)^```$", walk, re.MULTILINE | re.DOTALL)[0] for walk in WALKS]
    command = [sys.executable, "-c", HOOKED, str(PACKAGE), json.dumps(codes)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    named: set[str] = rooms_of(re.findall(r"`([\w/.]+)`", INTRODUCTION))
    for walk, files in zip(WALKS, json.loads(run.stdout.splitlines()[-1]), strict=True):
        # a walk goes on as those before it do
        named |= rooms_of(re.findall(r"`([\w/.]+)`", walk))
        assert len(files) > 30 and rooms_of(files) - named == set(), walk.splitlines()[0]

"""oneDNN's graph examples in Python run as a user runs them, on each library that is installed."""

import re
from pathlib import Path

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo

EXAMPLES = Path(__file__).parents[2] / "examples" / "graph_api"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.endswith("_utils"))
# they take the newest library, or the one that has devices
CHOOSING = ("gated_mlp_int4", "gpu_opencl_getting_started", "sycl_getting_started", "sycl_single_op_partition")
WITHOUT_SYCL = """
import runpy, sys
from dnnl_graph_ops.runtime import sycl
sycl.find = lambda: None
sys.path.insert(0, sys.argv[1])
sys.argv[1:2] = []
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def check(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right: " in done.stdout and "WRONG" not in done.stdout


def needs_sycl():
    try:
        dgo.engine("cpu", runtime="sycl")
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(f"needs the extra 'sycl': {error}")


@pytest.mark.child
@pytest.mark.docs
@pytest.mark.parametrize("name", NAMES)
def test_without_the_sycl_library(name, tmp_path):
    done = child("-c", WITHOUT_SYCL, str(EXAMPLES), str(EXAMPLES / f"{name}.py"), cwd=tmp_path, OMP_NUM_THREADS="1")
    check(done)
    # a script that needs the extra says so
    told = any(word in done.stdout for word in (".[sycl]", "pip install 'onednn"))
    assert told == (name in CHOOSING)
    assert not list(tmp_path.iterdir())


@pytest.mark.child
@pytest.mark.docs
@pytest.mark.parametrize("name", NAMES)
def test_on_the_sycl_library(name, tmp_path):
    needs_sycl()
    arguments = () if name in CHOOSING else ("--runtime", "sycl")
    done = child(str(EXAMPLES / f"{name}.py"), *arguments, cwd=tmp_path)
    check(done)
    assert ".[sycl]" not in done.stdout and "pip install 'onednn" not in done.stdout
    if re.search("mlp|sdpa|mqa|gqa", name):
        assert "ops, 1 partition:" in done.stdout


@pytest.fixture
def utils(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import graph_example_utils

    return graph_example_utils


@pytest.mark.docs
def test_other_numbers_are_wrong(utils, capsys):
    e = utils.open_engine(None)
    array = np.float32([3, 4])
    output, astream = utils.tensor.from_numpy(array, 0, e), utils.stream(e)
    for expected, tolerance, right in (
        (array, 0, True),
        (array + np.float32([0, 1]), 0, False),
        (array + np.float32([0, 1]), 0.25, True),
        (array * np.float32(np.nan), 1, False),
        (array[:1], 1, False),
    ):
        assert utils.judged([], astream, output, expected, tolerance) is right
        assert ("WRONG" in capsys.readouterr().out) is not right


@pytest.mark.docs
def test_every_script_is_listed():
    text = (EXAMPLES / "README.md").read_text("utf-8")
    assert (
        re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\)", text, re.MULTILINE)
        and "515bfba68c0254e23c876d4c1a7cc26c2d4b690b" in text
    )
    assert sorted(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\)", text, re.MULTILINE)) == NAMES
    assert len(NAMES) == 13

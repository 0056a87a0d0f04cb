"""What importing the package loads, and its command line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo

PACKAGE = Path(dgo.__file__).parent
OPTIONAL = ("torch", "onnx", "onnxruntime", "matplotlib", "sklearn", "PIL", "openvino", "pytest")


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=120
    )


def test_import_is_light():
    done = python("-c", "import sys, dnnl_graph_ops; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "dnnl_graph_ops" in loaded
    assert not loaded & set(OPTIONAL)


def test_import_opens_no_library():
    done = python("-c", "import dnnl_graph_ops; print(open('/proc/self/maps').read())")
    assert done.returncode == 0, done.stderr
    assert "_core" in done.stdout
    assert "libdnnl" not in done.stdout


def test_public_names():
    assert all(hasattr(dgo, name) for name in dgo.__all__)
    assert len(set(dgo.__all__)) == len(dgo.__all__)


@pytest.mark.parametrize("arguments", [[], ["info"]])
def test_command_line_prints_info(arguments):
    done = python("-m", "dnnl_graph_ops", *arguments)
    assert done.returncode == 0, done.stderr
    for words in ("numpy:", "threads:", "runtimes:", "name:", "isa:"):
        assert words in done.stdout


def test_command_line_prints_json():
    done = python("-m", "dnnl_graph_ops", "info", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == set(dgo.info())


def test_command_line_knows_its_commands():
    done = python("-m", "dnnl_graph_ops", "explode")
    assert done.returncode == 2
    assert "explode" in done.stderr


def test_source_folder_without_extension(tmp_path):
    """As in the root of a clone: the message says what to do."""
    copy = tmp_path / "dnnl_graph_ops"
    copy.mkdir()
    shutil.copy(PACKAGE / "__init__.py", copy)
    done = subprocess.run(
        # without site-packages, where an editable install would step in
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dnnl_graph_ops",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert str(copy) in done.stderr
    assert "pip install -e ." in done.stderr

"""What importing the package loads, and its command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core

PACKAGE = Path(dgo.__file__).parent
OPTIONAL = ("torch", "onnx", "onnxruntime", "matplotlib", "sklearn", "PIL", "openvino", "pytest")


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=120)


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


@pytest.fixture
def source_folder(tmp_path):
    """Like the root of a clone: the package without its extension."""
    if Path(_core.__file__).parent != PACKAGE:
        pytest.skip("an editable install finds the extension from everywhere")
    copy = tmp_path / "dnnl_graph_ops"
    copy.mkdir()
    shutil.copy(PACKAGE / "__init__.py", copy)
    return tmp_path


def test_source_folder_hands_over_to_the_installed_package(source_folder):
    show = "import dnnl_graph_ops as dgo; print(dgo.__path__, dgo.ops.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", show],
        cwd=source_folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == [f"['{PACKAGE}']", str(PACKAGE / "ops" / "__init__.py")], done.stderr


def test_source_folder_alone_says_what_to_do(source_folder):
    # without site-packages, where an installed package would be found
    command = f"import sys; sys.path.insert(0, {str(source_folder)!r}); import dnnl_graph_ops"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", command],
        cwd=source_folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert str(source_folder) in done.stderr
    assert "pip install ." in done.stderr

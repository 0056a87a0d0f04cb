"""What importing the package loads, and its command line."""

import json
import subprocess
import sys

import pytest

import dnnl_graph_ops as dgo

OPTIONAL = ("torch", "onnx", "onnxruntime", "matplotlib", "sklearn", "PIL", "openvino", "pytest")


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
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

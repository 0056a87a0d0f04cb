"""What importing the package loads, and its command line."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops.frontends.torch_export import releases

ROOT = Path(__file__).parents[1]
PACKAGE = Path(dgo.__file__).parent
OPTIONAL = ("torch", "onnx", "onnxruntime", "matplotlib", "sklearn", "PIL", "openvino", "pytest")


@pytest.mark.child
def test_import_is_light():
    done = child("-c", "import sys, dnnl_graph_ops; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "dnnl_graph_ops" in loaded
    assert not loaded & set(OPTIONAL)


@pytest.mark.child
def test_import_opens_no_library():
    done = child("-c", "import dnnl_graph_ops; print(open('/proc/self/maps').read())")
    assert done.returncode == 0, done.stderr
    assert "_core" in done.stdout
    assert "libdnnl" not in done.stdout


def test_public_names():
    assert all(hasattr(dgo, name) for name in dgo.__all__)
    assert len(set(dgo.__all__)) == len(dgo.__all__)
    assert set(dgo.__all__) <= set(dir(dgo))
    assert not {name for name in dir(dgo) if not name.startswith("__")} - set(dgo.__all__)


@pytest.mark.child
@pytest.mark.parametrize("name", ["nn", "quantize", "bench"])
def test_what_is_loaded_on_demand(name):
    show = f"import sys, dnnl_graph_ops as dgo; print('dnnl_graph_ops.{name}' in sys.modules, dgo.{name}.__name__)"
    assert child("-c", show).stdout.split() == ["False", f"dnnl_graph_ops.{name}"]


@pytest.mark.child
def test_pytorch_is_never_loaded_on_demand():
    words = "has no attribute 'torch' before import dnnl_graph_ops.torch"
    with pytest.raises(AttributeError, match=re.escape(words)):
        dgo.__getattr__("torch")
    assert "torch" not in dir(dgo)
    show = "import sys, dnnl_graph_ops as dgo; print(hasattr(dgo, 'torch'), 'torch' in sys.modules)"
    assert child("-c", show).stdout.split() == ["False", "False"]


@pytest.mark.child
@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("sys.modules['torch'] = None", "needs PyTorch 2.13 or later (import of torch halted; None in sys.modules)"),
        ("import torch; torch.__version__ = type(torch.__version__)('2.12.1+cpu')", "or later (this is 2.12.1+cpu)"),
    ],
)
def test_what_pytorch_is_needed_is_said(before, words):
    if "import" in before.split():
        pytest.importorskip("torch", reason="needs the extra 'torch'")
    show = f"import sys\n{before}\ntry: import dnnl_graph_ops.torch\nexcept ImportError as error: print(error)"
    done = child("-c", show)
    assert words in done.stdout, done.stderr
    assert "pip install 'torch>=2.13'" in done.stdout


@pytest.mark.child
@pytest.mark.parametrize(("version", "count"), [("2.15.0a0+git1234567", 1), ("2.13.9+cpu", 0)])
def test_releases_of_pytorch_that_no_test_ran_with_are_told_once(version, count):
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    show = (
        f"import torch; torch.__version__ = type(torch.__version__)({version!r})\n"
        "import dnnl_graph_ops as dgo, dnnl_graph_ops.torch as dgt\n"
        "model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3)).eval()\n"
        "dgt.optimize(model)\n"
        "for _ in range(2): dgo.from_torch(torch.export.export(model, (torch.ones(1, 1, 4, 4),)))"
    )
    done = child("-W", "always", "-c", show)
    assert done.returncode == 0, done.stderr
    said = (
        f"PyTorch {version} is newer than 2.13, the newest release that this version of dnnl_graph_ops was tried with"
    )
    assert done.stderr.count(said) == count, done.stderr
    assert done.stderr.count("is newer than") == count


def test_the_page_of_versions_names_the_release_that_tests_run_with():
    tried = ".".join(map(str, releases.NEWEST_TRIED))
    assert f'"torch=={tried}.' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'torch = ["torch>={".".join(map(str, releases.OLDEST))}"]' in (ROOT / "pyproject.toml").read_text("utf-8")
    page = (ROOT / "docs" / "versions.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| PyTorch")]
    assert row.endswith(f"| {tried}.0 |")


def test_a_net_and_its_explanation_have_public_types():
    graph = dgo.Graph()
    net = graph.compile(dgo.ops.relu(graph.input("x", (2, 3))))
    assert type(net) is dgo.Net
    assert type(net.explain()) is dgo.Explanation


def test_version(monkeypatch, tmp_path):
    assert dgo.__version__ == metadata.version("dnnl-graph-ops") == dgo.info()["package"]

    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    info = import_module("dnnl_graph_ops.runtime.info")
    monkeypatch.setattr(info, "__file__", str(tmp_path / "dnnl_graph_ops" / "runtime" / "info.py"))
    version = info.version.__wrapped__
    assert version() == "unknown"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    assert version() == "1.2.3"


@pytest.mark.child
@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        (dgo, "conv_transposee", "conv_transpose"),
        (dgo, "graph_", "Graph"),
        (dgo.ops, "Softmax", "softmax"),
        (dgo.ops, "maxpool", "max_pool"),
    ],
)
def test_a_wrong_name_is_told_the_right_one(module, name, meant):
    words = f"module '{module.__name__}' has no attribute '{name}'; did you mean '{meant}'?"
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(module, name)
    assert not hasattr(module, "qqqqqqqq")
    # once, not by the interpreter as well
    shown = child("-c", f"import {module.__name__} as module; module.{name}").stderr
    assert shown.lower().count("did you mean") == 1, shown


@pytest.mark.child
@pytest.mark.parametrize("before", ["", "import dnnl_graph_ops\n"], ids=["first", "after the main interpreter"])
@pytest.mark.parametrize("kind", ["own", "shared"])
def test_a_sub_interpreter_is_refused(kind, before):
    """`own`: with the limits of new interpreters since Python 3.12; `shared`: as embedding programs make them."""
    shared = "'legacy'" if sys.version_info >= (3, 13) else "isolated=False"
    make = f"module.create({shared if kind == 'shared' else ''})"
    inner = "try: import dnnl_graph_ops\nexcept ImportError as error: print(error, flush=True)"
    show = (
        f"import sys\n{before}name = '_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters'\n"
        f"module = __import__(name)\nmodule.run_string({make}, {inner!r})\nprint('back')"
    )
    done = child("-c", show, seconds=60)
    assert done.stdout.splitlines()[1:] == ["back"], done.stderr
    assert "interpreter" in done.stdout


@pytest.mark.child
@pytest.mark.parametrize("arguments", [[], ["info"]])
def test_command_line_prints_info(arguments):
    done = child("-m", "dnnl_graph_ops", *arguments)
    assert done.returncode == 0, done.stderr
    for words in ("numpy:", "threads:", "runtimes:", "name:", "isa:"):
        assert words in done.stdout


@pytest.mark.child
def test_command_line_prints_json():
    done = child("-m", "dnnl_graph_ops", "info", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == set(dgo.info())


@pytest.mark.child
def test_command_line_knows_its_commands():
    done = child("-m", "dnnl_graph_ops", "explode")
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


@pytest.mark.child
def test_source_folder_hands_over_to_the_installed_package(source_folder):
    show = "import dnnl_graph_ops as dgo; print(dgo.__path__, dgo.ops.__file__)"
    done = child("-c", show, cwd=source_folder, PYTHONPATH=str(PACKAGE.parent))
    assert done.stdout.split() == [f"['{PACKAGE}']", str(PACKAGE / "ops" / "__init__.py")], done.stderr


@pytest.mark.child
def test_source_folder_alone_says_what_to_do(source_folder):
    # without site-packages, where an installed package would be found
    command = f"import sys; sys.path.insert(0, {str(source_folder)!r}); import dnnl_graph_ops"
    done = child("-I", "-S", "-c", command, cwd=source_folder)
    assert done.returncode != 0
    assert str(source_folder) in done.stderr
    assert "pip install ." in done.stderr


@pytest.mark.child
def test_a_system_without_openmp_is_told_which_package_has_it(tmp_path):
    copy = tmp_path / "dnnl_graph_ops"
    copy.mkdir()
    for name in ("__init__.py", "_openmp.py"):
        shutil.copy(PACKAGE / name, copy)
    # as the loader says it
    said = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (copy / "_core.py").write_text(f"raise ImportError({said!r})")
    done = child("-c", "import dnnl_graph_ops", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: dnnl_graph_ops needs GNU OpenMP"), done.stderr
    assert "apt-get install libgomp1" in last and "dnf install libgomp" in last and said in last


@pytest.mark.child
@pytest.mark.parametrize(
    ("asked", "rounds"), [({}, 2000), ({"GOMP_SPINCOUNT": "77"}, 77), ({"OMP_WAIT_POLICY": "passive"}, 0)]
)
def test_threads_wait_briefly_unless_the_environment_says_how(asked, rounds):
    known = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    code = "import os, dnnl_graph_ops; print('GOMP_SPINCOUNT' in os.environ)"
    environment = {**known, **asked, "OMP_DISPLAY_ENV": "verbose"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert f"GOMP_SPINCOUNT = '{rounds}'" in done.stderr
    assert done.stdout.strip() == str("GOMP_SPINCOUNT" in asked)

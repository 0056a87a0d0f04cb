"""Opening libraries that are missing, broken, foreign or too old."""

import pickle
import shutil
import subprocess

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, errors

from . import raw

FAKE = """
typedef struct {{ int major, minor, patch; const char *hash; unsigned cpu, gpu; }} version_t;
static const version_t version = {{ {major}, {minor}, 0, 0, 2, 0 }};
const version_t *dnnl_version(void) {{ return &version; }}
"""


def test_facts_of_the_bundled_library():
    library = dgo.engine("cpu", runtime="omp").runtime._library
    assert library.version >= (3, 2, 0)
    assert (library.cpu_runtime, library.gpu_runtime) == ("omp", "none")


def test_facts_of_the_default_library():
    library = raw.library()
    assert library.path == str(raw.PATH.resolve())
    assert library.version >= (3, 2, 0)
    assert library.engine_count(_core.EngineKind.cpu) == 1
    assert library.effective_cpu_isa() & 1  # SSE4.1, and whatever more
    assert library.has("dnnl_graph_op_create") and not library.has("dnnl_graph_no_such_function")


def refused(path, *texts, preload=()):
    with pytest.raises(errors.RuntimeUnavailableError) as caught:
        _core.Library(str(path), preload)
    for text in (*texts, "DNNL_GRAPH_OPS_LIBRARY"):
        assert text in str(caught.value)


def test_missing(tmp_path):
    refused(tmp_path / "libdnnl.so.3", "does not exist", str(tmp_path))
    refused(raw.PATH, "does not exist", "nowhere", preload=[str(tmp_path / "nowhere.so")])
    with pytest.raises(errors.InvalidArgumentError, match="NUL"):
        _core.Library("a\0b")


def test_not_a_library(tmp_path):
    path = tmp_path / "libdnnl.so.3"
    path.write_text("no library")
    refused(path, "cannot load", str(path))
    refused(tmp_path, "cannot load")


def compiled_fake(folder, **version):
    compiler = shutil.which("cc") or shutil.which("g++")
    if not compiler:
        pytest.skip("needs a C compiler")
    source = folder / "fake.c"
    source.write_text(FAKE.format(**version))
    library = folder / "libfake.so"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


@pytest.mark.child
@pytest.mark.parametrize(("major", "minor"), [(3, 1), (2, 7), (4, 0)])
def test_another_version(tmp_path, major, minor):
    refused(compiled_fake(tmp_path, major=major, minor=minor), f"oneDNN {major}.{minor}.0", "3.2")


@pytest.mark.child
def test_a_build_without_the_graph_api(tmp_path):
    refused(compiled_fake(tmp_path, major=3, minor=5), "lacks the function dnnl_")


def test_a_library_of_another_kind():
    import math

    refused(math.__file__ if hasattr(math, "__file__") else _core.__file__, "is not a libdnnl")


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_pickle(name):
    error = getattr(errors, name)("message")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == "message" and isinstance(copy, errors.Error)

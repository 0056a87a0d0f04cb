"""Runtimes that are incomplete, too old or without a device: RuntimeUnavailableError with the remedy."""

import shutil
import subprocess

import pytest

from dnnl_graph_ops.runtime.sycl import _DEPENDENCIES, _DRIVER, INSTALL

from .processes import run, sycl

pytestmark = pytest.mark.child

__all__ = ["sycl"]

OLD = """
typedef struct { int major, minor, patch; const char *hash; unsigned cpu, gpu; } version_t;
static const version_t version = { 3, 1, 4, 0, 2, 0 };
const version_t *dnnl_version(void) { return &version; }
"""


def attempt(call, **more):
    """The message of the error that the call raises."""
    code = f"""
before = dict(os.environ)
try:
    {call}
    said = "nothing was raised"
except dgo.RuntimeUnavailableError as error:
    said = str(error)
omp = dgo.engine("cpu", runtime="omp")
g = dgo.Graph(omp)
y = g.compile(dgo.ops.relu(g.input("x", (3,))))(np.float32([-1, 0, 2]))
print(json.dumps([said, y.tolist(), dict(os.environ) == before]))
"""
    said, result, same_environment = run(code, **more)
    # the bundled library works all the same
    assert result == [0, 0, 2] and same_environment
    return said


@pytest.fixture
def package(tmp_path):
    """A made-up installation of the package onednn: what it lists, and the folder that Python finds it in."""
    site = tmp_path / "lib" / "site-packages"
    facts = site / "onednn-2026.1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: onednn\nVersion: 2026.1.0\n")
    (facts / "RECORD").write_text("../libdnnl.so.3,,\n")
    for name in (*_DEPENDENCIES, _DRIVER, "libdnnl.so.3"):
        (tmp_path / "lib" / name).write_text("no library")
    return tmp_path / "lib"


SYCL = 'dgo.engine("cpu", runtime="sycl")'


@pytest.mark.parametrize("name", [*_DEPENDENCIES, _DRIVER])
def test_a_needed_library_is_gone(package, name):
    (package / name).unlink()
    said = attempt(SYCL, path=[package / "site-packages"])
    assert f"lacks {name}; reinstall" in said and INSTALL in said


def test_the_library_is_gone(package):
    (package / "libdnnl.so.3").unlink()
    said = attempt(SYCL, path=[package / "site-packages"])
    assert str(package) in said and "reinstall" in said


def test_files_that_are_no_libraries(package):
    said = attempt(SYCL, path=[package / "site-packages"])
    assert "cannot load the library" in said and "extra 'sycl'" in said


def test_a_build_elsewhere_is_known_by_the_libraries_beside_it(package):
    path = str(package / "libdnnl.so.3")
    assert _DEPENDENCIES[0] in attempt('dgo.engine("cpu")', DNNL_GRAPH_OPS_LIBRARY=path)
    (package / _DEPENDENCIES[-1]).unlink()
    assert _DEPENDENCIES[0] not in attempt('dgo.engine("cpu")', DNNL_GRAPH_OPS_LIBRARY=path)


def test_a_package_without_the_library(package):
    (package / "site-packages" / "onednn-2026.1.0.dist-info" / "RECORD").write_text("onednn.txt,,\n")
    for call in (SYCL, 'dgo.engine("gpu")'):
        said = attempt(call, path=[package / "site-packages"])
        assert "is not installed" in said and INSTALL in said


def test_an_old_library(tmp_path):
    compiler = shutil.which("cc") or shutil.which("g++")
    if not compiler:
        pytest.skip("needs a C compiler")
    source, library = tmp_path / "old.c", tmp_path / "libdnnl.so.3"
    source.write_text(OLD)
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    said = attempt('dgo.engine("cpu")', DNNL_GRAPH_OPS_LIBRARY=str(library))
    assert "oneDNN 3.1.4" in said and "3.2" in said and "DNNL_GRAPH_OPS_LIBRARY" in said


def test_a_path_that_leads_nowhere(tmp_path):
    said = attempt('dgo.engine("cpu")', DNNL_GRAPH_OPS_LIBRARY=str(tmp_path / "libdnnl.so.3"))
    assert "does not exist" in said and str(tmp_path) in said and "reinstall" in said


def test_no_gpu_in_a_library_for_cpus():
    said = attempt('dgo.engine("gpu", runtime="omp")')
    assert "no SYCL engines for GPUs" in said and INSTALL in said


def test_no_gpu_on_this_machine(sycl):
    if (said := attempt('dgo.engine("gpu")')) == "nothing was raised":
        pytest.skip("there is a GPU")
    assert "finds no gpu device" in said and "driver" in said


def test_a_wrong_driver_path(sycl):
    said = attempt(SYCL, OCL_ICD_FILENAMES="/nowhere/libintelocl.so")
    assert "finds no cpu device" in said and "OCL_ICD_FILENAMES is '/nowhere/libintelocl.so'" in said


def test_the_environment_stays(sycl):
    """Also that of child processes, which C code hands on; libsycl sets one variable of its own there."""
    code = """
import subprocess
shown = lambda: set(subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines())
before = [dict(os.environ), shown()]
dgo.engine("cpu", runtime="sycl")
print(json.dumps([dict(os.environ) == before[0], sorted(before[1] ^ shown())]))
"""
    same, changed = run(code)
    assert same and set(changed) <= {"ZES_ENABLE_SYSMAN=1"}

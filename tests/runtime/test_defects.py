"""What info says of the loaded library's faults, and libraries by path."""

import os

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.runtime import defects


def test_each_version_has_its_own():
    old, new = defects.known((3, 2)), defects.known((3, 13))
    assert set(old) != set(new) and set(old) & set(new)
    assert all(d.until is None or d.since < d.until for d in defects.DEFECTS)
    assert "Select" in defects.lacking((3, 2)) and "Select" not in defects.lacking((3, 13))
    assert "Convolution" not in defects.lacking((3, 2))


def test_info_says_those_of_the_loaded_library():
    runtime = dgo.engine().runtime
    found = next(item for item in dgo.info()["runtimes"] if item["name"] == runtime.name)
    assert len(found["works_around"]) == len(defects.known(runtime.version_info))
    assert "Wildcard" in found["lacks"].split(", ")


def test_a_library_is_named_by_its_path(tmp_path):
    path = dgo.engine().runtime.path
    assert dgo.engine("cpu", runtime=path) is dgo.engine("cpu")
    twin = tmp_path / "libother.so.3"
    os.symlink(path, twin)
    # the same file by another path
    assert dgo.engine("cpu", runtime=str(twin)) is dgo.engine("cpu")
    with pytest.raises(dgo.RuntimeUnavailableError, match="does not exist"):
        dgo.engine("cpu", runtime=str(tmp_path / "libnone.so.3"))
    with pytest.raises(dgo.InvalidArgumentError, match="give the path"):
        dgo.engine("cpu", runtime="nothing")
    with pytest.raises(TypeError, match="a name or a path"):
        dgo.engine("cpu", runtime=3)

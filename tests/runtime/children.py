"""Tests in processes of their own: what they load stays out of this one."""

import json
import os
import subprocess
import sys

import pytest

import dnnl_graph_ops as dgo

BEGIN = "import json, os, threading\nimport numpy as np\nimport dnnl_graph_ops as dgo\n"


@pytest.fixture(scope="session")
def sycl():
    """The SYCL CPU engine, where it is installed."""
    try:
        return dgo.engine("cpu", runtime="sycl")
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(str(error))


def run(code, *, path=(), **variables):
    """What the code prints as JSON; `path` goes before everything else that Python imports from."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DNNL_GRAPH_OPS_")}
    search = [*map(str, path), *sys.path]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, search)), **variables}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])

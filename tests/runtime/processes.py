"""Code in processes of their own: what they load, and what they miss, stays out of this one."""

import json
import os

import pytest
from children import child

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
    """What the code prints as JSON; Python imports from `path` before anything else."""
    search = "".join(f"import sys; sys.path.insert(0, {os.fspath(folder)!r})\n" for folder in path)
    done = child("-c", search + BEGIN + code, **{"DNNL_GRAPH_OPS_LIBRARY": "", **variables})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])

"""The engines that the tests of this folder run on."""

from __future__ import annotations

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.runtime import Engine

# name: arguments of dgo.engine
ENGINES = {
    "omp": {"runtime": "omp"},
    "sycl": {"runtime": "sycl"},
    "device": {"runtime": "sycl", "memory": "device"},
}


def open_engine(name: str) -> Engine:
    """The engine of this name; skips the test where its library is not installed."""
    try:
        return dgo.engine("cpu", **ENGINES[name])
    except dgo.RuntimeUnavailableError as error:
        pytest.skip(str(error))

"""Cost constants by name: `pytest --constants avx2` for a run, `@pytest.mark.constants("avx2")` for one test.

Algorithms are chosen by the package's constants of that CPU. Kernels stay those of this CPU: no test may run code that
the CPU lacks, and whether the library multiplies bf16 or sums int8 exactly is a fact of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import choice
from dnnl_graph_ops.lowering import cost, fits
from dnnl_graph_ops.lowering.env import Env

# the instruction sets of `runtime.cpu.SETS` whose constants they are
SETS = {
    "avx2": "avx2",
    "avx512": "avx512_core_vnni",  # Skylake to Ice Lake: no bf16
    "avx512_bf16": "avx512_core_bf16",
    "amx": "avx512_core_amx",
}
VARIABLE = "DNNL_GRAPH_OPS_TEST_CONSTANTS"  # of child processes that `adopt`
USER_FILE = fits.user_file  # for tests of a user's own constants


def patch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are made as on the CPU that the package's constants of that set were fitted on."""
    monkeypatch.setattr(Env, "isa", property(lambda env: SETS[name]))
    monkeypatch.setattr(Env, "vectors", property(lambda env: "avx512" if env.lanes == 16 else "avx2"))
    monkeypatch.setattr(Env, "rates", property(lambda env: None))
    monkeypatch.setattr(fits, "user_file", lambda key: Path(os.devnull) / key)
    monkeypatch.setenv(VARIABLE, name)
    forget()


def forget() -> None:
    """Empties what holds choices: plans, rankings, constants."""
    dgo.clear_caches()
    choice._rankings.clear()
    fits.source.cache_clear()
    cost.corrections.cache_clear()


def adopt() -> None:
    """In a child process of a test: the constants by which its parent chooses."""
    if os.environ.get(VARIABLE):
        patch(os.environ[VARIABLE], pytest.MonkeyPatch())


@contextmanager
def named(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        patch(name, monkeypatch)
        yield
    forget()


def pytest_addoption(parser):
    parser.getgroup("dnnl_graph_ops").addoption(
        "--constants", choices=SETS, help="choose algorithms by the cost constants of this CPU; default: this machine's"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "constants(name): algorithms are chosen by the cost constants of this CPU")
    if name := config.getoption("--constants"):
        patch(name, pytest.MonkeyPatch())


@pytest.fixture(autouse=True)
def constants(request) -> Iterator[None]:
    """The test's own constants, if it names them."""
    marker = request.node.get_closest_marker("constants")
    with named(*marker.args) if marker else nullcontext():
        yield

"""CPUs by name: `pytest --constants avx2` for a run, `@pytest.mark.constants("avx2")` for one test.

Algorithms are chosen as on that CPU, by the package's constants for it: on `DEFAULT` if no other one is named, so that
no choice depends on the machine that runs the tests. A name narrows what the machine can do, and never widens it: no
test may run code that the CPU lacks, and whether the library sums int8 exactly is a fact of the machine. So what the
library multiplies natively is what both CPUs multiply so; a test that runs more asserts the choice alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import choice
from dnnl_graph_ops.cost import fits
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.runtime import cpu, reference
from dnnl_graph_ops.runtime.engines import Engine

# names of instruction sets as `runtime.cpu` has them
SETS = {
    "avx2": "avx2",
    "avx2_vnni": "avx2_vnni",  # Alder Lake: products of 8 bits
    "avx512": "avx512_core_vnni",  # Skylake to Ice Lake: no bf16
    "avx512_bf16": "avx512_core_bf16",
    "avx512_fp16": "avx512_core_fp16",  # as a virtual machine has it that hides AMX
    "amx": "avx512_core_amx",
    "unknown": "isa 0x1201ff",  # a bit more than avx10_2, as a later release may name
    "none": "isa 0x0",  # no set that was fitted, nor one that the table has
}
DEFAULT = "amx"
VARIABLE = "DNNL_GRAPH_OPS_TEST_CONSTANTS"  # of child processes that `adopt`
USER_FILE = fits.user_file  # for tests of a user's own constants
USERS_KEYS = reference.user_file  # for tests of the reference kernels that a user's cache has

_computes_natively = cpu.computes_natively


def patch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are made as on that CPU, by constants that no user fitted, without what earlier processes have seen.

    They are not corrected by the rates of the CPU that runs the tests.
    """
    isa = SETS[name]

    def natively(dtype: str, engine: Engine, ops: Sequence[str] = ()) -> bool:
        lacks = engine.kind == "cpu" and dtype in ("bf16", "f16") and dtype not in cpu.native(isa)
        return not lacks and _computes_natively(dtype, engine, ops)

    def int8(env: Env) -> bool:
        return "int8" in cpu.native(isa) & cpu.native(cpu.isa(env.engine))

    monkeypatch.setattr(Env, "isa", property(lambda env: isa))
    monkeypatch.setattr(Env, "vectors", property(lambda env: "avx512" if env.lanes == 16 else "avx2"))
    monkeypatch.setattr(Env, "rates", property(lambda env: None))
    monkeypatch.setattr(Env, "has_int8_products", property(int8))
    monkeypatch.setattr(cpu, "computes_natively", natively)
    monkeypatch.setattr(fits, "user_file", lambda key: Path(os.devnull) / key)
    monkeypatch.setattr(reference, "user_file", lambda engine: Path(os.devnull) / "keys")
    monkeypatch.setenv(VARIABLE, name)
    forget()


def forget() -> None:
    """Empties what holds choices: plans, rankings, constants, known reference kernels."""
    dgo.clear_caches()
    choice._rankings.clear()
    reference.forget()
    fits.forget()
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
        "--constants", choices=SETS, default=DEFAULT, help=f"choose algorithms as on this CPU; default: {DEFAULT}"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "constants(name): algorithms are chosen as on this CPU")
    patch(config.getoption("--constants"), pytest.MonkeyPatch())


@pytest.fixture(autouse=True)
def constants(request) -> Iterator[None]:
    """The test's own CPU, if it names one."""
    marker = request.node.get_closest_marker("constants")
    with named(*marker.args) if marker else nullcontext():
        yield

"""Tests name the cost constants by which algorithms are chosen."""

import os

import pytest
from children import child
from constants import DEFAULT, SETS, VARIABLE, named

import dnnl_graph_ops as dgo
from dnnl_graph_ops.cost import fits
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.runtime import cpu

# by name, the first file of constants
FITS = {
    "avx2": "avx2",
    "avx2_vnni": "avx2",
    "avx512": "avx512",
    "avx512_bf16": "avx512",
    "avx512_fp16": "avx512",
    "amx": "avx512_amx",
    "unknown": "avx512",
    "none": "avx2",
}
PROGRAM = """
import constants
import dnnl_graph_ops as dgo
from dnnl_graph_ops.ir.env import Env
constants.adopt()
print(Env(dgo.engine("cpu"), 1).isa)
"""


def env() -> Env:
    return Env(dgo.engine("cpu"), 1)


def test_every_file_of_constants_has_a_name():
    assert set(FITS.values()) == {row.fit for row in cpu.SETS} and FITS.keys() == SETS.keys()


@pytest.mark.child
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.constants(name)) for name in FITS])
def test_a_marked_test_chooses_by_the_packages_constants(name):
    assert fits.find(env().isa, env().release, "f32") is fits.package(FITS[name]).constants["f32"]
    assert env().lanes == {"avx2": 8, "avx2_vnni": 8, "none": 4}.get(name, 16)
    assert child("-c", PROGRAM).stdout.strip() == SETS[name]


@pytest.mark.parametrize("name", SETS)
def test_a_name_narrows_what_the_machine_can_do(name):
    engine = dgo.engine("cpu")
    here = cpu.native(cpu.isa(engine)) - {"amx"}
    with named(name):
        assert env().isa == SETS[name]
        can = {dtype for dtype in ("bf16", "f16") if cpu.computes_natively(dtype, engine)}
        assert can == {dtype for dtype in can if env().compute_dtype(dtype) == dtype}
        assert can | ({"int8"} if env().has_int8_products else set()) == here & cpu.native(SETS[name])


def test_no_choice_depends_on_the_machine(request):
    """Without a name they are made as on one CPU, in this process and in its children."""
    name = request.config.getoption("--constants")
    assert env().isa == SETS[name] and os.environ[VARIABLE] == name
    assert request.config.getoption("constants", DEFAULT) in SETS


@pytest.mark.child
def test_a_child_without_constants_has_its_own():
    done = child("-c", PROGRAM, **{VARIABLE: ""})
    assert done.stdout.strip() == cpu.isa(dgo.engine("cpu"))

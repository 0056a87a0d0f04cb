"""Tests name the cost constants by which algorithms are chosen."""

import pytest
from children import child
from constants import SETS, VARIABLE, named

import dnnl_graph_ops as dgo
from dnnl_graph_ops.lowering import fits
from dnnl_graph_ops.lowering.env import Env
from dnnl_graph_ops.runtime import cpu

FITS = {"avx2": "avx2", "avx512": "avx512", "avx512_bf16": "avx512", "amx": "avx512_amx"}
PROGRAM = """
import constants
import dnnl_graph_ops as dgo
from dnnl_graph_ops.lowering.env import Env
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
    assert env().lanes == (8 if name == "avx2" else 16)
    assert child("-c", PROGRAM).stdout.strip() == SETS[name]


def test_facts_of_the_machine_stay():
    before = env().compute_dtype("bf16"), cpu.isa(dgo.engine("cpu"))
    for name in SETS:
        with named(name):
            assert (env().compute_dtype("bf16"), cpu.isa(dgo.engine("cpu"))) == before


@pytest.mark.child
def test_a_child_without_constants_has_its_own():
    done = child("-c", PROGRAM, **{VARIABLE: ""})
    assert done.stdout.strip() == cpu.isa(dgo.engine("cpu"))

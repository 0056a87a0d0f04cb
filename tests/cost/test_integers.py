"""Counts and prices of layers of 8-bit integers."""

import json
from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench.times import Elsewhere
from dnnl_graph_ops.compile import measure_rates
from dnnl_graph_ops.convolution.quantization import Quantization
from dnnl_graph_ops.cost import fits, integers
from dnnl_graph_ops.cost.integers import LIBRARY
from dnnl_graph_ops.cost.model import Counts
from dnnl_graph_ops.runtime import cpu

RELEASE = "3.2.0"
SETS = ("amxint8", "avx512vnni", "avxvnni", "avx2words", "emulatedint8")


def layer():
    return replace(measure_rates.layer("f32", run=False), quantization=Quantization())


def direct(problem):
    g = problem.geometry
    return Counts(float(prod((*g.y, *g.kernel)) * g.x_channels * g.y_channels), 0.0, 0.0, g.x_channels, 0.0)


def test_the_files_say_where_their_numbers_are_from():
    files = [json.loads(fits.package_file(key).read_text("utf-8")) for key in ("avx2", "avx512", "avx512_amx")]
    assert all(content["constants"].keys() <= content["rows"].keys() for content in files)


def test_the_library_has_prices_of_its_own_by_set():
    tables = [fits.of_integers(isa, RELEASE) for isa in ("avx2", "avx512_core_vnni", "avx512_core_amx")]
    for (table, wider), kinds in zip(pairwise(tables), (["dgrad"], ["dgrad", "fprop"]), strict=True):
        assert {key for key in table if table[key] != wider[key]} == {(kind, LIBRARY) for kind in kinds}
        assert table.keys() == wider.keys()


@pytest.mark.parametrize("row", cpu.SETS, ids=lambda row: row.name)
def test_every_set_has_prices(row):
    env, problem = Elsewhere(dgo.engine("cpu"), 1, name=row.name), layer()
    for isa in SETS:
        assert all(price >= 0 for price in integers.prices((problem.direction, isa), problem, env))
    assert len(integers.prices(integers.of_library(problem), problem, env)) == fits.FIELDS


def test_prices_follow_those_of_floats():
    """They are in products of the direct algorithm in f32."""
    problem, found = layer(), set()
    for isa in ("avx2", "avx512_core_vnni", "avx512_core_amx"):
        env = Elsewhere(dgo.engine("cpu"), 1, name=isa)
        product = fits.find(isa, env.release, "f32")["direct", problem.direction][0]
        found.add(round(integers.prices((problem.direction, "avx512vnni"), problem, env)[0] / product, 6))
    assert len(found) == 1


def test_more_channels_are_more_work():
    problem = layer()
    g = problem.geometry
    more = replace(problem, geometry=replace(g, x_channels=2 * g.x_channels))
    few, many = (integers.products(one, "avx512vnni", direct(one), 1, copies=False) for one in (problem, more))
    assert many.products == 2 * few.products
    assert many.weights == 2 * few.weights


def test_copies_and_winograd_count():
    problem = layer()
    plain = integers.products(problem, "avx2words", direct(problem), 1000, copies=False)
    copied = integers.products(problem, "avx2words", direct(problem), 1000, copies=True)
    assert copied.values == plain.values + 3000
    filtered = integers.products(problem, "avx2words", direct(problem), 1000, copies=False, filtered=0.5)
    assert filtered.products == plain.products / 2

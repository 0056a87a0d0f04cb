"""No op is left to a reference kernel of the library where something else computes it.

The table is of CPUs that have f16: here their environment is given to what chooses and builds.
"""

import math
from random import Random

import numpy as np
import pytest
from lowering.test_routes import KINDS, MOST_ELEMENTS, values_of
from reference import conv_transpose as truth
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops.algorithms import lower, table
from dnnl_graph_ops.backends.backend import Places, Target, group_of
from dnnl_graph_ops.backends.table import build
from dnnl_graph_ops.bench.fit import Elsewhere, described
from dnnl_graph_ops.bench.problem import Problem as Layer
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.compile.supported import markdown
from dnnl_graph_ops.lowering.family import CONV_KINDS, make_problem
from dnnl_graph_ops.lowering.problem import DGRAD, WGRAD
from dnnl_graph_ops.lowering.program import Buffer, NativeStep, Place, Program, View
from dnnl_graph_ops.runtime import cpu
from dnnl_graph_ops.strides import dense_strides

from .test_algorithms import external

pytestmark = pytest.mark.choice

WITH_F16 = [row.name for row in cpu.SETS if "f16" in cpu.native(row.name)]
LAYER = Layer("k2 s2", 1, 32, 16, (6, 6), (2, 2), (2, 2), (0, 0))


def env_of(isa: str, tune: str = "heuristic") -> Elsewhere:
    return Elsewhere(dgo.engine("cpu"), 2, tune=tune, name=isa)


def biased(dtype):
    problem = described(LAYER, DGRAD, "NXC", False, dtype)
    return problem.with_views(bias=Program().constant(np.ones(LAYER.out_channels, dtypes.numpy_dtype(dtype))))


def test_sets_with_f16_are_those_of_the_table():
    assert {row.since for row in cpu.REFERENCE} == {"avx512_core_fp16"}
    assert {"avx512_core_fp16", "avx512_core_amx", "avx10_2_amx_2"} <= set(WITH_F16)
    assert not cpu.reference_ops("avx512_core_bf16", "f16")
    assert not cpu.reference_ops("avx512_core_amx_fp16", "bf16")


@pytest.mark.parametrize("isa", WITH_F16)
def test_no_form_is_left_to_one(isa):
    """Of forms whose kernels cost a thousand times the best one, none is a candidate."""
    env = env_of(isa)
    gradient = described(LAYER, WGRAD, "NXC", False, "f16")
    names = [form.name for form, _ in table.candidates(gradient, env)]
    assert {"im2col", "builtin direct"} <= set(names)
    assert not {"convolution", "deconvolution", "phases", "row phases", "depth to space"} & set(names)
    problem = biased("f16")
    (product,) = (form for form, _ in table.candidates(problem, env) if form.name == "GEMM")
    assert product.compute_dtype(problem, env) == "f32" and product.converts(problem, env)


@pytest.mark.parametrize("isa", WITH_F16)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_other_dtypes_and_sums_without_a_bias_keep_theirs(isa, dtype):
    env = env_of(isa)
    gradient = described(LAYER, WGRAD, "NXC", False, dtype)
    assert {"convolution", "deconvolution"} <= {form.name for form, _ in table.candidates(gradient, env)}
    assert "GEMM" in {form.name for form, _ in table.candidates(biased(dtype), env)}
    alone = described(LAYER, DGRAD, "NXC", False, "f16")
    assert "GEMM" in {form.name for form, _ in table.candidates(alone, env)}


@pytest.mark.parametrize(("kind", "name"), [("ConvTranspose", "GEMM"), ("ConvTransposeBackwardWeights", "convolution")])
def test_where_nothing_else_applies_it_is_computed_in_f32(kind, name, monkeypatch):
    only = tuple(f for f in table.ALGORITHMS if (f.name, f.direction) == (name, CONV_KINDS[kind].direction))
    monkeypatch.setattr(table, "ALGORITHMS", only)
    rng = np.random.default_rng(0)
    attrs = {"strides": (2, 2), "data_format": "NXC", "weights_format": "IOX"}
    x, w, bias, y = (
        rng.integers(-2, 3, shape).astype(np.float16)
        for shape in ((1, 6, 6, 32), (32, 16, 2, 2), (16,), (1, 12, 12, 16))
    )
    arrays = [x, w, bias] if kind == "ConvTranspose" else [x, y]
    wide = [array.astype(np.float32) for array in arrays]
    want = truth.forward(*wide, **attrs) if kind == "ConvTranspose" else truth.backward_weights(*wide, (2, 2), **attrs)
    result = np.full(want.shape, np.nan, np.float16)
    views = [external(Place.INPUT, array, index) for index, array in enumerate(arrays)]
    output, program, env = external(Place.OUTPUT, result, 0), Program(), env_of("avx512_core_amx_fp16")
    decision = lower.lower(program, make_problem(kind, attrs, views, output), env)
    assert (decision.formulation, decision.compute) == (name, "f32")
    # a product around which all is builtin code is builtin code itself
    assert dtypes_of_native_steps(program) == (set() if name == "GEMM" else {"f32"})
    assemble(program, views, [output], env.engine).executor.run(arrays, [result])
    np.testing.assert_array_equal(result, want.astype(np.float16))


def dtypes_of_native_steps(program):
    steps = [step for step in program.steps if isinstance(step, NativeStep)]
    return {view.dtype for step in steps for view in (*step.reads, *step.writes)}


def nodes():
    """Groups of native ops in f16, and what they are computed in where the table says so."""
    graph = dgo.Graph()
    shapes = {"a": (4, 8), "b": (8, 16), "bias": (16,)}
    a, b, bias = (graph.input(name, shape, "f16") for name, shape in shapes.items())
    alone = dgo.ops.matmul(a, b)
    return {
        "GEMM": ([alone], "f16"),
        "product with bias": ([dgo.ops.matmul(a, b, bias)], "f32"),
        "product and BiasAdd": ([alone, dgo.ops.bias_add(alone, bias)], "f32"),
        "product and Abs": ([alone, dgo.ops.abs(alone)], "f16"),
    }


@pytest.mark.parametrize("name", nodes())
def test_ops_of_a_graph(name):
    values, computed = nodes()[name]
    env = env_of("avx512_core_amx_fp16")
    built = build([group_of([value.node for value in values], env)], ends(values), env, None, {})
    assert dtypes_of_native_steps(built.program) == {computed}
    ((_, decision),) = built.decisions
    assert decision.compute == computed


def ends(values):
    """Views of what the nodes read from outside, and of the last result."""
    inside = set(values)
    outer = [value for one in values for value in one.node.inputs if value not in inside]
    found = {}
    for index, value in enumerate(dict.fromkeys(outer)):
        found[value] = view_of(Place.INPUT, value, index)
    return Places({**found, values[-1]: view_of(Place.OUTPUT, values[-1], 0)})


def view_of(place, value, index):
    return View(Buffer(place, value.dtype, math.prod(value.shape), index), value.shape, dense_strides(value.shape))


def test_tune_off_takes_no_literal_op_that_is_one():
    graph = dgo.Graph()
    x, diff = graph.input("x", (1, 6, 6, 32), "f16"), graph.input("diff", (1, 12, 12, 16), "f16")
    value = dgo.ops.conv_transpose_backward_weights(
        x, diff, weights_shape=(32, 16, 2, 2), strides=2, data_format="NXC", weights_format="IOX"
    )
    env = env_of("avx512_core_amx_fp16", tune="off")
    ((_, decision),) = build([group_of([value.node], env)], ends([value]), env, None, {}).decisions
    assert decision.formulation not in ("literal", "convolution", "deconvolution")


def test_a_target_knows_the_op():
    """`supported` asks it: natively, or in f32."""
    target = Target.of(env_of("avx512_core_amx_fp16"))
    assert [target.compute_dtype("f16", kind) for kind in ("MatMul", "ConvolutionBackwardWeights")] == ["f16", "f32"]


@pytest.mark.parametrize("kind", ["ReduceL1", "SoftMax", "MatMul"])
def test_explain_flags_what_remains(kind):
    """With tuning off: ReduceL1 has no other kernel in oneDNN 3.2 on any x64 CPU, MatMul has one on all."""
    graph = dgo.Graph()
    x = graph.input("x", (4, 8))
    made = {
        "ReduceL1": lambda: dgo.ops.reduce_l1(x, axes=[1], keep_dims=True),
        "SoftMax": lambda: dgo.ops.softmax(x, axis=1),
        "MatMul": lambda: dgo.ops.matmul(x, graph.constant(np.ones((8, 8), np.float32))),
    }[kind]()
    explanation = graph.compile(made, tune="off").explain()
    (part,) = explanation.partitions
    assert part.reference == any(step.reference for step in part.steps) == (kind == "ReduceL1")
    assert ("(reference kernel)" in str(explanation)) == part.reference
    assert explanation.to_dict()["partitions"][0]["reference"] == part.reference


@pytest.mark.parametrize("kind", KINDS)
def test_explain_flags_nothing(kind, seed):
    for number in range(3):
        case = GENERATORS[kind](Random(f"{seed} {kind} reference {number}"))
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        values = values_of(kind, case, "f32")
        if not values or sum(math.prod(meta.shape) for meta in case.metas) > MOST_ELEMENTS:
            continue
        try:
            net = values[0].graph.compile({f"y{i}": value for i, value in enumerate(values)})
        except dgo.UnsupportedError:
            continue
        told = net.explain()
        assert not any(step.reference for step in told.steps), str(told)


def test_status_prints_both_lists():
    text = "\n".join(markdown())
    assert "| ReduceL1 | always |" in text
    assert "| MatMul with bias | f16 | avx512_core_fp16 and sets that contain it |" in text
    assert "| ReduceL1 | always |" not in "\n".join(markdown(only_missing=True))


@pytest.mark.parametrize(
    ("size", "stride", "pads_end", "apart"), [(6, 2, 1, False), (6, 2, 0, True), (6, 2, 2, True), (6, 1, 1, True)]
)
def test_no_bias_nor_post_op_is_left_to_the_library_that_loops_over_them(size, stride, pads_end, apart, monkeypatch):
    only = tuple(f for f in table.ALGORITHMS if (f.name, f.direction) == ("deconvolution", DGRAD))
    monkeypatch.setattr(table, "ALGORITHMS", only)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((1, 16, size, size), (16, 16, 4, 4)))
    b = rng.integers(-4, 5, 16).astype(np.float32)
    graph = dgo.Graph()
    y = dgo.ops.conv_transpose(
        graph.input("x", x.shape), graph.constant(w), graph.constant(b), strides=stride, pads_begin=1,
        pads_end=pads_end, data_format="NCX", weights_format="IOX",
    )  # fmt: skip
    net = graph.compile([dgo.ops.abs(y)])
    (part,) = net.explain().partitions
    assert len(part.steps) == (2 if apart else 1)
    formats = {"data_format": "NCX", "weights_format": "IOX"}
    expected = truth.forward(x, w, b, strides=(stride,) * 2, pads_begin=(1, 1), pads_end=(pads_end,) * 2, **formats)
    assert np.array_equal(net(x), np.abs(expected))

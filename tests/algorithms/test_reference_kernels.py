"""No op is left to a reference kernel of the library where something else computes it.

The table is of CPUs that have f16: here their environment is given to what chooses and builds.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from backends.test_table import FLOATS, KINDS, MOST_ELEMENTS, values_of
from reference import conv_transpose as truth
from shapes.generate import GENERATORS

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes
from dnnl_graph_ops.algorithms import lower, table
from dnnl_graph_ops.backends.backend import Places, Target, group_of
from dnnl_graph_ops.backends.table import NOWHERE, build
from dnnl_graph_ops.bench.peers.own import graph_of as layer_of
from dnnl_graph_ops.bench.peers.task import Task
from dnnl_graph_ops.bench.problem import DIRECTIONS
from dnnl_graph_ops.bench.problem import Problem as Layer
from dnnl_graph_ops.bench.times import Elsewhere, described
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.convolution.nodes import CONV_KINDS, make_problem
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.cost import fits
from dnnl_graph_ops.onednn import workarounds
from dnnl_graph_ops.program.program import Buffer, NativeStep, Place, Program, View
from dnnl_graph_ops.reports.supported import markdown
from dnnl_graph_ops.runtime import cpu
from dnnl_graph_ops.schema import kinds
from dnnl_graph_ops.strides import dense_strides

from .test_algorithms import external

pytestmark = pytest.mark.choice

CONVERTING = kinds("converts")
WITH_F16 = [row.name for row in cpu.SETS if "f16" in cpu.native(row.name)]
LAYER = Layer("k2 s2", 1, 32, 16, (6, 6), (2, 2), (2, 2), (0, 0))


def env_of(isa: str, tune: str = "heuristic") -> Elsewhere:
    return Elsewhere(dgo.engine("cpu"), 2, tune=tune, name=isa)


def biased(dtype):
    problem = described(LAYER, DGRAD, "NXC", False, dtype)
    return problem.with_views(bias=Program().constant(np.ones(LAYER.out_channels, dtypes.numpy_dtype(dtype))))


def test_sets_with_f16_are_those_of_the_table():
    assert {row.since for row in cpu.REFERENCE} == {"avx512_core_fp16"}
    tabled = [bool(cpu.reference_ops("avx512_core_fp16", "f16", version)) for version in ((3, 2, 0), (3, 4, 1))]
    assert tabled == [True, False], "of other releases the log alone tells"
    assert {"avx512_core_fp16", "avx512_core_amx", "avx10_2_amx_2"} <= set(WITH_F16)
    assert not cpu.reference_ops("avx512_core_bf16", "f16")
    assert not cpu.reference_ops("avx512_core_amx_fp16", "bf16")


@pytest.mark.parametrize("isa", WITH_F16)
def test_no_form_is_left_to_one(isa):
    """Forms whose kernels cost a thousand times the best one compute in f32, with estimates of that."""
    env = env_of(isa)
    gradient, wide = (described(LAYER, WGRAD, "NXC", False, dtype) for dtype in ("f16", "f32"))
    forms = {form.name: (form, seconds) for form, seconds in table.candidates(gradient, env)}
    assert {"im2col", "builtin direct"} <= forms.keys()
    in_f32 = dict(table.candidates(wide, env))
    pace = fits.pace(isa, env.release, "f16", WGRAD) / fits.pace(isa, env.release, "f32", WGRAD)
    for name in ("convolution", "deconvolution", "phases"):
        form, seconds = forms[name]
        assert form.compute_dtype(gradient, env) == "f32"
        # conversions, and other recorded layers beside it
        assert seconds == pytest.approx(pace * in_f32[form], rel=0.3)
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
    # the library's f32 kernels, with conversions, or builtin ones
    assert decision.compute == "f32"


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


class Every(frozenset):
    """Keys of all choices."""

    def __contains__(self, key):
        return bool(key)

    def __bool__(self):
        return True


@dataclass(frozen=True)
class Lacking(Elsewhere):
    """A CPU on which reference kernels run whatever the library computes in 16 bits or less."""

    @property
    def by_reference(self):
        return Every()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_op_is_computed_in_f32_where_the_library_lacks_its_kernel(kind, dtype, seed):
    env = Lacking(dgo.engine("cpu"), 2, name="avx512_core_amx_fp16")
    for number in range(3):
        case = GENERATORS[kind](Random(f"{seed} {kind} lacking {number}"))
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        values = values_of(kind, case, dtype)
        group = group_of([values[0].node], env) if values else None
        # integers and conversions are what they are
        if group is None or group.backend is NOWHERE or CONVERTING.issuperset([kind]):
            continue
        found = {value: view_of(Place.INPUT, value, i) for i, value in enumerate(dict.fromkeys(values[0].node.inputs))}
        found |= {value: view_of(Place.OUTPUT, value, i) for i, value in enumerate(values)}
        built = build([group], Places(found), env, None, {})
        assert dtype not in dtypes_of_native_steps(built.program)


@pytest.mark.parametrize("kind", KINDS)
def test_explain_flags_nothing(kind, seed):
    for number, dtype in enumerate(FLOATS):
        case = GENERATORS[kind](Random(f"{seed} {kind} reference {number}"))
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        values = values_of(kind, case, dtype)
        if not values or sum(math.prod(meta.shape) for meta in case.metas) > MOST_ELEMENTS:
            continue
        try:
            net = values[0].graph.compile({f"y{i}": value for i, value in enumerate(values)})
        except dgo.UnsupportedError:
            continue
        told = net.explain()
        assert not any(step.reference for step in told.steps), str(told)


def drawn(rng):
    """A random layer of either op in one to three axes, of which the library has several kernels."""
    while True:
        rank, groups = rng.choice((1, 2, 2, 3)), rng.choice((1, 1, 1, 2, 4))
        channels = [groups * rng.choice((1, 3, 4, 8, 12, 16, 24, 32, 48, 64)) for _ in range(2)]
        if rng.random() < 0.1:
            groups = channels[0] = channels[1] = rng.choice((8, 16, 32))
        spatial = [rng.choice((1, 4, 7, 8, 15, 16, 28) if rank < 3 else (3, 4, 6)) for _ in range(rank)]
        kernel, strides, dilations = (
            [rng.choice(some)] * rank if rng.random() < 0.7 else [rng.choice(some) for _ in range(rank)]
            for some in ((1, 2, 3, 3, 4, 5), (1, 1, 2, 2, 3), (1, 1, 1, 2))
        )
        pads = [min(rng.choice((0, 1, 1, 2)), k - 1) for k in kernel]
        with suppress(dgo.ShapeError):
            sizes = (*channels, spatial, kernel, strides, pads, pads, (), dilations, groups)
            layer = Layer("", rng.choice((1, 2)), *sizes, op=rng.choice(("conv", "conv_transpose")))
            if layer.macs < 2e7:
                return layer


@pytest.mark.cases(24, 240, 2000, each=12)
def test_no_random_layer_is_run_by_one(start, seed):
    """In any direction, with constant or variable weights; on a CPU with AVX512-FP16 alone a fifth of them would be."""
    for number in range(start, start + 12):
        rng = Random(f"{seed} layer by reference {number}")
        layer, direction, dtype = drawn(rng), rng.choice(DIRECTIONS), rng.choice(FLOATS[1:])
        layout, weights = rng.choice(("NXC", "NXC", "NCX")), rng.choice(("constant", "variable"))
        print(f"reproduce: --seed {seed}, layer {number}: {layer} {direction} {dtype} {layout} {weights}")
        graph, value, _ = layer_of(Task(layer, direction, dtype, layout, weights, 1), dgo.engine("cpu"))
        told = graph.compile(value).explain()
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


@pytest.mark.parametrize(
    ("ins", "outs", "sizes", "kernel", "strides"),
    [
        (16, 24, (20, 20), (3, 3), (1, 1)),
        (24, 8, (8, 8, 8), (4, 4, 4), (1, 1, 1)),
        (48, 1, (8, 8, 8), (3, 3, 3), (1, 1, 1)),
        (48, 12, (5, 4, 4), (2, 2, 2), (4, 4, 4)),
        (40, 48, (5, 4, 4), (1, 1, 1), (1, 1, 1)),
    ],
)
def test_algorithms_whose_convolutions_are_wrong_in_tiles_are_weighed_in_f32(ins, outs, sizes, kernel, strides):
    """Else an estimate in bf16 would stand for a run in f32."""
    layer = Layer("wrong in tiles", 1, ins, outs, sizes, kernel, strides, (0,) * len(sizes))
    env, weighed = env_of("avx512_core_amx"), set()
    for direction in (DGRAD, FPROP):
        problem = described(layer, direction, "NXC", False, "bf16")
        for algorithm, _ in table.candidates(problem, env):
            program = Program()
            lower.build(program, problem, algorithm, env)
            ops = [op for step in program.steps if isinstance(step, NativeStep) for op in step.ops]
            assert not any(map(workarounds._is_widened_of_tiles, ops)), algorithm.name
            weighed.add(algorithm.by_reference(problem, env))
    assert weighed == {True, False}

"""What the library's log says of reference kernels decides: a net is lowered again without the choices that take them.

What is lacking is the test's own, so that every CPU is one that multiplies bf16 but has only reference kernels for it:
of steps that are lacking nothing is compiled.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pytest
from constants import USERS_KEYS as USERS_FILE
from reference import conv_transpose as ct
from reference import convolution as conv
from reference.data import integers, unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops
from dnnl_graph_ops.algorithms.algorithm import Algorithm
from dnnl_graph_ops.convolution.problem import ConvProblem
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import exact_int8
from dnnl_graph_ops.onednn import partition as native
from dnnl_graph_ops.program.program import NativeStep, Program
from dnnl_graph_ops.runtime import cpu, reference
from dnnl_graph_ops.runtime.verbose import Log, parse, verbose

Array = np.ndarray[Any, Any]
# of oneDNN 3.2 on a CPU with AVX512-FP16
LINE = (
    "onednn_verbose,create:cache_miss,cpu,deconvolution,conv:any+ref:any,forward_training,src_f16::blocked:acdb:f0 "
    "wei_f16::blocked:abcd:f0 dst_f16::blocked:acdb:f0,,alg:deconvolution_direct,"
    "mb1_ic32oc16_ih32oh63kh3sh2dh0ph1_iw32ow63kw3sw2dw0pw1,0.128906"
)
NAME = "deconvolution conv:any+ref:any"
WINDOW = {"pads_begin": 1, "pads_end": 1, "data_format": "NXC", "weights_format": "XIO"}
KINDS = ("Convolution", "ConvTranspose")
OPS = [f"{kind}{part}" for kind in KINDS for part in ("", "BackwardData", "BackwardWeights")]


Lacks = Callable[[NativeStep], bool]


def everything(step: NativeStep) -> bool:
    return True


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Lacks], list[str]]]:
    """A function after which reference kernels run steps of bf16 that are lacking; it returns the list of their ops."""
    told: list[str] = []
    compiled = native._judged

    def begin(lacks: Lacks) -> list[str]:
        def judged(partition: Any, given: native.Partitioned) -> native.Compiled:
            step = given.bound(partition)
            part = native.Compiled(None, step.reads, step.writes, step, given.fpmath_mode, given.baked, reference=NAME)
            if "bf16" not in part.dtypes or not lacks(step):
                return compiled(partition, given)
            told.extend(part.kinds)
            return part

        monkeypatch.setattr(native, "_judged", judged)
        monkeypatch.setattr(cpu, "computes_natively", lambda dtype, engine, ops=(): True)
        return told

    reference.forget()
    yield begin
    reference.forget()


@pytest.fixture
def told_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A function after which the log tells of a reference kernel for primitives with such tensors."""

    def begin(layout: str) -> None:
        @contextmanager
        def log_of(level: int) -> Iterator[Log]:
            with verbose(level) as log:
                yield log
            slow = [one for one in log.created() if layout in one.layouts]
            log.records += [replace(parse(LINE), thread=one.thread) for one in slow]

        monkeypatch.setattr(native, "verbose", log_of)

    reference.forget()
    yield begin
    reference.forget()


@pytest.fixture
def library_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithms of the library are cheaper than others, but not in f32."""

    def seconds(self: Algorithm, problem: ConvProblem, env: Env, factor: float = 1.0) -> float:
        native = bool(self.op) and not self.converts(problem, env)
        return 2.0 if env.wide else float(not native)

    monkeypatch.setattr(Algorithm, "seconds", seconds)


class Case(NamedTuple):
    """An op on arrays of -1, 0 and 1 in bf16, and its result, whose sums are exact."""

    arrays: list[Array]
    build: Callable[..., Any]
    want: Array


def case_of(kind: str, batch: int = 2, rows: int = 6, shot: bool = False) -> Case:
    """`shot`: the one-shot function in place of the builder."""
    rng, transposed, names = np.random.default_rng(7), "Transpose" in kind, dgo if shot else ops
    of = ct if transposed else conv
    attrs = {
        "strides": 1 + transposed, "pads_begin": 1, "pads_end": 1, "data_format": "NXC",
        "weights_format": "IOX" if transposed else "OIX",
    }  # fmt: skip
    x, w = integers(rng, (batch, rows, 7, 16), limit=1), integers(rng, (16, 16, 3, 3), limit=1)
    y = of.forward(x, w, **attrs)
    diff, name = integers(rng, y.shape, limit=1), "conv_transpose" if transposed else "convolution"
    if kind.endswith("Data"):
        op, want = getattr(names, f"{name}_backward_data"), of.backward_data(diff, w, src_spatial=x.shape[1:3], **attrs)
        return Case(narrow(diff, w), lambda a, b, **rest: op(a, b, **attrs, **rest), want)
    if kind.endswith("Weights"):
        op, want = getattr(names, f"{name}_backward_weights"), of.backward_weights(x, diff, (3, 3), **attrs)
        return Case(narrow(x, diff), lambda a, b, **rest: op(a, b, weights_shape=w.shape, **attrs, **rest), want)
    return Case(narrow(x, w), lambda a, b, **rest: getattr(names, name)(a, b, **attrs, **rest), y)


def narrow(*arrays: Array) -> list[Array]:
    return [array.astype(dtypes.numpy_dtype("bf16")) for array in arrays]


def compiled(case: Case, **options: Any) -> dgo.Net:
    graph = dgo.Graph()
    values = [graph.input(f"x{i}", array.shape, "bf16") for i, array in enumerate(case.arrays)]
    return graph.compile(case.build(*values, name="op"), **options)


def check(net: dgo.Net, case: Case) -> str:
    """Checks the net's result; returns the algorithm."""
    result = unwritten(case.want.shape, "bf16")
    net(*case.arrays, out=result)
    np.testing.assert_array_equal(result.astype(np.float64), case.want)
    (group,) = net.explain().groups
    return group.formulation


def native_kinds(net: dgo.Net) -> list[str]:
    """The kinds of the ops that the library computes."""
    parts = net._latest().plan.parts
    return [kind for part in parts if isinstance(part, native.Compiled) for kind in part.kinds]


@pytest.mark.parametrize("options", ({}, {"algorithm": "direct"}, {"tune": "off"}), ids=str)
@pytest.mark.parametrize("kind", OPS)
def test_the_next_algorithm_runs(kind, options, lacking, library_first):
    told, case = lacking(everything), case_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = compiled(case, **options)
    assert told, "an algorithm of the library was tried"
    check(net, case)
    assert not native_kinds(net)


@pytest.mark.parametrize("kind", OPS)
def test_one_shot_functions_as_well(kind, lacking, library_first):
    told, case = lacking(everything), case_of(kind, shot=True)
    result = unwritten(case.want.shape, "bf16")
    case.build(*case.arrays, out=result)
    np.testing.assert_array_equal(result.astype(np.float64), case.want)
    assert told
    told.clear()
    again = case_of(kind, batch=3, shot=True)
    np.testing.assert_array_equal(again.build(*again.arrays).astype(np.float64), again.want)
    assert not told, "it is remembered of another batch"


def test_what_is_measured_runs_in_f32(lacking, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told, case = lacking(everything), case_of("ConvTranspose")
    net = compiled(case, tune="measure")
    check(net, case)
    (group,) = net.explain().groups
    assert group.measured and {"ConvTranspose", "Convolution"} <= set(told), "all of them were tried"


def test_only_what_lacks_a_kernel_is_left_out(lacking, library_first):
    asked: list[str] = []

    def lacks(step: NativeStep) -> bool:
        asked.append(step.ops[0].kind)
        return step.ops[0].kind == "ConvTranspose"

    told, case = lacking(lacks), case_of("ConvTranspose")
    # the CPU may not be one that multiplies bf16
    with suppress(dgo.UnsupportedError):
        assert check(compiled(case), case) != "deconvolution"
    assert told == ["ConvTranspose"] and set(asked) == {"ConvTranspose", "Convolution"}


@pytest.mark.parametrize("open_sizes", [False, True])
def test_the_class_of_a_layer_is_remembered(open_sizes, lacking, library_first):
    told, case = lacking(everything), case_of("ConvTranspose")
    sizes = (None, None, None, 16) if open_sizes else case.arrays[0].shape
    graph = dgo.Graph()
    net = graph.compile(case.build(graph.input("x0", sizes, "bf16"), graph.input("x1", case.arrays[1].shape, "bf16")))
    check(net, case)
    assert told
    told.clear()
    for batch, rows in ((1, 6), (4, 9)):
        other = case_of("ConvTranspose", batch, rows)
        check(net if open_sizes else compiled(other), other)
    assert not told
    # other strides, which may have kernels
    check(compiled(case_of("Convolution")), case_of("Convolution"))
    assert told


def test_it_is_kept_for_later_processes(lacking, library_first, tmp_path, monkeypatch):
    path = tmp_path / "reference" / "keys.json"
    monkeypatch.setattr(reference, "user_file", lambda engine: path)
    told, case = lacking(everything), case_of("ConvTranspose")
    compiled(case)
    assert told and json.loads(path.read_text())["keys"]
    told.clear()
    reference.forget()  # as in a new process
    check(compiled(case), case)
    assert not told
    # of two processes that began without a file, each adds to it
    kept = json.loads(path.read_text())["keys"]
    reference._KEYS.update(dict.fromkeys(reference._KEYS, frozenset()))
    reference.remember(dgo.engine("cpu"), ["another"])
    assert json.loads(path.read_text())["keys"] == [*kept, "another"]


def test_a_file_grows_no_further_than_it_may(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    monkeypatch.setattr(reference, "user_file", lambda engine: path)
    reference.forget()
    for start in range(0, 6000, 1500):
        reference.remember(dgo.engine("cpu"), [f"{number:020}" for number in range(start, start + 1500)])
    kept = json.loads(path.read_text())["keys"]
    assert len(kept) == reference._MOST and kept[-1] == f"{5999:020}"
    reference.forget()
    assert reference.keys(dgo.engine("cpu")) == set(kept)
    reference.forget()


@pytest.mark.parametrize("text", ["{", "[]", '{"keys": [1]}', '{"keys": 1}'])
def test_a_damaged_file_is_ignored(text, tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    path.write_text(text)
    monkeypatch.setattr(reference, "user_file", lambda engine: path)
    reference.forget()
    with pytest.warns(RuntimeWarning, match="are damaged and are ignored"):
        assert reference.keys(dgo.engine("cpu")) == set()
    reference.forget()


def test_a_file_is_of_a_cpu_its_instruction_set_and_a_library(monkeypatch):
    engine = dgo.engine("cpu")
    paths = [USERS_FILE(engine)]
    monkeypatch.setattr(reference, "cpu_model", lambda: "another")
    paths.append(USERS_FILE(engine))
    monkeypatch.setattr(cpu, "isa", lambda engine: "avx2 of a test")
    paths.append(USERS_FILE(engine))
    assert len(set(paths)) == 3 and all(engine.runtime.version in path.name for path in paths)


def test_an_algorithm_that_the_user_selects_computes_in_f32(lacking):
    told, case = lacking(everything), case_of("ConvTranspose")
    net = compiled(case, algorithms={"op": "deconvolution"})
    assert check(net, case) == "deconvolution" and told and native_kinds(net)
    (group,) = net.explain().groups
    assert group.compute_dtype == "f32"


def test_products_that_the_library_alone_has_are_in_f32(lacking):
    told, graph = lacking(everything), dgo.Graph()
    a, b = graph.input("a", (2, 3, 4), "bf16"), graph.input("b", (2, 4, 5), "bf16")
    net = graph.compile(ops.matmul(a, b, name="mul"))
    x, y = (integers(np.random.default_rng(0), value.shape) for value in (a, b))
    np.testing.assert_array_equal(net(*narrow(x, y)).astype(np.float64), x @ y)
    assert "MatMul" in told and native_kinds(net) == ["MatMul"]


def test_where_nothing_else_computes_an_op_a_warning_names_the_kernel(told_of):
    told_of("dst_u8")
    graph = dgo.Graph()
    y = ops.quantize(graph.input("x", (2, 8)), scales=[0.5], dtype="u8", name="steps")
    text = r"steps of f32, u8: only a reference kernel .*\(deconvolution conv:any\+ref:any\)"
    with pytest.warns(RuntimeWarning, match=text):
        net = graph.compile(y, tune="off")
    np.testing.assert_array_equal(net(np.full((2, 8), 4, np.float32)), np.full((2, 8), 8, np.uint8))


@pytest.mark.parametrize("tune", ["heuristic", "off"])
def test_integers_are_computed_in_parts(tune, told_of, monkeypatch):
    """A partition of 8 bits that the library computes exactly, but by a reference kernel."""
    monkeypatch.setattr(exact_int8, "trusted", lambda nodes, env: True)
    told_of("wei_s8")
    rng, graph = np.random.default_rng(0), dgo.Graph()
    x, w = (rng.integers(low, high, shape).astype(t) for low, high, shape, t in (
        (0, 9, (1, 6, 6, 16), np.uint8), (-4, 5, (3, 3, 16, 16), np.int8),
    ))  # fmt: skip
    factors = (ops.dequantize(v, scales=[0.5]) for v in (graph.input("x", x.shape, "u8"), graph.constant(w)))
    y = ops.quantize(ops.convolution(*factors, **WINDOW), scales=[1.0], dtype="u8")
    net = graph.compile(y, tune=tune)
    sums = conv.forward(x, w, **WINDOW) / 4
    np.testing.assert_array_equal(net(x), np.clip(np.rint(sums), 0, 255))
    groups = [part.kinds for part in net._latest().plan.parts if isinstance(part, native.Compiled)]
    assert all("Dequantize" not in kinds for kinds in groups if "Convolution" in kinds)
    # without fast products of integers the library is not asked for a partition
    assert reference.keys(net.engine) or not (tune == "off" or Env(net.engine, 1).has_int8_products)


@pytest.mark.bench
def test_what_reading_the_log_costs():
    """At most 0.2 ms a step, of which the library takes more to compile any."""
    case = case_of("ConvTranspose")
    net = compiled(case, algorithms={"op": "deconvolution"})
    step = next(part.step for part in net._latest().plan.parts if isinstance(part, native.Compiled))
    engine = dgo.engine("cpu")

    def seconds(watched: bool) -> float:
        (given,) = native.partitioned([step], engine, "strict")
        given.watched = watched
        begin = time.perf_counter()
        native.compile_partitions(Program(), given)
        return time.perf_counter() - begin

    pairs = [(seconds(True), seconds(False)) for _ in range(60)]
    extra = median(watched - plain for watched, plain in pairs)
    print(f"{extra * 1e6:.0f} us")
    assert extra < 2e-4

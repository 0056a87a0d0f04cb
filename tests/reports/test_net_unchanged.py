"""Looking at a net never changes it: results are bit-equal before and after, and to those of a net left alone.

Each op of the table is built from random cases with every choice of operands as constants, which the library packs at
the first run of a partition, whoever runs it.
"""

import math
import pickle
from collections.abc import Callable, Iterator
from itertools import product
from random import Random

import numpy as np
import pytest
from concurrently import in_threads
from graph.dags import draw
from shapes.generate import GENERATORS, Case, inside

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops, schema
from dnnl_graph_ops.ops.build import apply

Build = Callable[[], tuple[dgo.Graph, dict[str, dgo.Value]]]
Arrays = list[np.ndarray]

CASES = (1, 20)


def texts(net, *arrays):
    explained = net.explain()
    return [
        text(item)
        for text in (str, repr)
        for item in (net, net.graph, net.partitions, net.engine, explained, explained.to_dict(), *net.inputs)
    ]


WAYS: dict[str, Callable] = {
    "explain": lambda net, *arrays: net.explain(rewrites=True),
    "profile": lambda net, *arrays: net.profile(*arrays, repeat=2),
    "benchmark": lambda net, *arrays: net.benchmark(*arrays, repeat=2),
    "partitions": lambda net, *arrays: net.partitions,
    "to_dot": lambda net, *arrays: net.to_dot(),
    "to_svg": lambda net, *arrays: net.to_svg(),
    "pickle": lambda net, *arrays: repr(pickle.loads(pickle.dumps(net))),
    "texts": texts,
    "cache_info": lambda net, *arrays: dgo.cache_info(),
}


def bits(arrays) -> list[tuple]:
    return [(a.dtype, a.shape, a.tobytes()) for a in arrays]


def called(net, arrays: Arrays) -> Arrays:
    return list(net.run(dict(zip(net.input_names, arrays, strict=True))).values())


def check(build: Build, arrays: Arrays, ways=WAYS, **options) -> None:
    """All ways of looking, before the first call and between calls."""

    def compiled():
        graph, outputs = build()
        return graph.compile(outputs, **options)

    expected, given = bits(called(compiled(), arrays)), bits(arrays)
    for way in ways:
        net = compiled()
        WAYS[way](net, *arrays)
        results = called(net, arrays)
        assert bits(results) == expected, f"{way} before the first call"
        WAYS[way](net, *arrays)
        assert bits(results) == expected, f"{way} wrote into results"
        assert bits(called(net, arrays)) == expected, f"{way} after the first call"
        assert bits(arrays) == given, f"{way} wrote into inputs"


def check_report(build: Build, arrays: Arrays, **options) -> None:
    """What explain says is what the library logs at the second call of another net."""
    (graph, outputs), (graph_2, outputs_2) = build(), build()
    net, explained = graph.compile(outputs, **options), graph_2.compile(outputs_2, **options)
    steps = explained.explain().steps
    called(net, arrays)
    with dgo.verbose() as log:
        called(net, arrays)
    executed = explained._latest().plan.executed
    ran = [(record.primitive, record.implementation) for record in log.executed()]
    # what stands by for Inf and NaN has not run
    parts = [part for part in sorted(executed) if not steps[part].step.endswith("(not all finite)")]
    assert [(one.primitive, one.implementation) for part in parts for one in executed[part]] == ran
    assert sum(step.reorders for step in steps) == [primitive for primitive, _ in ran].count("reorder")


def values(rng: np.random.Generator, shape, dtype: str) -> np.ndarray:
    """Near zero and positive, so that logarithms and variances are defined."""
    return (rng.uniform(0.1, 2.0, shape) * (4 if dtype[0] in "su" else 1)).astype(dtypes.numpy_dtype(dtype))


def constants(count: int) -> Iterator[tuple[bool, ...]]:
    """Which operands are constants: the choices in which at least one is."""
    if count <= 3:
        yield from (choice for choice in product([True, False], repeat=count) if any(choice))
    else:
        yield from ((False, *[True] * (count - 1)), (True, *[False] * (count - 1)), (True,) * count)


def of_case(kind: str, case: Case, fixed: tuple[bool, ...], float_dtype: str = "f32") -> tuple[Build, Arrays]:
    """One op, and arrays for those of its operands that are no constants."""
    rng = np.random.default_rng(len(case.shapes))
    kinds = [float_dtype if meta.dtype == "f32" else meta.dtype for meta in case.metas]
    data = [values(rng, meta.shape, dtype) for meta, dtype in zip(case.metas, kinds, strict=True)]
    data = inside(kind, case.attrs, data)

    def build():
        graph = dgo.Graph()
        operands = [
            graph.constant(array) if constant else graph.input(f"x{i}", array.shape, dtype)
            for i, (array, dtype, constant) in enumerate(zip(data, kinds, fixed, strict=True))
        ]
        made = apply(kind, operands, case.attrs, dtype=case.dtype, outputs=case.outputs, graph=graph)
        return graph, {f"y{i}": value for i, value in enumerate(made)}

    return build, [array for array, constant in zip(data, fixed, strict=True) if not constant]


def compiles(build: Build, **options) -> bool:
    """Whether the op can be asked for with these dtypes and runs here."""
    try:
        graph, outputs = build()
        graph.compile(outputs, **options)
    except (dgo.UnsupportedError, dgo.InvalidArgumentError, TypeError):
        return False
    return True


def cases_of(kind: str, request, seed: int, amount) -> Iterator[Case]:
    chosen = request.config.getoption("--case")
    for number in range(amount(*CASES)) if chosen is None else [chosen]:
        case = GENERATORS[kind](Random(f"{seed} {kind} {number}"))
        print(f"reproduce: pytest {__file__} -k {kind} --seed {seed} --case {number}\n{case}")
        yield case


KINDS = sorted(kind for kind, spec in schema.OPS.items() if spec.outputs and kind != "Wildcard")


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_op(kind, request, seed, amount):
    looked = 0
    for case in cases_of(kind, request, seed, amount):
        for fixed in constants(len(case.shapes)):
            build, arrays = of_case(kind, case, fixed)
            if compiles(build):
                looked += 1
                check(build, arrays)
                check_report(build, arrays)
    assert looked, "no case runs here"


# what is packed, and what has forms of its own
HEAVY = (
    "ConvTranspose",
    "ConvTransposeBackwardData",
    "ConvTransposeBackwardWeights",
    "Convolution",
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
    "MatMul",
)
OPTIONS = ({"tune": "off"}, {"policy": "debug"}, {"algorithm": "direct"})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", HEAVY)
def test_other_options(kind, options, request, seed, amount):
    for case in cases_of(kind, request, seed, amount):
        build, arrays = of_case(kind, case, (False, *[True] * (len(case.shapes) - 1)))
        check(build, arrays, ["explain", "profile", "benchmark"], **options)
        check_report(build, arrays, **options)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_dtypes(kind, dtype, request, seed, amount):
    looked = 0
    for case in cases_of(kind, request, seed, amount):
        build, arrays = of_case(kind, case, (False, *[True] * (len(case.shapes) - 1)), dtype)
        if compiles(build):
            looked += 1
            check(build, arrays, ["explain", "profile"])
            check_report(build, arrays)
    if not looked:
        pytest.skip("not with this dtype")


def block(ic=8, oc=16):
    """Convolutions with constants of several ops: a residual block, an upsampling, a product."""
    rng = np.random.default_rng(3)

    def some(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    graph = dgo.Graph()
    x = graph.input("x", (2, 12, 12, ic))
    same = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "weights_format": "XIO"}
    left = ops.relu(ops.convolution(x, some(3, 3, ic, oc), some(oc), **same))
    left = ops.convolution(left, some(3, 3, oc, ic), **same)
    affine = [some(ic) ** 2 + 0.1 for _ in range(4)]
    both = ops.relu(ops.add(ops.batch_norm_inference(left, *affine, epsilon=1e-3), x))
    up = ops.sigmoid(ops.conv_transpose(both, some(4, 4, oc, ic), some(oc), strides=2, pads_begin=1, pads_end=1))
    return graph, {"y": ops.gelu(ops.add(ops.matmul(up, some(oc, 5)), some(5))), "up": up}


def quantized():
    rng = np.random.default_rng(4)
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (2, 6, 6, 8), "u8"), scales=[0.1], zps=[3])
    weights = graph.constant(rng.integers(-9, 10, (3, 3, 8, 12)).astype(np.int8))
    w = ops.dequantize(weights, scales=[0.05], zps=[0])
    sizes = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    y = ops.relu(ops.convolution(x, w, rng.random(12).astype(np.float32), weights_format="XIO", **sizes))
    matrix = ops.dequantize(graph.constant(rng.integers(-9, 10, (12, 7)).astype(np.int8)), scales=[0.1], zps=[0])
    return graph, {"y": ops.quantize(y, scales=[0.2], zps=[5], dtype="u8"), "z": ops.matmul(y, matrix)}


MODELS = {
    "block": (block, lambda rng: rng.standard_normal((2, 12, 12, 8)).astype(np.float32)),
    "quantized": (quantized, lambda rng: rng.integers(0, 200, (2, 6, 6, 8)).astype(np.uint8)),
}


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("options", ({}, *OPTIONS, {"tune": "off", "policy": "debug"}), ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models(name, options, rng):
    build, make = MODELS[name]
    arrays = [make(rng)]
    check(build, arrays, **options)
    check_report(build, arrays, **options)


@pytest.mark.parametrize("number", range(12))
def test_random_graphs(number, seed):
    print(f"pytest {__file__} -k random --seed {seed}")
    fpmath = ("strict", "bf16", "any")[number % 3]

    def build():
        dag = draw(seed, number, fpmath_mode=fpmath)
        made = [value for value in dag.data if value.node is not None]
        return dag.graph, {f"y{i}": value for i, value in enumerate((*made[-3:], made[len(made) // 2]))}

    data = draw(seed, number, fpmath_mode=fpmath).data
    by_name = {value.name: array for value, array in data.items()}
    graph, outputs = build()
    options = {"tune": ("heuristic", "off")[number % 2], "policy": ("fusion", "fusion", "debug")[number % 3]}
    arrays = [by_name[name] for name in graph.compile(outputs, **options).input_names]
    check(build, arrays, ["explain", "profile", "benchmark"], **options)
    check_report(build, arrays, **options)


def passed_through():
    graph = dgo.Graph()
    x = graph.input("x", (3, 4))
    return graph, {"same": x, "constant": graph.constant(np.arange(3, dtype=np.float32)), "y": ops.relu(x)}


def empty():
    graph = dgo.Graph()
    return graph, {"y": ops.matmul(graph.input("x", (0, 4)), np.ones((4, 5), np.float32))}


def on_numbers():
    graph = dgo.Graph()
    return graph, {"y": ops.multiply(graph.input("x", ()), np.float32(3.0))}


def twice_the_same():
    graph = dgo.Graph()
    x, weights = graph.input("x", (4, 4)), graph.constant(np.eye(4, dtype=np.float32) * 2)
    first = ops.matmul(x, weights)
    return graph, {"y": ops.matmul(first, weights), "first": first, "square": ops.matmul(x, x)}


def in_numpy():
    """An op that no kernel of the library does here."""
    graph = dgo.Graph()
    return graph, {"y": ops.pow(ops.static_transpose(graph.input("x", (3, 4)), order=[1, 0]), beta=1.5)}


EDGES = {passed_through: (3, 4), empty: (0, 4), on_numbers: (), twice_the_same: (4, 4), in_numpy: (3, 4)}


@pytest.mark.parametrize("build", EDGES)
def test_edges(build, rng):
    arrays = [rng.random(EDGES[build]).astype(np.float32)]
    check(build, arrays)
    check_report(build, arrays)


def test_unknown_sizes(rng):
    """Looking before there is a plan, and at the plan of another size."""
    x, other = (rng.random((rows, 8)).astype(np.float32) for rows in (3, 5))
    for way in WAYS:
        net = flexible()
        if way not in ("explain", "texts"):
            WAYS[way](net, other)
        else:
            with pytest.raises(dgo.InvalidArgumentError, match="has no plan"):
                WAYS[way](net, other)
        assert bits([net(x)]) == bits([x])
        WAYS[way](net, other)
        assert bits([net(x), net(other)]) == bits([x, other])


def test_explain_leaves_no_memory():
    """Neither what it compiled nor what the library packed for that: 16 MB of weights each time."""

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    graph = dgo.Graph()
    weights = np.ones((2048, 2048), np.float32)
    net = graph.compile(ops.matmul(graph.input("x", (2, 2048)), weights))
    net.explain()
    before = resident()
    for _ in range(10):
        net._latest().plan.executed.clear()
        net.explain()
    assert resident() - before < 64 << 20


def test_explain_before_the_first_call():
    graph = dgo.Graph()
    net = graph.compile(ops.matmul(graph.input("x", (4, 32)), np.eye(32, dtype=np.float32)))
    net.explain()
    assert (net(np.ones((4, 32), np.float32)) == 1).all()


@pytest.mark.parametrize("shape", [(6, 8), (8, 6)])
def test_inputs_of_every_layout(shape, rng):
    """What lies between the elements of a view is not touched either."""
    graph = dgo.Graph()
    net = graph.compile(ops.matmul(graph.input("x", shape), rng.random((shape[1], 4)).astype(np.float32)))
    whole = rng.random((2 * shape[0], 3 * shape[1])).astype(np.float32)
    before = whole.copy()
    view = whole[::2, ::3]
    expected = bits([net(view.copy())])
    for way in WAYS:
        WAYS[way](net, view)
        assert bits([net(view)]) == expected
    assert bits([whole]) == bits([before])


@pytest.mark.choice
def test_threads_that_explain_while_others_call(rng):
    """Nobody's results change, and nobody's primitives are taken for those of the explained net."""
    arrays = [MODELS["block"][1](rng)]
    graph, outputs = block()
    alone = graph.compile(outputs)
    expected = bits(called(alone, arrays))
    steps = alone.explain().steps
    nets = []
    for _ in range(3):
        graph, outputs = block()
        nets.append(graph.compile(outputs))

    def work(index):
        for turn in range(12):
            net = nets[(index + turn) % len(nets)]
            if index % 2:
                assert net.explain().steps == steps
                net._latest().plan.executed.clear()
            else:
                assert bits(called(net, arrays)) == expected

    in_threads(4, work)


def test_explain_twice_costs_once():
    graph, outputs = block()
    net = graph.compile(outputs)
    net.explain()
    with dgo.verbose(2) as log:
        net.explain()
    assert not [record for record in log.records if record.event.startswith(("exec", "create"))]


# -- which plan is described


def flexible():
    graph = dgo.Graph()
    return graph.compile(ops.matmul(graph.input("x", (None, 8)), np.eye(8, dtype=np.float32)))


def rows(net) -> int:
    """Of what the explained plan reads, which has 8 columns."""
    return math.prod(map(int, net.explain().steps[0].reads[0].split()[1].split("x"))) // 8


def strided_call(net, x):
    return net(np.repeat(x, 2, axis=1)[:, ::2])


CALLS = {
    "call": lambda net, x: net(x),
    "out": lambda net, x: net(x, out=np.empty_like(x)),
    "strided": strided_call,
    "run": lambda net, x: net.run({"x": x}),
    "submit": lambda net, x: net.submit(x).result(),
    "profile": lambda net, x: net.profile(x, repeat=1),
    "benchmark": lambda net, x: net.benchmark(x, repeat=1),
}


@pytest.mark.parametrize("how", CALLS)
def test_the_plan_that_ran_last_is_described(how):
    net = flexible()
    for count in (2, 3, 4, 2, 4, 3, 3, 2):
        CALLS[how](net, np.ones((count, 8), np.float32))
        assert rows(net) == count
        for other in CALLS:
            CALLS[other](net, np.ones((5, 8), np.float32))
        assert rows(net) == 5


def test_many_shapes():
    """What a plan does is found out again where another one was made since."""
    net = flexible()
    for count in range(1, 100):
        net(np.ones((count, 8), np.float32))
    assert net.plan_count() == 99
    for count in (2, 99, 50):
        net(np.ones((count, 8), np.float32))
        assert rows(net) == count
        assert net._latest() is net._latest()
    assert net.plan_count() == 99


@pytest.mark.slow
def test_more_arrays_than_the_fast_path_takes():
    graph = dgo.Graph()
    inputs = [graph.input(f"x{i}", (None, 8)) for i in range(513)]
    net = graph.compile(ops.concat(*(ops.concat(*inputs[i : i + 57], axis=1) for i in range(0, 513, 57)), axis=1))
    assert net._latest() is None
    for count in (2, 3, 2):
        net(*[np.ones((count, 8), np.float32)] * 513)
        assert rows(net) == count
    assert net.plan_count() == 2


@pytest.mark.usefixtures("one_thread")
def test_large_resamplings_are_looked_at():
    """explain() runs them on arrays of its own: oneDNN 3.2 ends in SIGSEGV where these are not aligned."""
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    first, last = (np.ones((channels, 64, 1, 1), np.float32) for channels in (64, 4))
    graph = dgo.Graph()
    y = ops.convolution(graph.input("x", (1, 64, 128, 128)), first, **formats)
    y = ops.interpolate(y, mode="nearest", sizes=[256, 256], data_format="NCX")
    net = graph.compile(ops.convolution(y, last, **formats))
    assert "Interpolate" in str(net.explain())

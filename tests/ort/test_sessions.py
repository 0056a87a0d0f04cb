"""The execution provider in sessions of ONNX Runtime."""

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.onnxruntime import provider
from dnnl_graph_ops.onnxruntime.session_graph import arrays_of

from .sessions import CPU, cpu, dgr, executed, helper, model, onnxruntime, ours

NAME = dgr.get_ep_name()


def whole(rng, *shape):
    return rng.integers(-2, 3, shape).astype(np.float32)


def block(rng, size=("n", 16, "h", "w"), scale=1.0):
    """A transposed and a plain convolution with their neighbours: exact on small integers."""
    up, down = whole(rng, 16, 16, 2, 2), whole(rng, 16, 16, 5, 5)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "up"], ["a"], "first", strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("Conv", ["b", "down"], ["c"], "third", pads=[2, 2, 2, 2]),
        helper.make_node("Add", ["c", "b"], ["y"], "last"),
    ]
    return model(nodes, {"x": size}, ["y"], {"up": up * np.float32(scale), "down": down})


def check(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_a_group_runs_here_as_one_node(rng, tmp_path):
    """Results equal those of the CPU provider exactly, as all sums are of small integers."""
    source, feeds = block(rng, (1, 16, 24, 24)), {"x": whole(rng, 1, 16, 24, 24)}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert set(ran) == {NAME}
    assert len(ran[NAME]) == 1


def test_new_sizes(rng):
    source = block(rng)
    session, expected = ours(source), cpu(source)
    for size in ((1, 16, 24, 24), (2, 16, 9, 7), (1, 16, 24, 24), (3, 16, 1, 30)):
        feeds = {"x": whole(rng, *size)}
        check(session.run(None, feeds), expected.run(None, feeds))


def test_a_small_group_is_left(rng, tmp_path):
    """A call of it would cost more than it gains."""
    source = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 8)}, ["y"], {})
    feeds = {"x": whole(rng, 1, 8)}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert set(ran) == {CPU[0]}


def test_a_convolution_of_few_products_is_left(rng, tmp_path):
    """Between nodes that stay, what crosses the border of the group takes longer than it saves."""
    for kernel, channels, count in ((1, 64, 0), (3, 16, 0), (3, 64, 1)):
        w = whole(rng, channels, channels, kernel, kernel)
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4)]
        source = model(nodes, {"x": (1, channels, 40, 40)}, ["y"], {"w": w})
        feeds = {"x": whole(rng, 1, channels, 40, 40)}
        results, ran = executed(source, feeds, tmp_path)
        check(results, cpu(source).run(None, feeds))
        assert len(ran[NAME]) == count


@pytest.mark.parametrize(
    ("made", "kernel", "claimed"), [(64, (2, 2), True), (3, (4, 4), False), (20, (2, 2), False), (32, (2, 2, 2), True)]
)
def test_a_transposed_convolution_is_claimed_by_its_columns(made, kernel, claimed, rng, tmp_path):
    """ONNX Runtime adds up columns of the result's elements; few channels fill no vector here."""
    w = whole(rng, 64, made, *kernel)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2] * len(kernel))
    shape = (1, 64, *[48 if len(kernel) == 2 else 12] * len(kernel))
    source, feeds = model([node], {"x": shape}, ["y"], {"w": w}), {"x": whole(rng, *shape)}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert len(ran[NAME]) == claimed


@pytest.mark.parametrize("dilation", [1, 2])
def test_a_dilated_convolution_alone_is_left(dilation, rng, tmp_path):
    w = whole(rng, 64, 64, 3, 3)
    node = helper.make_node("Conv", ["x", "w"], ["y"], dilations=[dilation] * 2)
    source, feeds = model([node], {"x": (1, 64, 40, 40)}, ["y"], {"w": w}), {"x": whole(rng, 1, 64, 40, 40)}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert len(ran[NAME]) == (dilation == 1)


@pytest.mark.parametrize(("function", "claimed"), [("Relu", False), ("HardSwish", True)])
def test_functions_that_onnxruntime_fuses_save_nothing(function, claimed, rng, tmp_path):
    """Pointwise convolutions are as fast there, with the functions of its fused convolutions."""
    names, nodes = ["x", *"abcd", "y"], []
    for i, (one, other) in enumerate(itertools.pairwise(names)):
        nodes += [helper.make_node("Conv", [one, "w"], [f"c{i}"]), helper.make_node(function, [f"c{i}"], [other])]
    source = model(nodes, {"x": (1, 64, 40, 40)}, ["y"], {"w": whole(rng, 64, 64, 1, 1) / 64})
    results, ran = executed(source, {"x": whole(rng, 1, 64, 40, 40)}, tmp_path)
    assert results[0].shape == (1, 64, 40, 40)
    assert len(ran[NAME]) == claimed


def test_a_product_that_reads_weights_is_left(rng, tmp_path):
    """Of one row: it takes longer here. One of many rows is in the group of its convolution."""
    for rows in (1, 4):
        w, v = whole(rng, 64, 64, 3, 3), whole(rng, 1024, 1024)
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
            helper.make_node("Reshape", ["a", "size"], ["b"]),
            helper.make_node("ReduceMean", ["b"], ["c"], axes=[1], keepdims=0),
            helper.make_node("MatMul", ["c", "v"], ["y"]),
        ]
        arrays = {"w": w, "v": v, "size": np.int64([rows, -1, 1024])}
        source = model(nodes, {"x": (1, 64, 64, 64)}, ["y"], arrays)
        results, ran = executed(source, {"x": whole(rng, 1, 64, 64, 64)}, tmp_path)
        assert results[0].shape == (rows, 1024)
        assert ("MatMul" in ran[CPU[0]]) == (rows == 1)


def test_sums_of_many_are_within_a_group(rng, tmp_path):
    """Sum of old exporters, where others write Add."""
    w = whole(rng, 64, 64, 3, 3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Sum", ["a", "x"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1] * 4),
    ]
    source, feeds = model(nodes, {"x": (1, 64, 24, 24)}, ["y"], {"w": w}), {"x": whole(rng, 1, 64, 24, 24)}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert len(ran[NAME]) == 1 and not ran[CPU[0]]


def test_single_nodes(rng, monkeypatch, tmp_path):
    """EP=all claims each node that a plan computes, as a group of its own."""
    monkeypatch.setenv("DNNL_GRAPH_OPS_EP", "all")
    source, feeds = block(rng), {"x": whole(rng, 1, 16, 5, 5)}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert len(ran[NAME]) == 4


def test_nodes_behind_a_wrong_inference_stay(monkeypatch):
    """Of the positions of a number that is not 0 inference says that there are none; ONNX Runtime gives one."""
    monkeypatch.setenv("DNNL_GRAPH_OPS_EP", "all")
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=1),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Add", ["c", "c"], ["y"]),
    ]
    source, feeds = model(nodes, {"x": ()}, ["y"], {}), {"x": np.array(3, np.float32)}
    check(ours(source).run(None, feeds), cpu(source).run(None, feeds))


def test_nodes_behind_windows_that_onnxruntime_drops_stay(monkeypatch):
    """Its inference counts a window that begins beyond the data, its kernel does not."""
    monkeypatch.setenv("DNNL_GRAPH_OPS_EP", "all")
    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], ceil_mode=1, kernel_shape=[1, 3], strides=[2, 3]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Unsqueeze", ["b", "axis"], ["y"]),
    ]
    source = model(nodes, {"x": (1, 1, 4, 4)}, ["y"], {"axis": np.int64([-4])})
    feeds = {"x": np.ones((1, 1, 4, 4), np.float32)}
    check(ours(source).run(None, feeds), cpu(source).run(None, feeds))


def test_what_has_no_kernel_stays(rng, tmp_path):
    """NonZero between two convolutions: groups on both sides of it."""
    source = model(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("NonZero", ["a"], ["places"]),
            helper.make_node("ReduceMax", ["places"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["number"], to=1),
            helper.make_node("Mul", ["a", "number"], ["b"]),
            helper.make_node("Conv", ["b", "w"], ["y"], pads=[1, 1, 1, 1]),
        ],
        {"x": (1, 64, 40, 40)},
        ["y"],
        {"w": whole(rng, 64, 64, 3, 3)},
    )  # fmt: skip
    feeds = {"x": np.sign(whole(rng, 1, 64, 40, 40))}
    results, ran = executed(source, feeds, tmp_path)
    check(results, cpu(source).run(None, feeds))
    assert len(ran[NAME]) == 2
    assert "NonZero" in ran[CPU[0]]


def test_bodies_of_conditions_stay(rng, tmp_path):
    """The branches of an If have equal names; the graph around them is claimed."""
    weights = {"w": whole(rng, 64, 64, 3, 3)}
    info = helper.make_tensor_value_info("r", 1, None)

    def branch(kind):
        nodes = [helper.make_node("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node(kind, ["c"], ["r"])]
        return helper.make_graph(nodes, kind, [], [info])

    source = model(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
            helper.make_node("Greater", ["m", "zero"], ["is"]),
            helper.make_node("If", ["is"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")),
        ],
        {"x": (1, 64, 32, 32)},
        ["y"],
        weights | {"zero": np.array(0, np.float32)},
    )
    expected = cpu(source)
    for sign in (1, -1):
        feeds = {"x": sign * np.abs(whole(rng, 1, 64, 32, 32))}
        results, ran = executed(source, feeds, tmp_path)
        check(results, expected.run(None, feeds))
        assert len(ran[NAME]) == 1


def test_wrong_sizes_are_an_error_of_the_run(rng):
    """The message is this package's; the session goes on."""
    w = whole(rng, 16, 16, 7, 7)
    source = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": ("n", 16, "h", "w")}, ["y"], {"w": w})
    session = ours(source)
    with pytest.raises(Exception, match=r"Conv|y") as told:
        session.run(None, {"x": whole(rng, 1, 16, 5, 30)})
    assert "Traceback" not in str(told.value)
    feeds = {"x": whole(rng, 1, 16, 30, 30)}
    check(session.run(None, feeds), cpu(source).run(None, feeds))


def test_threads(rng):
    """Many threads call one session with several sizes at once."""
    source = block(rng)
    session, expected = ours(source), cpu(source)
    feeds = [{"x": whole(rng, 1, 16, size, 8)} for size in (4, 8, 12, 16)]
    results = [expected.run(None, one) for one in feeds]
    start = threading.Barrier(8)

    def call(number):
        start.wait()
        for i in range(12):
            check(session.run(None, feeds[(number + i) % 4]), results[(number + i) % 4])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))


@pytest.mark.slow
def test_sessions_are_released_in_any_order(rng):
    source, feeds = block(rng), {"x": whole(rng, 1, 16, 6, 6)}
    sessions = [ours(source) for _ in range(6)]
    expected = cpu(source).run(None, feeds)
    for at in (3, 0, 2, 0, 1, 0):
        check(sessions[at].run(None, feeds), expected)
        del sessions[at]
        gc.collect()


def test_plans_of_sizes_leave_with_the_cache(rng, monkeypatch, limit):
    """A group holds no plan that the package's limit of memory, or the caller, has removed."""
    plans, real = [], provider.plan_for

    def plan_for(*args):
        plan = real(*args)
        plans.append(weakref.ref(plan))
        return plan

    def alive():
        return sum(plan() is not None for plan in plans)

    monkeypatch.setattr(provider, "plan_for", plan_for)
    source = block(rng)
    session, expected = ours(source), cpu(source)
    feeds = [{"x": whole(rng, 1, 16, size, 8)} for size in (4, 8, 12, 16)]
    results = [expected.run(None, one) for one in feeds]
    for _ in range(2):
        for one, right in zip(feeds, results, strict=True):
            check(session.run(None, one), right)
    assert len(plans) == alive() == 4
    dgo.clear_caches()
    assert alive() == 0
    check(session.run(None, feeds[0]), results[0])
    limit(1)
    for one, right in zip(feeds, results, strict=True):
        check(session.run(None, one), right)
    # the one used last is always kept
    assert alive() == 1


def seen_threads(monkeypatch):
    """Numbers of threads that plans of later runs are made for."""
    seen, real = [], provider.plan_for

    def plan_for(*args):
        seen.append(dgo.get_num_threads())
        return real(*args)

    monkeypatch.setattr(provider, "plan_for", plan_for)
    return seen


def with_threads(options, **settings):
    options.add_provider_for_devices(dgr.register(), settings)
    return options


def test_threads_of_the_provider(rng, monkeypatch):
    seen = seen_threads(monkeypatch)
    source, feeds = block(rng), {"x": whole(rng, 1, 16, 24, 24)}
    expected, before = cpu(source).run(None, feeds), dgo.get_num_threads()
    for number in ("1", "3"):
        session = onnxruntime.InferenceSession(source, with_threads(onnxruntime.SessionOptions(), threads=number))
        check(session.run(None, feeds), expected)
        check(session.run(None, feeds), expected)
    with dgo.Pool(1, threads=2) as pool:
        # the pool's number is for all calls that it runs
        check(pool.submit(session.run, None, feeds).result(), expected)
    assert seen == [1, 3, 2] and dgo.get_num_threads() == before


@pytest.mark.parametrize("number", ["0", "-1", "many", "1.5", "1 ", "5000", "9" * 40, ""])
def test_no_number_of_threads(rng, number):
    options = with_threads(onnxruntime.SessionOptions(), threads=number)
    with pytest.raises(Exception, match="'threads' is a number from 1 to 4096"):
        # ONNX Runtime 1.23 would go on with the CPU alone
        onnxruntime.InferenceSession(block(rng), options, enable_fallback=0)


def test_install_gives_the_sessions_number(rng, monkeypatch):
    seen = seen_threads(monkeypatch)
    source, feeds = block(rng), {"x": whole(rng, 1, 16, 24, 24)}
    expected = cpu(source).run(None, feeds)
    with dgr.install():
        for number in (1, 3):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = number
            check(onnxruntime.InferenceSession(source, options, CPU).run(None, feeds), expected)
    assert seen == [1, 3]


def test_registered_once():
    assert [device.ep_name for device in dgr.register()] == [NAME]
    assert len(dgr.register()) == 1
    assert dgr.get_library_path().endswith(".so")
    assert dgo.info()["onnxruntime"] == {
        "provider": NAME,
        "library": dgr.get_library_path(),
        "version": metadata.version("onnxruntime"),
    }


def test_install(rng):
    """Sessions that ask for the CPU alone have the provider in front; others, and later ones, are as they were."""
    source, feeds = block(rng), {"x": whole(rng, 1, 16, 6, 6)}
    before = onnxruntime.InferenceSession.__init__
    with dgr.install():
        with dgr.install():
            pass
        shared = onnxruntime.SessionOptions()
        made = [
            onnxruntime.InferenceSession(source, providers=CPU),
            onnxruntime.InferenceSession(source, shared, CPU),
            onnxruntime.InferenceSession(source, shared, CPU),
            onnxruntime.InferenceSession(source, providers=[(CPU[0], {"arena_extend_strategy": "kSameAsRequested"})]),
            onnxruntime.InferenceSession(source, providers=CPU, provider_options=[{}]),
        ]
    assert onnxruntime.InferenceSession.__init__ is before
    assert [session.get_providers()[0] for session in made] == [NAME] * 5
    assert cpu(source).get_providers() == CPU
    expected = cpu(source).run(None, feeds)
    for session in made:
        check(session.run(None, feeds), expected)


def test_constants_are_copied_once(rng):
    """A graph takes the copies of ONNX Runtime's memory as they are, large and small ones."""
    given = [rng.standard_normal(shape).astype(np.float32) for shape in ((64, 64, 3, 3), (3,), (), (0, 3))]
    copies = arrays_of([(1, array.shape, memoryview(array.tobytes())) for array in given])
    for array, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(copy, array)
        assert not copy.size or np.shares_memory(dgo.Graph().constant(copy).constant, copy)

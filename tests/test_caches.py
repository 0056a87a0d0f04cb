"""The caches of plans as a whole: what they count, and what bounds them."""

import gc
from math import prod

import numpy as np
import pytest
from concurrently import in_threads

import dnnl_graph_ops as dgo
from dnnl_graph_ops import caches, ops
from dnnl_graph_ops.net import net as module
from dnnl_graph_ops.program.program import Place

CHANNELS = 16


def upsample(weights, **options):
    graph = dgo.Graph()
    src = graph.input("src", (1, None, None, CHANNELS))
    up = ops.conv_transpose(src, graph.constant(weights), strides=2, name="up")
    return graph.compile(ops.relu(up), **options)


def ones(*shape):
    return np.ones(shape, np.float32)


WEIGHTS = ones(2, 2, 8, CHANNELS)


def correct(result):
    return result.size and (result == CHANNELS).all()


def test_a_plan_counts_once(limit):
    """It serves calls with and without out=."""
    net, src = upsample(WEIGHTS), ones(1, 3, 3, CHANNELS)
    (name,) = net.output_names
    for _ in range(2):
        assert correct(net(src))
        assert correct(net(src, out=np.full((1, 6, 6, 8), np.nan, np.float32)))
        assert correct(net.run({"src": src}, {name: np.empty((1, 6, 6, 8), np.float32)})[name])
        assert correct(dgo.conv_transpose(src, WEIGHTS, strides=2))
        assert correct(dgo.conv_transpose(src, WEIGHTS, strides=2, out=np.full((1, 6, 6, 8), np.nan, np.float32)))
    assert net.plan_count() == 1
    assert dgo.cache_info()["net_plans"] == 1
    assert dgo.cache_info()["size"] == 1


def test_attributes_that_only_python_can_read_are_found_in_the_same_plan(limit):
    src = ones(1, 3, 3, CHANNELS)
    expected = dgo.conv_transpose(src, WEIGHTS, strides=(2, 2))
    for strides in ([2, 2], np.array([2, 2]), (np.int64(2), 2)):
        for out in (None, np.full_like(expected, np.nan)):
            result = dgo.conv_transpose(dgo.to_dlpack(src), WEIGHTS, strides=strides, out=out)
            assert out is None or result is out
            np.testing.assert_array_equal(result, expected)
    assert dgo.cache_info()["size"] == 1


def test_bytes_add_up_and_go_with_the_net(limit):
    before = dgo.cache_info()["bytes"]
    net = upsample(ones(4, 4, 64, CHANNELS), algorithms={"up": "deconvolution"})
    for size in (3, 4, 5):
        net(ones(1, size, size, CHANNELS))
    info = dgo.cache_info()["bytes"]
    parts = {name: info[name] for name in ("constants", "library", "objects", "shared_scratch")}
    assert info["total"] == sum(parts.values())
    # weights that the library packs, once in each plan
    assert parts["constants"] + parts["library"] >= 3 * prod((4, 4, 64, CHANNELS)) * 4
    del net
    gc.collect()
    dgo.clear_caches()
    assert {**dgo.cache_info()["bytes"], "shared_scratch": 0} == {**before, "shared_scratch": 0}


def test_a_small_limit_keeps_the_plan_used_last(limit):
    limit(0)
    net, other = upsample(WEIGHTS), upsample(WEIGHTS)
    for size in (3, 4, 5, 3):
        assert correct(net(ones(1, size, size, CHANNELS)))
        assert correct(other(ones(1, size + 1, size, CHANNELS)))
        assert correct(dgo.conv_transpose(ones(1, size, size, CHANNELS), WEIGHTS, strides=2))
        for each, rows in ((net, 2 * size), (other, 2 * size + 2)):
            written = {view for part in each._latest().plan.parts for view in part.writes}
            (result,) = (view for view in written if view.buffer.place is Place.OUTPUT)
            assert result.size == rows * 2 * size * 8
        assert net.explain().partitions
        assert net.plan_count() == other.plan_count() == dgo.cache_info()["size"] == 1
    limit(None)
    for size in (4, 5):
        net(ones(1, size, size, CHANNELS))
    assert net.plan_count() == 3


def test_no_plan_within_the_limits_is_made_twice(limit, monkeypatch):
    made, real = [], module.Net._executor
    monkeypatch.setattr(module.Net, "_executor", lambda *args: made.append(1) or real(*args))
    graph = dgo.Graph()
    net = graph.compile(ops.relu(graph.input("x", (None,))))
    for _ in range(2):
        for size in range(1, 1001):
            net(ones(size))
            net(ones(size), out=ones(size))
    assert len(made) == net.plan_count() == 1000


def test_threads_under_a_limit(limit):
    """Plans are dropped while others run them."""
    net = upsample(WEIGHTS)

    def work(number):
        for step in range(30):
            size = 2 + (number + step) % 5
            assert correct(net(ones(1, size, 3, CHANNELS)))
            assert correct(dgo.conv_transpose(ones(1, size, 2, CHANNELS), WEIGHTS, strides=2))
            limit(0 if step % 3 else None)

    in_threads(4, work)


@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, dgo.InvalidArgumentError), (1 << 63, dgo.InvalidArgumentError), (1.5, TypeError), (True, TypeError)],
)
def test_wrong_limits(value, error):
    with pytest.raises(error, match="'bytes'"):
        caches.set_cache_limit(value)


@pytest.mark.parametrize(
    ("text", "bytes"),
    [("2GB", 2 * 10**9), ("512MiB", 512 << 20), ("1.5k", 1500), (" 7 ", 7), ("0", 0), ("3 tib", 3 << 40), ("9b", 9)],
)
def test_limits_as_text(limit, text, bytes):
    limit(text)
    assert dgo.cache_info()["bytes"]["limit"] == bytes


@pytest.mark.parametrize("text", ["", "GB", "-1", "1e9", "2 GB each", "nan", "2PB", "9" * 30])
def test_texts_that_are_no_limit(text):
    with pytest.raises(dgo.InvalidArgumentError, match="'bytes'"):
        dgo.set_cache_limit(text)

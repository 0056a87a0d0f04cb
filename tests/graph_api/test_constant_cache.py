"""Constant inputs, with the library's cache of what it packs of them and without."""

import gc

import numpy as np
import pytest
from concurrently import in_threads
from reference.conv_transpose import forward
from reference.data import integers, unwritten

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import (
    engine,
    get_constant_tensor_cache,
    get_constant_tensor_cache_capacity,
    op,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache,
    set_constant_tensor_cache_capacity,
    stream,
    tensor,
)

from .common import LT, RUNTIMES, cpu, runtime_or_skip, single, strided

X, Y = strided(0, [1, 4, 4, 8]), strided(2, [1, 4, 4, 8])
W = strided(1, [3, 3, 8, 8], ptype=LT.constant)
DATA = integers(np.random.default_rng(3), [1, 4, 4, 8])


@pytest.fixture(params=RUNTIMES)
def runtime(request):
    """A library whose settings are as they were afterwards."""
    name = runtime_or_skip(request.param)
    yield name
    set_constant_tensor_cache(False, name)
    set_compiled_partition_cache_capacity(0, name)


def conv(runtime):
    o = op(0, op.ConvTranspose, [X, W], [Y])
    for name, value in {"strides": 1, "dilations": 1, "pads_begin": 1, "pads_end": 1}.items():
        o.set_attr(op.attr[name], [value] * 2)
    return single(o, runtime)


def compile_(part, runtime):
    return part.compile([X, W], [Y], cpu(runtime))


def weights(seed):
    return integers(np.random.default_rng(seed), [3, 3, 8, 8])


def call(cp, w, runtime):
    out, e = unwritten((1, 4, 4, 8)), cpu(runtime)
    s = stream(e)
    cp.execute(s, [tensor(X, e, DATA), tensor(W, e, w)], [tensor(Y, e, out)])
    s.wait()
    return out


def check(cp, w, runtime):
    np.testing.assert_array_equal(call(cp, w, runtime), forward(DATA, w, pads_begin=1, pads_end=1))


def test_constants_are_variables_by_default(runtime):
    assert get_constant_tensor_cache(runtime) is False
    cp, w = compile_(conv(runtime), runtime), weights(1)
    check(cp, w, runtime)
    check(cp, weights(2), runtime)
    w += 1
    check(cp, w, runtime)


def test_another_address_is_refused(runtime):
    set_constant_tensor_cache(True, runtime)
    assert get_constant_tensor_cache(runtime) is True
    cp, w = compile_(conv(runtime), runtime), weights(1)
    check(cp, w, runtime)
    with pytest.raises(dgo.InvalidArgumentError, match=r"input 1 is a constant.*another address"):
        call(cp, w.copy(), runtime)
    check(cp, w, runtime)


def test_it_concerns_later_compiles_of_one_library(runtime):
    part = conv(runtime)
    before = compile_(part, runtime)
    set_constant_tensor_cache(1, runtime)
    assert not any(get_constant_tensor_cache(name) for name in {"omp"} - {runtime})
    during, w = compile_(part, runtime), weights(1)
    check(during, w, runtime)
    set_constant_tensor_cache(0, runtime)
    after = compile_(part, runtime)
    for cp in (before, after):
        check(cp, weights(2), runtime)
        check(cp, weights(3), runtime)
    check(during, w, runtime)
    with pytest.raises(dgo.InvalidArgumentError):
        call(during, weights(2), runtime)


def test_each_compiled_partition_has_its_own(runtime):
    set_constant_tensor_cache(True, runtime)
    part = conv(runtime)
    pairs = [(compile_(part, runtime), weights(i)) for i in range(3)]
    for _ in range(2):
        for cp, w in pairs:
            check(cp, w, runtime)


def test_each_has_its_own_beside_a_cache_of_compiled_partitions(runtime):
    """In oneDNN 3.2 the second one had the first one's weights."""
    set_compiled_partition_cache_capacity(64, runtime)
    test_each_compiled_partition_has_its_own(runtime)


def test_compiling_again_takes_new_elements(runtime):
    """In oneDNN 3.13 these were the old ones where the address was the same."""
    set_constant_tensor_cache(True, runtime)
    part, w = conv(runtime), weights(1)
    for capacity in (0, 64):
        set_compiled_partition_cache_capacity(capacity, runtime)
        for _ in range(3):
            w += 1
            check(compile_(part, runtime), w, runtime)


def test_the_memory_of_constants_is_kept(runtime):
    set_constant_tensor_cache(True, runtime)
    cp, w = compile_(conv(runtime), runtime), weights(1)
    check(cp, w, runtime)
    expected, address = call(cp, w, runtime), w.ctypes.data
    del w
    gc.collect()
    assert address not in {weights(i).ctypes.data for i in range(20)}
    e, out = cpu(runtime), unwritten((1, 4, 4, 8))
    cp.execute(stream(e), [tensor(X, e, DATA), tensor(W, e, address)], [tensor(Y, e, out)])
    np.testing.assert_array_equal(out, expected)


def test_a_refused_execution_settles_nothing(runtime):
    set_constant_tensor_cache(True, runtime)
    cp, e = compile_(conv(runtime), runtime), cpu(runtime)
    with pytest.raises(dgo.InvalidArgumentError):
        cp.execute(stream(e), [tensor(Y, e), tensor(W, e, weights(1))], [tensor(Y, e)])
    with pytest.raises(dgo.InvalidArgumentError, match="got 0 inputs"):
        cp.execute(stream(e), [], [tensor(Y, e)])
    with pytest.raises(TypeError):
        cp.execute(stream(e), [None, None], [tensor(Y, e)])
    check(cp, weights(2), runtime)


def test_several_threads_at_the_first_execution(runtime):
    """One address wins; the others are told, and no result is another one's."""
    set_constant_tensor_cache(True, runtime)
    part = conv(runtime)
    for _ in range(5):
        cp, refused = compile_(part, runtime), []

        def first(k, cp=cp, refused=refused):
            try:
                check(cp, weights(k), runtime)
            except dgo.InvalidArgumentError:
                refused.append(k)

        in_threads(4, first)
        assert len(refused) == 3


def test_capacity(runtime):
    if runtime == "omp":
        with pytest.raises(dgo.UnsupportedError, match=r"3\.4"):
            get_constant_tensor_cache_capacity(engine.cpu, runtime)
        with pytest.raises(dgo.UnsupportedError, match=r"3\.4"):
            set_constant_tensor_cache_capacity(engine.cpu, 5, runtime)
        return
    before = get_constant_tensor_cache_capacity(engine.cpu, runtime)
    try:
        set_constant_tensor_cache_capacity(engine.cpu, 5, runtime)
        assert get_constant_tensor_cache_capacity(engine.cpu, runtime) == 5
        with pytest.raises(dgo.InvalidArgumentError, match="at least 1 megabyte"):
            set_constant_tensor_cache_capacity(engine.cpu, 0, runtime)
    finally:
        set_constant_tensor_cache_capacity(engine.cpu, before, runtime)


@pytest.mark.parametrize("flag", [None, "yes", 2, 1.5, []])
def test_flags_of_other_types(flag):
    with pytest.raises(TypeError, match="True or False"):
        set_constant_tensor_cache(flag)

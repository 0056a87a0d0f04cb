"""Calls of one-shot functions: what the cache of their plans serves, keeps and drops."""

import gc
import sys
import weakref

import numpy as np
import pytest
from reference.data import integers

from dnnl_graph_ops import _core
from dnnl_graph_ops.errors import Error
from dnnl_graph_ops.runtime.engines import default_engine

from .call_cases import UNUSUAL, X, ones, sum_plan
from .plans import callback_plan, declare, deconv_plan, double_plan, relu_plan


class OneShot:
    """A function like those of the package: doubles its first array."""

    def __init__(self):
        self.cache = _core.PlanCache()
        self.misses = 0
        self.inserted = []

    def __call__(self, *arrays, name="double", attrs=(), out=None, engine=None):
        return self.cache.call(name, arrays, attrs, out, engine, lambda *given: self.slow(name, *given))

    def slow(self, name, arrays, attrs, out, engine):
        self.misses += 1
        layouts = [declare(a.shape, [s // a.itemsize for s in a.strides]) for a in arrays if a is not None]
        shape = arrays[0].shape
        given = out if out is not None else np.empty(shape, np.float32)
        plan = callback_plan(
            lambda *views: np.multiply(views[0], 2, out=views[-1]),
            layouts,
            [declare(shape, [s // 4 for s in given.strides])],
        )
        self.inserted.append(self.cache.insert(name, arrays, attrs, out, engine, plan))
        plan.run([a for a in arrays if a is not None], [given])
        return given


def hits(function, *calls):
    """For each call whether the cache served it."""
    served = []
    for args, kwargs in calls:
        before = function.misses
        result = function(*args, **kwargs)
        assert (result == 2 * args[0]).all()
        served.append(function.misses == before)
    return served


def test_hit_by_arrays(rng):
    function = OneShot()
    a, b = integers(rng, (2, 3)), integers(rng, (5,))
    y = np.empty((2, 3), np.float32)
    calls = [
        ((a,), {}),
        ((a, b), {}),
        ((a, None), {}),
        ((a, None, b), {}),
        ((a.T.copy().T,), {}),
        ((a[:, :2],), {}),
        ((b,), {}),
        ((a,), {"out": np.empty((3, 2), np.float32).T}),
        ((a,), {"engine": function}),
        ((a,), {"name": "other"}),
        ((np.empty((0, 3), np.float32),), {}),
    ]
    assert hits(function, *calls) == [False] * len(calls)
    assert hits(function, *calls) == [True] * len(calls)
    assert function.cache.info() == {
        "hits": len(calls), "misses": len(calls), "size": len(calls)
    }  # fmt: skip
    assert function(a, out=y) is y
    assert function.misses == len(calls)  # as without out: the new array is row-major too


def test_attributes_are_compared_by_type_and_value():
    function = OneShot()
    x = ones(2)
    different = [
        (), (2,), (2.0,), (True,), (1,), ("2",), (b"2",), (None,), ((2,),), ((2, 2),), (2, 2), ((2, (2,)),),
        (0.0,), (-0.0,), (float("nan"),), (np.float32,), (int,), (2**70,), ("none",), ("NONE",),
    ]  # fmt: skip
    calls = [((x,), {"attrs": attrs}) for attrs in different]
    assert hits(function, *calls) == [False] * len(calls)
    assert hits(function, *calls) == [True] * len(calls)
    equal = [([2, 2],), ([2, [2]],), ("".join(["no", "ne"]),), (int("1" + "0" * 3) - 998,), ([2],), (Size([2, 2]),)]
    assert hits(function, *[((x,), {"attrs": attrs}) for attrs in equal]) == [True] * len(equal)


class Size(tuple):
    """As torch.Size."""

    __slots__ = ()


def test_tuples_of_other_classes_are_kept():
    function = OneShot()
    x = ones(2)
    calls = [((x,), {"attrs": (attr,)}) for attr in (Size([2, 3]), Size([2, 3]), (2, 3), [2, 3], Size([3, 2]))]
    assert hits(function, *calls) == [False, True, True, True, False]


def test_a_changed_list_is_another_attribute():
    function = OneShot()
    strides = [2, 2]
    x = ones(2)
    assert hits(function, ((x,), {"attrs": (strides,)}), ((x,), {"attrs": (strides,)})) == [False, True]
    strides[0] = 3
    assert hits(function, ((x,), {"attrs": (strides,)}), ((x,), {"attrs": ([2, 2],)})) == [False, True]


class Hostile:
    def __eq__(self, other):
        raise AssertionError("compared")

    def __hash__(self):
        raise AssertionError("hashed")


nested: list = []
nested.append(nested)


@pytest.mark.parametrize(
    "attrs",
    [(Hostile(),), ({},), (np.int64(2),), (np.zeros(2),), (nested,), (object(),), ((1, Hostile()),), [1]],
    ids=lambda attrs: type(attrs[0]).__name__,
)
def test_unusual_attributes_are_never_cached(attrs):
    function = OneShot()
    calls = [((ones(2),), {"attrs": attrs})] * 2
    assert hits(function, *calls) == [False, False]
    assert function.inserted == [False, False]
    assert function.cache.info()["size"] == 0


@pytest.mark.parametrize("case", sorted(UNUSUAL.keys() - {"twice", "unknown beside"}))
def test_unusual_arrays_go_to_the_slow_function(case):
    args, kwargs = UNUSUAL[case]
    function = OneShot()
    function(X)
    function(X, out=np.empty((2, 3), np.float32))
    seen = []

    def slow(*given):
        seen.append(given)
        return "slow"

    out = kwargs.get("out")
    assert function.cache.call("double", args, (), out, None, slow) == "slow"
    assert seen[0][0] is args
    assert seen[0][2] is out


def test_errors_of_the_slow_function_pass():
    cache = _core.PlanCache()

    def slow(arrays, attrs, out, engine):
        raise KeyError("slow")

    with pytest.raises(KeyError, match="slow"):
        cache.call("f", (), (), None, None, slow)
    with pytest.raises(TypeError):
        cache.call("f", (), (), None, None, 3)
    with pytest.raises(TypeError):
        cache.call("f")
    with pytest.raises(TypeError):
        cache.insert("f")


def test_insert_refuses_a_plan_for_other_arrays():
    cache = _core.PlanCache()
    plan = double_plan((2, 3))
    strided = double_plan((2, 3), None, (1, 2))
    for arrays, out, chosen in [
        ((ones(3, 2),), None, plan),
        ((ones(2, 3), ones(1)), None, plan),
        ((None,), None, plan),
        ((ones(3, 2).T,), None, plan),
        ((ones(2, 3).astype(np.float16),), None, plan),
        ((ones(2, 3),), ones(3, 2), plan),
        ((ones(2, 3),), (ones(2, 3), ones(2, 3)), plan),
        ((ones(2, 3),), None, strided),
    ]:
        with pytest.raises(Error):
            cache.insert("f", arrays, (), out, None, chosen)
    for wrong in (None, 3):
        with pytest.raises((TypeError, RuntimeError)):
            cache.insert("f", (ones(2, 3),), (), None, None, wrong)
    assert cache.info()["size"] == 0


def test_several_results():
    cache = _core.PlanCache()
    arrays = ones(2, 3) * 5, ones(2, 3)
    outs = ones(2, 3), ones(2, 3)
    plan = sum_plan()
    for out in (None, outs):
        assert cache.insert("f", arrays, (), out, None, plan) is True
        result = cache.call("f", arrays, (), out, None, None)
        assert type(result) is tuple
        assert [item[0, 0] for item in result] == [6, 4]
    assert cache.info()["hits"] == 2


def test_insert_again_replaces():
    cache = _core.PlanCache()
    x = ones(2)
    for _ in range(3):
        cache.insert("f", (x,), (), None, None, double_plan((2,)))
    assert cache.info()["size"] == 1
    assert cache.call("f", (x,), (), None, None, None).tolist() == [2, 2]


def test_dropping_a_plan_may_use_the_cache(room):
    room(0)
    cache = _core.PlanCache()
    x = ones(2)
    results = []

    class Finaliser:
        def __call__(self, src, dst):
            dst[...] = src

        def __del__(self):
            results.append(cache.call("f", (x,), (), None, None, lambda *given: "slow"))
            cache.clear()

    plan = callback_plan(Finaliser(), [declare((2,))], [declare((2,))])
    cache.insert("f", (x,), (), None, None, plan)
    del plan
    cache.insert("g", (x,), (), None, None, double_plan((2,)))
    gc.collect()
    assert results == ["slow"]
    assert cache.info()["size"] == 0


def test_cache_is_collected():
    class Engine:
        pass

    engine = Engine()
    engine.cache = _core.PlanCache()
    engine.cache.insert("f", (ones(2),), (), None, engine, double_plan((2,)))
    alive = weakref.ref(engine)
    del engine
    gc.collect()
    assert alive() is None


def test_references_of_the_cache_are_balanced():
    cache = _core.PlanCache()
    x, y, name, attrs = ones(2, 3), ones(2, 3), "function", ((2, 2), "none", 2.5)
    plan = relu_plan((2, 3), release_gil=True)
    cache.insert(name, (x,), attrs, y, None, plan)
    items = (x, y, name, attrs, attrs[0], plan)
    before = [sys.getrefcount(item) for item in items]
    for _ in range(100):
        assert cache.call(name, (x,), attrs, y, None, None) is y
        cache.insert(name, (x,), attrs, y, None, plan)
        cache.call(name, (y,), attrs, y, None, lambda *given: None)
    assert [sys.getrefcount(item) for item in items] == before


def test_without_a_slow_function_there_may_be_no_result():
    cache = _core.PlanCache()
    x, y = ones(2), np.empty(2, np.float32)
    assert cache.call("f", (x,), (), None, None, None) is None
    cache.insert("f", (x,), (), None, None, double_plan((2,)))
    assert cache.call("f", (x,), (), None, None, None).tolist() == [2, 2]
    assert cache.call("f", (x,), (), y, None, None) is y
    assert cache.call("f", (x,), (), x, None, None) is None
    assert cache.info() == {"hits": 2, "misses": 0, "size": 1}


@pytest.mark.parametrize("first", [None, "dense"])
def test_new_and_dense_results_are_of_one_plan(first):
    cache = _core.PlanCache()
    x, dense, strided, other = ones(2, 3), ones(2, 3), ones(3, 2).T, ones(3, 2)
    cache.insert("f", (x,), (), None if first is None else dense, None, double_plan((2, 3)))
    assert cache.call("f", (x,), (), None, None, None).tolist() == [[2] * 3] * 2
    assert cache.call("f", (x,), (), dense, None, None) is dense
    for out in (strided, other, dense.astype(np.float16), dense.astype(np.float64), (dense, dense)):
        assert cache.call("f", (x,), (), out, None, None) is None
    cache.insert("f", (x,), (), strided, None, double_plan((2, 3), None, (1, 2)))
    assert cache.call("f", (x,), (), strided, None, None) is strided
    assert cache.info()["size"] == 2


# -- bytes


def heavy_plan(number, constant=1 << 20, shared=False):
    """A plan for arrays of `number` elements that keeps a constant: an array, or a new one of so many bytes."""
    plan = _core.Executor(None)
    slots = [plan.add_input(*declare((number,))), plan.add_output(*declare((number,)))]
    plan.add_constant(np.zeros(constant, np.uint8) if isinstance(constant, int) else constant, shared)
    views = [(slot, 0, *declare((number,))) for slot in slots]
    plan.add_callback(lambda src, dst: np.copyto(dst, src), views, "copy")
    plan.finalize(False)
    return plan


@pytest.fixture
def room():
    """Room for so many bytes, in an otherwise empty process."""
    gc.collect()
    _core.clear_plans()
    before = _core.plan_totals()["limit"]
    yield _core.set_plan_limit
    _core.set_plan_limit(before)


def held():
    totals = _core.plan_totals()
    return totals["constants"] + totals["library"] + totals["objects"]


def sizes(cache):
    """The plans by the sizes of their arrays, the one used last first."""
    return [plan.inputs[0][0][0] for plan in cache.executors()]


def test_bytes_are_counted_while_plans_are_kept(room):
    cache, other = _core.PlanCache(), _core.PlanCache()
    before = _core.plan_totals()
    cache.add(heavy_plan(1), None)
    other.add(heavy_plan(1, shared=True), None)
    other.insert("f", (ones(2),), (), None, None, heavy_plan(2, 1000))
    now = _core.plan_totals()
    assert now["constants"] - before["constants"] == (1 << 20) + 1000
    assert now["net_plans"] - before["net_plans"] == 2
    cache.add(heavy_plan(1, 50), None)  # in place of the other
    assert _core.plan_totals()["constants"] - before["constants"] == 50 + 1000
    del cache
    other.clear()
    assert _core.plan_totals() == before


def test_every_plan_counts_for_itself_too(room):
    cache = _core.PlanCache()
    for count in range(1, 11):
        cache.add(heavy_plan(count, 0), None)
        assert 1000 * count < _core.plan_totals()["objects"] < 8000 * count


def test_what_plans_share_is_counted_once(room):
    data = np.zeros(1 << 20, np.uint8)
    first, second = _core.PlanCache(), _core.PlanCache()
    for cache in (first, second):
        for number in (1, 2, 3):
            cache.add(heavy_plan(number, data), None)
            assert _core.plan_totals()["constants"] == 1 << 20
    first.clear()
    assert _core.plan_totals()["constants"] == 1 << 20
    room(1 << 20)  # their objects alone can go
    assert _core.plan_totals()["constants"] == 1 << 20
    assert sizes(second) == [3]
    del cache, second
    assert _core.plan_totals()["constants"] == 0


def test_the_library_packs_constants_for_itself(room):
    """Not in a library whose store of constants has a bound."""
    weights = np.ones((4, 4, 8, 16), np.float32)
    cache = _core.PlanCache()
    plan = deconv_plan(1, 4, 16, 8, weights)
    cache.add(plan, None)
    bounded = default_engine()._native.library.has("dnnl_graph_set_constant_tensor_cache_capacity")
    assert _core.plan_totals()["library"] == (0 if bounded else weights.nbytes)


def add(cache, plan, seconds):
    """A plan that took so long to make."""
    generation, now, threads = cache.start()
    assert cache.add(plan, None, (generation, now - seconds, threads))


def test_the_plans_used_longest_ago_go_first_wherever_they_are(room):
    first, second = _core.PlanCache(), _core.PlanCache()
    for number in (1, 2, 3):
        for cache in (first, second):
            add(cache, heavy_plan(number), 100)
    assert first.find([declare((1,))], None) is first.executors()[0]
    room(held() - 1)
    assert (sizes(first), sizes(second)) == ([1, 3, 2], [3, 2])
    room(held() - 1)
    assert (sizes(first), sizes(second)) == ([1, 3], [3, 2])
    add(second, heavy_plan(4), 100)
    assert (sizes(first), sizes(second)) == ([1, 3], [4, 3])


@pytest.mark.parametrize(
    ("constants", "seconds", "left"),
    [
        ((1000, 1 << 20, 1000), (1, 1, 1), [4, 3, 1]),
        ((1 << 20,) * 3, (100, 1, 20), [4, 3, 1]),
        ((1 << 20, 1 << 22, 1 << 20), (1, 100, 1), [4, 3, 2]),
        ((1 << 20,) * 3, (1, 1, 1), [4, 3, 2]),
    ],
    ids=["the largest", "what took least", "what took least for its bytes", "the oldest of equals"],
)
def test_what_goes_first(room, constants, seconds, left):
    cache = _core.PlanCache()
    for number, (constant, time) in enumerate(zip((*constants, 0), (*seconds, 1), strict=True), 1):
        add(cache, heavy_plan(number, constant), time)
    room(held() - 1)
    assert sizes(cache) == left


def test_many_small_plans_find_room_at_once(room):
    """Not one by one: the plans are not weighed again for each."""
    cache = _core.PlanCache()
    for number in range(1, 101):
        cache.add(heavy_plan(number, 0), None)
    room(held())
    cache.add(heavy_plan(101, 0), None)
    assert 90 <= len(cache.executors()) < 96


def test_the_plan_used_last_stays(room):
    room(0)
    cache, other = _core.PlanCache(), _core.PlanCache()
    for number in (1, 2, 3):
        cache.add(heavy_plan(number), None)
        assert sizes(cache) == [number]
    other.insert("f", (ones(5),), (), None, None, heavy_plan(5))
    assert sizes(cache) == [3]
    assert other.call("f", (ones(5),), (), None, None, None).tolist() == [1] * 5
    room(1 << 30)
    cache.add(heavy_plan(1), None)
    assert sizes(cache) == [1, 3]


def test_a_plan_that_runs_may_be_dropped_for_others(room):
    cache = _core.PlanCache()

    def drop(src, dst):
        room(0)
        cache.insert("g", (ones(2),), (), None, None, heavy_plan(2))
        gc.collect()
        dst[...] = src + 1

    cache.insert("f", (ones(1),), (), None, None, callback_plan(drop, [declare((1,))], [declare((1,))]))
    assert cache.call("f", (ones(1),), (), None, None, None).tolist() == [2]
    assert cache.call("f", (ones(1),), (), None, None, None) is None


def test_dropping_plans_of_all_stores_may_use_them(room):
    caches = [_core.PlanCache() for _ in range(3)]
    seen = []

    class Finaliser:
        def __call__(self, src, dst):
            dst[...] = src

        def __del__(self):
            seen.append([sizes(cache) for cache in caches])
            caches[0].add(heavy_plan(7), None)
            _core.set_plan_limit(0)

    for cache in caches:
        cache.add(callback_plan(Finaliser(), [declare((1,))], [declare((1,))]), 1)
    _core.clear_plans()
    gc.collect()
    assert len(seen) == 3
    assert seen[0] == [[], [], []]
    assert sizes(caches[0]) == [7]

"""Calls of compiled nets and one-shot functions: what the native path serves, what it leaves to Python."""

import gc
import pickle
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from concurrently import in_threads

from dnnl_graph_ops import _core
from dnnl_graph_ops.errors import Error, InvalidArgumentError, UnsupportedError

from .plans import callback_plan, declare, deconv_plan, deconv_truth, double_plan, integers, relu_plan


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


class Net(_core.NetBase):
    """Counts the calls that reach Python."""

    def __init__(self, names=("src",), n_outputs=1):
        super().__init__(names, n_outputs)
        self.slow = []

    def _slow_call(self, args, kwargs):
        assert type(args) is tuple
        assert type(kwargs) is dict
        self.slow.append((args, kwargs))
        return "slow"


def net_of(*plans, names=("src",), n_outputs=1, explicit=False):
    net = Net(names, n_outputs)
    for plan in plans:
        net._add_plan(plan, explicit)
    return net


def sum_plan(shape=(2, 3)):
    """total, difference = a + b, a - b"""

    def both(a, b, total, difference):
        np.add(a, b, out=total)
        np.subtract(a, b, out=difference)

    return callback_plan(both, [declare(shape)] * 2, [declare(shape)] * 2, name="sum")


def ones(*shape):
    return np.ones(shape, np.float32)


# -- nets: what is served ------------------------------------------------------


def test_result_is_new_or_given():
    net = net_of(double_plan((2, 3)))
    x, y = ones(2, 3), np.zeros((2, 3), np.float32)
    first, second = net(x), net(src=x)
    assert first is not second
    for result in (first, second):
        assert type(result) is np.ndarray
        assert result.dtype == np.float32
        assert result.flags.c_contiguous
        assert result.flags.owndata
        assert result.flags.writeable
        assert result.tolist() == [[2] * 3] * 2
    assert net(x, out=y) is y
    assert y.tolist() == first.tolist()
    assert net(x, out=None).tolist() == first.tolist()
    assert net(*[x], **{"out": y}) is y
    assert net.slow == []


def test_several_inputs_and_outputs():
    net = net_of(sum_plan(), names=("a", "b"), n_outputs=2)
    a, b = ones(2, 3) * 5, ones(2, 3)
    for result in (net(a, b), net(a, b=b), net(b=b, a=a), net(**{"".join(["a"]): a, "".join(["b"]): b})):
        assert type(result) is tuple
        assert [item[0, 0] for item in result] == [6, 4]
    outs = np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)
    for given in (outs, list(outs)):
        result = net(a, b, out=given)
        assert type(result) is tuple
        assert all(x is y for x, y in zip(result, outs, strict=True))
    assert net.slow == []


def test_scalars_and_empty_arrays():
    assert net_of(double_plan(()))(np.array(3, np.float32)) == 6
    empty = net_of(double_plan((0, 3)))(np.empty((0, 3), np.float32))
    assert empty.shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.int64, np.bool_])
def test_result_dtype(dtype):
    name = {"bfloat16": "bf16", "float16": "f16", "int8": "s8", "int64": "s64", "bool": "boolean"}[np.dtype(dtype).name]
    plan = callback_plan(lambda src, dst: np.copyto(dst, src), [declare((2,), None, name)], [declare((2,), None, name)])
    net = net_of(plan)
    x = np.array([0, 1]).astype(dtype)
    result = net(x)
    assert result.dtype == np.dtype(dtype)
    assert (result == x).all()
    assert net.slow == []


def test_plan_is_chosen_by_shape_and_strides():
    net = net_of(double_plan((2, 3)), double_plan((3, 2)), double_plan((2, 3), (1, 2)), double_plan((2, 3), (3, 1)))
    for x in (ones(2, 3), ones(3, 2), ones(3, 2).T, ones(2, 3)):
        assert (net(x) == 2).all()
        assert net._native_plans()[0].run([x], [np.empty(x.shape, np.float32)]) is None
    assert net.slow == []


def test_plans_with_given_out_strides():
    plan = double_plan((2, 3), None, (1, 2))
    net = Net()
    with pytest.raises(InvalidArgumentError, match="row-major"):
        net._add_plan(plan)
    net._add_plan(plan, explicit_out_strides=True)
    y = np.zeros((3, 2), np.float32).T
    assert net(ones(2, 3), out=y) is y
    assert net.slow == []
    assert net(ones(2, 3)) == "slow"
    assert net(ones(2, 3), out=np.zeros((2, 3), np.float32)) == "slow"


def test_row_major_plan_may_be_kept_for_given_results_only():
    plan = double_plan((2,))
    net = net_of(plan, explicit=True)
    assert net(ones(2)) == "slow"
    net._add_plan(plan, False)
    assert net._native_plans() == (plan,)
    assert net(ones(2)).tolist() == [2, 2]


def test_capacity():
    plans = [double_plan((n,)) for n in range(1, 6)]
    net = Net()
    net._set_capacity(2)
    for plan in plans:
        net._add_plan(plan)
    assert net._native_plans() == (plans[4], plans[3])
    assert net(ones(4)).tolist() == [2] * 4
    assert net._native_plans() == (plans[3], plans[4])
    net._set_capacity(1)
    assert net._native_plans() == (plans[3],)
    net._clear_plans()
    assert net._native_plans() == ()
    net._set_capacity(0)
    net._add_plan(plans[0])
    assert net._native_plans() == ()
    with pytest.raises(ValueError, match="negative"):
        net._set_capacity(-1)
    with pytest.raises(TypeError):
        net._set_capacity("1")


# -- nets: what goes to Python -------------------------------------------------


class Subclass(np.ndarray):
    pass


def unaligned(shape):
    memory = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return np.frombuffer(memory.data, np.float32, int(np.prod(shape)), 1).reshape(shape)


def read_only(array):
    array.setflags(write=False)
    return array


X = ones(2, 3)
UNUSUAL = {
    "nothing": ((), {}),
    "too many": ((X, X), {}),
    "twice": ((X,), {"src": X}),
    "unknown name": ((), {"source": X}),
    "unknown beside": ((X,), {"source": X}),
    "none": ((None,), {}),
    "list": (([[1.0] * 3] * 2,), {}),
    "object": ((object(),), {}),
    "subclass": ((X.view(Subclass),), {}),
    "shape": ((ones(3, 2),), {}),
    "rank": ((ones(6),), {}),
    "strides": ((ones(3, 2).T,), {}),
    "negative strides": ((X[::-1],), {}),
    "float64": ((X.astype(np.float64),), {}),
    "byte order": ((X.astype(">f4"),), {}),
    "objects": ((X.astype(object),), {}),
    "record": ((np.zeros((2, 3), [("a", np.float32)]),), {}),
    "unaligned": ((unaligned((2, 3)),), {}),
    "out list": ((X,), {"out": [np.empty((2, 3), np.float32)]}),
    "out dict": ((X,), {"out": {"dst": np.empty((2, 3), np.float32)}}),
    "out number": ((X,), {"out": 3}),
    "out shape": ((X,), {"out": np.empty((3, 2), np.float32)}),
    "out strides": ((X,), {"out": np.empty((3, 2), np.float32).T}),
    "out dtype": ((X,), {"out": np.empty((2, 3), np.float16)}),
    "out read-only": ((X,), {"out": read_only(np.empty((2, 3), np.float32))}),
    "out unaligned": ((X,), {"out": unaligned((2, 3))}),
    "out is src": ((X,), {"out": X}),
}


@pytest.mark.parametrize("case", sorted(UNUSUAL))
def test_left_to_python(case):
    args, kwargs = UNUSUAL[case]
    called = []
    net = net_of(callback_plan(lambda *views: called.append(views), [declare((2, 3))], [declare((2, 3))]))
    assert net(*args, **kwargs) == "slow"
    ((got, named),) = net.slow
    assert all(a is b for a, b in zip(got, args, strict=True))
    assert named.keys() == kwargs.keys()
    assert all(named[key] is kwargs[key] for key in kwargs)
    assert called == []


def test_overlapping_results():
    memory = np.zeros(24, np.float32)
    net = net_of(sum_plan(), names=("a", "b"), n_outputs=2)
    parts = [memory[6 * i : 6 * i + 6].reshape(2, 3) for i in range(4)]
    net(parts[0], parts[1], out=tuple(parts[2:]))
    assert net.slow == []
    for out in [(parts[2], parts[2]), (parts[1], parts[2]), (parts[2], memory[15:21].reshape(2, 3))]:
        assert net(parts[0], parts[1], out=out) == "slow"
    for out in [parts[2], (parts[2],), tuple(parts), (parts[2], None), iter(parts[2:])]:
        assert net(parts[0], parts[1], out=out) == "slow"


def test_more_arrays_than_the_native_path_takes():
    names = [f"x{i}" for i in range(33)]
    net = Net(names)
    assert net(*[ones(1)] * 33) == "slow"
    plan = callback_plan(lambda *views: None, [declare((1,))] * 33, [declare((1,))])
    with pytest.raises(UnsupportedError, match="32"):
        net._add_plan(plan)


def test_input_named_out():
    net = net_of(callback_plan(lambda a, dst: np.copyto(dst, a), [declare((2,))], [declare((2,))]), names=("out",))
    assert net(out=ones(2) * 7).tolist() == [7, 7]
    assert net.slow == []


def test_add_plan_refuses():
    net = Net(("a", "b"), 2)
    with pytest.raises(InvalidArgumentError, match="the net has 2 inputs and 2 outputs, the plan 1 and 1"):
        net._add_plan(double_plan((2,)))
    unfinished = _core.Executor(None)
    for slot in range(2):
        unfinished.add_input(*declare((slot,)))
        unfinished.add_output(*declare((slot,)))
    with pytest.raises(InvalidArgumentError, match="finalize"):
        net._add_plan(unfinished)
    for wrong in (None, 3, net):
        with pytest.raises((TypeError, RuntimeError)):
            net._add_plan(wrong)
    assert net._native_plans() == ()


def test_constructor_refuses():
    for names, count, error in [
        ((1,), 1, TypeError),
        (3, 1, TypeError),
        (("a",), -1, ValueError),
        (("a",), "1", TypeError),
    ]:
        with pytest.raises(error):
            _core.NetBase(names, count)
    with pytest.raises(TypeError):
        _core.NetBase()


def test_without_init_everything_goes_to_python():
    class Lazy(_core.NetBase):
        def __init__(self):
            pass

        def _slow_call(self, args, kwargs):
            return len(args)

    assert Lazy()(ones(1)) == 1
    with pytest.raises(AttributeError):
        _core.NetBase(("a",), 1)(ones(1))


def test_init_again_forgets_plans():
    net = net_of(double_plan((2,)))
    net.__init__(("a", "b"), 2)
    assert net._native_plans() == ()
    assert net(ones(2)) == "slow"


# -- nets as Python objects ----------------------------------------------------


class Pickled(Net):
    def __reduce__(self):
        return Pickled, (tuple(self._input_names), 1)


def test_subclass_is_an_ordinary_object():
    net = Pickled(("a",))
    net.attribute = 3
    assert net.__dict__["attribute"] == 3
    assert weakref.ref(net)() is net
    assert pickle.loads(pickle.dumps(net))._input_names == ("a",)
    assert callable(net)


def test_overridden_call_wins():
    class Other(Net):
        def __call__(self, *args, **kwargs):
            return "other"

    net = Other()
    net._add_plan(double_plan((2,)))
    assert net(ones(2)) == "other"


def test_cycles_are_collected():
    net = Net()
    plan = callback_plan(lambda src, dst, net=net: None, [declare((1,))], [declare((1,))])
    net._add_plan(plan)
    net.me = net
    alive = weakref.ref(net)
    del net, plan
    gc.collect()
    assert alive() is None


def test_references_are_balanced():
    net = net_of(relu_plan((2, 3), release_gil=True))
    x, y, bad = ones(2, 3), ones(2, 3), ones(3, 2)
    before = [sys.getrefcount(item) for item in (x, y, bad, net, net._native_plans()[0])]
    for _ in range(100):
        net(x, out=y)
        net(x)
        net(bad, out=y)
        net.slow.clear()
    assert [sys.getrefcount(item) for item in (x, y, bad, net, net._native_plans()[0])] == before


def test_error_in_a_plan():
    def fail(src, dst):
        raise KeyError("step")

    net = net_of(callback_plan(fail, [declare((2,))], [declare((2,))], release_gil=True))
    x, y = ones(2), ones(2)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(10):
        with pytest.raises(KeyError, match="step"):
            net(x, out=y)
        with pytest.raises(KeyError, match="step"):
            net(x)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def test_plan_may_vanish_during_its_run():
    def forget(src, dst):
        net._clear_plans()
        gc.collect()
        dst[...] = src + 1

    net = net_of(callback_plan(forget, [declare((2,))], [declare((2,))], release_gil=True))
    assert net(ones(2)).tolist() == [2, 2]
    assert net._native_plans() == ()


def test_threads_call_and_change_one_net(seed):
    weights = integers(np.random.default_rng(seed), (4, 4, 8, 16))
    plans = {n: deconv_plan(n, 4, 16, 8, weights, release_gil=True) for n in (1, 2, 3)}
    net = net_of(*plans.values())

    def work(index):
        rng = np.random.default_rng((seed, index))
        for step in range(60):
            n = int(rng.integers(1, 4))
            x = integers(rng, (n, 4, 4, 16))
            y = net(x) if step % 2 else net(x, out=np.full((n, 8, 8, 8), np.nan, np.float32))
            if isinstance(y, str):  # another thread has just forgotten the plans
                net._add_plan(plans[n])
            else:
                np.testing.assert_array_equal(y, deconv_truth(x, weights))
            if step % 20 == 0:
                net._clear_plans()

    in_threads(4, work)


# -- cache of one-shot functions -----------------------------------------------


class OneShot:
    """A function like those of the package: doubles its first array."""

    def __init__(self, capacity=4):
        self.cache = _core.PlanCache(capacity)
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
    function = OneShot(64)
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
        ((a,), {"out": y}),
        ((a,), {"out": np.empty((3, 2), np.float32).T}),
        ((a,), {"engine": function}),
        ((a,), {"name": "other"}),
        ((np.empty((0, 3), np.float32),), {}),
    ]
    assert hits(function, *calls) == [False] * len(calls)
    assert hits(function, *calls) == [True] * len(calls)
    assert function.cache.info() == {
        "hits": len(calls), "misses": len(calls), "size": len(calls), "capacity": 64
    }  # fmt: skip
    assert function(a, out=y) is y


def test_attributes_are_compared_by_type_and_value():
    function = OneShot(64)
    x = ones(2)
    different = [
        (), (2,), (2.0,), (True,), (1,), ("2",), (b"2",), (None,), ((2,),), ((2, 2),), (2, 2), ((2, (2,)),),
        (0.0,), (-0.0,), (float("nan"),), (np.float32,), (int,), (2**70,), ("none",), ("NONE",),
    ]  # fmt: skip
    calls = [((x,), {"attrs": attrs}) for attrs in different]
    assert hits(function, *calls) == [False] * len(calls)
    assert hits(function, *calls) == [True] * len(calls)
    equal = [([2, 2],), ([2, [2]],), ("".join(["no", "ne"]),), (int("1" + "0" * 3) - 998,), ([2],)]
    assert hits(function, *[((x,), {"attrs": attrs}) for attrs in equal]) == [True] * len(equal)


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
    cache = _core.PlanCache(1)

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
    cache = _core.PlanCache(4)
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
    cache = _core.PlanCache(4)
    arrays = ones(2, 3) * 5, ones(2, 3)
    outs = ones(2, 3), ones(2, 3)
    plan = sum_plan()
    for out in (None, outs):
        assert cache.insert("f", arrays, (), out, None, plan) is True
        result = cache.call("f", arrays, (), out, None, None)
        assert type(result) is tuple
        assert [item[0, 0] for item in result] == [6, 4]
    assert cache.info()["hits"] == 2


def test_least_recently_used_is_dropped():
    function = OneShot(2)
    a, b, c = ones(1), ones(2), ones(3)
    assert hits(function, ((a,), {}), ((b,), {}), ((a,), {}), ((c,), {})) == [False, False, True, False]
    assert hits(function, ((a,), {}), ((b,), {})) == [True, False]
    assert function.cache.info()["size"] == 2
    function.cache.set_capacity(1)
    assert function.cache.info()["size"] == 1
    function.cache.clear()
    assert function.cache.info() == {"hits": 0, "misses": 0, "size": 0, "capacity": 1}
    function.cache.set_capacity(0)
    assert hits(function, ((a,), {}), ((a,), {})) == [False, False]
    with pytest.raises(ValueError, match="negative"):
        _core.PlanCache(-1)


def test_insert_again_replaces():
    cache = _core.PlanCache(4)
    x = ones(2)
    for _ in range(3):
        cache.insert("f", (x,), (), None, None, double_plan((2,)))
    assert cache.info()["size"] == 1
    assert cache.call("f", (x,), (), None, None, None).tolist() == [2, 2]


def test_dropping_a_plan_may_use_the_cache():
    cache = _core.PlanCache(1)
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
    engine.cache = _core.PlanCache(4)
    engine.cache.insert("f", (ones(2),), (), None, engine, double_plan((2,)))
    alive = weakref.ref(engine)
    del engine
    gc.collect()
    assert alive() is None


def test_references_of_the_cache_are_balanced():
    cache = _core.PlanCache(4)
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

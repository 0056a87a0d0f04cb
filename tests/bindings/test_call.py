"""Calls of compiled nets: what the native path serves, what it leaves to Python."""

import gc
import pickle
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest
from concurrently import in_threads
from reference.data import integers

from dnnl_graph_ops import _core
from dnnl_graph_ops.errors import InvalidArgumentError

from .call_cases import UNUSUAL, ones, sum_plan
from .plans import callback_plan, declare, deconv_plan, deconv_truth, double_plan, relu_plan


class Net(_core.NetBase):
    """Counts the calls that reach Python."""

    def __init__(self, names=("src",), n_outputs=1, row_major=True):
        super().__init__(names, n_outputs, _core.PlanCache(), row_major)
        self.slow = []

    def add(self, plan):
        """The plan is its own payload."""
        return self._plans.add(plan, plan)

    def _slow_call(self, args, kwargs):
        assert type(args) is tuple
        assert type(kwargs) is dict
        self.slow.append((args, kwargs))
        return "slow"


def net_of(*plans, names=("src",), n_outputs=1, **options):
    net = Net(names, n_outputs, **options)
    for plan in plans:
        assert net.add(plan)
    return net


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
        assert net._plans.executors()[0].run([x], [np.empty(x.shape, np.float32)]) is None
    assert net.slow == []


def test_plans_with_given_out_strides():
    net = net_of(double_plan((2, 3), None, (1, 2)))
    y = np.zeros((3, 2), np.float32).T
    assert net(ones(2, 3), out=y) is y
    assert net.slow == []
    assert net(ones(2, 3)) == "slow"
    assert net(ones(2, 3), out=np.zeros((2, 3), np.float32)) == "slow"


def test_new_results_that_are_not_row_major_are_left_to_python():
    net = net_of(double_plan((2,)), row_major=False)
    assert net(ones(2)) == "slow"
    assert net(ones(2), out=np.zeros(2, np.float32)).tolist() == [2, 2]


def test_the_plan_used_last_comes_first():
    plans = [double_plan((n,)) for n in range(1, 6)]
    net = net_of(*plans)
    assert net._plans.executors() == tuple(reversed(plans))
    assert net(ones(2)).tolist() == [2] * 2
    assert net._plans.latest() is plans[1]
    assert net._plans.executors() == (plans[1], plans[4], plans[3], plans[2], plans[0])
    net._plans.clear()
    assert net._plans.executors() == ()
    assert net._plans.latest() is None


def test_only_the_plan_added_last_has_a_payload():
    first, last = double_plan((1,)), double_plan((2,))
    net = net_of(first, last)
    assert (net._plans.payload(first), net._plans.payload(last)) == (None, last)
    assert net(ones(1)).tolist() == [2]
    assert net._plans.payload(last) is last
    net.add(first)
    assert (net._plans.payload(first), net._plans.payload(last)) == (first, None)
    net._plans.clear()
    assert net._plans.payload(first) is None


def test_find():
    net = net_of(double_plan((2, 3)), double_plan((3, 2)), double_plan((2, 3), None, (1, 2)))
    strided, other, first = net._plans.executors()
    dense, turned = declare((2, 3)), declare((2, 3), (1, 2))
    for results, plan in [(None, first), ([dense], first), ([turned], strided), (None, first)]:
        assert net._plans.find([dense], results) is plan
        assert net._plans.executors()[0] is plan
    assert net._plans.find([turned], None) is None
    assert net._plans.find([dense, dense], None) is None
    assert net._plans.executors() == (first, strided, other)


def test_a_plan_of_an_earlier_generation_is_not_kept():
    net, plan = Net(), double_plan((2,))
    start = net._plans.start()
    net._plans.clear()
    assert not net._plans.add(plan, plan, start)
    assert net(ones(2)) == "slow"
    assert net._plans.add(plan, plan, net._plans.start())
    assert net(ones(2)).tolist() == [2, 2]


# -- nets: what goes to Python -------------------------------------------------


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
    many = 513
    net = Net([f"x{i}" for i in range(many)])
    assert net(*[ones(1)] * many) == "slow"
    net.add(callback_plan(lambda *views: None, [declare((1,))] * many, [declare((1,))]))
    assert net(*[ones(1)] * many) == "slow"
    assert net._plans.find([declare((1,))] * many, None) is not None
    net = Net(("a",), many)
    net.add(callback_plan(lambda *views: None, [declare((1,))], [declare((1,))] * many))
    assert net(ones(1)) == "slow"


@pytest.mark.parametrize("count", [13, 14, 15, 32, 200])
def test_arrays_of_high_rank(count):
    """Keys of any length; another plan was used last."""
    shape = (1, 2) * 4
    plan = callback_plan(lambda *views: views[-1].fill(1), [declare(shape)] * count, [declare(shape)])
    net = net_of(plan, names=[f"x{i}" for i in range(count)])
    arrays = [ones(*shape)] * count
    for _ in range(2):
        net.add(double_plan((2,)))
        assert net(*arrays).tolist() == ones(*shape).tolist()
        net.add(double_plan((2,)))
        assert net(*arrays, out=np.asfortranarray(arrays[0])) == "slow"
        assert net(*arrays[1:], ones(*shape[:-1], 3)) == "slow"


def test_input_named_out():
    net = net_of(callback_plan(lambda a, dst: np.copyto(dst, a), [declare((2,))], [declare((2,))]), names=("out",))
    assert net(out=ones(2) * 7).tolist() == [7, 7]
    assert net.slow == []


def test_add_refuses():
    net = Net(("a", "b"), 2)
    unfinished = _core.Executor(None)
    for slot in range(2):
        unfinished.add_input(*declare((slot,)))
        unfinished.add_output(*declare((slot,)))
    with pytest.raises(InvalidArgumentError, match="finalize"):
        net.add(unfinished)
    for wrong in (None, 3, net):
        with pytest.raises((TypeError, RuntimeError)):
            net.add(wrong)
    assert net._plans.executors() == ()
    net.add(double_plan((2,)))
    assert net(ones(2), ones(2)) == "slow"


def test_constructor_refuses():
    for names, count, error in [
        ((1,), 1, TypeError),
        (3, 1, TypeError),
        (("a",), -1, ValueError),
        (("a",), "1", TypeError),
    ]:
        with pytest.raises(error):
            _core.NetBase(names, count, _core.PlanCache())
    with pytest.raises(TypeError, match="PlanCache"):
        _core.NetBase(("a",), 1, None)
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
        _core.NetBase(("a",), 1, _core.PlanCache())(ones(1))


def test_init_again_forgets_plans():
    net = net_of(double_plan((2,)))
    net.__init__(("a", "b"), 2)
    assert net._plans.executors() == ()
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
    net.add(double_plan((2,)))
    assert net(ones(2)) == "other"


def test_cycles_are_collected():
    net = Net()
    plan = callback_plan(lambda src, dst, net=net: None, [declare((1,))], [declare((1,))])
    net.add(plan)
    net.me = net
    alive = weakref.ref(net)
    del net, plan
    gc.collect()
    assert alive() is None


def test_references_are_balanced():
    net = net_of(relu_plan((2, 3), release_gil=True))
    x, y, bad = ones(2, 3), ones(2, 3), ones(3, 2)
    before = [sys.getrefcount(item) for item in (x, y, bad, net, net._plans.executors()[0])]
    for _ in range(100):
        net(x, out=y)
        net(x)
        net(bad, out=y)
        net.slow.clear()
    assert [sys.getrefcount(item) for item in (x, y, bad, net, net._plans.executors()[0])] == before


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
        net._plans.clear()
        gc.collect()
        dst[...] = src + 1

    net = net_of(callback_plan(forget, [declare((2,))], [declare((2,))], release_gil=True))
    assert net(ones(2)).tolist() == [2, 2]
    assert net._plans.executors() == ()


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
                net.add(plans[n])
            else:
                np.testing.assert_array_equal(y, deconv_truth(x, weights))
            if step % 20 == 0:
                net._plans.clear()

    in_threads(4, work)

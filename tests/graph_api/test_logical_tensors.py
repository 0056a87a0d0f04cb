"""Descriptions of tensors: each form of the arguments, and what is refused."""

import pickle

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import engine, logical_tensor, op, status

from .common import LT

UNKNOWN = -1


def test_dims_and_layout():
    t = LT(0, LT.data_type.f32, [1, 8, 4, 4], LT.layout_type.strided, LT.property_type.variable)
    assert (t.get_id(), t.get_data_type(), t.get_dims()) == (0, LT.f32, [1, 8, 4, 4])
    assert (t.get_layout_type(), t.get_strides(), t.get_property_type()) == (LT.strided, [128, 16, 4, 1], LT.variable)
    assert t.get_mem_size() == 4 * 128


@pytest.mark.parametrize("dims", [(2, 3), [2, 3], np.array([2, 3]), [np.int64(2), np.uint8(3)]])
def test_sequences(dims):
    assert LT(0, LT.f32, dims, LT.strided).get_dims() == [2, 3]
    assert LT(0, LT.f32, [2, 3], dims).get_strides() == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "dims", "layout"),
    [
        ((), None, LT.lt_undef),
        ((LT.any,), None, LT.any),
        ((LT.strided,), None, LT.strided),
        ((-1,), None, LT.lt_undef),
        ((-1, LT.any), None, LT.any),
        ((0,), [], LT.lt_undef),
        ((3,), [-1, -1, -1], LT.lt_undef),
        ((3, LT.strided), [-1, -1, -1], LT.strided),
        ((np.int64(2), LT.any), [-1, -1], LT.any),
        (([1, -1], LT.any), [1, -1], LT.any),
        (([4],), [4], LT.lt_undef),
        (([],), [], LT.lt_undef),
        (([-(2**63), 2], LT.strided), [-1, 2], LT.strided),
    ],
)
def test_rank_and_layout_forms(arguments, dims, layout):
    t = LT(3, LT.bf16, *arguments)
    assert t.get_layout_type() == layout
    if dims is None:
        with pytest.raises(dgo.InvalidArgumentError, match="rank is not known"):
            t.get_dims()
    else:
        assert t.get_dims() == dims


@pytest.mark.parametrize(
    ("dims", "strides", "size"),
    [([2, 3], [3, 1], 24), ([2, 3], [1, 2], 24), ([2, 3], [10, 1], 52), ([1, 3], [7, 2], 20), ([2, 0], [1, 1], 0)],
)
def test_strides(dims, strides, size):
    t = LT(0, LT.f32, dims, strides)
    assert t.get_layout_type() is LT.strided and t.get_strides() == strides and t.get_mem_size() == size


def test_unknown_sizes_have_unknown_strides():
    assert LT(0, LT.f32, [2, -1], LT.strided).get_strides() == [UNKNOWN, UNKNOWN]
    assert LT(0, LT.f32, [2, -1], [-1, 1]).get_strides() == [UNKNOWN, 1]


@pytest.mark.parametrize("t", [LT(0, LT.f32, 2), LT(0, LT.f32, [2], LT.any), LT(0, LT.f32), LT(0, LT.f32, [2], 7)])
def test_without_strides(t):
    with pytest.raises(dgo.InvalidArgumentError, match="has no strides"):
        t.get_strides()


@pytest.mark.parametrize("t", [LT(0, LT.f32, 2), LT(0, LT.f32, [2, -1], LT.strided), LT(0, LT.f32, [2], LT.any)])
def test_without_a_size(t):
    with pytest.raises(dgo.ShapeError, match="unknown"):
        t.get_mem_size()


def test_layout_ids():
    t = LT(0, LT.f32, [4], 7)
    assert t.get_layout_type() is LT.opaque and t.get_layout_id() == 7
    with pytest.raises(dgo.InvalidArgumentError, match="no compiled partition"):
        t.get_mem_size()
    with pytest.raises(dgo.InvalidArgumentError, match="has no layout id"):
        LT(0, LT.f32, [4], LT.strided).get_layout_id()


def test_scalars():
    t = LT(0, LT.s32, [], LT.strided, LT.host_scalar)
    assert (t.get_dims(), t.get_strides(), t.get_mem_size()) == ([], [], 4)
    assert t.get_property_type() is LT.property_type.host_scalar


@pytest.mark.parametrize("dtype", [d for d in LT.data_type if d is not LT.dt_undef], ids=lambda d: d.name)
def test_each_data_type(dtype):
    t = LT(0, dtype, [8], LT.strided)
    size = {"f64": 64, "s64": 64, "s32": 32, "f32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4}
    bits = {"f4_e2m1": 4, "f4_e3m0": 4} | size
    assert t.get_data_type() is dtype and t.get_mem_size() == bits.get(dtype.name, 8)


def test_the_enumerators_of_the_rfc():
    assert LT.dt_undef == LT.data_type.undef and LT.lt_undef == LT.layout_type.undef
    assert LT.pt_undef == LT.property_type.undef and not hasattr(LT, "undef")
    assert LT.f32 is LT.data_type.f32 and LT.any is LT.layout_type.any and LT.constant is LT.property_type.constant


@pytest.mark.parametrize(
    "arguments",
    [
        (0, LT.strided),
        (0, LT.variable),
        (0, True),
        (0, "f32"),
        (0, op.Add),
        (0, LT.f32, LT.variable),
        (0, LT.f32, LT.f32),
        (0, LT.f32, status.success),
        (0, LT.f32, True),
        (0, LT.f32, "12"),
        (0, LT.f32, 1.0),
        (0, LT.f32, [1.0]),
        (0, LT.f32, [True]),
        (0, LT.f32, None),
        (0, LT.f32, LT.strided, LT.strided),
        (0, LT.f32, [1], LT.variable),
        (0, LT.f32, [1], engine.cpu),
        (0, LT.f32, [1], 1.0),
        (0, LT.f32, [1], "strided"),
        (0, LT.f32, [1], True),
        (0, LT.f32, [1], [1.0]),
        (0, LT.f32, [1], LT.strided, LT.strided),
        (0, LT.f32, [1], LT.strided, None),
        (0.0, LT.f32),
        ("0", LT.f32),
        (True, LT.f32),
        (LT.f32, LT.f32),
        (None, LT.f32),
    ],
)
def test_wrong_types(arguments):
    with pytest.raises(TypeError):
        logical_tensor(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, LT.f32), dgo.InvalidArgumentError, "from 0 to"),
        ((2**64, LT.f32), dgo.InvalidArgumentError, "from 0 to"),
        ((0, 77), dgo.InvalidArgumentError, r"f32.*got 77"),
        ((0, LT.f32, 13), dgo.ShapeError, "from 0 to 12"),
        ((0, LT.f32, -2), dgo.ShapeError, "-1 for one that is not known"),
        ((0, LT.f32, [1] * 13), dgo.ShapeError, "at most 12"),
        ((0, LT.f32, [-2]), dgo.ShapeError, "at least 0, or -1"),
        ((0, LT.f32, [2], [-3]), dgo.ShapeError, "at least 0, or -1"),
        ((0, LT.f32, [2**63]), dgo.InvalidArgumentError, "64 bits"),
        ((0, LT.f32, [2**62, 4], LT.strided), dgo.ShapeError, "64 bits"),
        ((0, LT.f32, [2, 3], [1]), dgo.ShapeError, "1 strides for 2 dims"),
        ((0, LT.f32, -1, [1]), dgo.InvalidArgumentError, "without dims"),
        ((0, LT.f32, [1], LT.opaque), dgo.InvalidArgumentError, "given by its id"),
        ((0, LT.f32, [1], -5), dgo.InvalidArgumentError, "opaque layout"),
        ((0, LT.f32, [1], 2**64), dgo.InvalidArgumentError, "opaque layout"),
    ],
)
def test_wrong_values(arguments, error, message):
    with pytest.raises(error, match=message):
        logical_tensor(*arguments)


CASES = [
    LT(0, LT.f32),
    LT(2**64 - 1, LT.u8, LT.any),
    LT(1, LT.f32, 3, LT.strided),
    LT(1, LT.bf16, [2, -1], [3, -1], LT.constant),
    LT(1, LT.f32, [2, 3], [1, 2], LT.variable),
    LT(1, LT.f32, [2, 3], 5),
    LT(1, LT.s32, [], LT.strided, LT.host_scalar),
    LT(1, LT.dt_undef, [4]),
]


@pytest.mark.parametrize("t", CASES, ids=repr)
def test_pickling(t):
    copy = pickle.loads(pickle.dumps(t))
    assert copy == t and hash(copy) == hash(t) and repr(copy) == repr(t)


def test_equality():
    for i, a in enumerate(CASES):
        for j, b in enumerate(CASES):
            assert (a == b) is (i == j)
    assert LT(0, LT.f32) != "lt"


def test_is_equal():
    t = LT(0, LT.f32, [2, 3], LT.strided)
    assert t.is_equal(LT(0, LT.f32, [2, 3], [3, 1])) and not t.is_equal(LT(1, LT.f32, [2, 3], LT.strided))
    assert not t.is_equal(LT(0, LT.f32, [2, 4], LT.strided)) and not t.is_equal(LT(0, LT.bf16, [2, 3], LT.strided))
    with pytest.raises(TypeError):
        t.is_equal(None)

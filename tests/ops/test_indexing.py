"""Values are indexed, reshaped and transposed as NumPy's arrays are, also where sizes are known at the call only."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


class Index:
    """Writes an index as Python does."""

    def __getitem__(self, key):
        return key


at = Index()
KEYS = [
    at[...],
    at[0],
    at[-1],
    at[1:],
    at[:, 1],
    at[:, -2:],
    at[..., 0],
    at[..., ::2],
    at[:, ::-1],
    at[::-1, ..., 3:0:-2],
    at[1, 2, 3, 4],
    at[0, ..., 1:3],
    at[:, None],
    at[None, ..., None],
    at[1, None, :, 2],
    at[:, :100],
    at[:, 2:1],
    at[np.int64(1), np.uint8(2)],
]


def computed(build, shape, array=X):
    graph = dgo.Graph()
    value = build(graph.input("x", shape))
    result = graph.compile(value * 1)(array)
    assert all(known in (None, size) for known, size in zip(value.shape, result.shape, strict=True))
    return result


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_as_numpy(key):
    expected = X[key] if isinstance(key, tuple) else X[(key,)]
    result = computed(lambda x: x[key], X.shape)
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("key", [at[:, 1], at[..., 0], at[:, None], at[1:, 0, ::2], at[::-1], at[..., None]], ids=str)
@pytest.mark.parametrize("open_axes", [(0,), (0, 2), (2,)])
def test_sizes_of_the_call(key, open_axes):
    shape = tuple(None if axis in open_axes else size for axis, size in enumerate(X.shape))
    try:
        result = computed(lambda x: x[key], shape)
    except dgo.ShapeError as error:
        assert len(open_axes) > 1 and "keep the axes by slices" in str(error)
    else:
        assert np.array_equal(result, X[key])


def test_reshaped():
    for shape in ((6, 20), (-1,), (4, -1, 3)):
        assert np.array_equal(computed(lambda x, shape=shape: x.reshape(*shape), X.shape), X.reshape(shape))
        assert np.array_equal(computed(lambda x, shape=shape: x.reshape(shape), X.shape), X.reshape(shape))
    assert np.array_equal(computed(lambda x: x.T, X.shape), X.T)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (at[2], dgo.ShapeError, r"the index 2 is outside of axis 0 of shape \(2, 3, 4, 5\); use -2 to 1"),
        (at[:, -4], dgo.ShapeError, "index -4 is outside of axis 1"),
        (at[0, 0, 0, 0, 0], dgo.ShapeError, "5 indices for the 4 axes"),
        (at[..., ...], dgo.ShapeError, "2 times"),
        (at[[0]], TypeError, "got list; for positions in an array see dgo.ops.gather"),
        (at[np.array([0])], TypeError, "got ndarray"),
        (at[True], TypeError, "got bool"),
        (at["x"], TypeError, "got str"),
        (at[1.0], TypeError, "got float"),
        (at[::0], dgo.InvalidArgumentError, "step of 0"),
        (at[: 2**70], dgo.InvalidArgumentError, "does not fit"),
    ],
)
def test_refused(key, error, words):
    x = dgo.Graph().input("x", X.shape)
    with pytest.raises(error, match=words):
        x[key]
    assert len(x.graph.nodes) == 0


def test_an_index_into_a_size_of_the_call():
    with pytest.raises(dgo.ShapeError, match=r"axis 0 of shape \(None, 3\) is known at the call only; take a slice"):
        dgo.Graph().input("x", (None, 3))[0]


def test_it_is_no_sequence():
    x = dgo.Graph().input("x", (2, 3))
    for call in (iter, list, len, lambda x: 1 in x):
        with pytest.raises(TypeError):
            call(x)
    for name in ("__dlpack__", "__len__", "numpy"):
        assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=r"the Value 'x' has no attribute 'mul'; use dgo.ops.multiply"):
        x.mul(2)
    with pytest.raises(TypeError, match=r"no op computes '>' or '<' of .*use >= and <="):
        _ = x < 0

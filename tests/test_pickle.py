"""Nets, engines and errors travel to other processes."""

import pickle
import warnings

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile import pickled
from dnnl_graph_ops.compile.specialise import Options
from dnnl_graph_ops.graph import Node, Value
from dnnl_graph_ops.runtime.info import version
from dnnl_graph_ops.shapes import Attributes

ERRORS = (
    dgo.Error,
    dgo.InvalidArgumentError,
    dgo.ShapeError,
    dgo.UnsupportedError,
    dgo.RuntimeUnavailableError,
)
LOAD = "import pickle, sys; net, x, y = pickle.load(open(sys.argv[1], 'rb')); assert (net(x) == y).all(); print(net)"


def block(batch=2):
    """A net of two inputs and two outputs, with constants."""
    rng = np.random.default_rng(0)
    graph = dgo.Graph(name="block")
    x, skip = graph.input("x", (batch, 4, 4, 3)), graph.input("skip", (batch, 8, 8, 5))
    weights = graph.constant(rng.integers(-3, 4, (2, 2, 5, 3)).astype(np.float32))
    up = dgo.ops.conv_transpose(x, weights, strides=2, name="up")
    return graph.compile({"sum": dgo.ops.relu(up + skip), "up": up})


def test_net(seed):
    net = block()
    loaded = pickle.loads(pickle.dumps(net))
    assert (loaded.input_names, loaded.output_names) == (net.input_names, net.output_names)
    rng = np.random.default_rng(seed)
    x, skip = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 4, 4, 3), (2, 8, 8, 5)))
    for found, expected in zip(loaded(x, skip), net(x, skip), strict=True):
        assert np.array_equal(found, expected)
    assert repr(loaded) == repr(net)


def test_net_of_unknown_size():
    net = block(batch=None)
    loaded = pickle.loads(pickle.dumps(net))
    for batch in (1, 3):
        arrays = np.ones((batch, 4, 4, 3), np.float32), np.ones((batch, 8, 8, 5), np.float32)
        for found, expected in zip(loaded(*arrays), net(*arrays), strict=True):
            assert np.array_equal(found, expected)


@pytest.mark.child
def test_net_in_another_process(tmp_path):
    graph = dgo.Graph()
    value = graph.input("x", (1, 3, 3, 2))
    net = graph.compile(dgo.ops.conv_transpose(value, graph.constant(np.ones((2, 2, 4, 2), np.float32))))
    x = np.arange(18, dtype=np.float32).reshape(1, 3, 3, 2)
    file = tmp_path / "net"
    file.write_bytes(pickle.dumps((net, x, net(x))))
    done = child("-c", LOAD, str(file))
    assert done.returncode == 0, done.stderr
    assert "Net(" in done.stdout


def test_another_layout_is_refused_before_anything_is_read():
    class Later:
        def __reduce__(self):
            return pytest.fail, ("what this version cannot know was read",)

    net = block()
    restore, (made_by, *rest) = net.__reduce__()
    assert made_by == pickled.MadeBy(pickled.LAYOUT, version())

    class Pickle:
        def __reduce__(self):
            return restore, (pickled.MadeBy(99, "8.7.6"), Later(), *rest[1:])

    with pytest.raises(dgo.Error, match=rf"pickled by dnnl_graph_ops 8\.7\.6 \(layout 99\), and this is {version()}"):
        pickle.loads(pickle.dumps(Pickle()))


@pytest.mark.parametrize("loss", ["outputs", "nothing"])
def test_a_net_of_another_version_is_rebuilt_or_said_to_be_too_different(loss):
    class Pickle:
        def __reduce__(self):
            restore, (made_by, graph, outputs, *rest) = block().__reduce__()
            made_by = pickled.MadeBy(made_by.layout, "0.0.1")
            return restore, (made_by, graph, {"sum": 10**6} if loss == "outputs" else outputs, *rest)

    data = pickle.dumps(Pickle())
    if loss == "nothing":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert pickle.loads(data).output_names == ("sum", "up")
    else:
        with pytest.raises(dgo.InvalidArgumentError, match=r"0\.0\.1 pickled cannot be rebuilt .*KeyError"):
            pickle.loads(data)


def test_the_layout_is_counted():
    """Whoever changes what a pickled net is made of gives it a new number, and this test the new names."""
    graph = dgo.Graph()
    lying = [vars(graph), Value.__slots__, Node.__slots__, Attributes.__slots__, Options.__dataclass_fields__]
    assert (pickled.LAYOUT, *(" ".join(sorted(names)) for names in lying)) == (
        14,
        "_counts _keeps_inputs _names _next_id _promised _source constants engine fpmath_mode inputs name nodes "
        "outputs",
        "__weakref__ _held _id dtype graph name node shape strides",
        "absorbed attrs folded host id inputs kind late name outputs",
        "auto_pad data_format dilations dst_shape groups output_padding pads_begin pads_end resolved src_shape strides "
        "weights_format weights_shape",
        "algorithm algorithms policy precision tune weighed wide",
    )


def test_engine_stays_one_object():
    engine = dgo.engine("cpu")
    assert pickle.loads(pickle.dumps(engine)) is engine


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind):
    error = pickle.loads(pickle.dumps(kind("what is wrong")))
    assert type(error) is kind
    assert str(error) == "what is wrong"


def test_raised_error():
    with pytest.raises(dgo.ShapeError) as caught:
        dgo.conv_transpose(np.ones((1, 2, 3), np.float32), np.ones((2, 2, 5), np.float32))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

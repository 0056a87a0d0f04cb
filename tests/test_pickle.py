"""Nets, engines and errors travel to other processes."""

import pickle

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops.net import files

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


def test_a_pickle_holds_the_file(tmp_path):
    net = block()
    net.save(tmp_path / "net")
    _, (data,) = net.__reduce__()
    assert data == (tmp_path / "net").read_bytes()
    array = pickle.loads(pickle.dumps(net)).graph.constants[0].constant
    assert array.ctypes.data % 64 == 0
    assert not array.flags.writeable


def test_a_net_of_another_version_packs_its_weights_anew(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files, "version", lambda: "0.0.1")
        data = pickle.dumps(block())
    with pytest.warns(RuntimeWarning, match=r"saved with dnnl_graph_ops 0\.0\.1 \(here"):
        assert pickle.loads(data).output_names == ("sum", "up")


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

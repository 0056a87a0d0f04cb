"""Sessions of this package beside ONNX Runtime's own."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo

from .sessions import CPU, TensorProto, cpu, dgr, helper, model, onnxruntime
from .test_sessions import block, check, whole

Session = dgr.InferenceSession


def described(items):
    """Name, dims and type; ONNX Runtime has names for unknown dims."""
    return [(item.name, [d if isinstance(d, int) else None for d in item.shape], item.type) for item in items]


@pytest.mark.parametrize("size", [(1, 16, 12, 12), ("n", 16, "h", "w")], ids=["known", "unknown"])
def test_as_the_session_of_onnx_runtime(rng, size, tmp_path):
    source, feeds = block(rng, size), {"x": whole(rng, 1, 16, 12, 12)}
    path = tmp_path / "model.onnx"
    path.write_bytes(source)
    theirs = cpu(source)
    for given in (source, path, str(path)):
        session = Session(given, providers=CPU)
        assert described(session.get_inputs()) == described(theirs.get_inputs())
        assert [item.name for item in session.get_outputs()] == ["y"]
        check(session.run(None, feeds), theirs.run(None, feeds))
        check(session.run(["y"], feeds), theirs.run(["y"], feeds))


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "INT64", "INT32", "UINT8", "INT8", "BOOL", "FLOAT16", "STRING"])
def test_types(kind):
    info = [helper.make_tensor_value_info(name, getattr(TensorProto, kind), (2,)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", info[:1], info[1:])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    session, theirs = Session(source), cpu(source)
    assert described(session.get_inputs()) == described(theirs.get_inputs())
    assert described(session.get_outputs()) == described(theirs.get_outputs())


def test_several_outputs_in_the_order_that_is_asked_for():
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    session = Session(model(nodes, {"x": (3,)}, ["a", "b"], {}))
    x = np.array([-1, 0, 2], np.float32)
    b, a = session.run(["b", "a"], {"x": x})
    assert np.array_equal(a, np.maximum(x, 0)) and np.array_equal(b, -x)
    assert len(session.run([], {"x": x})) == 2
    with pytest.raises(dgo.InvalidArgumentError, match=r"no output 'c'.*a, b"):
        session.run(["c"], {"x": x})
    with pytest.raises(TypeError, match="missing"):
        session.run(None, {})


def test_threads_of_a_session(rng):
    options = onnxruntime.SessionOptions()
    assert Session(block(rng), options)._net._options.threads is None
    options.intra_op_num_threads = 1
    assert Session(block(rng), options)._net._options.threads == 1


def test_providers(rng):
    for providers in (CPU, [dgr.get_ep_name()], ["CUDAExecutionProvider", (CPU[0], {})], None, []):
        assert Session(block(rng), providers=providers).get_providers() == [dgr.get_ep_name()]
    with pytest.raises(dgo.InvalidArgumentError, match="'providers'"):
        Session(block(rng), providers=["CUDAExecutionProvider"])

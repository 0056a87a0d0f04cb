"""Nets in files: the same results to the bit, and pages that processes share."""

import gc
import pickle
import warnings
from contextlib import contextmanager
from math import prod
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
import pytest
from children import child
from compile.layout_graphs import random_graph
from shapes.generate import GENERATORS, inside

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops, schema
from dnnl_graph_ops.compile import pack_weights
from dnnl_graph_ops.compile.template import Template
from dnnl_graph_ops.net import files as saved
from dnnl_graph_ops.net.net import Net

from .file_mutations import header_of, nets, originals, with_header
from .saved import called, check_same, deep, mapped, random_arrays, results, scaled, through

CASES = 3
MOST_ELEMENTS = 50_000
# one kind more than the library has
KINDS = sorted({*schema.OPS, "ConvTransposeBackpropFilters"} - {"End", "Wildcard"})


pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.net"


def described(net):
    """What a net is, in words."""
    return (
        net.input_names,
        net.output_names,
        net._options,
        (net.graph.name, net.graph.fpmath_mode, net.engine),
        [(v.shape, v.dtype, v.strides) for v in net.inputs],
        [
            (n.kind, n.name, dict(n.attrs), [(v.name, v.shape, v.dtype, v.strides) for v in n.outputs])
            for n in net._parts[0]
        ],
    )


@pytest.mark.parametrize("number", range(5))
def test_nets_of_every_part(path, rng, number):
    found = list(nets())
    if number == len(found):
        pytest.skip("needs the extra 'onnx'")
    net = called(found[number], 2)
    loaded = through(net, path)
    assert described(loaded) == described(net)
    assert (loaded.graph.engine is None) == (net.graph.engine is None)
    for size in (1, 3):
        check_same(net, loaded, random_arrays(rng, net.inputs, size=size))
    again = through(loaded, path)
    assert described(again) == described(net)
    check_same(loaded, again, random_arrays(rng, net.inputs))


@pytest.mark.parametrize("number", range(12))
def test_random_graphs(path, seed, number):
    print(f"--seed={seed}, number {number}")
    rng = np.random.default_rng([seed, number])
    graph, outputs = random_graph(rng)
    net = graph.compile(outputs, policy=("fusion", "debug")[number % 4 == 3], tune=("heuristic", "off")[number % 2])
    loaded = through(net, path)
    assert described(loaded) == described(net)
    check_same(net, loaded, random_arrays(rng, net.inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_every_op(path, seed, kind):
    like = "ConvTransposeBackwardWeights" if kind.endswith("BackpropFilters") else kind
    for number in range(CASES):
        case = GENERATORS[like](Random(f"{seed} {kind} saved {number}"))
        print(f"--seed={seed}, case {number}\n{case}")
        if sum(prod(meta.shape) for meta in case.metas) > MOST_ELEMENTS:
            continue
        graph = dgo.Graph()
        inputs = [graph.input(f"x{i}", meta.shape, meta.dtype) for i, meta in enumerate(case.metas)]
        if kind == like:
            more = {"dtype": case.dtype, "outputs": case.outputs}
            given = case.attrs | {name: value for name, value in more.items() if value is not None}
            made = getattr(ops, schema.OPS[kind].builder)(*inputs, **given)
        else:
            made = ops.conv_transpose_backprop_filters(
                graph.input("a", (2, 3, 4)), graph.input("b", (2, 6, 5)), strides=2, dilations=1, filter_format="OIX",
                filter_shape=(5, 4, 2), pads_begin=0, pads_end=0,
            )  # fmt: skip
        values = made if isinstance(made, tuple) else (made,)
        try:
            net = graph.compile({f"y{i}": value for i, value in enumerate(values)})
        except dgo.UnsupportedError:
            continue
        loaded = through(net, path)
        assert described(loaded) == described(net)
        arrays = inside(kind, case.attrs, random_arrays(np.random.default_rng([seed, number]), net.inputs))
        if "Dropout" not in kind:
            check_same(net, loaded, arrays)


def test_constants_are_the_file(path):
    loaded = through(deep(), path)
    array = loaded.graph.constants[0].constant
    assert array is not None
    assert not array.flags.writeable
    assert not array.flags.owndata
    assert array.ctypes.data % 4096 == 0
    assert f" {path}\n" in Path("/proc/self/maps").read_text()


def packings(monkeypatch):
    """The labels of what is packed from here on."""
    labels, run = [], pack_weights.run_now

    def noted(step):
        labels.append(step.label)
        run(step)

    monkeypatch.setattr(pack_weights, "run_now", noted)
    return labels


@pytest.mark.parametrize("size", [None, 50])
def test_nothing_is_packed_again(path, rng, size, monkeypatch):
    net = deep(size)
    given = [random_arrays(rng, net.inputs, size=n) for n in ((40, 50, 200) if size is None else (50,))]
    for arrays in given[:2]:
        net(*arrays)
    net.save(path)
    labels = packings(monkeypatch)
    loaded = dgo.load(path, verify=True)
    for arrays in given:
        check_same(net, loaded, arrays)
    assert labels == []
    assert mapped(loaded) == [True] * len(header_of(path.read_bytes())["packed"])
    assert mapped(loaded) or size
    again = through(loaded, path.with_name("again"))
    check_same(loaded, again, given[0])
    assert labels == []
    assert path.with_name("again").stat().st_size == path.stat().st_size
    loaded.clear_plans()
    del net, again
    gc.collect()
    results(loaded, given[0])
    assert labels == []


@contextmanager
def no_compiling():
    """Nets that compile, or make a template, fail within this context."""
    refuse = mock.Mock(side_effect=AssertionError("compiled"))
    with mock.patch.object(Net, "_build", refuse), mock.patch.object(Template, "__init__", refuse):
        yield


@pytest.mark.parametrize("load", [through, lambda net, _: pickle.loads(pickle.dumps(net))], ids=["file", "pickle"])
def test_new_sizes_of_a_loaded_net_follow_from_the_first(path, rng, load):
    net = deep()
    given = [random_arrays(rng, net.inputs, size=size) for size in (40, 60, 33, 50, 51)]
    results(net, given[0])
    with no_compiling():
        loaded = load(net, path)
    assert loaded._templates.traced() == net._templates.traced() == [(50,)]
    wanted = [net(*arrays) for arrays in given]
    np.testing.assert_array_equal(loaded(*given[-1]), wanted[-1])
    with no_compiling():
        for arrays, want in zip(given[::-1], wanted[::-1], strict=True):
            np.testing.assert_array_equal(loaded(*arrays), want)
        assert loaded._templates.traced() == [(50,)]
        assert loaded.prepare([(1, 64, range(52, 58))]) == 6


@pytest.mark.parametrize("size", [50, None])
def test_a_file_of_one_size_has_no_templates(path, size):
    """A net that is called with one size only, and one of known sizes, is compiled for that size alone."""
    net = through(deep(size), path)
    assert header_of(path.read_bytes())["traced"] == net._templates.traced() == []


def test_files_without_sizes_of_templates_are_read(path, rng):
    net = deep()
    results(net, random_arrays(rng, net.inputs, size=40))
    net.save(path)
    header = header_of(path.read_bytes())
    assert header.pop("traced") == [[50]]
    path.write_bytes(with_header(path.read_bytes(), header))
    check_same(net, dgo.load(path), random_arrays(rng, net.inputs, size=45))


def branched(rng):
    """A layer whose constant weights take over the branches beside it."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 48, None))
    z = x
    for taps in (5, 1):
        weights = graph.constant(rng.integers(-2, 3, (48, 48, taps)).astype(np.float32))
        pads = {"pads_begin": taps // 2, "pads_end": taps // 2}
        y, z = z, ops.convolution(x, weights, **pads, data_format="NCX", weights_format="OIX")
    numbers = (rng.integers(1, 4, 48).astype(np.float32) for _ in range(4))
    return graph.compile(ops.relu(ops.batch_norm_inference(x, *numbers, epsilon=0.0, data_format="NCX") + z + y))


@pytest.mark.parametrize("made", [scaled, branched])
def test_changed_weights_are_found_as_well(path, rng, monkeypatch, made):
    net = made(rng)
    given = random_arrays(rng, net.inputs, size=300)
    wanted = net(*given)
    net.save(path)
    labels = packings(monkeypatch)
    np.testing.assert_array_equal(dgo.load(path)(*given), wanted)
    assert labels == []


def test_a_file_tells_other_nets_nothing(path):
    """What is packed of few elements is known by these, in all nets: a file would be believed by others."""
    content = originals()[0]
    header = header_of(content)
    cache_key = [["f32", 96], ["fill", [1]], 0, [[["<f4", [3], {"bytes": ""}], 0]]]
    for faulty in (cache_key, [], {}, {"constant": 0}, [["f32", 96], None], [[["f32", 1.5], 1, 1, [{"constant": 0}]]]):
        path.write_bytes(with_header(content, {**header, "packed": [faulty]}))
        with pytest.raises(dgo.InvalidArgumentError, match="cache key of packed weights is damaged"):
            dgo.load(path)
    nested = {"constant": 0}
    for _ in range(500):
        nested = [nested]
    path.write_bytes(with_header(content, {**header, "packed": [nested]}))
    with pytest.raises(dgo.InvalidArgumentError, match="cache key of packed weights is damaged"):
        dgo.load(path)


def test_a_file_replaced_changes_nothing(path, rng):
    net = deep()
    given = random_arrays(rng, net.inputs, size=20)
    loaded = through(net, path)
    called(list(nets())[2]).save(path)
    check_same(net, loaded, given)
    path.unlink()
    check_same(net, loaded, random_arrays(rng, net.inputs, size=30))


def test_a_net_of_an_onnx_file_is_whole(tmp_path, path, rng):
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weights = rng.standard_normal((64, 64, 9)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[4, 4])
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 64, "n")) for name in "xy"]
    model = helper.make_graph([node], "g", tensors[:1], tensors[1:], [numpy_helper.from_array(weights, "w")])
    file = tmp_path / "model.onnx"
    file.write_bytes(helper.make_model(model).SerializeToString())
    net = called(dgo.from_onnx(file).compile())
    net.save(path)
    given = random_arrays(rng, net.inputs, size=20)
    wanted = net(*given)
    file.unlink()
    np.testing.assert_array_equal(dgo.load(path)(*given), wanted)


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("which", ["unet", "dcgan"])
def test_exported_models(path, which, tune):
    pytest.importorskip("onnx")
    pytest.importorskip("torch")
    from frontends import models

    module, shape = {"unet": (models.UNet, (2, 3, 16, 24)), "dcgan": (models.dcgan_generator, (2, 20, 1, 1))}[which]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content, x = models.exported(module(), *shape)
    net = dgo.from_onnx(content).compile(tune=tune)
    check_same(net, through(net, path), [x])


@pytest.mark.child
def test_other_processes(path, rng):
    net = deep()
    net.save(path)
    given = random_arrays(rng, net.inputs, size=20)
    np.save(path.with_suffix(".npy"), given[0])
    code = (
        "import sys, numpy as np, dnnl_graph_ops as dgo; from constants import adopt; adopt(); "
        "net = dgo.load(sys.argv[1]); x = np.load(sys.argv[2]); np.save(sys.argv[3], net(x))"
    )
    for number in range(2):
        out = str(path.with_name(f"{number}.npy"))
        done = child("-W", "error", "-c", code, str(path), str(path.with_suffix(".npy")), out)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.load(out), net(*given))


SHARED = """
import sys
from pathlib import Path
import numpy as np
import dnnl_graph_ops as dgo

def own():
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith("Anonymous")) >> 10

dgo.load(sys.argv[1])(np.ones((1, 512, 2), np.float32))
before = own()
dgo.load(sys.argv[2])(np.ones((1, 512, 3), np.float32))
print(own() - before)
"""


@pytest.mark.child
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not say what is shared")
def test_packed_weights_are_no_memory_of_a_process(path):
    files = []
    for count in (1, 4):
        graph = dgo.Graph()
        value = graph.input("x", (1, 512, None))
        for number in range(count):
            weights = np.random.default_rng(number).standard_normal((512, 512, 4), dtype=np.float32)
            value = ops.conv_transpose(value, weights, data_format="NCX", weights_format="IOX", strides=2)
        files.append(path.with_name(f"{count}"))
        called(graph.compile(value), 3).save(files[-1])
    packed_bytes = sum(place[1] for place in header_of(files[1].read_bytes())["arrays"][4:])
    assert packed_bytes >= 16 << 20
    done = child("-c", SHARED, *map(str, files), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < packed_bytes >> 21


def test_made_by_says_what_counts():
    assert set(saved.made_by(dgo.engine("cpu"))) == {"dnnl_graph_ops", "oneDNN", "instruction set"}

"""Nets in files: the same results to the bit, pages that processes share, and what becomes of other files."""

import errno
import gc
import os
import pickle
import re
import socket
import struct
import warnings
from contextlib import contextmanager
from math import prod
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
import pytest
from children import check_faulty_cases, child
from compile.layout_graphs import random_graph
from shapes.generate import GENERATORS, inside

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops, schema
from dnnl_graph_ops.compile import pack_weights
from dnnl_graph_ops.compile.template import Template
from dnnl_graph_ops.graph import array_file
from dnnl_graph_ops.graph.constants import in_file
from dnnl_graph_ops.net import files as saved
from dnnl_graph_ops.net.net import Net

from .file_mutations import header_of, hollow, nets, originals, with_header

EACH = 400
CASES = 3
MOST_ELEMENTS = 50_000
# one kind more than the library has
KINDS = sorted({*schema.OPS, "ConvTransposeBackpropFilters"} - {"End", "Wildcard"})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.net"


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def random_arrays(rng, values, **sizes):
    shapes = [[sizes.get("size", 2) if n is None else n for n in value.shape] for value in values]
    return [
        rng.integers(-3, 4, shape).astype(dgo.dtypes.numpy_dtype(value.dtype))
        for shape, value in zip(shapes, values, strict=True)
    ]


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a pipe"])
def test_what_is_no_file_is_not_replaced(kind, tmp_path):
    """A pipe was turned into a file, and so was a device, by whoever may do so."""
    target = path = tmp_path / "a"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    else:
        os.mkfifo(path)
        if "link" in kind:
            path = tmp_path / "link"
            path.symlink_to(target)
    before = target.stat()
    graph = dgo.Graph()
    net = graph.compile(ops.relu(graph.input("x", (2, 3))))
    with pytest.raises(dgo.InvalidArgumentError, match="is a device, pipe or socket"):
        net.save(path)
    assert target.stat() == before and sorted(tmp_path.iterdir()) == sorted({target, path})


def results(net, given):
    found = net(*given)
    return found if isinstance(found, tuple) else (found,)


def check_same(net, loaded, given):
    for one, other in zip(results(net, given), results(loaded, given), strict=True):
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        assert one.tobytes() == other.tobytes()


def through(net, path):
    net.save(path)
    return dgo.load(path, verify=True)


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


def called(net, size=20):
    """The net with a plan."""
    results(net, random_arrays(np.random.default_rng(0), net.inputs, size=size))
    return net


def deep(size=None):
    """Some layers of an unknown size, whose constants are larger than what lies around them."""
    rng = np.random.default_rng(0)
    graph = dgo.Graph(name="deep")
    value = graph.input("x", (1, 64, size))
    for number in range(3):
        weights = graph.constant(rng.standard_normal((64, 64, 7), dtype=np.float32), f"w{number}")
        value = ops.relu(
            ops.convolution(value, weights, data_format="NCX", weights_format="OIX", pads_begin=3, pads_end=3)
        )
    return called(graph.compile(value), 50)


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


def mapped(net):
    """The packed arrays of all plans, and whether each lies in a file."""
    return [in_file(array) for array in {id(array): array for array in net._constants_read()}.values()]


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
    assert loaded._templates.traced() == net._templates.traced() == [(40,)]
    wanted = [net(*arrays) for arrays in given]
    np.testing.assert_array_equal(loaded(*given[-1]), wanted[-1])
    with no_compiling():
        for arrays, want in zip(given[::-1], wanted[::-1], strict=True):
            np.testing.assert_array_equal(loaded(*arrays), want)
        assert loaded._templates.traced() == [(40,)]
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
    assert header.pop("traced") == [[40]]
    path.write_bytes(with_header(path.read_bytes(), header))
    check_same(net, dgo.load(path), random_arrays(rng, net.inputs, size=45))


@pytest.mark.parametrize(
    "sizes", [None, {}, [3], [[]], [[1, 2]], [[0]], [[-4]], [[True]], [[2.0]], [[1 << 40]], [[5]] * 9]
)
def test_sizes_of_templates_that_no_net_has_are_refused(path, sizes):
    deep().save(path)
    header = header_of(path.read_bytes())
    path.write_bytes(with_header(path.read_bytes(), {**header, "traced": sizes}))
    with pytest.raises(dgo.InvalidArgumentError, match="is damaged: the sizes of its templates are"):
        dgo.load(path)


def test_sizes_that_the_ops_refuse_are_no_templates(path):
    graph = dgo.Graph()
    a, b = graph.input("a", (None, 3)), graph.input("b", (None, 3))
    net = graph.compile(ops.add(a, b))
    net.save(path)
    header = header_of(path.read_bytes())
    path.write_bytes(with_header(path.read_bytes(), {**header, "traced": [[2, 7]]}))
    loaded = dgo.load(path)
    for size in (2, 3, 4, 5):
        x = np.full((size, 3), size, np.float32)
        np.testing.assert_array_equal(loaded(x, x), 2 * x)
    assert (loaded._templates._served, loaded._templates.refusal) == (2, "")


def scaled(rng):
    """A layer whose constant weights take over what comes behind them."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 48, None))
    weights = graph.constant(rng.integers(-2, 3, (48, 32, 4)).astype(np.float32))
    y = ops.conv_transpose(x, weights, data_format="NCX", weights_format="IOX", strides=2)
    y = y * rng.integers(1, 4, (1, 32, 1)).astype(np.float32) + rng.integers(-2, 3, (1, 32, 1)).astype(np.float32)
    return graph.compile(ops.relu(y))


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


def test_packed_weights_of_another_size_are_refused(path, rng):
    """Else a kernel would read what lies behind them."""
    net = scaled(rng)
    net(*random_arrays(rng, net.inputs, size=300))
    net.save(path)
    data = path.read_bytes()
    header = header_of(data)
    count = len(header["graph"]["constants"])
    header["arrays"][count][1] -= 64
    path.write_bytes(with_header(data, header))
    with pytest.raises(dgo.InvalidArgumentError, match=rf"no array {count} of shape"):
        dgo.load(path)
    # a cache key that says so is that of something else
    base = header["packed"][0]
    while isinstance(base[0], list):
        base = base[0]
    base[1] -= 16
    path.write_bytes(with_header(data, header))
    loaded = dgo.load(path)
    check_same(net, loaded, random_arrays(rng, net.inputs, size=301))
    assert mapped(loaded) and not any(mapped(loaded))


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


def test_writing_is_all_or_nothing(path, monkeypatch):
    net = deep()
    net.save(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(array_file, "MAX_HEADER", 10)
        with pytest.raises(dgo.UnsupportedError, match="at most 10"):
            net.save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    link = path.with_name("link")
    link.symlink_to(path)
    called(next(iter(nets()))).save(link)
    assert link.is_symlink()
    assert path.read_bytes() != before
    with pytest.raises(FileNotFoundError):
        net.save(path.parent / "none" / "a.net")
    with pytest.raises(TypeError, match="'path' must be a path"):
        net.save(3)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_by_the_name_of_the_file(path, number, monkeypatch):
    def full(data):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(array_file.zlib, "crc32", full)
    with pytest.raises(
        OSError, match=f"Net.save: {os.strerror(number)}; free some space, or .* another disk"
    ) as caught:
        called(next(iter(nets()))).save(path)
    assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("name", ["dnnl_graph_ops", "oneDNN", "instruction set"])
def test_what_others_saved_is_packed_anew(path, rng, name):
    net = deep()
    net(*random_arrays(rng, net.inputs, size=20))
    net.save(path)
    data = path.read_bytes()
    header = header_of(data)
    assert len(header["packed"]) >= 3
    header["made_by"][name] = "9.9 of elsewhere"
    path.write_bytes(with_header(data, header))
    with pytest.warns(RuntimeWarning, match=re.escape(f"was saved with {name} 9.9 of elsewhere (here ")) as caught:
        loaded = dgo.load(path)
    assert caught[0].filename == __file__
    results(loaded, random_arrays(rng, net.inputs, size=20))
    assert mapped(loaded) == [False] * 3
    check_same(net, loaded, random_arrays(rng, net.inputs, size=20))
    header["graph"]["ops"][0]["kind"] = "Later"
    path.write_bytes(with_header(data, header))
    with pytest.raises(dgo.InvalidArgumentError, match=rf"no op kind 'Later'.*saved with {name} 9\.9"):
        dgo.load(path)


def test_engines(path, rng):
    graph = dgo.Graph(dgo.engine("cpu"))
    x = graph.input("x", (2, 3))
    net = graph.compile(ops.relu(x))
    net.save(path)
    data = path.read_bytes()
    assert dgo.load(path).graph.engine is net.engine
    header = header_of(data)
    for arguments, warning in (
        (["cpu", 0, "none.so", None], "no runtime 'none.so'"),
        (["cpu", 7, "omp", None], "index"),
    ):
        path.write_bytes(with_header(data, {**header, "engine": arguments}))
        with pytest.warns(RuntimeWarning, match=warning):
            assert dgo.load(path).engine is net.engine
        assert dgo.load(path, engine=net.engine).graph.engine is net.engine
    path.write_bytes(with_header(data, {**header, "engine": ["gpu", 0, "none.so", None]}))
    with pytest.raises(dgo.RuntimeUnavailableError, match=r"engine=dgo\.engine\('cpu'\)"):
        dgo.load(path)
    check_same(net, dgo.load(path, net.engine), random_arrays(rng, net.inputs))
    with pytest.raises(TypeError, match="'engine' must come from"):
        dgo.load(path, "cpu")


def test_a_net_without_plans_is_warned_of(path, rng):
    graph = dgo.Graph()
    net = graph.compile(graph.input("x", (None, 3)) * graph.constant(np.ones((2000, 3), np.float32)))
    with pytest.warns(UserWarning, match="has no plan, so its file holds nothing") as caught:
        net.save(path)
    assert caught[0].filename == __file__
    check_same(net, dgo.load(path), random_arrays(rng, net.inputs, size=2000))


def test_what_cannot_be_saved(path):
    graph = dgo.Graph()
    (strange,) = ops.wildcard(graph.input("x", (None, 2)), shapes=[(1, 2)], name="odd")
    with pytest.raises(dgo.UnsupportedError, match="'odd' is a Wildcard"):
        graph.compile(strange).save(path)
    assert not path.exists()


def test_engines_of_queues(path, monkeypatch):
    engine = dgo.engine("cpu")
    graph = dgo.Graph(engine)
    net = graph.compile(ops.relu(graph.input("x", (2,))))
    monkeypatch.setattr(engine, "_of_sycl", True)
    with pytest.raises(dgo.UnsupportedError, match="belongs to a SYCL queue"):
        net.save(path)


def test_other_files(tmp_path, path):
    with pytest.raises(FileNotFoundError):
        dgo.load(path)
    with pytest.raises(dgo.InvalidArgumentError, match="not an ordinary file"):
        dgo.load(tmp_path)
    with pytest.raises(TypeError, match="'path' must be a path"):
        dgo.load(b"")
    for content in (b"", b"dgo net", b"PK\3\4" * 100, bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(dgo.InvalidArgumentError, match=r"was not written by Net\.save"):
            dgo.load(path)
    data = originals()[0]
    path.write_bytes(data[:8] + struct.pack("<I", 77) + data[12:])
    with pytest.raises(dgo.InvalidArgumentError, match=f"has the format 77, this version reads {array_file.FORMAT}"):
        dgo.load(path)


def test_every_length_and_every_byte_of_the_start_and_header(path):
    """A file that is cut off, or has one wrong byte that is not a constant's, is refused."""
    data = originals()[2]
    *_, offset, length = array_file._START.unpack_from(data)
    assert offset + length == len(data)
    for cut in (*range(0, 40), *range(40, len(data), 37)):
        path.write_bytes(data[:cut])
        with pytest.raises(dgo.InvalidArgumentError):
            dgo.load(path)
    for at in (*range(array_file._START.size), *range(offset, len(data), 29)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(dgo.InvalidArgumentError):
            dgo.load(path)


def test_constants_are_compared_when_asked(path):
    net = deep()
    net.save(path)
    data = bytearray(path.read_bytes())
    data[header_of(data)["arrays"][1][0] + 5] ^= 1
    path.write_bytes(data)
    dgo.load(path)
    with pytest.raises(dgo.InvalidArgumentError, match="array 1 was changed"):
        dgo.load(path, verify=True)


def test_a_small_file_of_petabytes(path):
    path.write_bytes(hollow(originals()[0]))
    with pytest.raises(dgo.ShapeError, match=r"'n\d+' of shape \(\d+, .* has \d+ bytes"):
        dgo.load(path)
    header = header_of(path.read_bytes())
    header["graph"]["ops"] = header["graph"]["ops"][:30]
    header["graph"]["outputs"][0][1] -= 20
    path.write_bytes(with_header(path.read_bytes(), header))
    with pytest.raises(dgo.InvalidArgumentError, match=r"constants of \d+ bytes become"):
        dgo.load(path)


@pytest.mark.child
@pytest.mark.cases(400, 1200, 12_000, each=EACH)
def test_damaged_files(seed, start):
    check_faulty_cases("net.file_mutations", seed, start, start + EACH)


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

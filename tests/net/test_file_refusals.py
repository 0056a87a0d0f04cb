"""What is no net, or no whole one, is refused when it is saved or loaded, and leaves the file as it was."""

import errno
import os
import re
import socket
import struct

import numpy as np
import pytest
from children import check_faulty_cases

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.graph import array_file

from .file_mutations import header_of, hollow, nets, originals, with_header
from .saved import called, check_same, deep, mapped, random_arrays, results, scaled

EACH = 400


pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.net"


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
    assert (loaded._templates._served, loaded._templates.refusal) == (1, "")


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

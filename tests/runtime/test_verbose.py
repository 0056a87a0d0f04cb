"""The library's log as records: what is taken of it, and what stays as it is."""

import ctypes
import os
import threading
import time

import numpy as np
import pytest
from children import child
from concurrently import in_threads

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops.runtime.libraries import bundled_path
from dnnl_graph_ops.runtime.verbose import parse

LIBC = ctypes.CDLL(None)
LINE = b"onednn_verbose,exec,cpu,matmul,brg:avx2,undef,layouts,attributes,,4x32:32x32,0.5"

NET = """
import ctypes, os, sys, numpy as np, dnnl_graph_ops as dgo
graph = dgo.Graph()
net = graph.compile(dgo.ops.matmul(graph.input("x", (4, 32)), np.eye(32, dtype="f4")), tune="off")
x = np.ones((4, 32), np.float32)
libc = ctypes.CDLL(None)
def say(text):
    print(text, flush=True)
"""


def relu():
    """By the library, which builtin code would go before."""
    graph = dgo.Graph()
    return graph.compile(dgo.ops.relu(graph.input("x", (2, 3, 4, 4))), tune="off")


X = np.ones((2, 3, 4, 4), np.float32)


def puts(text: bytes) -> None:
    # as the library prints; C's puts reads `stdout` twice, and may write to a stream that it has not locked
    LIBC.printf(b"%s\n", text)
    LIBC.fflush(None)


def test_executions_are_taken(capfd):
    net = relu()
    net(X)
    with dgo.verbose() as log:
        net(X)
        net(X)
    assert [record.primitive for record in log.executed()] == ["eltwise", "eltwise"]
    assert {record.thread for record in log.executed()} == {threading.get_native_id()}
    net(X)
    assert capfd.readouterr() == ("", "")


def test_creations_at_level_2():
    with dgo.verbose(2) as log:
        graph = dgo.Graph()
        graph.compile(dgo.ops.tanh(graph.input("x", (5, 7, 3))), tune="off")(np.ones((5, 7, 3), np.float32))
    assert any(record.event.startswith("create") for record in log.records)


def test_file_descriptor_1_stays(capfd):
    before = os.fstat(1)
    with dgo.verbose() as log:
        assert os.fstat(1) == before
        os.write(1, b"raw\n")
        print("from Python", flush=True)
        assert capfd.readouterr().out == "raw\nfrom Python\n"
        puts(b"from C")
        assert capfd.readouterr().out == "from C\n"
    assert log.records == []


def test_what_other_c_code_prints_goes_on(capfd):
    texts = [b"begun ", b"and ended\n", b"onednn_ver", b"bal\n", LINE[:20], LINE[20:] + b"\n", b"no end"]
    with dgo.verbose() as log:
        for text in texts:
            LIBC.printf(b"%s", text)
            LIBC.fflush(None)
        LIBC.printf(b"%s\n%s\n%s\n", b"1", LINE, b"2")
        long = b"long " * 20000
        puts(long)
        puts(LINE + b"," + long)
        LIBC.printf(b"%s", b"onednn_verbose,never ended")
    out = capfd.readouterr().out
    LIBC.printf(b"later\n")
    LIBC.fflush(None)
    kept = [record.text.encode() for record in log.records]
    assert kept == [LINE, LINE, LINE + b"," + long]
    assert out.encode() == b"begun and ended\nonednn_verbal\nno end1\n2\n" + long + b"\nonednn_verbose,never ended"
    assert capfd.readouterr().out == "later\n"


def test_lines_of_another_thread():
    with dgo.verbose() as log:
        in_threads(1, lambda index: puts(LINE))
    (record,) = log.executed()
    assert record.primitive == "matmul" and record.thread not in (0, threading.get_native_id())


def test_a_line_is_no_record_unless_it_begins_one(capfd):
    with dgo.verbose() as log:
        puts(b"x " + LINE)
    assert not log.records and capfd.readouterr().out.startswith("x onednn_verbose")


def test_one_inside_another(capfd):
    net = relu()
    with dgo.verbose() as outer:
        net(X)
        with dgo.verbose() as inner:
            net(X)
        net(X)
    assert (len(outer.executed()), len(inner.executed())) == (3, 1)
    assert capfd.readouterr().out == ""


def test_an_error_inside(capfd):
    net = relu()
    with pytest.raises(KeyError), dgo.verbose() as log:
        net(X)
        raise KeyError
    net(X)
    assert len(log.executed()) == 1 and capfd.readouterr().out == ""


def test_threads_print_meanwhile(capfd):
    """Each line arrives whole and once, whoever starts or ends a capture."""
    counts = 4, 300

    def work(index):
        if index < 2:
            for _ in range(60):
                with dgo.verbose():
                    time.sleep(1e-3)
        else:
            for turn in range(counts[1]):
                puts(b"%d %d" % (index, turn))

    in_threads(2 + counts[0], work)
    lines = capfd.readouterr().out.split("\n")[:-1]
    assert sorted(lines) == sorted(f"{i + 2} {turn}" for i in range(counts[0]) for turn in range(counts[1]))


def test_a_capture_that_nobody_stops(capfd):
    capture = _core.LogCapture()
    puts(LINE)
    assert capture.stop() == [(threading.get_native_id(), LINE.decode())]
    assert len(capture.stop()) == 1
    capture = _core.LogCapture(pass_on=True)
    puts(LINE)
    del capture
    puts(b"after")
    assert capfd.readouterr().out == LINE.decode() + "\nafter\n"


@pytest.mark.parametrize("level", [0, 3, -1])
def test_other_levels(level):
    with pytest.raises(dgo.InvalidArgumentError), dgo.verbose(level):
        pass
    with pytest.raises(TypeError), dgo.verbose(True):
        pass


def executions(text: str) -> int:
    return sum(parse(line).event == "exec" for line in text.splitlines() if line.startswith("onednn_verbose"))


@pytest.mark.child
@pytest.mark.parametrize("variable", ["ONEDNN_VERBOSE", "DNNL_VERBOSE"])
@pytest.mark.parametrize("asked", ["", "0", "none", "1", "2", "all", "profile_exec"])
def test_what_the_user_asked_for_is_printed_before_and_after(variable, asked):
    script = NET + 'net(x); say("-"); net.explain(); say("-"); net(x); net(x); say("-")'
    done = child("-c", script, **{"ONEDNN_VERBOSE": "", variable: asked})
    assert done.returncode == 0, done.stderr
    first, second, third, rest = done.stdout.split("-\n")
    counted = [executions(text) for text in (first, second, third, rest)]
    # a product, behind a reorder on some CPUs; the same and another product; two products
    of_weights = counted[0] - 1
    assert counted == ([0, 0, 0, 0] if asked in ("", "0", "none") else [1 + of_weights, 2 + of_weights, 2, 0])
    assert of_weights <= 1


@pytest.mark.child
@pytest.mark.parametrize(
    ("asked", "level"),
    [("", 0), ("0", 0), ("1", 1), ("2", 2), ("dispatch", 0), ("error,profile_exec", 1), ("profile", 2), ("rubbish", 0)],
)
def test_level_in_the_environment(asked, level):
    script = f"from dnnl_graph_ops import _core; print(_core.Library({str(bundled_path())!r}).verbose)"
    done = child("-c", script, ONEDNN_VERBOSE=asked, DNNL_VERBOSE="")
    assert done.stdout.strip().splitlines()[-1] == str(level), done.stderr


@pytest.mark.child
def test_a_child_of_fork_prints_as_ever():
    script = (
        NET
        + """
with dgo.verbose() as log:
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
    libc.puts(b"in the parent" if child else b"in the child")
    libc.puts(b"onednn_verbose,x")
    libc.fflush(None)
    if not child:
        os._exit(0)
assert [record.text for record in log.records] == ["onednn_verbose,x"]
"""
    )
    done = child("-c", script, ONEDNN_VERBOSE="", DNNL_VERBOSE="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["in the child", "onednn_verbose,x", "in the parent"]


@pytest.mark.child
def test_exit_inside():
    done = child("-c", NET + 'log = dgo.verbose(); log.__enter__(); net(x); libc.puts(b"last words")')
    assert (done.returncode, done.stdout) == (0, "last words\n"), done.stderr

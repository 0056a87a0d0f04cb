"""What could crash or hang, in processes of their own: forks, ends of the process, early unregistering."""

from __future__ import annotations

import ctypes
import textwrap

import pytest
from children import child

from .sessions import dgr

PRELUDE = """
import gc, os, resource, sys, threading, time
import numpy as np
from ort.sessions import cpu, dgr, helper, model, onnxruntime, ours
from ort.test_sessions import block, whole

rng = np.random.default_rng(1)
source = block(rng)

def feeds(size):
    return {"x": whole(rng, 1, 16, size, size)}
"""


def done(script: str, **environment: str) -> str:
    """What a script prints, which ends without an error."""
    result = child("-c", PRELUDE + textwrap.dedent(script), seconds=120, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.child
def test_a_fork_computes_or_is_told():
    """A child of a process that has run a session ends; it never waits for threads that it lacks."""
    out = done("""
        session = ours(source)
        session.run(None, feeds(8))
        pid = os.fork()
        if pid == 0:
            try:
                session.run(None, feeds(8))
            except Exception:
                pass
            os._exit(0)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                print("ended")
                break
            time.sleep(0.01)
        else:
            os.kill(pid, 9)
    """)
    assert out == "ended\n"


@pytest.mark.child
def test_a_session_outlives_the_interpreter():
    """A session in a cycle of a module is released last, or never."""
    assert (
        done("""
        import builtins
        builtins.held = [ours(source)]
        builtins.held.append(builtins.held)
        builtins.held[0].run(None, feeds(8))
        print("end")
    """)
        == "end\n"
    )


@pytest.mark.child
def test_unregistered_while_a_session_lives():
    """The session goes on, and the provider can be registered again."""
    assert (
        done("""
        data = feeds(8)
        expected = cpu(source).run(None, data)
        session = ours(source)
        try:
            onnxruntime.unregister_execution_provider_library(dgr.get_ep_name())
        except Exception as error:
            print(error, file=sys.stderr)
        np.testing.assert_array_equal(session.run(None, data)[0], expected[0])
        del session
        gc.collect()
        np.testing.assert_array_equal(ours(source).run(None, data)[0], expected[0])
        print("end")
    """)
        == "end\n"
    )


@pytest.mark.child
def test_an_interrupt_waits_for_the_call():
    """Ctrl-C while a session is made, or a new size is compiled: the call ends as without it, then it is raised."""
    assert (
        done("""
        import signal
        from dnnl_graph_ops.onnxruntime import provider
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def interrupted(name, call):
            real = getattr(provider, name)

            def first(*args):
                if provider.__dict__[name] is real:
                    return real(*args)
                setattr(provider, name, real)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
            setattr(provider, name, first)
            try:
                call()
                time.sleep(10)
            except KeyboardInterrupt:
                return
            raise AssertionError(f"no interrupt of {name}")
        expected = cpu(source)
        for name in ("claimed", "compiled"):
            interrupted(name, lambda: ours(source))
        session, results = ours(source), []
        interrupted("plan_for", lambda: results.append(session.run(None, feeds(9))))
        data = feeds(9)
        np.testing.assert_array_equal(session.run(None, data)[0], expected.run(None, data)[0])
        print("end")
    """)
        == "end\n"
    )


@pytest.mark.child
def test_the_process_ends_while_threads_run():
    """Threads that the interpreter waits for end their calls first."""
    assert (
        done("""
        session, data = ours(source), feeds(64)

        def call():
            for _ in range(40):
                session.run(None, data)
            os.write(1, b"called\\n")  # print writes the end of the line apart
        for _ in range(4):
            threading.Thread(target=call).start()
        session.run(None, data)
    """)
        == 4 * "called\n"
    )


@pytest.mark.child
@pytest.mark.slow
def test_threads_make_run_and_release_sessions():
    """8 threads share one and make 200 more; models and sizes that fail are between them; memory is flat."""
    out = done("""
        from concurrent.futures import ThreadPoolExecutor
        wrong = source.replace(b"ConvTranspose", b"ConvTranspoze")
        datas = [feeds(size) for size in (6, 8, 10, 12)]
        expected = [cpu(source).run(None, data)[0] for data in datas]
        shared = ours(source)

        def refused(call):
            try:
                call()
            except Exception as error:
                assert not isinstance(error, AssertionError)
            else:
                raise AssertionError("no error")

        def call(number):
            held = []
            for i in range(13):
                refused(lambda: ours(wrong))
                held.append(ours(source))
                for session in (shared, held[-1]):
                    at = (number + i) % 4
                    np.testing.assert_array_equal(session.run(None, datas[at])[0], expected[at])
                    refused(lambda: session.run(None, {"x": datas[at]["x"][:, :8]}))
                # in another order than they were made in
                del held[(number + i) % len(held) : len(held) - 1]

        def pages():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(8)))
            before = pages()
            list(pool.map(call, range(8)))
        print(pages() - before)
    """)
    assert int(out) < 8 << 20


@pytest.mark.child
def test_memory_is_flat():
    """Sessions give back what they take: 150 further ones take less than two of their size."""
    out = done("""
        big = model(
            [helper.make_node("Conv", ["x", "w"], ["y"])],
            {"x": (1, 256, 8, 8)},
            ["y"],
            {"w": whole(rng, 512, 256, 3, 3)},
        )
        data = {"x": whole(rng, 1, 256, 8, 8)}

        def pages():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
        for i in range(200):
            ours(big).run(None, data)
            if i == 49:
                before = pages()
        print(pages() - before)
    """)
    assert int(out) < 2 * 512 * 256 * 9 * 4


def test_an_older_runtime_is_told():
    """CreateEpFactories returns a status that names both versions, made by the functions that the older runtime has."""
    messages = []
    status = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
        lambda code, message: messages.append((code, message)) or 1
    )
    table = (ctypes.c_void_p * 1)(ctypes.cast(status, ctypes.c_void_p))
    address = ctypes.addressof(table)

    class Base(ctypes.Structure):
        _fields_ = (("get_api", ctypes.c_void_p), ("get_version", ctypes.c_void_p))

    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda version: address if version < 23 else None)
    get_version = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.cast(text, ctypes.c_void_p).value)
    text = ctypes.create_string_buffer(b"1.22.1")
    base = Base(ctypes.cast(get_api, ctypes.c_void_p), ctypes.cast(get_version, ctypes.c_void_p))
    create = ctypes.CDLL(dgr.get_library_path()).CreateEpFactories
    create.restype = ctypes.c_void_p
    factories, count = (ctypes.c_void_p * 1)(), ctypes.c_size_t()
    assert create(b"name", ctypes.byref(base), None, factories, ctypes.c_size_t(1), ctypes.byref(count)) == 1
    assert messages == [(9, b"dnnl_graph_ops needs ONNX Runtime 1.23 or later, this is 1.22.1")]

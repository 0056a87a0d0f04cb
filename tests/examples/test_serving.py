"""The server of examples/13_serving.py under concurrent clients, and nets that are swapped while calls run."""

import asyncio
import threading
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import dnnl_graph_ops as dgo


@pytest.fixture(scope="module")
def serving():
    path = Path(__file__).parents[2] / "examples" / "13_serving.py"
    spec = spec_from_file_location("serving", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def server(serving, tmp_path):
    path = tmp_path / "vocoder.dgo"
    serving.build(path)
    servers = []

    def make(**options):
        servers.append(serving.Server(path, **{"workers": 2, **options}))
        return servers[-1]

    yield make
    for one in servers:
        one.pool.close()


def mel(serving, frames, seed=0):
    return np.random.default_rng(seed).standard_normal((frames, serving.MELS)).astype(np.float32)


def post(serving, app, frames, seed=0):
    return serving.request(app, "POST", "/synthesize", mel(serving, frames, seed).tobytes())


def test_clients_get_their_own_sounds(serving, server):
    app = server()
    app.load()

    async def clients():
        return await asyncio.gather(*(post(serving, app, 20 + 7 * (i % 5), seed=i) for i in range(20)))

    for i, (status, content) in enumerate(asyncio.run(clients())):
        expected = app.net(mel(serving, 20 + 7 * (i % 5), seed=i)[None])
        assert status == 200
        np.testing.assert_allclose(np.frombuffer(content, np.float32), expected.ravel(), atol=1e-5)


def test_health_and_wrong_requests(serving, server):
    app = server()

    async def requests():
        before = [await serving.request(app, "GET", "/health"), await post(serving, app, 10)]
        await serving.request(app, "POST", "/reload")
        after = [await serving.request(app, "GET", "/health"), await post(serving, app, 10)]
        wrong = [await serving.request(app, "POST", "/synthesize", b"123"), await serving.request(app, "GET", "/")]
        wrong.append(await post(serving, app, serving.LONGEST + 1))
        damaged_file = app.path.with_suffix(".new")
        damaged_file.write_bytes(b"damaged")
        damaged_file.replace(app.path)
        damaged = [await serving.request(app, "POST", "/reload"), await post(serving, app, 10)]
        return [status for status, _ in (*before, *after, *wrong, *damaged)]

    assert asyncio.run(requests()) == [503, 503, 200, 200, 400, 404, 413, 500, 200]


def test_what_is_ready_is_prepared(serving, server):
    app = server()
    app.load()
    plans = app.net.plan_count()
    for frames in serving.COMMON:
        assert asyncio.run(post(serving, app, frames))[0] == 200
    assert app.net.plan_count() == plans == len(serving.COMMON)


def test_calls_that_find_no_room_or_no_time(serving, server):
    app = server(workers=1, waiting=0)
    app.load()
    began, may_end = threading.Event(), threading.Event()
    running = app.pool.submit(lambda: began.set() or may_end.wait(60))
    assert began.wait(60)
    assert asyncio.run(post(serving, app, 10)) == (503, b"busy")
    may_end.set()
    running.result(60)
    assert asyncio.run(post(serving, app, 10))[0] == 200
    late = server(seconds=0)
    late.load()
    assert asyncio.run(post(serving, late, 10)) == (504, b"late")
    late.seconds = 60
    assert asyncio.run(post(serving, late, 10))[0] == 200


def checked(path, version, size=512):
    """A file of a net whose results are all `version` times the sum of an input, by two layers."""
    graph = dgo.Graph()
    x = graph.input("x", (None, size))
    weights = np.full((size, size), version, np.float32)
    y = dgo.ops.matmul(x, graph.constant(weights))
    net = graph.compile(dgo.ops.matmul(dgo.ops.relu(y), graph.constant(weights)))
    net.prepare([(8, size)])
    net.save(path)


def anonymous():
    """MB of this process that are no pages of a file; those of dropped nets' files stay while there is room."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


@pytest.mark.slow
def test_a_hundred_reloads_under_four_clients(tmp_path):
    """No error, no result of mixed weights, and no memory that stays."""
    size, reloads = 512, 100
    paths = [tmp_path / f"{version}.dgo" for version in (1, 2)]
    for version, path in enumerate(paths, 1):
        checked(path, version)
    nets, over, seen, errors, resident = [dgo.load(paths[0])], threading.Event(), set(), [], []
    x = np.ones((8, size), np.float32)
    with dgo.Pool(2) as pool:

        def client():
            try:
                while not over.is_set():
                    result = pool.submit(nets[0], x).result(60)
                    version = result[0, 0] / size**2
                    assert np.all(result == result[0, 0]) and version in (1, 4), result
                    seen.add(version)
            except BaseException as error:
                errors.append(error)

        clients = [threading.Thread(target=client) for _ in range(4)]
        for one in clients:
            one.start()
        for number in range(reloads):
            net = dgo.load(paths[(number + 1) % 2])
            net.prepare([(8, size)])
            nets[0] = net
            resident.append(anonymous())
        over.set()
        for one in clients:
            one.join(60)
    assert not errors and seen == {1, 4}
    # a net has packed 2 MB of weights
    assert max(resident[-20:]) < max(resident[10:30]) + 4

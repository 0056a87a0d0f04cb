"""A vocoder served: an ASGI app with a pool of workers, bounded waiting, time limits, health, and reload under load.

    python examples/13_serving.py                       clients and server in one process, and what the clients see
    VOCODER=vocoder.dgo uvicorn --app-dir examples --factory 13_serving:create

The app is plain ASGI, so that it needs no other package; in FastAPI or Starlette the same lines stand in a handler.
"""

import argparse
import asyncio
import json
import os
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np

import dnnl_graph_ops as dgo

MELS, HOP = 80, 64
# sizes that are compiled before the server says that it is ready; others are compiled at their first call
COMMON = range(50, 250, 50)
# scratch memory grows with the longest request
LONGEST = 2000


def build(path: Path, gain: float = 1.0) -> None:
    """Writes a small vocoder to a file: (1, frames, MELS) of a mel spectrogram to (1, frames * HOP, 1) of sound."""
    rng = np.random.default_rng(0)
    graph = dgo.Graph(name="vocoder")
    y = graph.input("mel", (1, None, MELS))
    channels = MELS
    for stride, wanted in ((8, 64), (8, 32)):
        weights = rng.normal(0, (2 * channels) ** -0.5, (2 * stride, wanted, channels)).astype(np.float32)
        pad = stride // 2
        y = dgo.ops.conv_transpose(y, graph.constant(weights), strides=stride, pads_begin=pad, pads_end=pad)
        y = dgo.ops.leaky_relu(y, alpha=0.1)
        channels = wanted
    last = rng.normal(0, (7 * channels) ** -0.5, (7, channels, 1)).astype(np.float32)
    y = dgo.ops.tanh(dgo.ops.convolution(y, graph.constant(last), pads_begin=3, pads_end=3))
    net = graph.compile({"sound": dgo.ops.multiply(y, graph.constant(np.float32(gain)))})
    net.prepare([(1, 100, MELS)])  # weights are packed in the file then
    net.save(path)


class Server:
    """The app: POST /synthesize with frames of float32 returns samples of float32, GET /health, POST /reload.

    `workers`: calls that run at a time, each with one thread. `waiting`: calls that may wait; others are told "busy".
    `seconds`: what a call may take, the time in the queue included.
    """

    def __init__(self, path: str | os.PathLike[str], workers: int | None = None, waiting: int = 32, seconds: float = 5):
        self.path, self.seconds = path, seconds
        self.pool = dgo.Pool(workers, threads=1, waiting=waiting, full="raise")
        self.net: dgo.Net | None = None
        self.loading = threading.Lock()

    def load(self) -> None:
        """Loads the file, then swaps the nets: calls that have begun end with the old one, whose memory goes then."""
        with self.loading:
            net = dgo.load(self.path)
            self.pool.prepare(net, [{"mel": (1, frames, MELS)} for frames in COMMON])
            self.net = net

    async def synthesize(self, body: bytes) -> tuple[int, bytes]:
        net = self.net
        if net is None:
            return 503, b"loading"
        if not body or len(body) % (4 * MELS):
            return 400, f"the body is frames of {MELS} float32".encode()
        mel = np.frombuffer(body, np.float32).reshape(1, -1, MELS)
        if mel.shape[1] > LONGEST:
            return 413, f"more than {LONGEST} frames".encode()
        end = time.monotonic() + self.seconds
        try:
            call = self.pool.submit(lambda: net.run({"mel": mel}, timeout=max(0.0, end - time.monotonic())))
            return 200, (await asyncio.wrap_future(call))["sound"].tobytes()
        except (dgo.QueueFull, CancelledError):
            return 503, b"busy"
        except dgo.Timeout:
            return 504, b"late"

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if (method, path) == ("POST", "/synthesize"):
            return await self.synthesize(body)
        if (method, path) == ("GET", "/health"):
            gauges = {"running": self.pool.running, "queued": self.pool.queued, "bytes": dgo.cache_info()["bytes"]}
            return (503, b"loading") if self.net is None else (200, json.dumps(gauges).encode())
        if (method, path) == ("POST", "/reload"):
            try:
                await asyncio.to_thread(self.load)
            except (dgo.Error, OSError) as error:
                # the net before stays
                return 500, str(error).encode()
            return 200, b"reloaded"
        return 404, b"no such page"

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await asyncio.to_thread(self.load)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await asyncio.to_thread(self.pool.close, cancel=True)
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status, content = await self.answer(scope["method"], scope["path"], body)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})


def create() -> Server:
    """The factory for uvicorn, hypercorn or gunicorn's workers."""
    return Server(os.environ["VOCODER"])


async def request(app: Server, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request, as a server of ASGI passes it."""
    sent: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request", "body": body}

    async def send(message: dict) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "path": path}, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def load_of(app: Server, clients: int, seconds: float) -> list[float]:
    """Clients that ask again as soon as they are answered, with sentences of other lengths; the seconds of each."""
    times: list[float] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        rng = np.random.default_rng(number)
        while time.monotonic() < end:
            mel = rng.standard_normal((int(rng.choice(list(COMMON))), MELS)).astype(np.float32)
            begin = time.monotonic()
            status, content = await request(app, "POST", "/synthesize", mel.tobytes())
            assert status == 200, content
            assert len(content) == 4 * HOP * len(mel)
            times.append(time.monotonic() - begin)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times


async def main(folder: Path, seconds: float) -> None:
    path = folder / "vocoder.dgo"
    build(path)
    for workers in (1, 2):
        app = Server(path, workers)
        assert (await request(app, "GET", "/health"))[0] == 503
        await request(app, "POST", "/reload")
        times = await load_of(app, 4, seconds)
        p50, p90, p99 = 1e3 * np.percentile(times, (50, 90, 99))
        print(
            f"{workers} worker{'s' * (workers > 1)}: {len(times) / seconds:.0f} calls a second, "
            f"p50 {p50:.1f}, p90 {p90:.1f}, p99 {p99:.1f} ms"
        )
        app.pool.close()
    app = Server(path, 2)
    app.load()
    build(path, gain=0.5)
    calls = asyncio.ensure_future(load_of(app, 4, seconds))
    await asyncio.sleep(seconds / 4)
    print("reload under load:", await request(app, "POST", "/reload"))
    print(f"{len(await calls)} calls meanwhile, all answered")
    hurried = Server(path, 1, waiting=1, seconds=0)
    hurried.load()
    mel = np.zeros((100, MELS), np.float32).tobytes()
    print("no time: ", await request(hurried, "POST", "/synthesize", mel))
    app.pool.close()
    hurried.pool.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build"), metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each load (1)")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(options.output, options.seconds))

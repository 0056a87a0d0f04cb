"""A competitor in a thread of this process instead of `pool.WorkerProcess`: the same commands, no process starts."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from dnnl_graph_ops.bench import worker
from dnnl_graph_ops.bench.peers.registry import Peer
from dnnl_graph_ops.bench.pool import answered


class ThreadWorker:
    lost = ""

    def __init__(self, peer: Peer, threads: int, cpus: list[int], wait: str = "library") -> None:
        self.peer, self.pid = peer, os.getpid()
        pipes = [os.pipe(), os.pipe()]
        self._commands, self._answers = os.fdopen(pipes[0][1], "w"), os.fdopen(pipes[1][0])
        ends = os.fdopen(pipes[0][0]), os.fdopen(pipes[1][1], "w")
        self._thread = threading.Thread(target=self._serve, args=ends)
        self._thread.start()

    def _serve(self, commands: Any, answers: Any) -> None:
        with commands, answers:
            worker.serve(self.peer.module, commands, answers)

    def send(self, do: str, **arguments: Any) -> None:
        self._commands.write(json.dumps({"do": do, **arguments}) + "\n")
        self._commands.flush()

    def receive(self, timeout: float = 120.0) -> dict[str, Any]:
        return answered(self._answers.readline())

    def ask(self, do: str, timeout: float = 120.0, **arguments: Any) -> dict[str, Any]:
        self.send(do, **arguments)
        return self.receive(timeout)

    def settle(self) -> None:
        pass

    def dismiss(self) -> None:
        pass

    def close(self) -> None:
        if not self._commands.closed:
            self._commands.close()
            self._thread.join()
            self._answers.close()

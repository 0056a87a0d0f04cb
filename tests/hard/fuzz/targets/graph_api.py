"""Sessions of calls of graph_api, numbered by the first eight bytes; each has ten calls or more."""

from __future__ import annotations

import random

from graph_api.sessions import Session


def one(data: bytes) -> None:
    Session(int.from_bytes(data.ljust(8, b"\0")[:8], "little")).run()


def change(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(8)

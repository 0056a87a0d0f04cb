"""The malformed calls of functional.fuzz_child, numbered by the first eight bytes."""

from __future__ import annotations

import random

from functional.fuzz_child import make


def one(data: bytes) -> None:
    padded = data.ljust(8, b"\0")
    function, given, keywords = make(int.from_bytes(padded[:4], "little"), int.from_bytes(padded[4:8], "little"))
    function(*given, **keywords)


def change(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(8)

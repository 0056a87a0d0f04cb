"""Graph files: broken ones in the ways of graph.mutations, as text or as the object that it holds."""

from __future__ import annotations

import json
import random
import zlib

import numpy as np
from graph.mutations import attempt, mutated

from dnnl_graph_ops.errors import InvalidArgumentError
from hard.fuzz.mutators import changed_bytes


def one(data: bytes) -> None:
    source: object = data
    if zlib.crc32(data) % 2:
        try:
            source = json.loads(data)
        except (ValueError, RecursionError):
            source = data
    if attempt(source):
        raise InvalidArgumentError("refused")


def change(rng: random.Random, data: bytes) -> bytes:
    try:
        made = mutated(np.random.default_rng(rng.getrandbits(32)), data.decode())
        return (made if isinstance(made, str) else json.dumps(made)).encode("utf-8", "replace")
    except (ValueError, RecursionError, LookupError):
        return changed_bytes(rng, data)

"""Files of saved nets, damaged in the ways of net.file_mutations; what loads is run."""

from __future__ import annotations

import functools
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
from net.file_mutations import attempt, changed_bytes, mutated, originals, pack_all

from dnnl_graph_ops.errors import InvalidArgumentError

pack_all()


@functools.cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@functools.cache
def kept() -> list[bytes]:
    # none lie among the seeds: they would be of one version and instruction set
    return originals()


def one(data: bytes) -> None:
    if attempt(data, Path(folder().name) / "net"):
        raise InvalidArgumentError("refused")


def change(rng: random.Random, data: bytes) -> bytes:
    numbers = np.random.default_rng(rng.getrandbits(32))
    if not data:
        data = rng.choice(kept())
    try:
        return mutated(numbers, data)
    except (ValueError, LookupError, RecursionError, struct.error):
        return changed_bytes(numbers, data)

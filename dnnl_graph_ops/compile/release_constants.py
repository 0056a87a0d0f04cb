"""Lets weights go that the library alone reads, once it has packed them.

oneDNN before 3.4 keeps its packed copy of constants for as long as the compiled partition lives, and reads only the
copy from then on. Weights that it takes as they lie have no copy: its log tells, by a reorder that the first run alone
has. Later releases drop copies when their store is full, and then read the constants once more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..graph.constants import owner_of
from ..graph.files import Piece
from ..onednn.log import logged
from ..onednn.partition import Compiled
from ..program.program import Buffer, HostStep, KernelStep, data_of
from ..runtime.engines import Engine
from ..runtime.verbose import Record

Array = np.ndarray[Any, Any]
# of weights that are more than the step's activations: packing them takes longer than the run that does it
_LEAST_BYTES = 4 << 20


def bake(parts: Sequence[Compiled | KernelStep | HostStep], engine: Engine, threads: int) -> set[Buffer]:
    """Runs parts whose large weights can be read again; returns the buffers whose data the plan needs no more."""
    if not engine.on_host or engine.runtime._library.has("dnnl_graph_set_constant_tensor_cache_capacity"):
        return set()
    readers = Counter(view.buffer for part in parts for view in part.reads)
    done = set()
    for part in parts:
        if not isinstance(part, Compiled) or not part.baked:
            continue
        constants = {view.buffer for view in part.reads if view.is_constant}
        large = {b for b in constants if b.nbytes >= _LEAST_BYTES and readers[b] == 1 and _is_freed(b)}
        moved = sum(view.buffer.nbytes for view in (*part.reads, *part.writes) if not view.is_constant)
        if sum(buffer.nbytes for buffer in large) > moved:
            packed = _packed_by(part, engine, threads)
            sizes = Counter(buffer.elements for buffer in constants)
            for buffer in large:
                # the log tells constants apart by their sizes alone
                if buffer.elements in packed and sizes[buffer.elements] == 1:
                    buffer.let_go()
                    done.add(buffer)
    return done


def _is_freed(buffer: Buffer) -> bool:
    """Whether letting a constant go gives memory back: not that of pages of a mapped file, or of another package."""
    if buffer.held is None or buffer.shared:
        return False
    owner, _ = owner_of(data_of(buffer))
    return owner is None or isinstance(owner, Piece)


def _packed_by(part: Compiled, engine: Engine, threads: int) -> set[int]:
    """Runs a part twice; returns the elements of all that the library reorders in the first run only."""
    first, later = (Counter(map(_elements, run)) for run in logged(part, engine, threads))
    return set(first - later)


def _elements(record: Record) -> int:
    """Returns how many elements a primitive reorders; 0 of any other."""
    return prod(map(int, re.findall(r"\d+", record.problem))) if record.primitive == "reorder" else 0


def nothing_of(buffer: Buffer) -> Array:
    """Returns memory of the buffer's size of which nothing is ever touched, and so none is taken from the system."""
    return np.empty(buffer.elements, dtypes.numpy_dtype(buffer.dtype))

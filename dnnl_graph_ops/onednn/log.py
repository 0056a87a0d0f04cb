"""Reads oneDNN's log of a partition that runs alone."""

from __future__ import annotations

import threading
from typing import Any

from .. import dtypes
from .._core import Executor
from ..program.arrays import ones
from ..program.program import View, data_of
from ..runtime import follow
from ..runtime.engines import Engine
from ..runtime.verbose import Record, verbose
from .partition import Compiled

Records = tuple[Record, ...]


def logged(part: Compiled, engine: Engine, threads: int) -> tuple[Records, Records]:
    """Runs a partition twice on ones and its constants; returns the log records of the primitives of each run.

    In the first run the library also processes constants, and keeps the results for later runs.
    """
    follow.prepare(engine)
    executor = Executor(engine._native, part.label)
    # a result that overwrites an operand needs no copy of the operand
    shared = {view: executor.add_scratch(0, view.buffer.nbytes) for pair in part.in_place for view in pair}
    arrays: tuple[list[Any], list[Any]] = ([], [])

    def slot(view: View, side: int) -> tuple[int, int]:
        if view in shared:
            return shared[view], 0
        if view.is_constant:
            return executor.add_constant(data_of(view.buffer)), view.byte_offset
        arrays[side].append(ones(view))
        add = executor.add_output if side else executor.add_input
        return add(dtypes.CODES[view.dtype], list(view.shape), list(view.strides)), 0

    ins, outs = ([slot(view, side) for view in views] for side, views in enumerate((part.reads, part.writes)))
    executor.add_partition(part.partition, ins, outs, part.label)
    executor.finalize(release_gil=True, threads=threads)
    # other threads may run primitives meanwhile, so the thread is compared; SYCL logs from a thread of its own
    everyone = engine.kind != "cpu" or engine.runtime.cpu_runtime == "sycl"

    def run() -> Records:
        with verbose() as log:
            executor.run(*arrays)
        return tuple(record for record in log.executed() if everyone or record.thread == threading.get_native_id())

    return run(), run()

"""A process that tries combinations in order, and prints a line of JSON for each.

Its standard input is a JSON object: "rows" of features, and "size", the index of the sizes to try.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from .. import dtypes
from ..backends.backend import Lowering, Places
from ..backends.onednn import build_native
from ..compile.plan import executor_of
from ..errors import Error
from ..ir.env import Env
from ..onednn.exact_int8 import Features
from ..onednn.partition import Partitioned, compile_partitions, partitioned
from ..program.program import NativeStep, Place, Program, View, argument
from ..runtime import cpu
from ..runtime import threads as pool
from ..runtime.engines import Engine, engine
from ..runtime.verbose import verbose
from ..strides import dense_strides
from .graphs import SIZES, Trial, trial
from .truth import right, truth

# rows whose ops are partitioned together, which takes as long as for one row
_TOGETHER = 32
EXACT, WRONG, REFUSED, APART = "exact", "wrong", "refused", "apart"


def main() -> None:
    asked = json.load(sys.stdin)
    used = engine("cpu")
    env = Env(used, 1, "off")
    _say(isa=cpu.isa(used), onednn=used.runtime.version, runtime=used.runtime.cpu_runtime)
    rows, size = [Features(*row) for row in asked["rows"]], asked["size"]
    with pool.using(1):
        for start in range(0, len(rows), _TOGETHER):
            trials = [trial(row, SIZES[size], size) for row in rows[start : start + _TOGETHER]]
            views = [_views(made) for made in trials]
            steps = [_step(made, known, env) for made, known in zip(trials, views, strict=True)]
            together = partitioned(steps, used, "strict", fused=True)
            for number, ready in enumerate(zip(trials, views, together, strict=True), start):
                verdict, kernel = _verdict(*ready, used)
                _say(row=number, verdict=verdict, kernel=kernel)


def _say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def _views(made: Trial) -> dict[Any, View]:
    views = {}
    for index, value in enumerate(made.data):
        shape = tuple(map(int, value.shape))  # type: ignore[arg-type]
        views[value] = argument(Place.INPUT, value.dtype, shape, dense_strides(shape), index)
    for value in made.graph.constants:
        assert value.constant is not None
        views[value] = Program().constant(value.constant)
    shape = tuple(map(int, made.result.shape))  # type: ignore[arg-type]
    views[made.result] = argument(Place.OUTPUT, made.result.dtype, shape, dense_strides(shape))
    return views


def _step(made: Trial, views: dict[Any, View], env: Env) -> NativeStep:
    program = Program()
    build_native(Lowering(Places(views), set(views), env, program=program), made.graph.nodes)
    (step,) = (step for step in program.steps if isinstance(step, NativeStep))
    return step


def _verdict(made: Trial, views: dict[Any, View], partitions: Partitioned, used: Engine) -> tuple[str, str]:
    """Returns the verdict on oneDNN's result for a combination, and the name of its kernel."""
    if len(partitions.partitions) > 1:
        return APART, ""
    try:
        with verbose(2) as log:
            parts = compile_partitions(Program(), partitions)
    except Error as error:
        return REFUSED, str(error.__cause__ or error)
    created = [record.implementation for record in log.created() if record.primitive != "reorder"]
    output = views[made.result]
    out = np.full(output.shape, 77, dtypes.numpy_dtype(output.dtype))
    executor = executor_of(parts, tuple(views[value] for value in made.data), [output], {}, used)
    executor.finalize(release_gil=False, threads=1)
    executor.run(list(made.data.values()), [out])
    return EXACT if right(out, truth(made)) else WRONG, ", ".join(dict.fromkeys(created))


if __name__ == "__main__":
    main()

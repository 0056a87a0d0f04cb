"""Times one version in a process that stays: `python -m against.worker PACKAGE MODELS`, a line of JSON each way.

{"prepare": ROW} answers with a digest of the results; {"samples": K, "each": M} with the least seconds of a run, by the
process's clock and the wall's, over K samples of M runs.
"""

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import rows
from .described import digest
from .package import use

Run = Callable[[], Any]
MOST_STOLEN = 8


def sampled(run: Run, samples: int, each: int) -> dict[str, float]:
    times = []
    for _ in range(samples):
        start, begin = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(each):
            run()
        process, wall = time.process_time_ns() - begin, time.perf_counter_ns() - start
        # a virtual machine's process clock can stand still once in 1e5 looks: such a sample would be the least
        if process * MOST_STOLEN > wall or not times:
            times.append((max(process, 1), wall))
    process, wall = map(min, zip(*times, strict=True))
    return {"process": process / each / 1e9, "wall": wall / each / 1e9}


def prepared(row: str, models: Path) -> tuple[Run | None, dict[str, Any]]:
    try:
        run = rows.prepare(row, models)
        results = run()
    except Exception as error:  # the other version's may run
        return None, {"refused": f"{type(error).__name__}: {error}"}
    arrays = results if isinstance(results, tuple) else (results,)
    answer = {"digest": [digest(array) for array in arrays if array is not None]}
    gc.collect()
    gc.freeze()
    return run, answer


def main() -> None:
    warnings.simplefilter("ignore")
    package, models = map(Path, sys.argv[1:])
    use(package).set_num_threads(1)
    run: Run | None = None
    for line in sys.stdin:
        request: Mapping[str, Any] = json.loads(line)
        if "prepare" in request:
            run = None
            gc.unfreeze()
            run, answer = prepared(request["prepare"], models)
        else:
            assert run is not None, "no row was prepared"
            answer = sampled(run, request["samples"], request["each"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

"""What one version plans and computes: `python -m against.dump PACKAGE MODELS TARGET NAME...`, a line of JSON a net.

The instruction set is the environment's. One thread, the nets one after the other.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from . import graphs
from .border import Border
from .described import digest
from .package import use

# with tune="off" the package takes every op as it is declared
VARIANTS = (("f32", "off"), ("f32", "heuristic"), ("bf16", "heuristic"), ("int8", "off"), ("int8", "heuristic"))
Arrays = Any


def nets(name: str, models: Path, border: Border) -> Iterator[tuple[str, Callable[[], Arrays]]]:
    """Every variant of a graph by its name: a function that compiles and runs it."""
    if name.startswith("call "):
        for dtype in ("f32", "bf16"):
            yield f"{name} {dtype}", lambda dtype=dtype: graphs.call(name.removeprefix("call "), dtype)()
        return
    read = cache(lambda: graphs.subject(name, models))

    def run(dtype: str, tune: str) -> Arrays:
        subject = read()
        precision = {"precision": dtype} if dtype == "bf16" else {}
        net = subject.graph.compile(subject.outputs, tune=tune, **precision)
        if dtype == "int8":
            import dnnl_graph_ops as dgo

            calibration = dgo.quantize.calibrate(net, [subject.given(net)])
            border.plans.clear()
            net = calibration.compile(tune=tune)
        return net(**subject.given(net))

    if name.startswith("layer "):  # whose own dtype is declared
        for tune in ("off", "heuristic"):
            yield f"{name} {tune}", lambda tune=tune: run("", tune)
        return
    for dtype, tune in VARIANTS:
        yield f"{name} {dtype} {tune}", lambda dtype=dtype, tune=tune: run(dtype, tune)


def line(name: str, compute: Callable[[], Arrays], border: Border) -> dict[str, Any]:
    """The record of a net; a refusal is a result, too."""
    border.plans.clear()
    try:
        results = compute()
    except Exception as error:
        return {"net": name, "plans": [], "results": [], "refused": f"{type(error).__name__}: {error}"}
    arrays = results if isinstance(results, tuple) else (results,)
    digests = [digest(array) for array in arrays if array is not None]
    return {"net": name, "plans": list(border.plans), "results": digests, "refused": ""}


def main(arguments: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    border = Border()
    package, models, target = map(Path, arguments[:3])
    dgo = use(package, border.watch)
    dgo.set_num_threads(1)
    with target.open("w", encoding="utf-8") as file:
        for name in arguments[3:]:
            for net, compute in nets(name, models, border):
                print(json.dumps(line(net, compute, border)), file=file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""python -m graph_api.parity RUNTIME: graphs cut by graph_api and by the C API; differences as JSON.

Reads lines from stdin: a path, or `SEED NUMBER` of a random graph.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import graph, partition

from .capi import CApi, Refused
from .random_graphs import random_graph

POLICIES = (partition.fusion, partition.debug)


def distrusted(op: dict[str, Any]) -> bool:
    """Ops that graph_api says are not supported though the library does: it computes them wrong."""
    attrs = {name: entry["value"] for name, entry in op.get("attrs", {}).items()}
    if op["kind"] == "ConvTransposeBackwardData":
        return any(d != 1 for d in attrs.get("dilations", ()))
    return op["kind"] == "ConvTransposeBackwardWeights" and attrs.get("auto_pad", "None").startswith("SAME")


def ours(document: dict[str, Any], policy: Any, runtime: str) -> Any:
    try:
        g = graph.from_json(document, runtime=runtime)
        g.finalize()
        return [(sorted(p.get_ops()), p.is_supported()) for p in g.get_partitions(policy)]
    except dgo.Error as error:
        return f"{type(error).__name__}: {error}"


def theirs(document: dict[str, Any], policy: Any, library: CApi) -> Any:
    wrong = {op["id"] for op in document["graph"] if distrusted(op)}
    try:
        told = library.partitions(document, int(policy))
    except Refused as error:
        return f"C: {error}"
    # the order within a partition is that of addresses in some versions
    return [(sorted(ids), supported and not wrong.intersection(ids)) for ids, supported in told]


def crashes(document: dict[str, Any], policy: Any, library: CApi) -> bool:
    """Whether the C API ends a process: one of its own, forked before anything was executed."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        theirs(document, policy, library)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def documents(lines: Any) -> Any:
    for line in filter(None, map(str.strip, lines)):
        numbers = line.split()
        if len(numbers) == 2 and all(n.isdigit() for n in numbers):
            yield line, random_graph(*map(int, numbers))
        else:
            yield line, json.loads(Path(line).read_text())


def main(runtime: str) -> None:
    chosen = dgo.engine("cpu", runtime=runtime).runtime
    library = CApi(chosen.path, "3.2" if chosen.version_info < (3, 3) else "3.13")
    differences, counts = [], {"graphs": 0, "refused": 0, "crashes": 0, "spared": 0, "partitions": 0, "supported": 0}
    for name, document in documents(sys.stdin):
        for policy in POLICIES:
            counts["graphs"] += 1
            here = ours(document, policy, runtime)
            if "ends the process" in here:
                # with several readers of the Dequantize, it depends on their order
                counts["crashes" if crashes(document, policy, library) else "spared"] += 1
                continue
            there = theirs(document, policy, library)
            if isinstance(here, str) and isinstance(there, str):
                counts["refused"] += 1
            elif here != there:
                differences.append([name, policy.name, here, there])
            else:
                counts["partitions"] += len(here)
                counts["supported"] += sum(supported for _, supported in here)
    print(json.dumps({"differences": differences, **counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])

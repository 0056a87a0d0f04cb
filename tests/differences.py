"""What is true of some oneDNN libraries only, by version and CPU runtime: differences.json, the first row that fits."""

import json
from pathlib import Path

import dnnl_graph_ops as dgo

TABLE = json.loads(Path(__file__).with_suffix(".json").read_text())


def fact(name, runtime=None):
    """The value of a row for a runtime, the default one if none is given."""
    runtime = runtime or dgo.engine("cpu").runtime

    def fits(row):
        before = tuple(map(int, row.get("before", "99").split(".")))
        return runtime.version_info < before and row.get("cpu_runtime", runtime.cpu_runtime) == runtime.cpu_runtime

    return next(row["is"] for row in TABLE[name] if fits(row))

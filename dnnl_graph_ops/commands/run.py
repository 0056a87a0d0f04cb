"""`dnnl-graph-ops run MODEL`: calls a model on arrays of files, or on random numbers, and writes its results."""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..bench.document import check_writable, write_bytes
from ..errors import InvalidArgumentError
from ..reports.tables import table
from . import models


def arguments(parser: argparse.ArgumentParser) -> None:
    models.add_file(parser)
    models.add_inputs(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="write all results by name (.npz), or the only one (.npy); bf16 as float32"
    )
    models.add_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.output:
        if not options.output.lower().endswith((".npy", ".npz")):
            raise InvalidArgumentError(f"{options.output}: end the name in .npz, or in .npy for a single result")
        check_writable(options.output)
    net = models.compiled(options.model, options)
    if options.output and options.output.lower().endswith(".npy") and len(net.outputs) != 1:
        raise InvalidArgumentError(
            f"{options.output}: an .npy file holds one array, and the model has {', '.join(net.output_names)}; end the "
            "name in .npz"
        )
    results = models.results_of(net, models.arrays_of(net, options))
    print("\n".join(table([("output", "dtype", "shape", "minimum", "mean", "maximum"), *_rows(results)])))
    if options.output:
        write_bytes(options.output, _file(results, Path(options.output).suffix.lower()))
        print(f"written to {options.output}")
    return 0


def _rows(results: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, result in results.items():
        array = np.asarray(result)
        numbers = array.astype(np.float64) if array.size and array.dtype.kind in "biufV" else None
        parts = ("", "", "") if numbers is None else (numbers.min(), numbers.mean(), numbers.max())
        yield (
            name,
            array.dtype.name,
            models.spelt(array.shape),
            *(f"{part:.6g}" if part != "" else "" for part in parts),
        )


def _file(results: Mapping[str, Any], end: str) -> bytes:
    # NumPy's files know no types of ml_dtypes
    arrays = {
        name: a.astype(np.float32) if (a := np.asarray(result)).dtype.kind == "V" else a
        for name, result in results.items()
    }
    file = io.BytesIO()
    if end == ".npy":
        np.save(file, next(iter(arrays.values())), allow_pickle=False)
        return file.getvalue()
    # as np.savez, whose own arguments no output may be named for
    with zipfile.ZipFile(file, "w") as members:
        for name, array in arrays.items():
            with members.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return file.getvalue()

"""Models of the zoo as ONNX files, written once and kept in the user's cache directory."""

from __future__ import annotations

import copy
import hashlib
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from ...errors import InvalidArgumentError
from ...runtime import cache_files
from . import ENTRIES, build, entry, shapes

OPSET: Final = 17
_SEED = 7
_NAMES: Final = (("length",), ("height", "width"), ("depth", "height", "width"))


def inputs(name: str, *, small: bool = False, train: bool = False) -> list[np.ndarray]:
    """Random, the same each time."""
    rng = np.random.default_rng(_SEED)
    return [rng.standard_normal(shape, np.float32) for shape in shapes(name, small=small, train=train)]


def path(name: str, *, small: bool = False, unknown: bool = False) -> Path:
    """Where the model's file is, made if there is none; its name changes with what it is made of.

    `unknown`: the extents of its inputs are known at the call only.

    Beside it, as .npz: `inputs` as x0, x1, ... and PyTorch's outputs in float64 as y0, y1, ...
    """
    entry(name)
    target = place(f"{name}{'_small' if small else ''}{'_unknown' if unknown else ''}", "onnx")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / target.name
            write(name, made, small=small, unknown=unknown)
            for file in (made.with_suffix(".npz"), made):
                file.replace(target.with_name(file.name))
    return target


def place(stem: str, suffix: str) -> Path:
    """Where a file of the zoo is."""
    return cache_files.folder("zoo") / f"{stem}-{_content()}.{suffix}"


def held(**every: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Numbered: x0, x1, ... and so on, for `numpy.savez`."""
    return {f"{letter}{i}": array for letter, arrays in every.items() for i, array in enumerate(arrays)}


def write(name: str, target: Path, *, small: bool = False, unknown: bool = False) -> None:
    """As the exporter by tracing gives it: the one that needs no further package."""
    module = build(name, small=small)
    given = inputs(name, small=small)
    examples = tuple(map(torch.from_numpy, given))
    with torch.inference_mode():
        out = copy.deepcopy(module).double()(*(example.double() for example in examples))
    made = [part.float().numpy() for part in (out if isinstance(out, tuple) else (out,))]
    np.savez(target.with_suffix(".npz"), **held(x=given, y=made))  # type: ignore[arg-type]
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            examples,
            str(target),
            dynamo=False,
            opset_version=OPSET,
            input_names=[f"x{i}" for i in range(len(examples))],
            dynamic_axes=_dims(name, small) if unknown else None,
        )


def _dims(name: str, small: bool) -> dict[str, dict[int, str]]:
    """Names of the extents: those of the first input, and their multiples.

    Raises:
        InvalidArgumentError: the model's sizes are fixed.
    """
    if not entry(name).step:
        movable = ", ".join(each for each, found in ENTRIES.items() if found.step)
        raise InvalidArgumentError(f"model {name!r} of the zoo has fixed sizes; models with variable sizes: {movable}")
    given = shapes(name, small=small)
    names = _NAMES[len(given[0]) - 3]
    return {
        f"x{i}": {
            axis: called if size == first else f"{size // first}*{called}"
            for axis, (called, size, first) in enumerate(zip(names, shape[2:], given[0][2:], strict=True), 2)
        }
        for i, shape in enumerate(given)
    }


def _content() -> str:
    """A digest of all that decides a file: the zoo's own sources, PyTorch's version, the opset."""
    digest = hashlib.sha256(f"{torch.__version__} {OPSET}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]

"""Models of the zoo as ONNX files, written once and kept in the user's cache directory."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from pathlib import Path
from typing import Final

import numpy as np
import torch

from ...runtime import cache_files
from . import build, entry, shapes

OPSET: Final = 17
_SEED = 7


def inputs(name: str, *, small: bool = False) -> list[np.ndarray]:
    """Random, the same each time."""
    rng = np.random.default_rng(_SEED)
    return [rng.standard_normal(shape, np.float32) for shape in shapes(name, small=small)]


def path(name: str, *, small: bool = False) -> Path:
    """Where the model's file is, made if there is none; its name changes with what it is made of.

    Beside it, as .npz: `inputs` as x0, x1, ... and PyTorch's outputs as y0, y1, ...
    """
    entry(name)
    target = cache_files.folder("zoo") / f"{name}{'_small' if small else ''}-{_content()}.onnx"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / target.name
            write(name, made, small=small)
            for file in (made.with_suffix(".npz"), made):
                file.replace(target.with_name(file.name))
    return target


def write(name: str, target: Path, *, small: bool = False) -> None:
    """As the exporter by tracing gives it: the one that needs no further package."""
    module = build(name, small=small)
    given = inputs(name, small=small)
    examples = tuple(map(torch.from_numpy, given))
    with torch.inference_mode():
        out = module(*examples)
    made = [part.numpy() for part in (out if isinstance(out, tuple) else (out,))]
    held = {f"{letter}{i}": array for letter, arrays in (("x", given), ("y", made)) for i, array in enumerate(arrays)}
    np.savez(target.with_suffix(".npz"), **held)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            examples,
            str(target),
            dynamo=False,
            opset_version=OPSET,
            input_names=[f"x{i}" for i in range(len(examples))],
        )


def _content() -> str:
    """A digest of all that decides a file: the zoo's own sources, PyTorch's version, the opset."""
    digest = hashlib.sha256(f"{torch.__version__} {OPSET}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]

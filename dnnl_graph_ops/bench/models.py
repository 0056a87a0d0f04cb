"""Whole models as cases: those of the zoo by name, ONNX files by path; their inputs and what they must give."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import InvalidArgumentError, RuntimeUnavailableError, extra
from ..graph.array_file import is_array_file
from ..runtime import cache_files
from ..words import of_file
from . import data, zoo
from .cases import Wanted
from .peers.registry import OWN, TORCH
from .problem import Problem
from .rows import Entry
from .sizes import dim, draw, parse

EVERY: Final = "all"
# of the largest expected value: what dozens of layers in f32 may differ by when they sum in another order
TOLERANCE: Final = 1e-3
# the same of gradients, where an input of ReLU or max pooling that rounding moves to its other side changes them all
TOLERANCE_TRAINED: Final = 0.3
# whose fastest is the one to beat; others compute in fewer bits, or are asked for by name
RIVALS: Final = ("onnxruntime", "openvino", "torch")
# times the largest error of PyTorch's own layouts that an optimized module's may be, and what is always fine: one input
# of ReLU that only ours, or only theirs, puts on the other side moves a gradient by some thousandths
_AS_TORCH: Final = 4.0
_FINE: Final = 1e-6
_FINE_TRAINED: Final = 1e-2
_SEED: Final = 7
# files that the command benchmark takes, and no other framework
_OURS_ALONE: Final = (".net", ".pt2", ".json")


@dataclass(frozen=True)
class Model:
    """A file, what it is given and must give (arrays x0, x1, ... and y0, y1, ...), and its name in the zoo, if any.

    `sizes`: of a file whose sizes are not known, those that it is called with (`sizes.parse`); it has no arrays.
    `train`: a training step (`zoo.training`); there is no file but the arrays then.
    """

    name: str
    path: str
    arrays: str
    zoo: str = ""
    sizes: str = ""
    train: bool = False

    def text(self) -> str:
        """As a case carries it."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Model:
        return cls(**json.loads(text))

    def expected(self) -> np.ndarray | None:
        """All outputs one after the other; None where there is nobody to say."""
        with np.load(self.arrays) as held:
            outputs = [held[key].ravel() for key in data.numbered(held, "y")]
        return np.concatenate(outputs).astype(np.float32) if outputs else None

    @property
    def tolerance(self) -> float:
        return TOLERANCE_TRAINED if self.train else TOLERANCE

    def record(self) -> dict[str, Any]:
        """Returns the fields of a result that describe the model."""
        with np.load(self.arrays) as held:
            sides = ("x", "t" if self.train else "y")
            inputs, outputs = ([list(held[key].shape) for key in data.numbered(held, side)] for side in sides)
        record = {"file": self.path, "zoo": self.zoo, "inputs": inputs, "outputs": outputs}
        return {**record, "train": True} if self.train else record


def wanted(names: Sequence[str], sizes: str = "", train: bool = False) -> list[Wanted]:
    """A model each, made first where the zoo's files are not there yet.

    `sizes`: models whose sizes are not known, and those that they are called with; "all": those of the zoo that can be.
    `train`: training steps of models of the zoo.

    Raises:
        InvalidArgumentError: neither a model of the zoo nor a file, or sizes that are known where they should not be,
            or the other way round.
        RuntimeUnavailableError: a package is missing that it needs.
    """
    all_of_zoo = [name for name, entry in zoo.ENTRIES.items() if entry.step or not sizes]
    every = [one for name in names for one in (all_of_zoo if name == EVERY else (name,))]
    found = [_trained(name) if train else _found(name, sizes) for name in dict.fromkeys(every)]
    for model in found:
        if sizes:
            drawn(model, 0)
    return [_wanted(model) for model in found]


@dataclass(frozen=True)
class Drawn:
    """Inputs of a model whose sizes are not known: their shapes in words, for every size in numbers; NumPy's dtypes."""

    named: list[list[str]]
    shapes: list[list[list[int]]]
    dtypes: list[str]


def drawn(model: Model, seed: int) -> Drawn:
    """Raises: InvalidArgumentError: all of its sizes are known, or it has not so many."""
    import onnx

    from .peers import onnx_model

    values = onnx_model.inputs(onnx.load(model.path, load_external_data=False).graph)
    named = [
        [dim(f"{model.path}: input {value.name!r}", each.dim_value, each.dim_param) for each in _dims(value)]
        for value in values
    ]
    step = zoo.entry(model.zoo).step if model.zoo else 1
    return Drawn(
        [[str(each) for each in shape] for shape in named],
        draw(model.name, parse(model.sizes), named, step, seed),
        [_dtype(value) for value in values],
    )


def _dims(value: Any) -> Any:
    return value.type.tensor_type.shape.dim


def _dtype(value: Any) -> str:
    """NumPy's name of it."""
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name


def _wanted(model: Model) -> Wanted:
    # its sizes say nothing: a result's rows each have a problem
    name = f"{model.name} {'train' if model.train else model.sizes}".rstrip()
    return Wanted(Problem(name, 1, 1, 1, (1,), (1,)), ("fwd",), ("f32",), model=model.text())


def _found(name: str, sizes: str) -> Model:
    path = Path(name)
    if path.suffix in (".onnx", *_OURS_ALONE) or path.is_file():
        if not path.is_file():
            raise InvalidArgumentError(f"model {name}: there is no such file")
        if path.suffix in _OURS_ALONE or is_array_file(path):
            raise InvalidArgumentError(
                f"model {name}: other frameworks read ONNX models; dnnl-graph-ops benchmark {name} measures it alone"
            )
        return Model(path.stem, str(path.resolve()), "", sizes=sizes) if sizes else _of_file(path)
    zoo.entry(name)
    _need("torch", f"to build model {name!r} of the zoo")
    _need("onnx", f"to write model {name!r} of the zoo")
    from .zoo import export

    path = export.path(name, unknown=bool(sizes))
    return Model(name, str(path), "" if sizes else str(path.with_suffix(".npz")), name, sizes)


def _trained(name: str) -> Model:
    zoo.entry(name)
    _need("torch", f"to train model {name!r} of the zoo")
    from .zoo import training

    path = str(training.path(name))
    return Model(name, path, path, name, train=True)


def hold_to_torch(entries: Iterable[Entry], train: bool = False) -> None:
    """Marks wrong what differs from float64 by more than PyTorch's layouts do: for this package inside PyTorch."""
    every = list(entries)
    theirs = [entry.error for entry in every if entry.peer == TORCH and entry.error is not None]
    limit = max(_FINE_TRAINED if train else _FINE, _AS_TORCH * max(theirs, default=math.inf))
    for entry in every:
        if entry.peer == OWN and entry.status == "ok" and entry.error is not None and entry.error > limit:
            said = f"off by {entry.error:.2g} of the largest expected value"
            entry.status, entry.reason = "wrong", f"{said}, PyTorch's layouts by {max(theirs, default=0.0):.2g}"


def _need(package: str, purpose: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise RuntimeUnavailableError(f"{package} is needed {purpose}: {extra('bench')}")


def _of_file(path: Path) -> Model:
    """Random inputs, and ONNX Runtime's outputs where it is installed and takes the model."""
    _need("onnx", f"to read {path}")
    import onnx

    from .peers import onnx_model

    content = path.read_bytes()
    arrays = cache_files.folder("zoo") / f"{path.stem}-{hashlib.sha256(content).hexdigest()[:12]}.npz"
    try:
        graph = onnx.load_from_string(content).graph
    except Exception as error:  # of protobuf, whose classes differ by its version
        raise InvalidArgumentError(f"{path}: no ONNX model ({error}){of_file(path, '.onnx')}") from None
    values = onnx_model.inputs(graph)
    shapes = [[dim.dim_value for dim in _dims(value)] for value in values]
    for value, shape in zip(values, shapes, strict=True):
        if not value.type.tensor_type.HasField("shape") or not all(shape):
            raise InvalidArgumentError(
                f"{path}: input {value.name!r} has sizes that are not known; say which by --sizes, or fix them, for "
                "example by onnx.tools.update_model_dims"
            )
    inputs = data.drawn(shapes, [_dtype(value) for value in values], _SEED)
    held = {f"x{i}": array for i, array in enumerate(inputs)}
    if importlib.util.find_spec("onnxruntime") is not None:
        names = (value.name for value in values)
        held |= {f"y{i}": array for i, array in enumerate(_computed(path, dict(zip(names, inputs, strict=True))))}
    arrays.parent.mkdir(parents=True, exist_ok=True)
    with arrays.open("wb") as file:
        np.savez(file, **held)  # type: ignore[arg-type]
    return Model(path.stem, str(path.resolve()), str(arrays))


def _computed(path: Path, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(given)))
    except Exception:  # its own row will say why
        return []

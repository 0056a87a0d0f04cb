"""Which competitors there are, what each can run, and whether it is installed. Imports none of them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ...errors import Error, InvalidArgumentError
from ...schema.arguments import suggest

OWN: Final = "dgo"
TORCH: Final = "torch"
# this package inside PyTorch
OPTIMIZED: Final = "torch-optimized"
# oneDNN's own kernels, through this package
LITERAL: Final = "onednn"
# OpenVINO with fewer bits than f32
LENIENT: Final = "openvino-default"
_GROUP: Final = "dnnl_graph_ops.bench_peers"
_OTHER_NAMES: Final = {
    "pytorch": TORCH,
    **dict.fromkeys(("ort", "onnx", "onnx-runtime"), "onnxruntime"),
    **dict.fromkeys(("inductor", "torch.compile"), "torch-compile"),
}


@dataclass(frozen=True)
class Peer:
    """A competitor. Others are added as entry points of the group `dnnl_graph_ops.bench_peers`.

    Attributes:
        name: as given to `--peers`.
        module: import path of the module with `versions()` and `prepare(task)`.
        requires: import names that must be there.
        install: what to say when they are not.
        directions, dtypes, layouts: what it can be asked for; layouts are its own activations' order, "packed" for
            one that blocks channels and keeps them so between layers.
        environment: set in its process.
        tolerance: the error that its default algorithm may have where that is above the data type's: minimal
            filtering with large tiles. A result between the two is raced, and marked.
        default: part of `--peers all`.
        models: import path of the module that prepares whole models (`ModelTask`); empty: it takes none.
        trains: that module prepares training steps too.
        first: what its process imports before all else.
        options: of its tasks.
        ours: its process needs this package's library.
    """

    name: str
    module: str
    requires: tuple[str, ...] = ()
    install: str = ""
    directions: tuple[str, ...] = ("fwd",)
    dtypes: tuple[str, ...] = ("f32",)
    layouts: tuple[str, ...] = ("NCX",)
    environment: dict[str, str] = field(default_factory=dict, hash=False)
    tolerance: float = 0.0
    default: bool = True
    models: str = ""
    trains: bool = False
    first: str = ""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    ours: bool = False

    def takes_models(self, train: bool) -> bool:
        """Whole ones; `train`: their training steps."""
        return bool(self.models) and (self.trains or not train)

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        absent = [name for name in self.requires if not _importable(name)]
        if not absent:
            return None
        return f"{self.name}: {', '.join(absent)} not installed; pip install {self.install or ' '.join(absent)}"


_ALL = ("fwd", "bwd_d", "bwd_w")
_HERE = __name__.rpartition(".")[0]

_TORCH_MODELS: Final = f"{_HERE}.pytorch_models"
# constants folded into the compiled function, as the other runtimes do with theirs
_FROZEN: Final = {"TORCHINDUCTOR_FREEZING": "1"}
_OURS = Peer(
    OWN,
    f"{_HERE}.own",
    directions=_ALL,
    dtypes=("f32", "bf16", "f16", "int8"),
    layouts=("NXC", "NCX"),
    default=False,
    models=f"{_HERE}.own_models",
    ours=True,
)
_INSIDE_TORCH = Peer(
    OPTIMIZED,
    "",
    (TORCH,),
    directions=(),
    dtypes=(),
    layouts=("NXC", "NCX"),
    default=False,
    models=_TORCH_MODELS,
    options={"form": "optimized"},
    trains=True,
    ours=True,
    # as users do: both then run on the OpenMP that PyTorch brings, and its threads wait as PyTorch has them
    first=TORCH,
)

_BUILT_IN: Final = (
    _OURS,
    # the op as oneDNN's own partition computes it
    replace(_OURS, name=LITERAL, models="", options={"tune": "off"}),
    Peer(
        TORCH,
        f"{_HERE}.pytorch",
        ("torch",),
        directions=_ALL,
        dtypes=("f32", "bf16", "f16"),
        layouts=("NXC", "NCX"),
        models=_TORCH_MODELS,
        trains=True,
    ),
    # compiles for seconds to minutes a layer: only by name
    Peer(
        "torch-compile",
        f"{_HERE}.pytorch",
        ("torch",),
        "torch, and a C++ compiler",
        dtypes=("f32", "bf16", "f16"),
        layouts=("NXC", "NCX"),
        environment=_FROZEN,
        default=False,
        models=_TORCH_MODELS,
        options={"form": "inductor"},
        trains=True,
    ),
    _INSIDE_TORCH,
    replace(_INSIDE_TORCH, name=f"{OWN}-compile", options={"form": "backend"}),
    replace(_INSIDE_TORCH, name=f"{OWN}-export", options={"form": "export"}, layouts=("NCX",), trains=False),
    Peer(
        "onnxruntime",
        f"{_HERE}.onnx_runtime",
        ("onnxruntime", "onnx"),
        "onnxruntime onnx",
        dtypes=("f32", "f16", "int8"),
        models=f"{_HERE}.onnx_runtime",
    ),
    Peer(
        "openvino",
        f"{_HERE}.open_vino",
        ("openvino", "onnx"),
        "openvino onnx",
        dtypes=("f32", "bf16", "f16", "int8"),
        models=f"{_HERE}.open_vino",
    ),
    # whole models in the precision that it chooses itself, bf16 where the CPU has it
    Peer(
        LENIENT,
        "",
        ("openvino",),
        directions=(),
        dtypes=(),
        tolerance=0.2,
        models=f"{_HERE}.open_vino",
        options={"hint": "default"},
    ),
    Peer("ncnn", f"{_HERE}.tencent_ncnn", ("ncnn",), layouts=("packed",), tolerance=1e-4),
    Peer(
        "mnn",
        f"{_HERE}.alibaba_mnn",
        ("MNN", "onnx"),
        "MNN onnx",
        layouts=("packed",),
        tolerance=5e-3,
        models=f"{_HERE}.alibaba_mnn",
    ),
)


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def peers() -> dict[str, Peer]:
    """Every known competitor by name: the built-in ones and those of entry points."""
    known = {peer.name: peer for peer in _BUILT_IN}
    for entry in importlib.metadata.entry_points(group=_GROUP):
        peer: Any = entry.load()
        if not isinstance(peer, Peer):
            raise Error(f"entry point {entry.name!r} of {_GROUP} is {type(peer).__name__}, expected a Peer")
        known.setdefault(peer.name, peer)
    return known


def is_rival(name: str) -> bool:
    """Whether a peer is another's code that computes in the same precision."""
    return not name.startswith((OWN, LITERAL)) and name != LENIENT


def _with_library(peer: Peer, file: str) -> Peer:
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise InvalidArgumentError(f"peer {peer.name}@{file}: there is no such file; give the path of a libdnnl.so.3")
    name = f"{peer.name}@{path.name.removeprefix('libdnnl.so.')}"
    return replace(peer, name=name, environment={**peer.environment, "DNNL_GRAPH_OPS_LIBRARY": str(path)})


def select(names: Iterable[str]) -> tuple[list[Peer], list[str]]:
    """The asked-for competitors that are installed, and a note for each that is not.

    "all" stands for every default one, "none" for none, "dgo@FILE" and "onednn@FILE" for this package and for oneDNN's
    own kernels with another libdnnl.so.3.

    Raises:
        InvalidArgumentError: a name that is not known, or no such file.
    """
    known = peers()
    names = list(names)
    for place, name in enumerate(names):
        base, at, file = name.partition("@")
        if at and base in (OWN, LITERAL):
            peer = _with_library(known[base], file)
            known[peer.name], names[place] = peer, peer.name
    wanted: list[str] = []
    for name in names:
        if name == "all":
            wanted += [peer.name for peer in known.values() if peer.default]
        elif name != "none":
            wanted.append(name if name in known else _OTHER_NAMES.get(name.lower(), name))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        others = [name for name in known if name != OWN]
        raise InvalidArgumentError(
            f"peers {unknown} are not known; known: {', '.join(others)}, all, none{suggest(unknown[0], others)}"
        )
    chosen, notes = [], []
    for name in dict.fromkeys(wanted):
        reason = known[name].missing()
        if reason:
            notes.append(reason)
        else:
            chosen.append(known[name])
    return chosen, notes

"""Which competitors there are, what each can run, and whether it is installed. Imports none of them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ...errors import Error, InvalidArgumentError
from ...schema.arguments import suggest

OWN: Final = "dgo"
TORCH: Final = "torch"
# this package inside PyTorch
OPTIMIZED: Final = "torch-optimized"
# oneDNN's kernels, through this package
LITERAL: Final = "onednn"
# OpenVINO with fewer bits than f32
LENIENT: Final = "openvino-default"
_GROUP: Final = "dnnl_graph_ops.bench_peers"
# as pyproject.toml names it; a source tree that was never installed has no metadata
_OURS: Final = importlib.metadata.EntryPoint("builtin", f"{__name__.rpartition('.')[0]}.builtin:PEERS", _GROUP)
_OTHER_NAMES: Final = {
    "pytorch": TORCH,
    **dict.fromkeys(("ort", "onnx", "onnx-runtime"), "onnxruntime"),
    **dict.fromkeys(("inductor", "torch.compile"), "torch-compile"),
}


@dataclass(frozen=True)
class Peer:
    """A competitor. An entry point of the group `dnnl_graph_ops.bench_peers` is one, or a tuple of several.

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


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def peers() -> dict[str, Peer]:
    """Every known competitor by name, those of entry points: the package's own first, which others cannot replace."""
    known: dict[str, Peer] = {}
    entries = {entry.value: entry for entry in (_OURS, *importlib.metadata.entry_points(group=_GROUP))}
    for entry in entries.values():
        loaded: Any = entry.load()
        for peer in loaded if isinstance(loaded, tuple) else (loaded,):
            if not isinstance(peer, Peer):
                raise Error(f"entry point {entry.name!r} of {_GROUP} is {type(peer).__name__}, expected a Peer")
            known.setdefault(peer.name, peer)
    return known


def is_rival(name: str) -> bool:
    """Whether a peer is another's code that computes in the same precision."""
    return not name.startswith((OWN, LITERAL)) and name != LENIENT


def _with_library(peer: Peer, file: str, known: Mapping[str, Peer]) -> Peer:
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise InvalidArgumentError(f"peer {peer.name}@{file}: there is no such file; give the path of a libdnnl.so.3")
    # wheels have copies in place of links: the longest name says the version
    size = path.stat().st_size
    same = (each.name for each in path.parent.glob(f"{path.name}*") if each.stat().st_size == size)
    name = f"{peer.name}@{max(same, key=len).removeprefix('libdnnl.so.')}"
    name = f"{peer.name}@{path}" if name in known else name
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
            peer = _with_library(known[base], file, known)
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

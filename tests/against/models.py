"""Models as files, which both versions read: `python -m against.models PACKAGE FOLDER NAME...` writes those missing.

The package of the working tree builds the zoo's; names are "zoo unet", "full unet", "torch block".
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

SUFFIXES = {"zoo": "onnx", "full": "onnx", "torch": "pt2"}


def path(folder: Path, name: str) -> Path:
    """Of a model's file; its inputs lie beside it as .npz."""
    return folder / f"{name.replace(' ', '_')}.{SUFFIXES[name.split()[0]]}"


def sources(package: Path) -> str:
    """A digest of what decides the files: a folder of models is of one digest."""
    files = [*(package / "dnnl_graph_ops" / "bench" / "zoo").glob("*.py"), Path(__file__).with_name("torch_models.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:12]


def write(name: str, target: Path) -> None:
    room, _, model = name.partition(" ")
    if room == "torch":
        from .torch_models import export

        export(model, target)
    else:
        from dnnl_graph_ops.bench.zoo import export as zoo

        zoo.write(model, target, small=room == "zoo")


def main(arguments: Sequence[str]) -> None:
    from .package import use

    folder = Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in arguments[2:] if not path(folder, name).exists()]
    use(Path(arguments[0]))
    for name in missing:
        target = path(folder, name)
        new = target.with_name(f"new_{target.name}")
        write(name, new)
        for suffix in (".npz", target.suffix):
            new.with_suffix(suffix).replace(target.with_suffix(suffix))
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

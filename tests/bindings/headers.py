"""What a set of C headers declares, read as text."""

import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

_FILES = ("dnnl_common_types.h", "dnnl_common.h", "dnnl_graph_types.h", "dnnl_graph.h", "dnnl_graph_sycl.h")


def unpack(distribution: str, version: str, folder: Path) -> dict[str, str]:
    """Text of a distribution's headers by file name: of the installed one, else of its wheel."""
    try:
        installed = importlib.metadata.distribution(distribution)
        if installed.version == version:
            paths = {f.name: f.locate() for f in installed.files or () if f.parent.name == "dnnl"}
            return {name: Path(paths[name]).read_text() for name in _FILES}
    except importlib.metadata.PackageNotFoundError:
        pass
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*command, f"{distribution}=={version}"], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(n).name: n for n in archive.namelist() if "/oneapi/dnnl/" in n}
        return {name: archive.read(names[name]).decode() for name in _FILES}


def _plain(text: str) -> str:
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    # what only experimental builds have
    return re.sub(r"#if[^\n]*EXPERIMENTAL.*?#endif", "", text, flags=re.S)


def enumerators(texts: dict[str, str]) -> dict[str, int]:
    """Every enumerator of every typedef'd enum with its value."""
    out: dict[str, int] = {}
    for text in texts.values():
        for body in re.findall(r"typedef\s+enum\s*\{(.*?)\}", _plain(text), flags=re.S):
            value = -1
            for entry in filter(None, (part.strip() for part in body.split(","))):
                name, _, given = (part.strip() for part in entry.partition("="))
                value = (out[given] if given in out else int(given.rstrip("uU"), 0)) if given else value + 1
                out[name] = value
    return out


def functions(texts: dict[str, str]) -> set[str]:
    """Names of the functions that the Graph API's own headers declare."""
    graph = (texts["dnnl_graph.h"], texts["dnnl_graph_sycl.h"])
    return {n for text in graph for n in re.findall(r"DNNL_API\s+(dnnl_\w+)\s*\(", _plain(text))}

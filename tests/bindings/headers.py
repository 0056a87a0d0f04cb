"""What the C headers of two releases declare: declared.json, made by `python -m bindings.headers FOLDER` in tests.

The folder holds the wheels of WHEELS, from `pip download --no-deps`. Tests read the file alone.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from bindings import cpp_headers

# The oldest release that is supported, and the newest one known.
WHEELS = {"3.2": "onednn_devel_cpu_gomp-2023.2.0-*.whl", "3.13": "onednn_devel-2026.1.0-*.whl"}
DECLARED = Path(__file__).with_name("declared.json")
_FILES = ("dnnl_common_types.h", "dnnl_common.h", "dnnl_graph_types.h", "dnnl_graph.h", "dnnl_graph_sycl.h")
# of these all that is declared, as far as the release has them
_CPP_FILES = ("dnnl_common.hpp", "dnnl_graph.hpp", "dnnl_graph_sycl.hpp", "dnnl_graph_ocl.hpp", "dnnl_sycl.hpp")
# of dnnl.hpp the functions, and the enumerations of instruction sets, that concern the whole library
_WHOLE = re.compile(r"dnnl::(?:[sg]et_\w+|reset_\w+|version|verbose_profiling_enabled|cpu_isa(?:_hints)?(?:::\w+)?)")


def declared(release: str) -> dict[str, Any]:
    """ "enumerators" with their values, the Graph API's own "functions", and the names of the "cpp" headers."""
    return json.loads(DECLARED.read_text(encoding="utf-8"))[release]


def _unpack(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(n).name: n for n in archive.namelist() if "/oneapi/dnnl/" in n}
        wanted = [name for name in (*_FILES, *_CPP_FILES, "dnnl.hpp") if name in names]
        return {name: archive.read(names[name]).decode() for name in wanted}


def _plain(text: str) -> str:
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    # what only experimental builds have
    return re.sub(r"#if[^\n]*EXPERIMENTAL.*?#endif", "", text, flags=re.S)


def _enumerators(texts: dict[str, str]) -> dict[str, int]:
    """Every enumerator of every typedef'd enum with its value."""
    out: dict[str, int] = {}
    for text in (texts[name] for name in _FILES):
        for body in re.findall(r"typedef\s+enum\s*\{(.*?)\}", _plain(text), flags=re.S):
            value = -1
            for entry in filter(None, (part.strip() for part in body.split(","))):
                name, _, given = (part.strip() for part in entry.partition("="))
                value = (out[given] if given in out else int(given.rstrip("uU"), 0)) if given else value + 1
                out[name] = value
    return out


def _functions(texts: dict[str, str]) -> list[str]:
    graph = (texts["dnnl_graph.h"], texts["dnnl_graph_sycl.h"])
    return sorted({n for text in graph for n in re.findall(r"DNNL_API\s+(dnnl_\w+)\s*\(", _plain(text))})


def _cpp(texts: dict[str, str]) -> list[str]:
    found = [name for file in _CPP_FILES for name in cpp_headers.names(texts.get(file, ""))]
    return found + [name for name in cpp_headers.names(texts["dnnl.hpp"]) if _WHOLE.fullmatch(name)]


def main(folder: Path) -> None:
    found = {}
    for release, pattern in WHEELS.items():
        (wheel,) = folder.glob(pattern)
        texts = _unpack(wheel)
        found[release] = {"enumerators": _enumerators(texts), "functions": _functions(texts), "cpp": _cpp(texts)}
    DECLARED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

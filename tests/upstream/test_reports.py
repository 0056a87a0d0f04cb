"""The programs of docs/upstream print what their pages say, with each build of oneDNN that is here."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from children import surroundings

import dnnl_graph_ops as dgo
from dnnl_graph_ops.runtime import sycl

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "upstream"
LOCATE = ROOT / "cmake" / "locate.py"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md")) if path.stem != "index"}
OUTPUT = re.compile(r"^Output of ([^\n]*):\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _libraries() -> dict[str, Path]:
    """The bundled build, and the SYCL one where it is installed, by the versions that the pages are of."""
    found = {"3.2.0": Path(dgo.engine().runtime.path)}
    return {**found, "3.13.2": other} if (other := sycl.find()) else found


@pytest.fixture(scope="module")
def include() -> str:
    """The folder of oneDNN's headers: those that the package is built with, or PyTorch's."""
    for distribution in ("onednn-devel-cpu-gomp", "torch"):
        command = (sys.executable, LOCATE, distribution, "include/oneapi/dnnl/dnnl_graph.hpp")
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.returncode:
            return str(Path(done.stdout.strip()).parents[2])
    pytest.skip("needs the headers of onednn-devel-cpu-gomp, or PyTorch's")


@pytest.mark.slow
@pytest.mark.child
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
@pytest.mark.parametrize("name", PAGES)
def test_a_program_prints_what_its_page_says(name, include, tmp_path):
    """A newer library that prints something else may have mended the fault: then its page says so."""
    libraries = _libraries()
    program = tmp_path / name
    # what the library itself needs is not looked for here
    command = ["g++", "-std=c++17", f"-I{include}", str(FOLDER / f"{name}.cpp"), "-Wl,--allow-shlib-undefined"]
    subprocess.run([*command, str(libraries["3.2.0"]), "-o", str(program)], check=True, timeout=120)
    outputs = {version: text for versions, text in OUTPUT.findall(PAGES[name]) for version in versions.split(" and ")}
    assert outputs.keys() == {"3.2.0", "3.13.2"}
    for version, library in libraries.items():
        driver = {"OCL_ICD_FILENAMES": str(library.parent / "libintelocl.so")} if version == "3.13.2" else {}
        environment = surroundings(LD_LIBRARY_PATH=str(library.parent), **driver)
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path)
        ended = f"{signal.Signals(-done.returncode).name}\n" if done.returncode < 0 else ""
        assert done.stdout + ended == outputs[version], version


def test_each_page_is_listed_and_has_a_program():
    index = (FOLDER / "index.md").read_text("utf-8")
    assert {path.stem for path in FOLDER.glob("*.cpp")} == PAGES.keys()
    for name, text in PAGES.items():
        assert f"- [{text.splitlines()[0].removeprefix('# ')}]({name}.md)" in index

"""The extension built with a sanitizer, in a folder of the user's cache that later runs build on."""

import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from children import TESTS

ROOT = TESTS.parent
# as in pyproject.toml, less the backend, which these builds do without
REQUIREMENTS = ("pybind11>=3.0", "onednn-devel-cpu-gomp==2023.2.0")
SECONDS = 3600

Completed = subprocess.CompletedProcess[str]

# The libraries that must be in the process before Python is: GCC's, then Clang's
RUNTIMES = {
    "address": ("libasan.so", "libclang_rt.asan.so", "libclang_rt.asan-x86_64.so"),
    "thread": ("libtsan.so", "libclang_rt.tsan.so", "libclang_rt.tsan-x86_64.so"),
}

# and not the warning that so much memory cannot be had
FINDING = re.compile("ERROR: |runtime error: |WARNING: ThreadSanitizer|CHECK failed")

# An editable installation has a finder of its own, which would come before the package. An address space limit leaves
# no room for the sanitizer's shadow of the memory, which is all of it.
SITE = """
import resource
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
_setrlimit = resource.setrlimit


def setrlimit(what, limits):
    if what != resource.RLIMIT_AS:
        _setrlimit(what, limits)


resource.setrlimit = setrlimit
"""


@dataclass(frozen=True)
class Build:
    package: Path  # to import from
    compiler: str
    preload: str

    def python(self, *arguments: object, reports: Path, **environment: str) -> tuple[list[str], Completed]:
        """Runs Python with the sanitizer at work; the text of each of its reports, and how it ended.

        In the folder of the package, so that neither the sources nor what is installed is imported.
        """
        reports.mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.package,
            env={**os.environ, **self._environment(reports), **environment},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
        texts = [path.read_text(errors="replace") for path in sorted(reports.glob("finding.*"))]
        return [text for text in texts if FINDING.search(text)], done

    def _environment(self, reports: Path) -> dict[str, str]:
        log = f"log_path={reports}/finding"
        path = os.pathsep.join(filter(None, [str(self.package), str(TESTS), os.environ.get("PYTHONPATH")]))
        return {
            # allocations that fail shall be MemoryErrors; what Python leaves behind at its end is no leak of ours
            "ASAN_OPTIONS": f"{log}:detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64",
            "UBSAN_OPTIONS": f"{log}:print_stacktrace=1",
            # Python's and libdnnl's own accesses are not instrumented, only those of the C functions that they call
            "TSAN_OPTIONS": f"{log}:ignore_noninstrumented_modules=1:history_size=5:exitcode=0",
            "LD_PRELOAD": self.preload,
            "PYTHONPATH": path,
            "PYTHONMALLOC": "malloc",
            "XDG_CACHE_HOME": str(reports / "cache"),
        }


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    clone = f"{sys.implementation.cache_tag}-{hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:8]}"
    return (Path(base) if base else Path.home() / ".cache") / "dnnl_graph_ops" / "hard" / clone


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


def _builder() -> Path:
    """A Python of this version that has the build requirements: this one, or a virtual environment of the cache."""
    try:
        for requirement in REQUIREMENTS:
            importlib.metadata.distribution(re.split("[=>]", requirement)[0])
        return Path(sys.executable)
    except importlib.metadata.PackageNotFoundError:
        venv = cache_folder() / "venv"
        with _lock(cache_folder()):
            if not (venv / "complete").exists():
                _run(sys.executable, "-m", "venv", "--clear", venv)
                _run(venv / "bin" / "python", "-m", "pip", "install", "--quiet", *REQUIREMENTS)
                (venv / "complete").touch()
        return venv / "bin" / "python"


def build(name: str, sanitizers: str, *, emulate: bool = False) -> Build:
    """Configure and build what is not up to date, and put a copy of the package around it.

    Args:
        name: of the folder of the package.
        sanitizers: as for -fsanitize=; builds with the same ones share what they have compiled.
        emulate: the AVX-512 kernels from AVX2 instructions.
    """
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not on the path")
    python = _builder()
    objects, package = cache_folder() / sanitizers.replace(",", "-"), cache_folder() / name
    with _lock(objects):
        launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": ccache} if (ccache := shutil.which("ccache")) else {}
        given = {
            "Python_EXECUTABLE": python,
            "pybind11_DIR": _run(python, "-m", "pybind11", "--cmakedir").strip(),
            **launcher,
            "DGO_SANITIZE": sanitizers,
            "DGO_EMULATE_AVX512": "ON" if emulate else "OFF",
            "DGO_TEST_SETS": "ON",
            "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",  # every file includes what it uses
        }
        _run(cmake, "-S", ROOT, "-B", objects, *(f"-D{key}={value}" for key, value in given.items()))
        _run(cmake, "--build", objects, "-j", min(os.cpu_count() or 1, 4))
        shutil.rmtree(package, ignore_errors=True)
        shutil.copytree(
            ROOT / "dnnl_graph_ops",
            package / "dnnl_graph_ops",
            ignore=shutil.ignore_patterns("*.so", "_lib", "__pycache__"),
        )
        _run(cmake, "--install", objects, "--prefix", package, "--component", "dnnl_graph_ops")
        (package / "sitecustomize.py").write_text(SITE)
        found = re.search("^CMAKE_CXX_COMPILER:[A-Z]+=(.*)$", (objects / "CMakeCache.txt").read_text(), re.MULTILINE)
        assert found
        return Build(package, found[1], _preload(found[1], sanitizers.split(",")[0]))


def _preload(compiler: str, sanitizer: str) -> str:
    """The sanitizer's library, and the C++ one, whose functions it wraps at its start."""
    located = (Path(_run(compiler, f"-print-file-name={name}").strip()) for name in RUNTIMES[sanitizer])
    path = next(filter(Path.is_absolute, located), None)
    if path is None:
        pytest.skip(f"{compiler} has none of {', '.join(RUNTIMES[sanitizer])}")
    return f"{path.resolve()}:{_run(compiler, '-print-file-name=libstdc++.so.6').strip()}"

"""Builds of the package, kept in the user's cache folder: one for a commit, one that follows a working tree."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "dnnl_graph_ops"
BUILT_WITH = ("scikit-build-core", "pybind11", "onednn-devel-cpu-gomp")
BUILD = Path("build", "against")  # below the source, whose units then have the same relative paths anywhere


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / PACKAGE / "against"


def of_commit(name: str) -> Path:
    """The folder with the package of a commit, built where it is not there yet."""
    sha = _git("rev-parse", "--verify", f"{name}^{{commit}}").strip()
    home = cache() / sha
    if not (home / "package").exists():
        source = home / "source"
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", sha], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
        _install(home)
        shutil.rmtree(source)
    return home / "package"


def of_tree() -> Path:
    """The folder with the package of the working tree; a later build compiles what changed since."""
    home = cache() / f"tree-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]}"
    content = _copied(home / "source")
    stamp = home / "built"
    if not (home / "package").exists() or not stamp.exists() or stamp.read_text("utf-8") != content:
        stamp.unlink(missing_ok=True)
        _install(home)
        stamp.write_text(content, "utf-8")
    return home / "package"


def has_avx512() -> bool:
    """Whether the CPU has the AVX-512 that the package's kernels need."""
    flags = set(Path("/proc/cpuinfo").read_text("utf-8").partition("flags")[2].partition("\n")[0].split())
    return {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _sources() -> Iterator[str]:
    """What the package is built of; of the tree all that git does not ignore."""
    names = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    rooms = ("bindings/", "cmake/", "licenses/", f"{PACKAGE}/")
    return (name for name in sorted(names) if name.startswith(rooms) or (name and "/" not in name))


def _copied(target: Path) -> str:
    """A digest of the tree's sources, which lie in `target` then; a file that did not change keeps its time."""
    digest, names = hashlib.sha256(), set()
    for name in _sources():
        file, copy = ROOT / name, target / name
        if not file.is_file():
            continue
        content = file.read_bytes()
        digest.update(f"{name} {len(content)} ".encode() + content)
        names.add(copy)
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            shutil.copymode(file, copy)
    for old in target.rglob("*"):
        if old.is_file() and old not in names and old.relative_to(target).parts[0] != BUILD.parts[0]:
            old.unlink()
    return digest.hexdigest()


def _install(home: Path) -> None:
    """Of `home`/source into `home`/package; pip's output is in `home`/log.txt."""
    new, source = home / "new", home / "source"
    shutil.rmtree(new, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--target", str(new)]
    options = ["-C", f"build-dir={BUILD}"]
    if not has_avx512():
        options += ["-C", "cmake.define.DGO_EMULATE_AVX512=ON"]
    if _has_requirements():  # then nothing is fetched
        options += ["--no-build-isolation"]
    print(f"building {source}, see {home / 'log.txt'}", flush=True)
    with (home / "log.txt").open("w", encoding="utf-8") as log:
        done = subprocess.run([*command, *options, str(source)], env=_environment(source), stdout=log, stderr=log)
    if done.returncode:
        tail = (home / "log.txt").read_text("utf-8").splitlines()[-30:]
        raise SystemExit("\n".join([*tail, f"the build of {source} failed"]))
    shutil.rmtree(home / "package", ignore_errors=True)
    new.rename(home / "package")


def _has_requirements() -> bool:
    try:
        return all(version(name) for name in BUILT_WITH)
    except PackageNotFoundError:
        return False


def _environment(source: Path) -> dict[str, str]:
    """ccache where it is there, with paths below the source, so that another folder finds the same units."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if shutil.which("ccache"):
        settings = {"CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
        environment = {**settings, **environment}
    return environment

"""Refuses packages that lack what they must have, or bring what they must not: .ci/inspect FILE...

A wheel holds the notices of what is compiled into it and names their licences, brings no library but the bundled one,
and has the tag that auditwheel reads from its symbols. An sdist holds files of git alone. Ends with status 1 otherwise.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTICES = ["LICENSE", *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("licenses/*/*")))]
(LICENCE,) = re.findall(r'^license = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
LIBRARIES = r"dnnl_graph_ops/(_core\.[\w.-]+\.so|_lib/libdnnl\.so\.3)"
# what an sdist has beside the files of git
GENERATED = {"PKG-INFO"}


def notices(wheel: Path) -> Iterator[str]:
    """Lists notices and licences that a wheel's metadata or its dist-info lacks."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (path,) = (name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        metadata = Parser().parsestr(archive.read(path).decode("utf-8"))
    if metadata["License-Expression"] != LICENCE:
        yield f"License-Expression is {metadata['License-Expression']!r}, expected {LICENCE!r}"
    for name in NOTICES:
        if name not in metadata.get_all("License-File", ()):
            yield f"no License-File {name}"
        if f"{path.rpartition('/')[0]}/licenses/{name}" not in names:
            yield f"no file {name} among the licences of dist-info"


def libraries(wheel: Path) -> Iterator[str]:
    """Lists shared libraries that a wheel should leave to the system, or lacks."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.search(r"\.so(\.|$)", name)]
    yield from (f"brings {name}" for name in names if not re.fullmatch(LIBRARIES, name))
    if len(names) < 2:
        yield f"has the libraries {names}, needs the extension and libdnnl"


def tag(wheel: Path) -> Iterator[str]:
    """Names the platform tag that the symbols of a wheel's libraries allow, where its name has another."""
    shown = subprocess.run(["auditwheel", "show", "--json", wheel], check=True, capture_output=True, text=True)
    allowed = json.loads(shown.stdout)["sym_tag"]
    if allowed not in wheel.stem.rpartition("-")[2].split("."):
        yield f"its symbols allow {allowed}"


def tracked(sdist: Path) -> Iterator[str]:
    """Lists files of an sdist that git does not track, and notices that it lacks."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
        known = GENERATED | set(listed.stdout.splitlines())
    else:
        known = names
    yield from (f"holds {name}, which git does not track" for name in sorted(names - known))
    yield from (f"lacks {name}" for name in NOTICES if name not in names)


CHECKS: dict[str, tuple[Callable[[Path], Iterator[str]], ...]] = {
    ".whl": (notices, libraries, tag),
    ".gz": (tracked,),
}


def main() -> int:
    complaints = [
        f"{path.name}: {complaint}"
        for path in map(Path, sys.argv[1:])
        for check in CHECKS[path.suffix]
        for complaint in check(path)
    ]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return bool(complaints)

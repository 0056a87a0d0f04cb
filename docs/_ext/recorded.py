"""What the examples printed on one machine and day: `python docs/_ext/recorded.py [NAME ...]` renews it.

The pages of examples show this record, never the times of the machine that builds them. Without names, it renews the
examples that changed since they were recorded. A run that `DNNL_GRAPH_OPS_EXAMPLES` names, of this machine, is taken
as it is; other examples run here. Pages leave out pictures that show times.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = EXAMPLES / "recorded"
TEXTS = FOLDER / "outputs.json"
# what the recipes of the cookbook share
COMPARE = EXAMPLES / "cookbook" / "compare.py"
# pictures that show times
TIMED = {"vocoder.png", "torch_training.png"}
SECONDS = 300
SHORTER = {
    "09_vocoder": ["--sentences", "8"],
    "10_torch_one_line": ["--steps", "6", "--rounds", "2"],
    "11_torch_ddp": ["--steps", "10"],
}


def recipes() -> list[Path]:
    """Returns the files of the cookbook, which need packages that the examples do without."""
    return sorted(path for path in EXAMPLES.glob("cookbook/*.py") if path.name != COMPARE.name)


def sources() -> list[Path]:
    """Returns the files of the examples, in the order of their pages."""
    of_graph_api = (path for path in EXAMPLES.glob("graph_api/*.py") if not path.stem.endswith("_utils"))
    return [*sorted(EXAMPLES.glob("[0-9]*.py")), *sorted(of_graph_api), *recipes()]


def run(source: Path, folder: Path) -> None:
    """Leaves what an example prints and draws in a folder; raises RuntimeError if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(source.resolve()), *SHORTER.get(source.stem, ())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(f"{source.name} failed:\n{done.stdout}{done.stderr}")
    (folder / "output.txt").write_text(done.stdout, "utf-8")


def digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()[:16]


def texts() -> dict[str, dict[str, Any]]:
    """Returns {name of an example: its digest, the machine and the date of the record, and the text}."""
    return dict(json.loads(TEXTS.read_text("utf-8"))) if TEXTS.exists() else {}


def stale() -> list[str]:
    """Returns the names of examples that have no record, or changed since."""
    known = texts()
    return [path.stem for path in sources() if known.get(path.stem, {}).get("source") != digest(path)]


def _machine() -> str:
    from dnnl_graph_ops.bench import machine
    from dnnl_graph_ops.runtime.threads import get_num_threads

    return machine.describe(machine.record(get_num_threads(), sorted(os.sched_getaffinity(0))))


def _is_busy() -> bool:
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))


def renew(names: Sequence[str]) -> None:
    """Writes the records of examples, and drops those of files that are gone."""
    every = {path.stem: path for path in sources()}
    kept = {name: record for name, record in texts().items() if name in every}
    given, machine = os.environ.get("DNNL_GRAPH_OPS_EXAMPLES"), _machine()
    with tempfile.TemporaryDirectory() as room:
        for name in names:
            folder, busy = Path(given or room, name), False
            if not (folder / "output.txt").exists():
                folder = Path(room, name)
                busy = _is_busy()
                run(every[name], folder)
            output = folder / "output.txt"
            kept[name] = {
                "source": digest(every[name]),
                "machine": machine + ", used by other programs too" * busy,
                "date": date.fromtimestamp(output.stat().st_mtime).isoformat(),
                "text": output.read_text("utf-8").rstrip(),
            }
    ordered = {name: kept[name] for name in every if name in kept}
    FOLDER.mkdir(exist_ok=True)
    TEXTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    renew(sys.argv[1:] or stale())

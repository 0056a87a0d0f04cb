"""Entry of a competitor's process, run by its path: pins it first, then imports what it needs.

Run by path and not as a module, because importing the package opens its native library, and no other
competitor should share its process with that.
"""

import importlib
import os
import signal
import sys
import types
from pathlib import Path


def _main(module: str, cpus: str, real_package: str, first: str = "") -> None:
    # an interrupt at the terminal is the parent's business
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    # libraries print to stdout: answers go through a copy of it, everything else to stderr
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    here = Path(__file__).resolve().parent
    package, bench = here.parent.name, here.name
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != here]
    if str(here.parent.parent) not in sys.path:
        sys.path.insert(0, str(here.parent.parent))
    if first:
        importlib.import_module(first)
    if real_package == "0":
        for name, folder in ((package, here.parent), (f"{package}.{bench}", here)):
            stand_in = types.ModuleType(name)
            stand_in.__path__ = [str(folder)]
            sys.modules[name] = stand_in
    worker = importlib.import_module(f"{package}.{bench}.worker")
    worker.serve(module, sys.stdin, answers)


if __name__ == "__main__":
    _main(*sys.argv[1:5])

"""How long OpenMP's threads spin before they block; import this before any module that may load OpenMP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Left to itself libgomp spins for 5 ms and more, on a core that another process, or another runtime's threads, may need
# to finish what all wait for: a call of 2 ms then takes 400. So many rounds last some ten microseconds, which is longer
# than the pauses inside a call. Where PyTorch is imported later it shares this OpenMP: ResNet-18 in two threads took as
# long as with PyTorch imported first where nothing else ran (14.6 and 14.7 ms), and with busy threads 40 ms, not 107.
_ROUNDS = 2000
# PyTorch brings a library of that name, and a second one in the process would take the cores from it: wheels have none.
_MISSING = (
    "dnnl_graph_ops needs GNU OpenMP (libgomp.so.1), which this system lacks: install its package 'libgomp1' (Debian, "
    "Ubuntu, openSUSE: apt-get install libgomp1) or 'libgomp' (Fedora, RHEL: dnf install libgomp)"
)


@contextmanager
def waiting_briefly() -> Iterator[None]:
    """An OpenMP that is loaded within this context spins briefly, unless the environment says how to wait.

    Raises:
        ImportError: there is no OpenMP to load; says which package of the system has it.
    """
    told = bool({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys())
    if not told:
        os.environ["GOMP_SPINCOUNT"] = str(_ROUNDS)
    try:
        yield
    except ImportError as error:
        if "libgomp" in str(error):
            raise ImportError(f"{_MISSING} ({error})") from error
        raise
    finally:
        if not told:
            del os.environ["GOMP_SPINCOUNT"]

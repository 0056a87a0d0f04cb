"""The environment variables of the package, and a warning for those that have no effect."""

from __future__ import annotations

import os
from typing import Final

from ..errors import warn
from ..schema.arguments import suggest

PREFIX: Final = "DNNL_GRAPH_OPS_"
# {name without the prefix: the only values that have an effect; empty: checked where it is read}
VARIABLES: Final[dict[str, tuple[str, ...]]] = {
    "EP": ("", "wins", "all", "log"),
    **dict.fromkeys(("LIBRARY", "FOLLOW_CALLER", "ALGORITHM", "RATES", "ISA", "NARROW", "INT8", "TRAPPED"), ()),
    "DUMP": ("", "passes"),
    # of tests and of the site
    **dict.fromkeys(("CORPORA", "EXAMPLES", "HUNT_SECONDS", "TEST_CONSTANTS"), ()),
}
# names without the prefix that nothing reads: what is meant
OTHERS: Final[dict[str, str]] = {
    **dict.fromkeys(("THREADS", "NUM_THREADS", "NTHREADS"), "the number of threads is OMP_NUM_THREADS"),
    **dict.fromkeys(("VERBOSE", "DEBUG", "LOG", "LOGLEVEL", "LOG_LEVEL"), "see dgo.verbose(), and ONEDNN_VERBOSE"),
    **dict.fromkeys(("CACHE", "CACHE_DIR"), "files are in XDG_CACHE_HOME, or ~/.cache"),
    **dict.fromkeys(("CACHE_LIMIT", "CACHE_SIZE", "MEMORY"), "it is dgo.set_cache_limit(bytes)"),
    **dict.fromkeys(("PRECISION", "DTYPE", "TUNE"), "it is an argument of Graph.compile"),
    **dict.fromkeys(("ENGINE", "DEVICE", "BACKEND"), "it is an argument, dgo.Graph(engine=dgo.engine('gpu'))"),
}
_THREADS: Final = "OMP_NUM_THREADS"


def warn_of_unknown() -> None:
    """Warns of variables with the package's prefix that nothing reads, and of values without an effect."""
    threads = os.environ.get(_THREADS, "")
    if threads and not all(part.strip().isdigit() for part in threads.split(",")):
        warn(f"the environment variable {_THREADS} has no effect: it must be a number, got {threads!r}")
    for variable, value in os.environ.items():
        name = variable.removeprefix(PREFIX)
        if name == variable:
            continue
        if name not in VARIABLES:
            near = f"; {OTHERS[name]}" if name in OTHERS else suggest(variable, [PREFIX + known for known in VARIABLES])
            warn(f"the environment variable {variable} has no effect: dnnl_graph_ops reads none of that name{near}")
        elif VARIABLES[name] and value not in VARIABLES[name]:
            known = " or ".join(filter(None, VARIABLES[name]))
            warn(f"the environment variable {variable} has no effect: it must be {known}, got {value!r}")

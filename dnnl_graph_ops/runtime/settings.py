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


def warn_of_unknown() -> None:
    """Warns of variables with the package's prefix that nothing reads, and of values without an effect."""
    for variable, value in os.environ.items():
        name = variable.removeprefix(PREFIX)
        if name == variable:
            continue
        if name not in VARIABLES:
            near = suggest(variable, [PREFIX + known for known in VARIABLES])
            warn(f"the environment variable {variable} has no effect: dnnl_graph_ops reads none of that name{near}")
        elif VARIABLES[name] and value not in VARIABLES[name]:
            known = " or ".join(filter(None, VARIABLES[name]))
            warn(f"the environment variable {variable} has no effect: it must be {known}, got {value!r}")

"""Libraries, engines, threads, and what this machine can do."""

from .engines import Engine, default_engine, engine, engines
from .info import info
from .libraries import Runtime, runtimes
from .threads import get_num_threads, set_num_threads

__all__ = [
    "Engine",
    "Runtime",
    "default_engine",
    "engine",
    "engines",
    "get_num_threads",
    "info",
    "runtimes",
    "set_num_threads",
]

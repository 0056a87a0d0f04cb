"""The exceptions that the package raises, besides TypeError for wrong Python types."""

import queue
import sys
import warnings

__all__ = [
    "Error",
    "InvalidArgumentError",
    "QueueFull",
    "RuntimeUnavailableError",
    "ShapeError",
    "Timeout",
    "UnsupportedError",
]


class Error(Exception):
    """Base class of the package's exceptions; raised itself when oneDNN fails at run time."""


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong on every machine and with every library."""


class ShapeError(InvalidArgumentError):
    """Shapes, strides or per-axis values disagree."""


class UnsupportedError(Error, NotImplementedError):
    """The request is well formed, but this library version, engine or CPU cannot run it."""


class RuntimeUnavailableError(Error, RuntimeError):
    """A libdnnl, an engine or a device is missing, is too old or cannot be opened."""


class Timeout(Error, TimeoutError):
    """A call's time ended before its results were complete."""


class QueueFull(Error, queue.Full):
    """The queue of a `dgo.Pool(full="raise")` is full."""


def extra(name: str) -> str:
    """Returns the command that installs the packages of an extra, which needs no index that has this package."""
    import re
    from importlib import metadata

    try:
        stated = metadata.requires("dnnl-graph-ops") or ()
    except metadata.PackageNotFoundError:
        stated = ()
    wanted = re.compile(rf"""extra == ["']{name}["']""")
    packages = [line.partition(";")[0].strip() for line in stated if wanted.search(line)]
    # a source folder on the path has no metadata
    return f"pip install {' '.join(map(repr, packages))}" if packages else f"pip install the packages of extra {name!r}"


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns with the line of the user's code as the location."""
    package, level, frame = __name__.partition(".")[0], 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)

"""The package's loggers: one tree, `dnnl_graph_ops.*`, which is silent until a program configures logging."""

from __future__ import annotations

import logging

logging.getLogger(__package__).addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module of the package, by the module's `__name__`."""
    return logging.getLogger(module)

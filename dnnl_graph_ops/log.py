"""The package's loggers: one tree, `dnnl_graph_ops.*`, which is silent until a program configures logging."""

from __future__ import annotations

import logging

logging.getLogger(__package__).addHandler(logging.NullHandler())


def logger(name: str) -> logging.Logger:
    """Returns the logger `dnnl_graph_ops.NAME`; names are public, and do not follow files that move."""
    return logging.getLogger(f"{__package__}.{name}")

"""Partitions to plans, and the nets that hold them."""

from ..graph import hooks
from ..runtime.engines import Engine
from .arrays import as_array
from .net import Net, PartitionInfo, compile_graph


def _check_engine(engine: object) -> None:
    if not isinstance(engine, Engine):
        raise TypeError(f"Graph: 'engine' must come from dgo.engine(...), got {type(engine).__name__}")


hooks.provide("compile", compile_graph)
hooks.provide("as_array", as_array)
hooks.provide("check_engine", _check_engine)

__all__ = ["Net", "PartitionInfo"]

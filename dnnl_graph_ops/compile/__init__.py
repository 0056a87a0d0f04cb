"""Partitions to plans, and the nets that hold them."""

from ..graph import hooks
from .explain import Explanation
from .net import Net, compile_graph
from .saved import save
from .specialise import PartitionInfo

hooks.provide("compile", compile_graph)
hooks.provide("save", save)

__all__ = ["Explanation", "Net", "PartitionInfo"]

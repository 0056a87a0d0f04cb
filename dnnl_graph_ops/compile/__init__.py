"""Partitions to plans, and the nets that hold them."""

from ..graph import hooks
from .net import Net, PartitionInfo, compile_graph

hooks.provide("compile", compile_graph)

__all__ = ["Net", "PartitionInfo"]

"""Holds a compiled graph as its user calls it: plans by shapes, options, files, and results in arrays."""

from ..compile.specialise import PartitionInfo
from ..graph import hooks
from ..reports.explain import Explanation
from .files import pickled, save
from .net import Net
from .options import compile_graph

hooks.provide("compile", compile_graph)
hooks.provide("save", save)
hooks.provide("pickled", pickled)

__all__ = ["Explanation", "Net", "PartitionInfo"]

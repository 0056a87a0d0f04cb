"""Compiles graphs into nets: specialises them to shapes and strides, builds plans, and runs, explains or saves them."""

from ..graph import hooks
from ..reports.explain import Explanation
from ..runtime import rates
from .asked import compile_graph
from .measure_rates import measure
from .net import Net
from .saved import pickled, save
from .specialise import PartitionInfo

hooks.provide("compile", compile_graph)
hooks.provide("save", save)
hooks.provide("pickled", pickled)
rates.measure_by(measure)

__all__ = ["Explanation", "Net", "PartitionInfo"]

"""PyTorch models whose convolutions compute by our engine: `import dnnl_graph_ops.torch as dgt`; extra `torch`.

`dgt.optimize(model)` is all that a model needs. The ops below it, `torch.ops.dnnl_graph_ops.convolution` and
`conv_transpose`, are registered by the import.
"""

from . import ops as ops
from .optimize import optimize, refresh
from .report import LayerTime, Report, report

__all__ = ["LayerTime", "Report", "optimize", "refresh", "report"]

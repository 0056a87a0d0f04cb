"""Speeds up PyTorch models with one line: `import dnnl_graph_ops.torch as dgt` (extra `torch`).

    model = dgt.optimize(model)

The modules Conv1d to ConvTranspose3d then run in this package's engine on the CPU, in training and in inference, if
that is measured to be faster than PyTorch's kernels; everything else is unchanged. `dgt.report(model, *inputs)`
lists the engine and the speedup of each layer. `dgt.refresh(model)` is for weights that changed without PyTorch's
version counter.

`torch.compile(model, backend="dnnl_graph_ops")` compiles whole graphs for inference, without an import of this package.

For code without modules, the import registers the ops `convolution`, `conv_transpose` and both with `_backward_data`
and `_backward_weights` in `torch.ops.dnnl_graph_ops`. Arguments are those of `torch.ops.aten.convolution` without
`transposed`; the gradients take the size of their result instead of the bias.
"""

from typing import TYPE_CHECKING

from ..errors import extra as _extra
from ..frontends.torch_export import releases as _releases

try:
    import torch as _torch

    if _releases.release(_torch.__version__) < _releases.OLDEST:
        raise ImportError(f"this is {_torch.__version__}")
except ImportError as _error:
    raise ImportError(
        f"dnnl_graph_ops.torch needs PyTorch {'.'.join(map(str, _releases.OLDEST))} or later ({_error}): "
        f"{_extra('torch')}",
        name="torch",
    ) from _error

from ..ops.annotations import unquote as _unquote
from ..schema.arguments import no_attribute as _no_attribute
from .layers import ops as ops
from .openmp import warn_of_two as _warn_of_two
from .optimize import optimize, refresh, warm_up
from .report import LayerTime, Report, report

_warn_of_two()
_releases.warn_of_newer(str(_torch.__version__))

__all__ = ["LayerTime", "Report", "optimize", "refresh", "report", "warm_up"]

_unquote(globals())

# not for type checkers: they would take any name for one of the module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _no_attribute(__name__, name, __all__)

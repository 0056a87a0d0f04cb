"""Names that PyTorch keeps to itself and this package cannot do without, all in one place.

A new release of PyTorch is tried here first. `whole_model/backend.py`, which PyTorch loads when it compiles, imports
the names of the compiler itself; `tests/pytorch/test_private.py` lists attributes of modules.
"""

from __future__ import annotations

import torch
from torch import nn
from torch._C import _are_functorch_transforms_active as are_transforms_active
from torch._C import _AutoDispatchBelowAutograd as BelowAutograd
from torch._C import _conv_determine_backend_memory_format as memory_format_of
from torch._C import _ExcludeDispatchKeyGuard as WithoutKeys
from torch._C import _get_deterministic_algorithms as is_deterministic
from torch._C import _get_tracing_state as tracing_state
from torch._C import _is_any_autocast_enabled as is_autocast_enabled
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch._C import _len_torch_function_stack as function_modes
from torch._C import _select_conv_backend as conv_backend
from torch._C._autograd import _top_saved_tensors_default_hooks as top_saving_hooks
from torch._C._functorch import is_legacy_batchedtensor as is_batched
from torch._functorch.utils import enable_single_level_autograd_function as single_level_function
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.conv import _ConvNd as Convolution
from torch.nn.modules.conv import _ConvTransposeNd as TransposedConvolution
from torch.nn.utils.parametrizations import _Orthogonal as Orthogonal
from torch.nn.utils.parametrizations import _SpectralNorm as SpectralNorm
from torch.nn.utils.parametrizations import _WeightNorm as WeightNorm

has_global_hook = nn.modules.module._has_any_global_hook
pad = torch._C._nn.pad
replicated = nn.Module._replicate_for_data_parallel

__all__ = [
    "BelowAutograd", "Convolution", "FakeTensor", "Orthogonal", "SpectralNorm", "TransposedConvolution",
    "WeightNorm", "WithoutKeys", "are_transforms_active", "conv_backend", "dispatch_modes", "function_modes",
    "has_global_hook", "is_autocast_enabled", "is_batched", "is_deterministic", "memory_format_of", "pad", "replicated",
    "single_level_function", "suggest_memory_format", "top_saving_hooks", "tracing_state",
]  # fmt: skip

"""Modules with weights and gradients, on NumPy arrays."""

from .conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .convolution import Conv1d, Conv2d, Conv3d

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

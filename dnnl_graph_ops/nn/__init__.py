"""Modules with weights and gradients, on NumPy arrays."""

from .conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

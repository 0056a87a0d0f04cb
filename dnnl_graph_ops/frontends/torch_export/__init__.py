"""Imports exported PyTorch programs as graphs; torch is imported at the first use."""

from .importer import from_torch

__all__ = ["from_torch"]

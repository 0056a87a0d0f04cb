"""Exported programs of PyTorch as graphs; torch is imported when one is read."""

from .importer import from_torch

__all__ = ["from_torch"]

"""Imports ONNX models as graphs; needs the package `onnx`."""

from .importer import from_onnx

__all__ = ["from_onnx"]

"""The way to other libraries: DLPack and ONNX."""

from .dlpack import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

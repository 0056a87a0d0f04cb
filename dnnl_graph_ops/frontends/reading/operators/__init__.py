"""Builds standard (ONNX) operators from ops: a rule for each, entered into the table at import."""

from . import attention, convolution, einsum, elementwise, movement, normalization, pieces, quantization, resize  # noqa: F401

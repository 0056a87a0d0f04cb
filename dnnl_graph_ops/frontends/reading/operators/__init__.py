"""The rules of standard operators, those of ONNX; importing it fills the table."""

from . import attention, convolution, einsum, elementwise, movement, normalization, pieces, quantization, resize  # noqa: F401

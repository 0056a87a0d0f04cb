"""Rules of standard (ONNX) operators; the import fills the table."""

from . import attention, convolution, einsum, elementwise, movement, normalization, pieces, quantization, resize  # noqa: F401

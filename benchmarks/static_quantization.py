"""Quantizes ONNX files by ONNX Runtime's `quantize_static`, with samples for the ranges."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

Sample = dict[str, np.ndarray]


class _Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: Sequence[Sample]) -> None:
        self.rest: Iterator[Sample] = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self.rest, None)


def prepared(path: Path, folder: str) -> Path:
    """Writes the file with shapes and without constant parts to `folder`, as `quantized` needs it."""
    target = Path(folder, "prepared.onnx")
    quant_pre_process(str(path), str(target))
    return target


def quantized(source: Path, samples: Sequence[Sample], **options: Any) -> Path:
    """Writes the quantized model beside `source`; `options`: those of `quantize_static`."""
    target = source.with_name("quantized.onnx")
    with contextlib.redirect_stdout(io.StringIO()):
        quantization.quantize_static(str(source), str(target), _Samples(samples), **options)
    return target

"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError
from ..node import Array, OnnxNode
from . import sizes
from .common import item, number, wide
from .table import computes


def _complex(data: Array, where: str) -> Array:
    """Returns complex numbers from a last axis of real part and, optionally, imaginary part."""
    if data.shape[-1:] == (1,):
        return wide(data)[..., 0]
    if data.shape[-1:] != (2,):
        raise ShapeError(f"{where}: data of shape {data.shape}, whose last axis has neither 1 nor 2 elements")
    return np.asarray(wide(data)[..., 0] + 1j * wide(data)[..., 1])


def _parts(data: Array) -> Array:
    return np.stack((data.real, data.imag), -1)


@computes("DFT", size=sizes.transformed, sizing=(1,))
def _transformed(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, length, given = _complex(inputs[0], node.where), item(inputs, 1), item(inputs, 2)
    axis = int(node.attrs.get("axis", 1) if node.opset < 20 else -2 if given is None else number(given))
    rank = data.ndim + 1
    if not -rank <= axis < rank or axis % rank == rank - 1:
        raise ShapeError(f"{node.where}: axis {axis} of {rank}, the last of which has the parts of a number")
    axis %= rank
    half, back = (bool(node.attrs.get(name, 0)) for name in ("onesided", "inverse"))
    size = 2 * (data.shape[axis] - 1) if half and back else data.shape[axis]
    size = size if length is None else int(number(length))
    if half and back:
        return np.fft.irfft(data, size, axis)[..., None]
    found = (np.fft.ifft if back else np.fft.fft)(data, size, axis)
    return _parts(np.take(found, range(size // 2 + 1), axis) if half else found)


@computes("STFT", size=sizes.framed, sizing=(1, 3))
def _frames(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    """STFT: transforms the frames of a signal (N, length, 1 or 2), or (N, length) as PyTorch exports it.

    Returns (N, frames, bins, 2).
    """
    signal, step = inputs[0], int(number(inputs[1]))
    data = wide(signal) if signal.ndim == 2 else _complex(signal, node.where)
    window, length = item(inputs, 2), item(inputs, 3)
    size = int(number(length)) if length is not None else data.shape[1] if window is None else len(window)
    if step < 1 or not 0 < size <= data.shape[1] or (window is not None and len(window) != size):
        raise ShapeError(f"{node.where}: frames of {size} every {step} of a signal of {data.shape[1]}")
    parts = np.lib.stride_tricks.sliding_window_view(data, size, 1)[:, ::step]
    parts = parts if window is None else parts * wide(window)
    half = bool(node.attrs.get("onesided", 1))
    if half and np.iscomplexobj(data):
        raise ShapeError(f"{node.where}: one side of the transform of complex numbers")
    return _parts(np.fft.rfft(parts) if half else np.fft.fft(parts))

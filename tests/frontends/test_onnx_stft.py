"""STFT of signals with and without an axis for the parts of a number, against ONNX Runtime."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="the reference")

from .one_node import agree, node

FRAMES = {"step": np.array(8), "length": np.array(16), "window": np.hanning(16).astype(np.float32)}


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("shape", [(2, 64), (2, 64, 1)], ids=str)
@pytest.mark.parametrize("window", ["window", "-"])
def test_frames(rng, shape, onesided, window):
    """torch.onnx exports torch.stft as that of (batch, length)."""
    signal = {"x": rng.standard_normal(shape).astype(np.float32)}
    known = {name: array for name, array in FRAMES.items() if name != "window" or window != "-"}
    agree([node("STFT", f"x step {window} length", onesided=onesided)], signal, known, tolerance=1e-4)

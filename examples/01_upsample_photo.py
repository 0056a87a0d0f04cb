"""Enlarge a photograph by 2 and by 3 with one transposed convolution each.

A transposed convolution of stride s whose kernel is a tent interpolates bilinearly. Every colour is a group
of its own, and the picture stays as it is stored: rows, columns, colours (NXC).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import dnnl_graph_ops as dgo

COLOURS = 3
FACTORS = (2, 3)
# of 255 grey levels; float32 sums of at most four products differ by less
TOLERANCE = 1e-3


def tent(factor: int) -> np.ndarray:
    """Bilinear weights for `factor`, one output channel per group: XOI (k, k, 1, COLOURS)."""
    size = 2 * factor - factor % 2
    line = 1 - np.abs(np.arange(size) - (size - 1) / 2) / factor
    kernel = np.outer(line, line).astype(np.float32)
    return np.repeat(kernel[:, :, None, None], COLOURS, axis=3)


def pads(factor: int) -> int:
    """Rows to cut on each side: the kernel's overhang, and what the repeated border became."""
    return factor // 2 + factor


def enlarge(photo: np.ndarray, factor: int) -> np.ndarray:
    """photo (rows, columns, colours), float32 -> (factor * rows, factor * columns, colours)."""
    framed = np.pad(photo, ((1, 1), (1, 1), (0, 0)), mode="edge")
    return dgo.conv_transpose(
        framed[None],
        tent(factor),
        strides=factor,
        pads_begin=pads(factor),
        pads_end=pads(factor),
        groups=COLOURS,
    )[0]


def difference_to_pytorch(photo: np.ndarray, factor: int, enlarged: np.ndarray) -> float:
    """Largest difference to PyTorch's conv_transpose2d and to its bilinear interpolation."""
    import torch
    from torch.nn import functional

    weights = dgo.convert_weights(tent(factor), "XOI", "pytorch", groups=COLOURS)
    framed = np.pad(photo, ((1, 1), (1, 1), (0, 0)), mode="edge").transpose(2, 0, 1)[None]
    # in float64, as PyTorch's sampling positions are rounded too
    source = torch.from_numpy(photo.transpose(2, 0, 1)[None].astype(np.float64))
    peers = (
        functional.conv_transpose2d(
            torch.from_numpy(framed.copy()),
            torch.from_numpy(weights.copy()),
            stride=factor,
            padding=pads(factor),
            groups=COLOURS,
        ),
        functional.interpolate(source, scale_factor=factor, mode="bilinear", align_corners=False),
    )
    own = enlarged.transpose(2, 0, 1)[None]
    return max(float(np.abs(peer.numpy() - own).max()) for peer in peers)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, default=Path("build"), help="folder of the PNG files")
    options.add_argument("--size", type=int, default=None, help="take only so many rows and columns")
    chosen = options.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)

    photo = load_sample_image("china.jpg")[: chosen.size, : chosen.size].astype(np.float32)
    with_torch = importlib.util.find_spec("torch") is not None
    failed = False
    for factor in FACTORS:
        enlarged = enlarge(photo, factor)
        path = chosen.output / f"upsampled_x{factor}.png"
        Image.fromarray(np.clip(np.rint(enlarged), 0, 255).astype(np.uint8)).save(path)
        verdict = "not compared: PyTorch is not installed"
        if with_torch:
            worst = difference_to_pytorch(photo, factor, enlarged)
            failed |= worst > TOLERANCE
            verdict = f"largest difference to PyTorch {worst:.1e} of 255, " + (
                "ok" if worst <= TOLERANCE else f"MORE THAN {TOLERANCE}"
            )
        before, after = (f"{a.shape[1]}x{a.shape[0]}" for a in (photo, enlarged))
        print(f"x{factor}: {before} -> {after}, {path}; {verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

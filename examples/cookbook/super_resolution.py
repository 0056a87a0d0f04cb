"""An image twice as large, tile by tile: the compact network of Real-ESRGAN from spandrel as a net of one tile's shape.

Tiles overlap by as many pixels as the network looks to each side, so that no seam is seen. Memory stays that of one
tile, whatever the size of the image, and the net is compiled once.
"""

from collections.abc import Callable

import compare
import numpy as np
import torch
from spandrel.architectures.Compact import Compact

import dnnl_graph_ops as dgo

SCALE, TILE, MARGIN = 2, 64, 10  # eight 3x3 layers and the ones at both ends look 10 pixels far
model = Compact(num_feat=48, num_conv=8, upscale=SCALE, act_type="prelu").eval()
side = TILE + 2 * MARGIN
net = dgo.from_torch(torch.export.export(model, (torch.randn(1, 3, side, side),))).compile()


def enlarged(image: np.ndarray, upscale: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Returns an image (3, rows, columns), whose extents are multiples of TILE, enlarged by SCALE."""
    padded = np.pad(image, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)), mode="reflect")
    result = np.empty((3, SCALE * image.shape[1], SCALE * image.shape[2]), np.float32)
    inner = slice(SCALE * MARGIN, SCALE * (MARGIN + TILE))
    for row in range(0, image.shape[1], TILE):
        for column in range(0, image.shape[2], TILE):
            tile = upscale(np.ascontiguousarray(padded[None, :, row : row + side, column : column + side]))
            rows, columns = (slice(SCALE * at, SCALE * (at + TILE)) for at in (row, column))
            result[:, rows, columns] = tile[0, :, inner, inner]
    return result


photo = np.random.default_rng(0).random((3, 128, 192), dtype=np.float32)
compare.times(
    "Real-ESRGAN compact, six tiles of 64x64",
    lambda: enlarged(photo, lambda tile: model(torch.from_numpy(tile)).numpy()),
    lambda: enlarged(photo, net),
)

"""An image to classes of its pixels: a model of segmentation-models-pytorch in a file that is served without PyTorch.

The net computes on NumPy arrays. `dgo.load` maps the file, so processes that load it share its weights.
"""

import tempfile
from pathlib import Path

import compare
import segmentation_models_pytorch as smp
import torch

import dnnl_graph_ops as dgo

model = smp.Unet("resnet18", encoder_weights=None, classes=4).eval()
image = torch.randn(1, 3, 128, 128)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "unet.net")
    dgo.from_torch(torch.export.export(model, (image,))).compile().save(path)
    net = dgo.load(path)  # in the server, which needs neither PyTorch nor the model's package
    pixels = image.numpy()
    compare.times("Unet on resnet18, 128x128", lambda: model(image), lambda: net(pixels))

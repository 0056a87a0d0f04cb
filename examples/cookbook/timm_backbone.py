"""Features of an image at five scales: a backbone of timm, compiled as a whole.

`torch.compile` captures the model at the first call, and captures again for other sizes. `pretrained=True` loads
published weights.
"""

import compare
import timm
import torch

model = timm.create_model("resnet18", features_only=True, pretrained=False).eval()
compiled = torch.compile(model, backend="dnnl_graph_ops")
image = torch.randn(1, 3, 160, 160)
compare.times("timm resnet18, features of 160x160", lambda: model(image), lambda: compiled(image))

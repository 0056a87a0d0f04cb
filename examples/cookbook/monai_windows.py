"""A volume to organs: a 3-D U-Net of MONAI in a sliding window, optimized.

All windows have one shape, so that every layer is packed and measured once, before the first volume.
"""

import compare
import torch
from monai.inferers import sliding_window_inference
from monai.networks.nets import UNet

import dnnl_graph_ops.torch as dgt

WINDOW, AT_A_TIME = 32, 2
model = UNet(3, 1, 3, channels=(16, 32, 64), strides=(2, 2), num_res_units=1).eval()
optimized = dgt.optimize(model, example_inputs=torch.randn(AT_A_TIME, 1, *[WINDOW] * 3))
volume = torch.randn(1, 1, 48, 48, 48)


def organs(predictor: torch.nn.Module) -> torch.Tensor:
    return sliding_window_inference(volume, WINDOW, AT_A_TIME, predictor, overlap=0.25)


compare.times("3-D U-Net, windows of 32", lambda: organs(model), lambda: organs(optimized))

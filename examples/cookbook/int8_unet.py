"""A U-Net in int8: scales from samples, the signal-to-noise ratio that they leave, and the speedup.

`min_snr` keeps the layers that lose most in float32 until the outputs reach so many decibels. Weights here are random;
samples of a real model are like its real inputs.
"""

import compare
import numpy as np
import segmentation_models_pytorch as smp
import torch

import dnnl_graph_ops as dgo

model = smp.Unet("resnet18", encoder_weights=None, classes=4).eval()
rng = np.random.default_rng(0)
samples = [rng.random((1, 3, 96, 96), dtype=np.float32) for _ in range(3)]
program = torch.export.export(model, (torch.from_numpy(samples[0]),))
calibration = dgo.quantize.calibrate(program, samples, min_snr=20)
print(
    f"signal-to-noise ratio {min(each.signal_to_noise_db for each in calibration.errors):.1f} dB, "
    f"{len(calibration.layers)} layers in int8"
)
int8 = calibration.compile()
image = torch.from_numpy(samples[0])
compare.times("Unet on resnet18 in int8, 96x96", lambda: model(image), lambda: int8(samples[0]), tolerance=0.1)

"""Latents to images: the decoder of a variational autoencoder of diffusers, optimized.

The pipeline stays as it is: only its decoder is replaced, `pipeline.vae.decoder = dgt.optimize(pipeline.vae.decoder)`.
The autoencoder here has random weights and few channels.
"""

import copy

import compare
import torch
from diffusers import AutoencoderKL

import dnnl_graph_ops.torch as dgt

vae = AutoencoderKL(
    down_block_types=("DownEncoderBlock2D",) * 3,
    up_block_types=("UpDecoderBlock2D",) * 3,
    block_out_channels=(32, 64, 64),
).eval()
latents = torch.randn(1, 4, 24, 24)

faster = copy.deepcopy(vae)
faster.decoder = dgt.optimize(vae.decoder, example_inputs=latents)
compare.times("VAE decode, 96x96", lambda: vae.decode(latents).sample, lambda: faster.decode(latents).sample)

"""Codes to sound: the decoder of EnCodec from transformers, optimized.

The decoder's convolutions, transposed convolutions and LSTM run in this package; the codebooks stay in PyTorch.
"""

import copy

import compare
import torch
from transformers import EncodecConfig, EncodecModel

import dnnl_graph_ops.torch as dgt

FRAMES = 50  # of 1/75 s
model = EncodecModel(EncodecConfig(num_filters=16)).eval()
codes = torch.randint(0, 1024, (1, 1, 8, FRAMES))  # chunks, batch, codebooks, frames

faster = copy.deepcopy(model)
faster.decoder = dgt.optimize(model.decoder, example_inputs=torch.randn(1, 128, FRAMES))
compare.times(
    "EnCodec, 0.67 s of sound",
    lambda: model.decode(codes, [None]).audio_values,
    lambda: faster.decode(codes, [None]).audio_values,
)

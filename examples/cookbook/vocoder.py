"""Spectrograms to sound: a HiFi-GAN of transformers as a net for sentences of any length.

The number of frames is exported as unknown. `prepare` compiles usual lengths before the first sentence; others are
compiled when they are called. `net.stream(chunk=16)` gives the sound piece by piece instead.
"""

import compare
import torch
from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

import dnnl_graph_ops as dgo

FRAMES = (40, 64, 100)
model = SpeechT5HifiGan(SpeechT5HifiGanConfig(upsample_initial_channel=128)).eval()
sentences = [torch.randn(1, frames, 80) for frames in FRAMES]
frames = torch.export.Dim("frames", min=8, max=2000)
program = torch.export.export(model, (sentences[0],), dynamic_shapes=({1: frames},))
net = dgo.from_torch(program).compile()
net.prepare([(1, frames, 80) for frames in FRAMES])
spectrograms = [each.numpy() for each in sentences]
compare.times(
    f"HiFi-GAN, sentences of {', '.join(map(str, FRAMES))} frames",
    lambda: [model(each) for each in sentences],
    lambda: [net(each) for each in spectrograms],
)

"""Points to masks: the mask decoder of Segment Anything from transformers, compiled.

An image is encoded once, and its embedding is decoded for each click of the user: the decoder's time is what the user
waits for. The encoder here has one small layer, as its time does not count.
"""

import copy

import compare
import torch
from transformers import SamConfig, SamModel

SIDE = 512
encoder = {"image_size": SIDE, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
config = SamConfig(
    vision_config={**encoder, "global_attn_indexes": ()},
    prompt_encoder_config={"image_size": SIDE},
)
model = SamModel(config).eval()
with torch.inference_mode():
    embedding = model.get_image_embeddings(torch.randn(1, 3, SIDE, SIDE))
points = torch.tensor([[[[100.0, 200.0]], [[300.0, 50.0]]]])  # image, masks, points of a mask, x and y

faster = copy.deepcopy(model)
faster.mask_decoder = torch.compile(model.mask_decoder, backend="dnnl_graph_ops")
compare.times(
    "SAM, two masks of 128x128",
    lambda: model(image_embeddings=embedding, input_points=points).pred_masks,
    lambda: faster(image_embeddings=embedding, input_points=points).pred_masks,
)

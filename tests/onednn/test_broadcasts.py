"""Binary ops behind every op that the library fuses them with, by how their operand is spread."""

import numpy as np
import pytest
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

OPERANDS = {
    "full": lambda shape, channel: shape,
    "one": lambda shape, channel: (1,),
    "channels": lambda shape, channel: tuple(n if i == channel else 1 for i, n in enumerate(shape)),
    "last": lambda shape, channel: shape[-1:],
    "batch": lambda shape, channel: (shape[0], *(1,) * (len(shape) - 1)),
    "spatial": lambda shape, channel: tuple(1 if i in (0, channel) else n for i, n in enumerate(shape)),
}
WINDOW = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}


def weights(graph, *shape):
    return graph.constant(integers(np.random.default_rng(0), shape, "f32"))


HEADS = {
    "convolution": lambda g, x, c, f: ops.convolution(
        x, weights(g, c + 3, c, 3, 3), **WINDOW, dilations=(1, 1), data_format=f, weights_format="OIX"
    ),
    "conv_transpose": lambda g, x, c, f: ops.conv_transpose(
        x, weights(g, c, c + 3, 3, 3), **WINDOW, data_format=f, weights_format="IOX"
    ),
    "matmul": lambda g, x, c, f: ops.matmul(x, weights(g, x.shape[-1], 7)),
    "reduce_sum": lambda g, x, c, f: ops.reduce_sum(x, axes=[2], keep_dims=True),
    "softmax": lambda g, x, c, f: ops.softmax(x, axis=1),
    "batch_norm": lambda g, x, c, f: ops.batch_norm_inference(
        x, *(g.constant(np.arange(1, c + 1, dtype=np.float32)) for _ in range(4)), epsilon=0.5, data_format=f
    ),
    "interpolate": lambda g, x, c, f: ops.interpolate(
        x, mode="nearest", coordinate_transformation_mode="half_pixel", scales=[2.0, 2.0], data_format=f
    ),
    "avg_pool": lambda g, x, c, f: ops.avg_pool(x, kernel=(3, 3), **WINDOW, exclude_pad=True, data_format=f),
    "max_pool": lambda g, x, c, f: ops.max_pool(x, kernel=(3, 3), **WINDOW, data_format=f),
    "relu": lambda g, x, c, f: ops.relu(x),
    "add": lambda g, x, c, f: ops.add(x, x),
    "layer_norm": lambda g, x, c, f: ops.layer_norm(x, use_affine=False, keep_stats=False),
}


@pytest.mark.sweep
@pytest.mark.parametrize("binary", ["add", "multiply", "subtract", "maximum"])
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("head", HEADS)
def test_fused_as_apart(head, data_format, operand, binary):
    """The ops of one net together and one by one."""
    channels = 20
    shape = (2, channels, 5, 6) if data_format == "NCX" else (2, 5, 6, channels)
    graph = dgo.Graph()
    made = HEADS[head](graph, graph.input("src", shape), channels, data_format)
    made = made[0] if isinstance(made, tuple) else made
    other = graph.input("other", OPERANDS[operand](made.shape, 1 if data_format == "NCX" else 3))
    result = getattr(ops, binary)(made, other)
    rng = np.random.default_rng(5)
    arrays = [integers(rng, value.shape, "f32") for value in (graph.inputs)]
    together, apart = (graph.compile(result, policy=policy)(*arrays) for policy in ("fusion", "debug"))
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-4)

"""A user's script with twenty typical mistakes, on the lines that end in `# wrong`; `test_checkers` looks for them."""

import numpy as np

import dnnl_graph_ops as dgo

src, weights = np.ones((1, 4, 4, 3), np.float32), np.ones((2, 2, 5, 3), np.float32)

# functions
up = dgo.conv_transpose(src, weights, stride=2, padding=1, data_format="NHWC", auto_pad=None)
dgo.conv_transpose(src, weights, stirde=2)  # wrong
dgo.conv_transpose(src, weights, kernel_size=2)  # wrong
dgo.conv_transpose(src, weights, strides="2")  # wrong
dgo.conv_transpose(src, weights, data_format="NHCW")  # wrong
dgo.conv_transpose(src, weights, auto_pad="same")  # wrong
dgo.conv_transpose(src, weights, engine="cpu")  # wrong
dgo.convolution(src, weights, output_padding=1)  # wrong
dgo.conv_transpose_backward_bias(up, data_format="channels last")  # wrong
dgo.convert_weights(weights, "XOI", "IOX", op="deconvolution")  # wrong
print(up.shap)  # wrong

# graphs
engine = dgo.engine("cpu")
dgo.engine("gpuu")  # wrong
graph = dgo.Graph(engine, fpmath_mode="strict")
dgo.Graph(fpmath_mode="fp16")  # wrong
x = graph.input("x", (None, 4, 4, 3))
y = dgo.ops.relu(dgo.ops.conv_transpose(x, weights, stride=2)[:, 1:])
dgo.ops.max_pool(x, kernel=2, stride=2, padding=0)
dgo.ops.max_pool(x, kernel=2, strides=2)  # wrong
dgo.ops.max_pool(x, kernel=2, stride=2, padding=0, rounding_type="up")  # wrong
dgo.ops.relu(y, alpha=0.1)  # wrong
print(y > 0)  # wrong

# nets
net = graph.compile(y, tune="heuristic")
graph.compile(y, tune="mesure")  # wrong
graph.compile(y, precission="bf16")  # wrong
print(net(src).sum(), net(src).shape)
print(net(src).numpy())  # wrong
both = graph.compile((x, y))
first, second = both(src)
print(first + second, both(src).shape)  # wrong
several = graph.compile({"x": x, "y": y}, policy="debug")
a, b = several(src)

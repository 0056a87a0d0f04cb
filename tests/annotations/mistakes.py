"""What a checker must refuse: an error is due on each line that ignores one, and a line without one is reported."""

import numpy as np
import torch

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt

src, weights = np.ones((1, 4, 4, 3), np.float32), np.ones((2, 2, 5, 3), np.float32)

dgo.conv_transposee(src, weights)  # type: ignore  # pyright: ignore
dgo.import_module("os")  # type: ignore  # pyright: ignore
print(dgo.ops.conv_transposee)  # type: ignore  # pyright: ignore
print(dgo.nn.ConvTranspose4d)  # type: ignore  # pyright: ignore
dgo.nn.Conv2d(3, 4, 2, output_padding=1)  # type: ignore  # pyright: ignore
dgo.nn.Conv2d(3, 4, 2, strides="2")  # type: ignore  # pyright: ignore
dgo.convolution(src, weights, output_padding=1)  # type: ignore  # pyright: ignore
dgo.conv_transpose(src, weights, data_format="NHCW")  # type: ignore  # pyright: ignore
dgo.conv_transpose(src, weights, strides="2")  # type: ignore  # pyright: ignore
dgo.conv_transpose(src)  # type: ignore  # pyright: ignore
dgo.conv_transpose(src, weights, None, 2)  # type: ignore  # pyright: ignore
dgo.conv_transpose_backward_data(src, weights, engine="cpu")  # type: ignore  # pyright: ignore

dgo.Graph("cpu")  # type: ignore  # pyright: ignore
graph = dgo.Graph()
x = graph.input("x", (8,))
graph.input("y", 8)  # type: ignore  # pyright: ignore
dgo.ops.relu(x, alpha=1.0)  # type: ignore  # pyright: ignore
dgo.ops.relu([1.0])  # type: ignore  # pyright: ignore
dgo.ops.concat(x, x)  # type: ignore  # pyright: ignore
y, stats = dgo.ops.softmax(x)  # type: ignore  # pyright: ignore
print(x.shapes)  # type: ignore  # pyright: ignore
print(~x)  # type: ignore  # pyright: ignore
print(x ** "2")  # type: ignore  # pyright: ignore

net: dgo.Graph = graph.compile(x)  # type: ignore  # pyright: ignore
graph.compile("x")  # type: ignore  # pyright: ignore
graph.compile(x, algorithms={"x": 3})  # type: ignore  # pyright: ignore
graph.compile(x).explian()  # type: ignore  # pyright: ignore
print(graph.compile(x).benchmark(src).mean)  # type: ignore  # pyright: ignore
print(graph.compile(x).explain().partition)  # type: ignore  # pyright: ignore
print(graph.compile(x).profile(src).total)  # type: ignore  # pyright: ignore

model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))
dgt.optimise(model)  # type: ignore  # pyright: ignore
dgt.optimize(torch.ones(1))  # type: ignore  # pyright: ignore
dgt.optimize(model, True)  # type: ignore  # pyright: ignore
dgt.optimize(model, in_place=True)  # type: ignore  # pyright: ignore
dgt.optimize(model, dtype=16)  # type: ignore  # pyright: ignore
dgt.optimize(model, layers=["0"])  # type: ignore  # pyright: ignore
dgt.report(torch.ones(1))  # type: ignore  # pyright: ignore
print(dgt.report(model)[0].seconds)  # type: ignore  # pyright: ignore
print(dgt.refresh(model).training)  # type: ignore  # pyright: ignore

"""Errors of Winograd with bf16 products, beside direct bf16, of a trained model's layers on the data that they get.

`python -m bindings.trained_errors MODEL.onnx IMAGE` in `tests`: a line for each layer whose taps are tiled, and the
geometric means over layers. Docs: the page on numerical accuracy.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from PIL import Image

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms.filtering import TILES

from .filter_cases import Array, Case
from .test_bf16_product import SETS, run_product

FEWEST = 16  # channels


def tiled(node: dgo.Node) -> bool:
    """Whether a node is an ordinary convolution of constant weights and enough channels, with two or three taps."""
    if node.kind != "Convolution" or node.attrs["groups"] != 1 or node.inputs[1].constant is None:
        return False
    taps = {-(-k // s) for k, s in zip(node.inputs[1].shape[2:], node.attrs["strides"], strict=True)}
    return taps <= {2, 3} and min(node.inputs[1].shape[:2]) >= FEWEST


def layers(model: str, image: str) -> list[tuple[dgo.Node, Array]]:
    graph = dgo.from_onnx(model)
    nodes = [node for node in graph.nodes if tiled(node)]
    with Image.open(image) as file:
        # sizes that vary are those of the image, in whole strides
        sizes = (1, 3, file.height // 32 * 32, file.width // 32 * 32)
        shape = [size or n for size, n in zip(graph.inputs[0].shape, sizes, strict=True)]
        pixels = np.asarray(file.convert("RGB" if shape[1] == 3 else "L").resize((shape[3], shape[2])), "f4")
    data = (pixels.reshape(*shape[2:], shape[1]).transpose(2, 0, 1)[None] / 255 - 0.45) / 0.225
    read = list(dict.fromkeys(node.inputs[0] for node in nodes))
    values: Any = graph.compile(read)(np.ascontiguousarray(data, np.float32))
    sources = dict(zip(read, values if isinstance(values, tuple) else (values,), strict=True))
    return [(node, np.ascontiguousarray(np.moveaxis(sources[node.inputs[0]], 1, -1))) for node in nodes]


def errors(node: dgo.Node, x: Array) -> tuple[float, ...]:
    """Returns rms and largest error, of data in f32 and in bf16, each divided by that of direct bf16."""
    w, strides = np.asarray(node.inputs[1].constant), tuple(node.attrs["strides"])
    pads = {name: list(node.attrs[name]) for name in ("pads_begin", "pads_end")}
    layout: dict[str, Any] = {"strides": list(strides), **pads, "data_format": "NXC", "weights_format": "OIX"}
    exact = dgo.convolution(x, w, **layout)
    tile = tuple(TILES[3][-(-k // s)] for k, s in zip(w.shape[2:], strides, strict=True))
    bf16 = dgo.dtypes.numpy_dtype("bf16")

    def off(m: tuple[int, ...], data: Array, weights: Array) -> Array:
        case = Case(
            1, w.shape[:2], exact.shape[1:-1], x.shape[1:-1], w.shape[2:], strides, tuple(pads["pads_begin"]), m,
            (1, 1), 1, "IOX",
        )  # fmt: skip
        return np.abs(run_product(case, "fprop", data, weights, exact.shape, SETS[0], dtype="f32") - exact)

    direct = off((1, 1), x.astype(bf16), w.astype(bf16))
    tiled_errors = (off(tile, x, w), off(tile, x.astype(bf16), w))
    return tuple(f for error in tiled_errors for f in (rms(error) / rms(direct), float(error.max() / direct.max())))


def rms(array: Array) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))


def main(model: str, image: str) -> None:
    rows = []
    for node, x in layers(model, image):
        rows.append(errors(node, x))
        shape = "x".join(map(str, node.inputs[1].shape))
        print(f"{node.name:40} {shape:14}", *(f"{number:.2f}" for number in rows[-1]))
    for name, of in (("mean", np.exp(np.mean(np.log(rows), 0))), ("most", np.max(rows, 0))):
        print(f"{name + ' of ' + str(len(rows)) + ' layers':55}", *(f"{number:.2f}" for number in of))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What is timed, by name: `prepare("layer ERFNet/up2 fwd f32", models)` is a function that runs it once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import graphs, layers, single_ops

TABLE = json.loads(Path(__file__).with_name("rows.json").read_text(encoding="utf-8"))
TORCH = ("conv_transpose", "convolution", "gradient", "optimized")
PAGE = 4096
Run = Callable[[], Any]


def names(quick: bool) -> list[str]:
    if quick:
        return list(TABLE["quick"])
    whole = [f"layer {name} {way} f32" for name in TABLE["layers"] for way in layers.DIRECTIONS]
    bf16 = [f"layer {name} {way} bf16" for name in TABLE["narrow"] for way in layers.DIRECTIONS]
    int8 = [f"layer {name} fwd int8" for name in TABLE["narrow"]]
    ops = [f"op {name}" for name in single_ops.BUILDERS]
    nets = [f"net zoo {name}" for name in TABLE["zoo"]] + ["net torch inverted", "net torch attention"]
    calls = [f"call {name}" for name in graphs.CALLS] + ["net example fused_block", "net example unet_decoder"]
    compiles = [f"compile zoo {name}" for name in TABLE["zoo"]] + ["compile example unet_decoder"]
    loads = [f"load zoo {name}" for name in TABLE["zoo"]] + ["load torch block"]
    return [*whole, *bf16, *int8, *ops, *nets, *calls, *compiles, *loads, *(f"torch {name}" for name in TORCH)]


def group(row: str, quick: bool) -> str:
    """Rows of a group have one geometric mean: layers by op, direction and dtype, all others by their first word.

    The quick list has too few of each: its rows are those that kernels decide, and all others.
    """
    words = row.split()
    if quick:
        return "kernels" if words[0] in ("layer", "op", "net") else "calls"
    if words[0] != "layer":
        return words[0]
    return " ".join([layers.problems()[words[1]]["op"], *words[2:]])


def models(row: str) -> list[str]:
    """The models that a row reads."""
    model = row.partition(" ")[2]
    return [model] if model.startswith(("zoo ", "torch ")) else []


def prepare(row: str, models: Path) -> Run:
    kind, _, rest = row.partition(" ")
    return ROOMS[kind](rest, models)


def placed(array: np.ndarray, number: int) -> np.ndarray:
    """A copy that begins at the same place of a page in every process, three cache lines behind the one before.

    Left to malloc, the place depends on the length of paths, and a kernel's time on the place: up to 10 %.
    """
    room = np.empty(array.nbytes + 2 * PAGE, np.uint8)
    start = (192 * number - room.ctypes.data) % PAGE
    result = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def _graph(room: str) -> Callable[[str, Path], Run]:
    return lambda name, models: _net(f"{room} {name}", models)


def _net(name: str, models: Path) -> Run:
    """A compiled net with results of its own, as in a loop that calls it."""
    subject = graphs.subject(name, models)
    net = subject.graph.compile(subject.outputs)
    arrays = [placed(array, i) for i, array in enumerate(subject.given(net).values())]
    results = net(*arrays)
    every = results if isinstance(results, tuple) else (results,)
    held = tuple(placed(array, len(arrays) + i) for i, array in enumerate(every))
    out = held if isinstance(results, tuple) else held[0]

    def run() -> Any:
        return net(*arrays, out=out)

    return run


def _call(name: str, models: Path) -> Run:
    return graphs.call(name, "f32")


def _compile(name: str, models: Path) -> Run:
    import dnnl_graph_ops as dgo

    subject = graphs.subject(name, models)

    def run() -> None:
        dgo.clear_caches()
        subject.graph.compile(subject.outputs)

    return run


def _load(name: str, models: Path) -> Run:
    def run() -> None:
        graphs.subject(name, models)

    return run


def _torch(name: str, models: Path) -> Run:
    import torch

    import dnnl_graph_ops.torch as dgt

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(1, 16, 24, 24)
    layer = (torch.nn.Conv2d if name == "convolution" else torch.nn.ConvTranspose2d)(16, 16, 3, 2, 1)
    if name == "optimized":
        optimized = dgt.optimize(layer.eval())

        def forward() -> Any:
            with torch.no_grad():
                return optimized(x).numpy()

        return forward
    op = getattr(torch.ops.dnnl_graph_ops, "conv_transpose" if name == "gradient" else name)
    weight, bias = layer.weight.detach(), layer.bias.detach()
    more = ([2, 2], [1, 1], [1, 1], [0, 0], 1)
    if name != "gradient":
        return lambda: op(x, weight, bias, *more).numpy()
    weight.requires_grad_()

    def gradient() -> Any:
        weight.grad = None
        op(x, weight, bias, *more).sum().backward()
        return weight.grad.numpy()

    return gradient


ROOMS: dict[str, Callable[[str, Path], Run]] = {
    "layer": _graph("layer"),
    "op": _graph("op"),
    "net": _net,
    "call": _call,
    "compile": _compile,
    "load": _load,
    "torch": _torch,
}

"""Layers drawn by a seed, none of which the suites have, beside the better of PyTorch's layouts.

`python benchmarks/drawn.py --journal FILE` measures forward and both gradients of 120 layers with one thread, by the
heuristic choice, as `workloads.py` does. A kind of layer is a row of `KINDS`: how many, and the values that each of its
sizes is drawn from, as networks have them. `--again` measures the rows below 0.95 once more; `--report` measures none.
The median of a row's measurements counts. Layers of seeds 76, 20261130 and 20261201 to 20261205 were looked at while
kernels and prices were written; those of `SEED` are held out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import workloads

from dnnl_graph_ops.bench import suite
from dnnl_graph_ops.bench.problem import OPS, Problem
from dnnl_graph_ops.errors import ShapeError

LEAST, MOST = 2e5, 1.5e8  # multiply-adds of a layer
TRANSPOSED, ORDINARY = OPS
SEED = 20261206
# by seed: PyTorch 2.13.0's gradient of weights ends the process there
CRASHES = {76: {("few channels 1", "bwd_w")}, 20261130: {("few channels 0", "bwd_w")}}


class Kind(NamedTuple):
    """How many layers, and by size the values to draw from. Sizes, kernels and strides are those of all axes."""

    count: int
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    sizes: tuple[int, ...]
    kernels: tuple[int, ...] = (3,)
    strides: tuple[int, ...] = (1,)
    op: str = ORDINARY
    ranks: tuple[int, ...] = (2,)
    batches: tuple[int, ...] = (1, 2, 4)
    dilations: tuple[int, ...] = (1,)
    widths: tuple[int, ...] = ()  # channels of a group, the same in and out; empty: one group


USUAL = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512)
MANY = (256, 384, 512, 640, 768, 1024, 1280, 1536, 2048)
FEW = (1, 2, 3, 4, 6, 8, 12)
IMAGES = (7, 10, 14, 19, 20, 26, 28, 35, 40, 52, 56, 64, 80, 112)

KINDS: Final = {
    "transposed": Kind(
        14, (USUAL, USUAL), (4, 7, 8, 14, 16, 28, 32, 56), (2, 3, 4, 5, 6), (1, 2, 2, 2, 3, 4), TRANSPOSED
    ),
    "transposed, many channels": Kind(
        8, (MANY, MANY), (1, 2, 4, 6, 7, 8), (2, 3, 4, 5), (1, 2), TRANSPOSED, batches=(1, 4)
    ),
    "transposed, other axes": Kind(
        8, (USUAL, FEW + USUAL), (5, 8, 12, 16, 20), (2, 3, 4, 8), (1, 2, 4), TRANSPOSED, ranks=(1, 3), batches=(1,)
    ),
    "3x3": Kind(18, (USUAL, USUAL), IMAGES),
    "strides and other kernels": Kind(12, (USUAL, USUAL), IMAGES, (2, 3, 4, 5, 7), (1, 2, 4), dilations=(1, 1, 2, 4)),
    "1x1": Kind(16, (USUAL + MANY, USUAL + MANY), IMAGES, (1,), (1, 1, 1, 2)),
    "few positions, many channels": Kind(
        14, (MANY, MANY), (1, 2, 3, 4, 5, 6, 7, 8), (1, 3), (1, 1, 2), batches=(1, 1, 4)
    ),
    "depthwise and groups": Kind(
        14, (USUAL, USUAL), (7, 10, 14, 20, 28, 56, 112), (3, 3, 5, 7), (1, 1, 2), widths=(1, 1, 1, 2, 4, 8, 16, 24)
    ),
    "depthwise, three axes": Kind(
        4, (USUAL, USUAL), (4, 6, 8, 12, 16), (3, 5), (1, 2), ranks=(3,), batches=(1,), widths=(1, 1, 8)
    ),
    "first layers": Kind(
        6, ((1, 2, 3, 4), USUAL), (28, 32, 64, 112, 160, 224), (3, 4, 5, 7, 8, 11), (1, 2, 2, 4), ranks=(1, 2, 2, 3)
    ),
    "few channels": Kind(6, (FEW, FEW), (16, 24, 32, 64, 100, 128, 256), (1, 3, 5, 7), (1, 2), ranks=(2, 2, 3)),
}


def layers(seed: int) -> Iterator[Problem]:
    """Yields the layers of each kind, its name as family."""
    rng = random.Random(seed)
    seen = {sizes_of(layer) for op in OPS for layer in suite.real_layers(op)}
    for name, kind in KINDS.items():
        drawn: list[Problem] = []
        while len(drawn) < kind.count:
            layer = draw(rng, kind)
            if layer is not None and sizes_of(layer) not in seen:
                seen.add(sizes_of(layer))
                drawn.append(replace(layer, name=f"{name} {len(drawn)}", family=name))
        yield from drawn


def draw(rng: random.Random, kind: Kind) -> Problem | None:
    """Returns a layer; None where its sizes leave no output or its arithmetic is out of bounds."""
    axes = rng.choice(kind.ranks)
    ins, outs = map(rng.choice, kind.channels)
    size, kernel, stride, dilation = map(rng.choice, (kind.sizes, kind.kernels, kind.strides, kind.dilations))
    width = rng.choice(kind.widths) if kind.widths else 0
    extent = (kernel - 1) * dilation + 1
    pad = rng.choice((0, max(extent - stride, 0) // 2 if kind.op == TRANSPOSED else extent // 2))
    if width and ins % width:
        return None
    try:
        layer = Problem(
            name="",
            op=kind.op,
            batch=rng.choice(kind.batches),
            in_channels=ins,
            out_channels=ins if width else outs,
            spatial=(size,) * axes,
            kernel=(kernel,) * axes,
            strides=(stride,) * axes,
            pads_begin=(pad,) * axes,
            dilations=(dilation,) * axes,
            groups=ins // width if width else 1,
        )
    except ShapeError:
        return None
    return layer if LEAST < layer.macs < MOST else None


def sizes_of(layer: Problem) -> Any:
    """Returns the layer without what does not change its arithmetic."""
    return replace(layer, name="", family="", source="", bias=False)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = workloads.parser(__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    # kinds in turn, so that any part of the rows is a sample of all
    drawn = sorted(layers(options.seed), key=lambda layer: int(layer.name.rsplit(" ", 1)[1]))
    work = [(layer, 1) for layer in drawn]
    workloads.report(workloads.journalled(work, options, CRASHES.get(options.seed, ())))


if __name__ == "__main__":
    main()

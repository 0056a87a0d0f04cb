"""`torch.compile(model, backend="dnnl_graph_ops")`, and the same model as a net of its own: `dgo.from_torch`.

A small super-resolution network with attention over pixels, in plain PyTorch. Compiled, its first call takes a moment;
other sizes take no new graph, and weights that change are seen. Exported, it becomes a net that needs no PyTorch model.
"""

from __future__ import annotations

import sys
import time
from statistics import median

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"nothing to show: {error} (pip install '.[torch]')")
    sys.exit(0)
import dnnl_graph_ops as dgo

ROUNDS = 5


class Attention(nn.Module):
    """Over all pixels, with heads."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        pixels = self.norm(x.flatten(2).transpose(1, 2))
        q, k, v = self.parts(pixels).view(n, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        return x + self.out(made).transpose(1, 2).view(n, c, h, w)


class Enlarger(nn.Module):
    """Images to twice their size."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(4)
        )
        self.attention = Attention(width)
        self.up, self.last = nn.ConvTranspose2d(width, width, 4, 2, 1), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        for block in self.blocks:
            y = y + block(y)
        return self.last(F.gelu(self.up(self.attention(y))))


def in_turns(*calls) -> list[float]:
    """Median seconds of each."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
    return [median(taken) for taken in times]


@torch.no_grad()
def main() -> int:
    torch.manual_seed(0)
    model, x = Enlarger().eval(), torch.rand(1, 3, 32, 32)
    compiled = torch.compile(model, backend="dnnl_graph_ops", dynamic=True)

    begin = time.perf_counter()
    compiled(x)
    print(f"the first call takes {time.perf_counter() - begin:.2f} s")
    worst = 0.0
    for size in (32, 24, 40):
        x = torch.rand(1, 3, size, size)
        worst = max(worst, float((compiled(x) - model(x)).abs().max()))
        theirs, ours = in_turns(lambda: model(x), lambda: compiled(x))  # noqa: B023
        print(
            f"{size} x {size}: PyTorch {1e3 * theirs:.1f} ms, compiled {1e3 * ours:.1f} ms, {theirs / ours:.2f} times"
        )
    print("graphs captured:", torch._dynamo.utils.counters["stats"]["unique_graphs"])

    model.last.weight.mul_(2)
    worst = max(worst, float((compiled(x) - model(x)).abs().max()))

    program = torch.export.export(model, (x,))
    net = dgo.from_torch(program).compile()
    worst = max(worst, float((torch.from_numpy(net(x.numpy())) - model(x)).abs().max()))
    print(
        f"exported: {net!r}, {len(net.explain().to_dict()['partitions'])} steps; largest difference of all {worst:.1e}"
    )
    return 0 if worst < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())

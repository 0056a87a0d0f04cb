"""An optimized model trained by two processes of this machine: DistributedDataParallel over gloo.

Each process takes half of every batch, and gradients are averaged between them: the losses are those of one process
that takes whole batches. Processes are spawned, as after a fork they would compute with one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

    import dnnl_graph_ops.torch as dgt
except ImportError as error:
    print(f"nothing to show: {error} (pip install '.[torch]')")
    sys.exit(0)

RANKS, BATCH, SIDE = 2, 8, 24
TOLERANCE = 1e-4


def make_model() -> nn.Module:
    """A small autoencoder of images, the same one every time."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
    )


def batch(step: int) -> Tensor:
    """Waves of random direction."""
    wave = 1.5 * torch.randn(2, BATCH, 1, 1, 1, generator=torch.Generator().manual_seed(step))
    place = torch.linspace(-3, 3, SIDE)
    return torch.sin(wave[0] * place[:, None] + wave[1] * place)


def train(model: nn.Module, steps: int, part: slice) -> list[float]:
    """The losses, of a part of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x = batch(step)[part]
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def work(rank: int, folder: str, steps: int) -> None:
    """What one of the processes does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    model = DistributedDataParallel(dgt.optimize(make_model()))  # first optimized, then wrapped
    share = BATCH // RANKS
    losses = torch.tensor(train(model, steps, slice(rank * share, (rank + 1) * share)))
    dist.all_reduce(losses)
    if rank == 0:
        torch.save(losses / RANKS, Path(folder) / "losses.pt")
    dist.destroy_process_group()
    os._exit(0)  # PyTorch's thread for gloo may still want the interpreter, and aborts a process that ends it meanwhile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps

    torch.set_num_threads(1)
    alone = train(dgt.optimize(make_model()), steps, slice(None))
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (folder, steps), RANKS)
        together = torch.load(Path(folder) / "losses.pt").tolist()

    print("step  one process  two processes")
    for step in sorted({*range(0, steps, 10), steps - 1}):
        print(f"{step:4}  {alone[step]:11.6f}  {together[step]:13.6f}")
    worst = max(abs(a - b) for a, b in zip(alone, together, strict=True))
    print(f"largest difference of losses: {worst:.1e}")
    return 0 if worst < TOLERANCE and together[-1] < together[0] else 1


if __name__ == "__main__":
    sys.exit(main())

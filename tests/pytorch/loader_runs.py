"""Runs DataLoaders whose dataset computes: `loader_runs.py METHOD PARENT THREADS COUNT`, each with new workers.

PARENT: idle, compiled (a net), computed (the net, and PyTorch), or optimized (a module of dgt.optimize computes on both
sides).
"""

import sys
import warnings

import numpy as np
import torch

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt

SECONDS, LENGTH = 120, 4
X = np.arange(2 * 32 * 32 * 8, dtype=np.float32).reshape(2, 32, 32, 8) % 7
WEIGHTS = np.arange(3 * 3 * 8 * 8, dtype=np.float32).reshape(3, 3, 8, 8) % 5 - 2
TENSOR = torch.ones(1, 8, 16, 16)


def net():
    graph = dgo.Graph()
    return graph.compile(dgo.ops.relu(dgo.ops.convolution(graph.input("x", X.shape), graph.constant(WEIGHTS))))


class Items(torch.utils.data.Dataset):
    """What a worker computes, by a net of the parent's and by functions."""

    def __init__(self, model):
        self.net, self.model = net(), model

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        outputs = [self.net(X + index), dgo.convolution(X + index, WEIGHTS), dgo.conv_transpose(X, WEIGHTS, strides=2)]
        with torch.no_grad():
            outputs.append((self.model(TENSOR * index)).numpy())
        return torch.tensor([float(output.astype(np.float64).sum()) for output in outputs], dtype=torch.float64)


def main():
    method, parent, threads, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    dgo.set_num_threads(threads)
    model = torch.nn.Conv2d(8, 8, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    if parent == "optimized":
        model = dgt.optimize(model).eval()
    items = Items(model)
    if parent == "compiled":
        items.net.explain()
    if parent in ("computed", "optimized"):
        items[0]
        (torch.ones(512, 512) @ torch.ones(512, 512)).sum()
    loader = torch.utils.data.DataLoader(items, num_workers=2, multiprocessing_context=method, timeout=SECONDS)
    rows = [torch.cat(list(loader)) for _ in range(count)]
    wanted = torch.stack([items[index] for index in range(LENGTH)])
    assert all(torch.equal(row, wanted) for row in rows)
    print("right")


if __name__ == "__main__":
    main()

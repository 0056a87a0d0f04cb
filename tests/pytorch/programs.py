"""Random programs of views, shapes and element-wise ops, drawn by how eager PyTorch runs them."""

import random
from collections.abc import Callable

import torch
from torch import nn

FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last)
DTYPES = (torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.bool)


def axis(rng, x):
    """Counted from either end."""
    return rng.randrange(-x.ndim, x.ndim) if x.ndim else 0


def factored(rng, count):
    """Sizes whose product is `count`, in few axes."""
    sizes = []
    while count > 1 and len(sizes) < 4:
        sizes.append(rng.choice([n for n in range(1, count + 1) if count % n == 0]))
        count //= sizes[-1]
    return [*sizes, count] if count != 1 or not sizes else sizes


def with_unknown(rng, sizes):
    """One of them as -1, sometimes."""
    if sizes and 0 not in sizes and rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    return sizes


def strided(rng, x):
    """Sizes and strides that lie within the memory of x, and a place in it."""
    room = x.untyped_storage().nbytes() // x.element_size()
    sizes = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
    strides = [rng.choice([0, 1, 2, 3, 5]) for _ in sizes]
    reach = sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    return (sizes, strides, rng.randint(0, room - 1 - reach)) if reach < room else ([1], [1], 0)


def permuted(rng, x):
    return rng.sample(range(x.ndim), x.ndim)


def expanded(rng, x):
    return [rng.randint(1, 2) for _ in range(rng.randint(0, 1))] + [
        rng.choice([2, 3]) if n == 1 else rng.choice([n, -1]) for n in x.shape
    ]


def memory_format(rng, x):
    return rng.choice(FORMATS if x.ndim == 4 else FORMATS[:2])


def like(rng, x):
    return torch.ones(1, dtype=rng.choice(DTYPES))


# what an op is called with, drawn for the tensor at hand
Draw = Callable[..., object]
OPS: dict[str, tuple[Draw, Callable[..., torch.Tensor]]] = {
    "view": (lambda rng, x: with_unknown(rng, factored(rng, x.numel())), lambda x, a: x.view(a)),
    "reshape": (lambda rng, x: with_unknown(rng, factored(rng, x.numel())), lambda x, a: x.reshape(a)),
    "view_as": (lambda rng, x: torch.ones(factored(rng, x.numel())), lambda x, a: x.view_as(a)),
    "flatten": (lambda rng, x: axis(rng, x), lambda x, a: x.flatten(a)),
    "transpose": (lambda rng, x: (axis(rng, x), axis(rng, x)), lambda x, a: x.transpose(*a)),
    "permute": (permuted, lambda x, a: x.permute(a)),
    "movedim": (lambda rng, x: (axis(rng, x), axis(rng, x)), lambda x, a: x.movedim(*a)),
    "t": (lambda rng, x: None, lambda x, a: x.t()),
    "squeeze": (lambda rng, x: axis(rng, x), lambda x, a: x.squeeze(a)),
    "unsqueeze": (lambda rng, x: rng.randint(-x.ndim - 1, x.ndim), lambda x, a: x.unsqueeze(a)),
    "expand": (expanded, lambda x, a: x.expand(a)),
    "as_strided": (strided, lambda x, a: x.as_strided(*a)),
    "select": (lambda rng, x: (axis(rng, x), rng.choice([0, -1])), lambda x, a: x.select(*a)),
    "narrow": (lambda rng, x: (axis(rng, x), rng.randint(0, 1), 1), lambda x, a: x.narrow(*a)),
    "slice": (lambda rng, x: (rng.randint(0, 1), rng.randint(1, 3)), lambda x, a: x[..., a[0] :: a[1]]),
    "first": (lambda rng, x: rng.randint(1, 3), lambda x, a: x[:a]),
    "unfold": (lambda rng, x: (axis(rng, x), rng.randint(1, 2), 1), lambda x, a: x.unfold(*a)),
    "diagonal": (lambda rng, x: rng.randint(-1, 1), lambda x, a: x.diagonal(a)),
    "split": (lambda rng, x: (rng.randint(1, 2), axis(rng, x)), lambda x, a: x.split(*a)[-1]),
    "unbind": (axis, lambda x, a: x.unbind(a)[0]),
    "cat": (axis, lambda x, a: torch.cat([x, x], a)),
    "stack": (lambda rng, x: rng.randint(-x.ndim - 1, x.ndim), lambda x, a: torch.stack([x, x], a)),
    "flip": (axis, lambda x, a: x.flip(a)),
    "roll": (lambda rng, x: (rng.randint(-2, 2), axis(rng, x)), lambda x, a: x.roll(*a)),
    "contiguous": (memory_format, lambda x, a: x.contiguous(memory_format=a)),
    "clone": (memory_format, lambda x, a: x.clone(memory_format=a)),
    "to format": (memory_format, lambda x, a: x.to(memory_format=a)),
    "to dtype": (lambda rng, x: (rng.choice(DTYPES), rng.random() < 0.5), lambda x, a: x.to(a[0], copy=a[1])),
    "to both": (
        lambda rng, x: (rng.choice(DTYPES), memory_format(rng, x)),
        lambda x, a: x.to(dtype=a[0], memory_format=a[1], copy=True),
    ),
    "to device": (lambda rng, x: rng.choice(DTYPES), lambda x, a: x.to("cpu", a)),
    "to nowhere": (lambda rng, x: rng.random() < 0.5, lambda x, a: x.to(device=None, copy=a)),
    "to other": (like, lambda x, a: x.to(a)),
    "type_as": (like, lambda x, a: x.type_as(a)),
    "float": (lambda rng, x: None, lambda x, a: x.float()),
    "add": (lambda rng, x: None, lambda x, a: x + 1),
    "twice": (lambda rng, x: None, lambda x, a: x * 2.0),
    "transposed sum": (lambda rng, x: None, lambda x, a: x + x.transpose(-1, 0)),
    "relu": (lambda rng, x: None, lambda x, a: x.relu()),
    "sum": (axis, lambda x, a: x.sum(a)),
    "greater": (lambda rng, x: None, lambda x, a: torch.where(x > 1, x, -x)),
}


class Program(nn.Module):
    """One op after the other; gives the results of those named by `kept`, and the last."""

    def __init__(self, steps, kept):
        super().__init__()
        self.steps, self.kept = steps, kept

    def forward(self, x):
        found = []
        for i, (name, argument) in enumerate(self.steps):
            x = OPS[name][1](x, argument)
            if i in self.kept:
                found.append(x)
        return (*found, x)

    def __str__(self):
        return f"keeping {self.kept}:\n" + "\n".join(f"  {name} {argument}" for name, argument in self.steps)


def drawn(seed, most=8):
    """A program and its input; the last op may be one that eager refuses."""
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4))]
    x = torch.arange(-3, -3 + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    if rng.random() < 0.3:
        x = x.permute(permuted(rng, x)).contiguous().permute(permuted(rng, x))
    steps, made = [], x
    for _ in range(rng.randint(1, most)):
        name = rng.choice(list(OPS))
        argument = OPS[name][0](rng, made)
        steps.append((name, argument))
        try:
            made = OPS[name][1](made, argument)
        except (RuntimeError, IndexError, ValueError):
            if rng.random() < 0.9:
                # tried often, and kept seldom: nothing can follow
                steps.pop()
                continue
            break
        if made.numel() > 500:
            break
    kept = [i for i in range(len(steps) - 1) if rng.random() < 0.2]
    return Program(steps, kept), x

"""Times a model in PyTorch and in this package, in turns, and prints the line that every recipe ends with.

Importing it seeds PyTorch and sets one thread for both, so that processor time is the time of a call also on a machine
that other programs use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
import torch

import dnnl_graph_ops as dgo

ROUNDS = 5
torch.manual_seed(0)
torch.set_num_threads(1)
dgo.set_num_threads(1)

if find_spec("torchvision"):
    # its binary part fits one build of PyTorch; timm and others need the Python part, which asks for these operators
    _OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        try:
            _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        except RuntimeError:
            break  # the binary part has them


def arrays(results: Any) -> Iterator[np.ndarray]:
    """Yields the arrays of tensors, arrays, and lists and dicts of them."""
    if isinstance(results, torch.Tensor):
        yield results.detach().numpy()
    elif isinstance(results, np.ndarray):
        yield results
    elif isinstance(results, Iterable):
        for each in results.values() if isinstance(results, dict) else results:
            yield from arrays(each)


def noise(expected: Any, actual: Any) -> float:
    """Returns the rms of the differences divided by the rms of the expected numbers."""
    pairs = list(zip(arrays(expected), arrays(actual), strict=True))
    differences = sum(float(np.square(a - e).sum()) for e, a in pairs)
    return (differences / sum(float(np.square(e).sum()) for e, _ in pairs)) ** 0.5


def in_turns(*calls: Callable[[], Any], rounds: int = ROUNDS) -> list[list[float]]:
    """Returns the seconds of each call in every round, of the processor."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, seconds, strict=True):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
    return seconds


def told(name: str, plain: list[float], ours: list[float], note: str) -> str:
    """Returns the recipe's line: the median of each time, and the median of the rounds' speedups."""
    speedup = median(p / o for p, o in zip(plain, ours, strict=True))
    return (
        f"{name}: PyTorch {1e3 * median(plain):.1f} ms, dnnl_graph_ops {1e3 * median(ours):.1f} ms, "
        f"speedup {speedup:.2f}; {note}"
    )


def times(name: str, plain: Callable[[], Any], ours: Callable[[], Any], tolerance: float = 1e-3) -> None:
    """Compares results, then times; the program ends with an error if the noise is above the tolerance."""
    with torch.inference_mode():
        error = noise(plain(), ours())
        if not error <= tolerance:
            sys.exit(f"{name}: results differ by {error:.1e} of their rms, more than {tolerance:.0e}")
        ours()
        print(told(name, *in_turns(plain, ours), f"results differ by {error:.0e} of their rms"))

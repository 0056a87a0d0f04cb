"""The transposed convolution and its gradients by the products that exist: attributes of any size cost nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np


class Setting(NamedTuple):
    strides: Sequence[int]
    dilations: Sequence[int]
    pads_begin: Sequence[int]
    groups: int


def compare(x: Any, w: Any, y: Any, setting: Setting, result: str) -> tuple[Any, Any]:
    """The result among src, weights (IOX) and dst, all channels first, and what it should be; any bias left out."""
    wrt = {"x": x, "w": w, "y": y}[result]
    expected = np.zeros(wrt.shape)
    inside, outside = w.shape[0] // setting.groups, w.shape[1]
    for tap, at, to in taps(setting, x.shape[2:], w.shape[2:], y.shape[2:]):
        for group in range(setting.groups):
            ins = range(group * inside, (group + 1) * inside)
            outs = range(group * outside, (group + 1) * outside)
            i, o = _block(ins, at), _block(outs, to)
            k = (slice(ins.start, ins.stop), slice(None), *tap)
            if result == "y":
                expected[o] += np.einsum("ni...,io->no...", x[i], w[k])
            elif result == "x":
                expected[i] += np.einsum("no...,io->ni...", y[o], w[k])
            else:
                expected[k] += np.einsum(
                    "nix,nox->io", *(a.reshape(*a.shape[:2], prod(a.shape[2:])) for a in (x[i], y[o]))
                )
    return wrt, expected


def taps(setting: Setting, source: Any, kernel: Any, dst: Any) -> Iterator[tuple[Any, Any, Any]]:
    """For every tap that joins any: its index, and per axis the positions of src and of dst."""
    ways = []
    for axis, taps_here in enumerate(kernel):
        step, rate, pad = setting.strides[axis], setting.dilations[axis], setting.pads_begin[axis]
        way = []
        for k in range(taps_here):
            pairs = [(i, i * step + k * rate - pad) for i in range(source[axis])]
            inside = [(i, o) for i, o in pairs if 0 <= o < dst[axis]]
            if inside:
                way.append((k, *zip(*inside, strict=True)))
        ways.append(way)
    for tap in itertools.product(*ways):
        yield tuple(zip(*tap, strict=True))  # type: ignore[misc]


def _block(channels: range, positions: Any) -> Any:
    """The index of some channels at these positions, for all images."""
    rank = len(positions)
    columns = [np.asarray(list(values), int) for values in (channels, *positions)]
    return (slice(None), *(v.reshape((-1,) + (1,) * (rank - axis)) for axis, v in enumerate(columns)))

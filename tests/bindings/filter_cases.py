"""Layers, operands and room for the tests of own products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from reference import conv_transpose as ct
from reference import data

from dnnl_graph_ops import _core

from .kernel_cases import element_strides

Array = np.ndarray[Any, Any]
EACH = 20

# so small that transformed products are exact as well
integers = partial(data.integers, limit=2)


@dataclass(frozen=True)
class Case:
    batch: int
    channels: tuple[int, int]
    source: tuple[int, ...]
    output: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    tile: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    weights_format: str

    def problem(self) -> Any:
        return _core.kernels.FilterProblem(
            self.batch,
            *self.channels,
            self.source,
            self.output,
            self.kernel,
            self.strides,
            self.pads,
            self.tile,
            self.dilations,
            self.groups,
        )

    def attributes(self) -> dict[str, Any]:
        return {"strides": self.strides, "dilations": self.dilations, "groups": self.groups}

    def iox(self) -> tuple[int, ...]:
        return (self.channels[0], self.channels[1] // self.groups, *self.kernel)

    def crop(self, full: Array) -> Array:
        """The output's window of the result without pads; zeros where pads are negative."""
        result = np.zeros((self.batch, *self.output, full.shape[-1]))
        inside = [
            (max(-pad, 0), max(min(size - pad, out), max(-pad, 0)))
            for size, pad, out in zip(full.shape[1:-1], self.pads, self.output, strict=True)
        ]
        to = tuple(slice(a, b) for a, b in inside)
        frm = tuple(slice(a + pad, b + pad) for (a, b), pad in zip(inside, self.pads, strict=True))
        if all(b > a for a, b in inside):
            result[(slice(None), *to)] = full[(slice(None), *frm)]
        return result

    def embed(self, diff_dst: Array) -> Array:
        """diff_dst as the gradient of the result without pads."""
        plain = ct.setting(self.kernel, **self.attributes())
        full = np.zeros((self.batch, *ct.output_spatial(self.source, self.kernel, plain), diff_dst.shape[-1]))
        shift = Case(**{**self.__dict__, "output": full.shape[1:-1], "pads": tuple(-p for p in self.pads)})
        return shift.crop(diff_dst)


def scratch(kernel: Any) -> Array:
    """Room full of NaNs: what a kernel reads it must have written."""
    buffer = np.full(kernel.scratch_bytes + 64, 0xFF, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + kernel.scratch_bytes]


def in_out_taps(weights: Array, weights_format: str) -> list[int]:
    return element_strides(ct.to_iox(weights, weights_format))


def positions(array: Array) -> list[int]:
    return element_strides(array)[:-1]


def random_operands(rng: np.random.Generator, case: Case, draw: Any) -> tuple[Array, Array, Array, Array]:
    src = draw(rng, (case.batch, *case.source, case.channels[0]))
    weights = np.ascontiguousarray(ct.from_iox(draw(rng, case.iox()), case.weights_format))
    diff_dst = draw(rng, (case.batch, *case.output, case.channels[1]))
    return src, weights, draw(rng, (case.channels[1],)), diff_dst


def draws(
    seed: int, start: int, draw: Callable[[np.random.Generator], Case]
) -> Iterator[tuple[np.random.Generator, Case]]:
    """EACH layers, and the generator of each, which goes on to draw its operands."""
    for number in range(start, start + EACH):
        rng = np.random.default_rng([seed, number])
        case = draw(rng)
        print(f"--seed={seed} number {number}: {case}")
        yield rng, case


def assert_exact(results: Sequence[Array], expected: Sequence[Array]) -> None:
    for result, exact in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, exact)

"""One-shot calls of many shapes, drawn from a seed, with results that are exact."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from reference import conv_transpose as ct
from reference import convolution as cv

import dnnl_graph_ops as dgo

CHANNELS = (1, 2, 3, 4, 8, 16, 17)


@dataclass(frozen=True)
class Call:
    name: str
    run: Callable[..., np.ndarray]  # takes `out`
    expected: np.ndarray

    def check(self) -> None:
        """With an array for the result and without one."""
        out = np.full(self.expected.shape, np.nan, np.float32)
        assert self.run(out=out) is out
        for result in (out, self.run()):
            if not np.array_equal(result, self.expected):
                wrong = np.flatnonzero(result != self.expected)
                raise AssertionError(f"{self.name}: {wrong.size} of {result.size} elements differ, first {wrong[0]}")


def calls(seed: int, count: int) -> list[Call]:
    """So many, no two of which share a plan; small integers, so that every sum is exact."""
    rng = np.random.default_rng(seed)
    found: dict[str, Call] = {}
    while len(found) < count:
        found.update((call.name, call) for call in _draw(rng))
    return list(found.values())[:count]


def _draw(rng: np.random.Generator) -> Iterator[Call]:
    """The forward function of one family and its gradients, for one draw of sizes."""
    rank = int(rng.integers(1, 4))
    transposed = bool(rng.integers(2))
    groups = int(rng.choice([1, 1, 2, 4]))
    inputs, outputs = (groups * int(n) for n in rng.choice(CHANNELS, 2))
    kernel = [int(n) for n in rng.integers(1, 5, rank)]
    source = [int(k + n) for k, n in zip(kernel, rng.integers(0, 60 if rank == 1 else 7, rank), strict=True)]
    attributes: dict[str, Any] = {
        "strides": int(rng.integers(1, 4)),
        "pads_begin": [int(rng.integers(0, k)) for k in kernel],
        "pads_end": [int(rng.integers(0, k)) for k in kernel],
        "groups": groups,
        "data_format": str(rng.choice(["NXC", "NCX"])),
    }
    data_format = attributes["data_format"]

    def data(*shape: int) -> np.ndarray:
        return rng.integers(-4, 5, shape).astype(np.float32)

    def laid(channels: int, spatial: Any) -> np.ndarray:
        return np.ascontiguousarray(
            ct.from_channels_first(data(int(rng.integers(1, 3)), channels, *spatial), data_format)
        )

    if transposed:
        own, plain, formats = "conv_transpose", ct, ("IOX", "XOI")
        iox = data(inputs, outputs // groups, *kernel)
    else:
        own, plain, formats = "convolution", cv, ("OIX", "XIO")
        iox = data(outputs, inputs // groups, *kernel)
    attributes["weights_format"] = str(rng.choice(formats))
    as_transposed = {"OIX": "IOX", "XIO": "XOI"}.get(attributes["weights_format"], attributes["weights_format"])
    weights = np.ascontiguousarray(ct.from_iox(iox, as_transposed))
    src, bias = laid(inputs, source), data(outputs)
    dst = plain.forward(src, weights, bias, **attributes)
    if not dst.size:
        return
    diff = rng.integers(-4, 5, dst.shape).astype(np.float32)
    spatial = {"src_spatial": source}

    def call(kind: str, expected: np.ndarray, *arrays: np.ndarray, **keywords: Any) -> Call:
        what = f"{[array.shape for array in arrays]} {keywords}"
        function = getattr(dgo, own + kind)

        def run(**out: Any) -> np.ndarray:
            return function(*arrays, **keywords, **out)

        return Call(f"{own}{kind} {what}", run, expected)

    shape = {"src_shape": src.shape}
    yield call("", dst, src, weights, bias, **attributes)
    yield call(
        "_backward_data",
        plain.backward_data(diff, weights, **spatial, **attributes),
        diff,
        weights,
        **shape,
        **attributes,
    )
    yield call(
        "_backward_weights",
        plain.backward_weights(src, diff, kernel, **attributes),
        src,
        diff,
        weights_shape=weights.shape,
        **attributes,
    )
    sums = ct.backward_bias(diff, data_format=data_format)
    yield call("_backward_bias", sums, diff, data_format=data_format)

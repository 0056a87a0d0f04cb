"""Draws 1-D nets with an unknown length on small integers, and compares streams with whole calls: all numbers equal.

`python -m streaming.drawn COUNT SEED` in the folder `tests`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

Array = np.ndarray[Any, Any]
RNG = np.random.Generator
_CONV = {"data_format": "NCX", "weights_format": "OIX"}
_UP = {"data_format": "NCX", "weights_format": "IOX"}


class Drawn:
    """A net whose values all have the shape (batch, channels, length) and stay small integers.

    `batch` is None for an unknown one. `pairs` are values of one rate with the lengths that they have.
    """

    def __init__(self, rng: RNG) -> None:
        self.rng = rng
        self.graph = dgo.Graph()
        self.batch = 1 if rng.random() < 0.7 else None
        self.kinds: Counter[str] = Counter()
        channels = int(rng.integers(1, 5))
        self.x = self.graph.input("x", (self.batch, channels, None))
        # length for n samples of input, and input samples for a sample
        self.lengths: dict[dgo.Value, Callable[[int], int]] = {self.x: lambda n: n}
        self.rates = {self.x: Fraction(1)}
        value = self.x
        for _ in range(int(rng.integers(1, 9))):
            value = self.layer(value)
        self.outputs = [value]
        if rng.random() < 0.2:
            self.outputs = list(dict.fromkeys([value, self.pick([*self.rates][1:])]))

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def number(self, low: int, high: int) -> int:
        """A number from low to high."""
        return int(self.rng.integers(low, high + 1))

    def weights(self, *shape: int) -> Array:
        return self.rng.integers(-1, 2, shape).astype(np.float32)

    def noted(self, value: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        self.rates[value], self.lengths[value] = rate, length
        return value

    def layer(self, x: Any) -> Any:
        names = [
            "conv", "conv", "conv", "up", "up", "point", "skip", "skip", "channels", "pad", "slice", "pool", "resize",
            "matmul", "turn", "affix", "norm", "clamp", "blocks",
        ]  # fmt: skip
        name = self.pick(names)
        made = getattr(self, f"_{name}")(x, self.rates[x], self.lengths[x])
        self.kinds[name] += 1
        # bounded numbers stay exact
        return self.noted(ops.clamp(made, min=-9.0, max=9.0), self.rates[made], self.lengths[made])

    def _conv(self, x: Any, rate: Fraction, length: Callable[[int], int], **given: Any) -> Any:
        taps, dilation = self.number(1, 5), self.number(1, 3)
        stride = self.pick([1, 1, 1, 1, 2, 3]) if rate.denominator < 12 else 1
        reach = (taps - 1) * dilation + 1
        before, behind = (self.pick([0, reach // 2, reach - 1, self.number(0, 7)]) for _ in range(2))
        wide, channels = self.number(1, 4), x.shape[1]
        groups = channels if self.rng.random() < 0.2 else 1
        wide = channels if groups > 1 else wide
        auto = "SAME_UPPER" if stride == 1 and self.rng.random() < 0.15 else "None"
        if auto != "None":
            before, behind = (reach - 1) // 2, (reach - 1) - (reach - 1) // 2
        made = ops.convolution(
            x, self.weights(wide, channels // groups, taps), *([self.weights(wide)] * self.number(0, 1)),
            strides=stride, pads_begin=0 if auto != "None" else before, pads_end=0 if auto != "None" else behind,
            dilations=dilation, auto_pad=auto, groups=groups, **_CONV,
        )  # fmt: skip
        return self.noted(made, rate / stride, lambda n: (length(n) + before + behind - reach) // stride + 1)

    def _up(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        taps, dilation, stride = self.number(1, 6), self.number(1, 2), self.number(1, 4)
        stride = stride if rate * stride < 9 else 1
        reach = (taps - 1) * dilation + 1
        before, behind, more = self.number(0, min(reach, 3)), self.number(0, min(reach, 3)), self.number(0, stride - 1)
        made = ops.conv_transpose(
            x, self.weights(x.shape[1], self.number(1, 4), taps), strides=stride, pads_begin=before, pads_end=behind,
            dilations=dilation, output_padding=more, **_UP,
        )  # fmt: skip
        return self.noted(made, rate * stride, lambda n: (length(n) - 1) * stride + reach - before - behind + more)

    def _point(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        made = self.pick([ops.relu, ops.abs, ops.square, lambda v: v * 2, lambda v: v - 1, lambda v: -v])(x)
        return self.noted(made, rate, length)

    def _clamp(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        return self.noted(ops.leaky_relu(x, alpha=2.0), rate, length)

    def _mate(self, x: Any) -> Any:
        """Another value of the same rate and lengths, brought to them by a slice; None if there is none."""
        here = self.lengths[x]
        for other in self.rng.permutation(np.arange(len(self.rates))):
            value = [*self.rates][int(other)]
            surplus = {self.lengths[value](n) - here(n) for n in range(40, 40 + 24)}
            if value is x or self.rates[value] != self.rates[x] or len(surplus) > 1:
                continue
            (more,) = surplus
            if more < 0:
                pads = {"pads_begin": [0, 0, 0], "pads_end": [0, 0, 0]}
                pads[self.pick(["pads_begin", "pads_end"])][2] = -more
                return ops.pad(value, **pads)
            if more > 0:
                begin = self.pick([0, more, self.number(0, more)])
                return value[:, :, begin : begin - more or None]
            return value
        return None

    def _skip(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        other = self._mate(x)
        if other is None:
            return self._conv(x, rate, length)
        if other.shape[1] not in (1, x.shape[1]) and x.shape[1] != 1:
            other = ops.convolution(other, self.weights(x.shape[1], other.shape[1], 1), **_CONV,
                                    strides=1, pads_begin=0, pads_end=0, dilations=1)  # fmt: skip
        made = self.pick([ops.add, ops.subtract, ops.maximum])(*((x, other) if self.number(0, 1) else (other, x)))
        return self.noted(made, rate, length)

    def _channels(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        other = self._mate(x)
        made = ops.concat(x, x if other is None else other, axis=self.pick([1, -2]))
        made = made[:, : self.number(1, 4)] if made.shape[1] > 4 else made
        return self.noted(made, rate, length)

    def _pad(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        mode = self.pick(["constant", "constant", "edge", "reflect"])
        before, behind = self.number(0, 4), self.number(0, 4)
        made = ops.pad(
            x, pads_begin=[0, 0, before], pads_end=[0, 0, behind], mode=mode, value=float(self.number(-1, 1))
        )
        return self.noted(made, rate, lambda n: length(n) + before + behind)

    def _slice(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        begin, behind = self.number(0, 4), self.number(0, 4)
        step = self.pick([1, 1, 1, 2]) if rate.denominator < 12 else 1
        made = x[:, :, begin : -behind or None : step]
        return self.noted(made, rate / step, lambda n: -((begin + behind - length(n)) // step))

    def _pool(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        taps, stride = self.pick([1, 2, 4]), self.pick([1, 1, 2]) if rate.denominator < 12 else 1
        before, behind = self.number(0, taps - 1), self.number(0, taps - 1)
        attrs = {"strides": [stride], "pads_begin": [before], "pads_end": [behind], "kernel": [taps]}
        if self.number(0, 1):
            made = ops.max_pool(x, **attrs, data_format="NCX")
        else:
            # quarters, then integers again
            made = ops.avg_pool(x, **attrs, exclude_pad=False, data_format="NCX") * 4
        return self.noted(made, rate / stride, lambda n: (length(n) + before + behind - taps) // stride + 1)

    def _resize(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        many = self.pick([1, 2, 2, 3]) if rate < 5 else 1
        linear = many == 2 and self.number(0, 1)
        made = ops.interpolate(x, mode="linear" if linear else "nearest", scales=[float(many)], data_format="NCX")
        made = made * 4 if linear else made
        return self.noted(made, rate * many, lambda n: length(n) * many)

    def _matmul(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        wide = self.number(1, 4)
        if self.number(0, 1):
            turned = ops.matmul(ops.static_transpose(x, order=[0, 2, 1]), self.weights(x.shape[1], wide))
            made = ops.static_transpose(turned, order=[0, 2, 1])
        else:
            made = ops.matmul(self.weights(wide, x.shape[1]), x)
        return self.noted(made, rate, length)

    def _turn(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        """A 2-D convolution over an axis of height, and a sum over it."""
        high = self.number(1, 3)
        wide = ops.convolution(x, self.weights(high * 2, x.shape[1], 1), **_CONV,
                               strides=1, pads_begin=0, pads_end=0, dilations=1)  # fmt: skip
        image = ops.static_reshape(wide, shape=[0, 2, high, -1], special_zero=True)
        taps, stride = self.number(1, 3), self.pick([1, 1, 2]) if rate.denominator < 12 else 1
        made = ops.convolution(image, self.weights(2, 2, 1, taps), **_CONV, strides=[1, stride],
                               pads_begin=[0, taps - 1], pads_end=[0, 0], dilations=[1, 1])  # fmt: skip
        made = ops.reduce_sum(made, axes=[2], keep_dims=False)
        return self.noted(made, rate / stride, lambda n: (length(n) - 1) // stride + 1)

    def _affix(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        if self.batch is None:
            return self._pad(x, rate, length)
        pieces, more = [x], 0
        for place in (0, 1):
            if self.number(0, 1):
                size = self.number(1, 3)
                pieces.insert(place * len(pieces), self.weights(1, x.shape[1], size))
                more += size
        return self.noted(ops.concat(*pieces, axis=2) if more else ops.abs(x), rate, lambda n: length(n) + more)

    def _norm(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        count = x.shape[1]
        gamma, beta, mean = (self.weights(count) for _ in range(3))
        made = ops.batch_norm_inference(
            x, gamma, beta, mean, np.ones(count, np.float32), epsilon=0.0, data_format="NCX"
        )
        return self.noted(made, rate, length)

    def _blocks(self, x: Any, rate: Fraction, length: Callable[[int], int]) -> Any:
        """Channels to samples, as a pixel shuffle."""
        many = 2
        if rate >= 5:
            return self._point(x, rate, length)
        wide = ops.convolution(x, self.weights(many * 2, x.shape[1], 1), **_CONV,
                               strides=1, pads_begin=0, pads_end=0, dilations=1)  # fmt: skip
        parted = ops.static_reshape(wide, shape=[0, 2, many, -1], special_zero=True)
        turned = ops.static_transpose(parted, order=[0, 1, 3, 2])
        made = ops.static_reshape(turned, shape=[0, 2, -1], special_zero=True)
        return self.noted(made, rate * many, lambda n: length(n) * many)


def cuts_of(rng: RNG, total: int) -> list[int]:
    """Draws lengths of pushes whose sum is `total`."""
    way = int(rng.integers(4))
    if way == 0:
        return [1] * total
    if way == 1:
        return [total]
    most = int(rng.integers(1, 12))
    cuts: list[int] = []
    while sum(cuts) < total:
        cuts.append(min(int(rng.integers(0, most + 1)), total - sum(cuts)))
    return cuts


def together(stream: Any, data: Array, cuts: Sequence[int], axes: Sequence[int] = (-1,)) -> list[Array]:
    """The outputs of pushes of these lengths along the last axis, and of the flush."""
    found: list[list[Array]] = [[] for _ in axes]
    at = 0
    for size in [*cuts, None]:
        results = stream.flush() if size is None else stream.push(data[..., at : at + size])
        at += size or 0
        for pieces, result in zip(found, results if isinstance(results, tuple) else (results,), strict=True):
            pieces.append(result)
    return [np.concatenate(pieces, axis) for pieces, axis in zip(found, axes, strict=True)]


def check(seed: int, index: int) -> Counter[str]:
    """Draws a net and compares a few streams of it with whole calls; returns what was drawn."""
    rng = np.random.default_rng([seed, index])
    drawn = Drawn(rng)
    net = drawn.graph.compile(drawn.outputs)
    chunk = int(rng.integers(1, 9))
    stream = net.stream(chunk=chunk)
    for _ in range(3):
        total = int(rng.integers(1, 60))
        batch = drawn.batch or int(rng.integers(1, 3))
        data = rng.integers(-3, 4, (batch, drawn.x.shape[1], total)).astype(np.float32)
        try:
            whole = net(data)
        except dgo.Error:
            drawn.kinds["too short"] += 1
            continue
        whole = whole if isinstance(whole, tuple) else (whole,)
        for _ in range(2):
            cuts = cuts_of(rng, total)
            told = f"seed {seed}, net {index}, chunk {chunk}, start {stream.start}, cuts {cuts}\n{drawn.graph}"
            try:
                results = together(stream, data, cuts, [-1] * len(whole))
            except Exception as error:
                raise AssertionError(told) from error
            for result, wanted in zip(results, whole, strict=True):
                assert result.shape == wanted.shape, f"{result.shape}, not {wanted.shape}: {told}"
                np.testing.assert_array_equal(result, wanted, told)
    return drawn.kinds


def main() -> None:
    count, seed = (int(word) for word in (*sys.argv[1:], *("200", "0")[len(sys.argv) - 1 :]))
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for index in range(count):
        try:
            kinds += check(seed, index)
        except dgo.UnsupportedError as error:
            refused[str(error).partition("cannot run in chunks: ")[2][:60]] += 1
    print(kinds, refused, sep="\n")


if __name__ == "__main__":
    main()

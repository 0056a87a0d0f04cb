"""Tells which gradients of weights the library computes by slower code, for want of a direct kernel of the CPU."""

from __future__ import annotations

from collections.abc import Iterable

# cost factors of products: with AVX-512 in f32 and bf16, 24 to 512 channels, 1.5 to 3.7 times as long as its direct
# kernels; with tiles 2.3 to 12
BY_GEMM, BY_GEMM_FOR_TILES = 2.5, 5.0
# with AVX-512 in f32, 24 to 320 channels: where there is no kernel of 16 bits, the one for AVX2 runs on any CPU
BY_AVX2 = 1.4

Axis = tuple[int, int, int, int, int]  # taps, stride, dilation, padding before and after


def by_gemm(axes: Iterable[Axis], narrow: bool) -> bool:
    """Whether oneDNN 3.2 has no direct kernel for a gradient of weights of two or three spatial axes, as its log says.

    It has none for dilations with strides, nor for more padding than half of the window, though in f32 (not `narrow`)
    of two axes only if the window is dilated. Of three axes it has none for dilations with padding, nor in f32 for any.
    """
    windows = list(axes)
    three = len(windows) > 2
    for taps, stride, dilation, before, after in windows:
        dilated, most = dilation > 1 and taps > 1, max(before, after)
        half = ((taps - 1) * dilation + 1) // 2
        if (dilated and stride > 1) or ((narrow or dilated or three) and most > half):
            return True
        if three and dilated and (most > 0 or not narrow):
            return True
    return False

"""Random problems of the family: drawn from a seed and a number, printed before they run."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference import conv_transpose as ct
from reference.data import strided

LAYOUTS = ("NCX", "NXC")
FORMATS = ("IOX", "XOI", "OIX", "XIO")
POST_OPS = ("relu", "leaky_relu", "add", "multiply", "bias_add", "sigmoid", "tanh")
_LARGEST = {1: 12, 2: 7, 3: 4}


@dataclass
class Problem:
    """One configuration; `attributes` as they are passed, in the styles that the API allows."""

    dtype: str
    data_format: str
    weights_format: str
    documented: bool
    src: tuple[int, ...]
    weights: tuple[int, ...]
    attributes: dict[str, Any]
    bias: bool
    state_shapes: bool
    use_out: bool
    graph: bool
    constant: bool
    post_ops: list[str] = field(default_factory=list)

    @property
    def setting(self) -> ct.Setting:
        return ct.setting(self.weights[2:], **self.attributes)

    @property
    def dst(self) -> tuple[int, ...]:
        spatial = ct.output_spatial(self.src[2:], self.weights[2:], self.setting)
        return (self.src[0], self.weights[1] * self.setting.groups, *spatial)

    @property
    def derivable(self) -> bool:
        """The kernel's size follows from the sizes of src and diff_dst."""
        return self.attributes["auto_pad"].lower() in ("none", "valid") and 0 not in self.src


def _style(rng: np.random.Generator, values: list[int]) -> Any:
    """One int for all axes where that says the same, else a list or a tuple."""
    if len(set(values)) == 1 and rng.random() < 0.5:
        return values[0]
    return tuple(values) if rng.random() < 0.5 else values


def _letters(rng: np.random.Generator, text: str) -> str:
    return str(rng.choice([text.lower(), text.upper(), text.title()]))


def _channels(rng: np.random.Generator) -> tuple[int, int, int]:
    """Input channels, output channels and groups."""
    groups = int(rng.choice([1, 1, 1, 2, 3, 8]))
    inputs, outputs = (int(v) for v in rng.choice([1, 2, 3, 5, 8, 17, 32], 2))
    if groups == 8:
        return 8, 8 * int(rng.choice([1, 1, 2])), 8
    return groups * inputs, groups * outputs, groups


def draw(seed: int, number: int) -> Problem:
    rng = np.random.default_rng([seed, number])
    rank = int(rng.integers(1, 4))
    inputs, outputs, groups = _channels(rng)
    batch = int(rng.choice([0, 1, 2, 3], p=[0.03, 0.4, 0.4, 0.17]))
    spatial = [int(v) for v in rng.integers(1, _LARGEST[rank] + 1, rank)]
    kernel = [int(v) for v in rng.integers(1, 6 if rank < 3 else 4, rank)]
    strides = [int(v) for v in rng.integers(1, 5 if rank < 3 else 4, rank)]
    dilations = [int(v) for v in rng.integers(1, 4, rank)] if rng.random() < 0.4 else [1] * rank
    reach = ct.extents(kernel, dilations)
    room = [s * (i - 1) + e - 1 for s, i, e in zip(strides, spatial, reach, strict=True)]
    begin = [int(rng.integers(0, min(r, e) + 1)) for r, e in zip(room, reach, strict=True)]
    end = [int(rng.integers(0, min(r - b, e) + 1)) for r, b, e in zip(room, begin, reach, strict=True)]
    auto_pad = str(rng.choice(["none", "valid", "same_upper", "same_lower"], p=[0.76, 0.08, 0.08, 0.08]))
    if auto_pad.startswith("same"):
        # SAME_* may leave nothing of a source of one element
        spatial = [max(i, e) for i, e in zip(spatial, reach, strict=True)]
    beyond = rng.random() < 0.15
    extra = [int(rng.integers(0, s + 3 if beyond else s)) for s in strides] if rng.random() < 0.5 else [0] * rank
    fixed = str(rng.choice(FORMATS))
    graph = bool(rng.random() < 0.4)
    attributes = {
        "strides": _style(rng, strides),
        "pads_begin": _style(rng, begin),
        "pads_end": _style(rng, end),
        "dilations": _style(rng, dilations),
        "auto_pad": _letters(rng, auto_pad),
        "output_padding": _style(rng, extra),
        "groups": groups,
    }
    return Problem(
        dtype=str(rng.choice(["f32", "bf16", "f16"], p=[0.5, 0.25, 0.25])),
        data_format=str(rng.choice(LAYOUTS)),
        weights_format=fixed,
        documented=bool(groups > 1 and fixed in ("IOX", "XOI") and rng.random() < 0.5),
        src=(batch, inputs, *spatial),
        weights=(inputs, outputs // groups, *kernel),
        attributes=attributes,
        bias=bool(rng.random() < 0.5),
        state_shapes=bool(rng.random() < 0.5),
        use_out=bool(rng.random() < 0.6),
        graph=graph,
        constant=bool(rng.random() < 0.5),
        post_ops=[str(p) for p in rng.choice(POST_OPS, rng.integers(0, 5))] if graph else [],
    )


def view(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Equal values, contiguous or with other strides."""
    kind = rng.integers(0, 4)
    if kind == 0 or array.size == 0:
        return np.ascontiguousarray(array)
    order = rng.permutation(array.ndim) if kind != 1 else np.arange(array.ndim)
    return strided(array, [int(a) for a in order], gap=int(rng.integers(0, 4)))


def blank(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """An output view full of NaN and the buffer around it."""
    order = [int(a) for a in rng.permutation(len(shape))] if rng.random() < 0.5 else list(range(len(shape)))
    gap = int(rng.integers(0, 3))
    stored = [shape[a] for a in order]
    buffer = np.full([*stored[:-1], stored[-1] + gap], np.nan, dtype=dtype)
    return buffer[..., : stored[-1]].transpose(np.argsort(order)), buffer

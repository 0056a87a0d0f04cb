"""Convolution and its gradients, seen as transposed convolution with the roles exchanged."""

from collections.abc import Sequence

import numpy as np

from . import conv_transpose as ct

# a Convolution's weights are a transposed convolution's with input and output channels exchanged
_AS_TRANSPOSED = {"OIX": "IOX", "XIO": "XOI", "IOX": "OIX", "XOI": "XIO"}


def _resolved(spatial: Sequence[int], kernel: Sequence[int], attributes: dict) -> dict:
    """Attributes with the pads of SAME_* taken from the convolution's rule on its source."""
    attributes = dict(attributes)
    mode = attributes.pop("auto_pad", "none").upper()
    attributes.pop("output_padding", None)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        s = ct.setting(kernel, **attributes)
        pairs = [
            ct.same_pads(e - (i % st or st), mode == "SAME_LOWER")
            for i, e, st in zip(spatial, ct.extents(kernel, s.dilations), s.strides, strict=True)
        ]
        attributes |= {"pads_begin": [p[0] for p in pairs], "pads_end": [p[1] for p in pairs]}
    elif mode == "VALID":
        attributes |= {"pads_begin": 0, "pads_end": 0}
    return attributes


def _spatial(array: np.ndarray, data_format: str) -> tuple[int, ...]:
    return ct.channels_first(array, data_format).shape[2:]


def forward(
    src: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    **attributes,
) -> np.ndarray:
    name = _AS_TRANSPOSED[weights_format.upper()]
    kernel = ct.to_iox(weights, name).shape[2:]
    attributes = _resolved(_spatial(src, data_format), kernel, attributes)
    dst = ct.backward_data(src, weights, data_format=data_format, weights_format=name, **attributes)
    if bias is None:
        return dst
    shaped = np.asarray(bias, dtype=np.float64).reshape(-1, *(1,) * len(kernel))
    return ct.from_channels_first(ct.channels_first(dst, data_format) + shaped, data_format)


def backward_data(
    diff_dst: np.ndarray,
    weights: np.ndarray,
    src_spatial: Sequence[int] | None = None,
    *,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    output_padding: ct.PerAxis = 0,
    **attributes,
) -> np.ndarray:
    name = _AS_TRANSPOSED[weights_format.upper()]
    kernel = ct.to_iox(weights, name).shape[2:]
    if src_spatial is not None:
        attributes = _resolved(src_spatial, kernel, attributes)
        s = ct.setting(kernel, **attributes)
        natural = ct.output_spatial(_spatial(diff_dst, data_format), kernel, s)
        output_padding = [i - n for i, n in zip(src_spatial, natural, strict=True)]
    return ct.forward(
        diff_dst,
        weights,
        data_format=data_format,
        weights_format=name,
        output_padding=output_padding,
        **attributes,
    )


def backward_weights(
    src: np.ndarray,
    diff_dst: np.ndarray,
    kernel: Sequence[int],
    *,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    **attributes,
) -> np.ndarray:
    attributes = _resolved(_spatial(src, data_format), kernel, attributes)
    name = _AS_TRANSPOSED[weights_format.upper()]
    return ct.backward_weights(diff_dst, src, kernel, data_format=data_format, weights_format=name, **attributes)

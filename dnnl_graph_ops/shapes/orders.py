"""For messages: in which orders of the axes shapes that disagree would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from ..errors import InvalidArgumentError
from ..schema import KEYWORDS, OPS
from .attributes import DATA_FORMATS, Attributes, Dims, Resolved

Resolve = Callable[[Sequence[Dims], Attributes, str], Resolved]

_FILTERS = "ConvTransposeBackpropFilters"
_MOST = 3


def fitting_orders(
    kind: str, resolve: Resolve, operands: Sequence[Dims], attrs: Attributes, wanted: Dims | None = None
) -> str:
    """The formats in which all shapes fit, PyTorch's before others; empty if they do in none.

    wanted: the shape that the result is to have.
    """
    family = KEYWORDS["conv_transpose_backprop_filters" if kind == _FILTERS else "conv_transpose"]
    word = next(word for word in family.values() if word.attribute == "weights_format")
    pytorch = "" if kind == _FILTERS else OPS[kind.partition("Backward")[0]].pytorch

    def fits(data_format: str, weights_format: str) -> bool:
        other = replace(attrs, data_format=data_format, weights_format=weights_format, resolved=None)
        try:
            found = resolve(operands, other, kind)
        except InvalidArgumentError:
            return False
        return wanted is None or found.result == wanted

    given = attrs.data_format, attrs.weights_format
    fit = [pair for pair in product(DATA_FORMATS, word.choices) if pair != given and fits(*pair)]
    fit.sort(key=lambda pair: (pair != ("NCX", pytorch), pair[0] == "NXC", pair[1] != pytorch))
    apart = any(data_format != attrs.data_format for data_format, _ in fit)

    def named() -> Iterator[str]:
        for data_format, weights_format in fit[:_MOST]:
            about_data = f"data_format={data_format!r}, " if apart else ""
            whose = "" if weights_format != pytorch else " (PyTorch's order of weights)"
            if (data_format, weights_format) == ("NCX", pytorch):
                whose = " (PyTorch's order)"
            yield f"{about_data}{word.name}={weights_format!r}{whose}"

    return f"all shapes fit with {', or with '.join(named())}" if fit else ""

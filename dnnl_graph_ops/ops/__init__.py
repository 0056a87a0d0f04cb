"""Builds ops: one builder per op kind, named as in the C enum: conv_transpose, relu, softmax, max_pool, ..."""

from typing import Any

from ..graph import hooks
from ..schema.arguments import no_attribute
from ..words import OPS
from . import indexing as _indexing
from .annotations import unquote as _unquote
from .conv_transpose import (
    conv_transpose,
    conv_transpose_backprop_filters,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
)
from .convolution import convolution, convolution_backward_data, convolution_backward_weights
from .generic import NAMES as _NAMES
from .generic import builder_of
from .wildcard import wildcard

__all__ = [
    "conv_transpose",
    "conv_transpose_backprop_filters",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "wildcard",
    *_NAMES,
]

_unquote(globals())


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return builder_of(name)
    raise no_attribute(__name__, name, __all__, OPS)


def __dir__() -> list[str]:
    return sorted(__all__)


# imported at first use: most programs read and write no graph files
def _from_json(*args: Any) -> Any:
    from .json_graph import from_json

    return from_json(*args)


def _to_json(*args: Any) -> Any:
    from .json_graph import to_json

    return to_json(*args)


hooks.provide("item", _indexing.item)
hooks.provide("reshape", _indexing.reshape)
hooks.provide("transposed", _indexing.transposed)
hooks.provide("from_json", _from_json)
hooks.provide("to_json", _to_json)

"""Estimates the seconds of a product, a convolution or MatMul, before its operands have places in memory."""

from __future__ import annotations

from math import prod

from ...algorithms.choice import ranked, scale
from ...algorithms.product import PRODUCT
from ...convolution.nodes import CONV_KINDS, make_problem
from ...convolution.problem import WGRAD, at_values
from ...cost import fits
from ...cost import model as cost
from ...graph import Node, Value
from ...ir.env import Env
from ...program.program import Place, View, argument, dense_in
from ...runtime import cpu
from ...strides import channels_last
from ...symbolic import plain

_WIDE = "f32"


def seconds(node: Node, dtype: str, env: Env) -> float:
    """Returns the estimated seconds of a convolution or MatMul with its f32 operands in `dtype`.

    Returns infinity if the CPU has no arithmetic in this dtype.
    """
    if node.kind in CONV_KINDS:
        last = str(node.attrs["data_format"])
        inputs = [_view(value, dtype, last) for value in node.inputs]
        is_weights = CONV_KINDS[node.kind].direction == WGRAD
        output = _view(node.outputs[0], dtype, "" if is_weights else last)
        problem = make_problem(node.kind, node.attrs, inputs, output, where=node.name, narrowed=dtype != _WIDE)
        problem = at_values(problem)
        return ranked(problem, env)[0][1] * scale(problem, env)
    if dtype != _WIDE and not cpu.computes_natively(dtype, env.engine, [node.kind]):
        return float("inf")
    depth = plain(node.inputs[0].shape[-2 if node.attrs.get("transpose_a") else -1])
    return multiplying(prod(plain(node.outputs[0].shape)) * (depth or 1), dtype, env)


def comparable_seconds(node: Node, dtype: str, env: Env) -> float:
    """Returns `seconds`, corrected so that estimates of different dtypes can be compared."""
    direction = CONV_KINDS[node.kind].direction if node.kind in CONV_KINDS else PRODUCT.key[1]
    return seconds(node, dtype, env) / fits.pace(env.isa, env.release, dtype, direction)


def multiplying(products: int, dtype: str, env: Env) -> float:
    """Returns the estimated seconds of the products of a MatMul."""
    seconds = products * fits.find(env.isa, env.release, dtype)[PRODUCT.key][0] / env.threads
    return seconds * cost.correction(f"{PRODUCT.op} {dtype}", dtype, env)


def _view(value: Value, dtype: str, data_format: str) -> View:
    """Returns a view of a value as it might lie in memory when the product runs: activations channels last."""
    shape: tuple[int, ...] = value.shape  # type: ignore[assignment]
    turned = data_format == "NCX" and len(shape) >= 3 and not value.is_constant
    order = channels_last(len(shape)) if turned else tuple(range(len(shape)))
    place = Place.CONSTANT if value.is_constant else Place.SCRATCH
    return argument(place, dtype if value.dtype == _WIDE else value.dtype, shape, dense_in(shape, order))

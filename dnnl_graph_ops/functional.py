"""One-shot functions: NumPy in, NumPy out. The plan of a call is cached by shapes, strides, dtypes and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ._core import PlanCache
from .compile import arrays
from .compile.single import Argument, plan_op
from .dtypes import canonical, numpy_dtype
from .errors import ShapeError
from .lowering.env import Env, default_algorithm
from .ops.conv_transpose import check_dtypes, read_shape, resolve
from .runtime import threads as pool
from .runtime.engines import Engine, default_engine
from .schema.arguments import unexpected
from .shapes import Meta
from .shapes import conv_transpose as rules
from .strides import dense_strides

Array = np.ndarray[Any, Any]
Ints = int | Sequence[int]

# Plans kept for one-shot calls
CAPACITY = 512

cache = PlanCache(CAPACITY)
pool.on_change(cache.clear)


class _Function(NamedTuple):
    """How the slow path reads a one-shot function: its arrays, its attributes, and the op that they make."""

    slots: tuple[str, ...]
    attrs: tuple[str, ...]
    op: Callable[[str, Mapping[str, Meta], dict[str, Any]], _Op]


def conv_transpose(
    src: Any,
    weights: Any,
    bias: Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
) -> Array:
    """Transposed convolution of arrays.

    dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding per axis.

    Args:
        src: (N, spatial..., IC) for NXC, (N, IC, spatial...) for NCX; float32, bfloat16 or float16; 1 to 3
            spatial axes; any non-negative strides.
        weights: IOX (IC, OC/groups, k...), XOI (k..., OC/groups, IC), OIX (OC/groups, IC, k...) or
            XIO (k..., IC, OC/groups); with groups also (IC/groups, OC, k...) and its permutations.
        bias: (OC,), optional, of the same dtype.
        strides, pads_begin, pads_end, dilations, output_padding: an int, or one per spatial axis.
        auto_pad: none, valid, same_upper or same_lower; explicit pads are ignored unless none.
        groups: divides IC and OC.
        out: where to write the result; may be strided, must not overlap the arguments.
        engine: `dgo.engine(...)`; None: the default CPU engine.

    Returns:
        dst, (N, spatial..., OC) or (N, OC, spatial...); `out` if given.

    Raises:
        ShapeError: shapes that disagree. InvalidArgumentError: dtypes, strides or attributes out of range.
        TypeError: wrong Python types.

    Source: oneDNN Graph API, ConvTranspose.
    """
    if others:
        raise _unexpected(conv_transpose, others)
    attrs = (
        strides, pads_begin, pads_end, dilations, auto_pad, output_padding, groups, data_format, weights_format
    )  # fmt: skip
    return cache.call("conv_transpose", (src, weights, bias), attrs, out, engine, _forward)


def conv_transpose_backward_data(
    diff_dst: Any,
    weights: Any,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    src_shape: Sequence[int] | None = None,
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
) -> Array:
    """Gradient of `conv_transpose` with respect to src.

    Args:
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights: as of `conv_transpose`.
        src_shape: the shape of src; checked against the one that diff_dst and the attributes give.
        Others: as of `conv_transpose`.

    Returns:
        diff_src, (N, spatial..., IC) or (N, IC, spatial...).

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`.

    Source: oneDNN Graph API, ConvTransposeBackwardData.
    """
    if others:
        raise _unexpected(conv_transpose_backward_data, others)
    attrs = (
        strides, pads_begin, pads_end, dilations, auto_pad, output_padding, groups, data_format, weights_format,
        src_shape,
    )  # fmt: skip
    return cache.call("conv_transpose_backward_data", (diff_dst, weights), attrs, out, engine, _backward_data)


def conv_transpose_backward_weights(
    src: Any,
    diff_dst: Any,
    weights_shape: Any = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
) -> Array:
    """Gradient of `conv_transpose` with respect to the weights.

    Args:
        src: (N, spatial..., IC) or (N, IC, spatial...).
        diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
        weights_shape: ints or a 1-D integer array, in `weights_format`; left out, it is derived.
        Others: as of `conv_transpose`.

    Returns:
        diff_weights in the shape that weights_shape asked for, else in the library's grouped shape.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`; also when the shapes do not determine the
        kernel size.

    Source: oneDNN Graph API, ConvTransposeBackwardWeights.
    """
    if others:
        raise _unexpected(conv_transpose_backward_weights, others)
    attrs = (
        strides, pads_begin, pads_end, dilations, auto_pad, output_padding, groups, data_format, weights_format,
        weights_shape,
    )  # fmt: skip
    return cache.call("conv_transpose_backward_weights", (src, diff_dst), attrs, out, engine, _backward_weights)


def conv_transpose_backprop_filters(
    input_forward: Any,
    output_delta: Any,
    filter_shape: Any = None,
    *,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    filter_format: str = "XIO",
    out: Any = None,
    engine: Engine | None = None,
    **others: NoReturn,
) -> Array:
    """`conv_transpose_backward_weights` under the names of the older ConvTransposeBackpropFilters.

    Args:
        input_forward: the forward input, (N, spatial..., IC) or (N, IC, spatial...).
        output_delta: the gradient of the forward output.
        filter_shape: ints or a 1-D integer array, in `filter_format`; left out, it is derived.
        filter_format: XIO (k..., IC, OC/groups) or OIX (OC/groups, IC, k...).
        Others: as of `conv_transpose`; strides, pads and dilations have no default.

    Returns:
        filter_delta in `filter_format`.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose_backward_weights`.
    """
    if others:
        raise _unexpected(conv_transpose_backprop_filters, others)
    attrs = (
        strides, pads_begin, pads_end, dilations, auto_pad, output_padding, groups, data_format, filter_format,
        filter_shape,
    )  # fmt: skip
    return cache.call(
        "conv_transpose_backprop_filters",
        (input_forward, output_delta),
        attrs,
        out,
        engine,
        _backprop_filters,
    )


def conv_transpose_backward_bias(
    diff_dst: Any, *, data_format: str = "NXC", out: Any = None, engine: Engine | None = None
) -> Array:
    """Gradient of `conv_transpose` with respect to the bias: the sum of diff_dst over all axes but the channels.

    Args:
        diff_dst: (N, spatial..., OC) for NXC, (N, OC, spatial...) for NCX; rank 3 to 5.

    Returns:
        diff_bias: (OC,).

    Raises:
        ShapeError: another rank. InvalidArgumentError: another dtype or format.

    Source: oneDNN Graph API, ReduceSum.
    """
    return cache.call("conv_transpose_backward_bias", (diff_dst,), (data_format,), out, engine, _backward_bias)


def conv_transpose_output_shape(
    src_shape: Sequence[int | None],
    weights_shape: Sequence[int | None],
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    output_padding: Ints = 0,
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
) -> tuple[int | None, ...]:
    """The shape of `conv_transpose`'s result; needs no library. None stands for a size that is not known.

    Raises:
        ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`.
    """
    where = "conv_transpose_output_shape"
    src, weights = (_dims(v, n, where) for v, n in ((src_shape, "src_shape"), (weights_shape, "weights_shape")))
    values = (
        strides,
        pads_begin,
        pads_end,
        dilations,
        auto_pad,
        output_padding,
        groups,
        data_format,
        weights_format,
    )
    attrs = rules.attributes(len(src) - 2, where, dict(zip(_ATTRS, values, strict=True)))
    geometry, _ = rules.forward(src, weights, attrs, where)
    return rules.join_data(geometry.batch, geometry.out_channels, geometry.dst, attrs.data_format)


def _dims(shape: Any, name: str, where: str) -> tuple[int | None, ...]:
    if isinstance(shape, str | bytes | Mapping) or not hasattr(shape, "__iter__"):
        raise TypeError(f"{where}: '{name}' must be a sequence of ints, got {type(shape).__name__}")
    return tuple(None if item is None else rules.integer(item, name, where) for item in shape)


def _unexpected(function: Callable[..., Any], others: Mapping[str, Any]) -> TypeError:
    """For a keyword that the function does not have; asked for by the function itself, as any wrapper costs more."""
    known = signature(function).parameters.keys() - {"others"}
    return unexpected(function.__name__, next(iter(others)), known)


_ATTRS = (
    "strides", "pads_begin", "pads_end", "dilations", "auto_pad", "output_padding", "groups", "data_format",
    "weights_format",
)  # fmt: skip


class _Op(NamedTuple):
    """What a call asks for: an op kind with its checked attributes, and the result."""

    kind: str
    attrs: Mapping[str, Any]
    result: Meta


def _family(kind: str, name: str, inputs: Mapping[str, Meta], values: dict[str, Any]) -> _Op:
    """An op of the ConvTranspose family."""
    shapes = {_SHAPES[key]: read_shape(values.pop(key), key, name) for key in _SHAPES.keys() & values.keys()}
    if "filter_format" in values:
        values["weights_format"] = rules.choice(values.pop("filter_format"), "filter_format", ("XIO", "OIX"), name)
    checked, result = resolve(kind, list(inputs.values()), list(inputs), values, shapes, name)
    return _Op(kind, checked, result)


def _bias_gradient(name: str, inputs: Mapping[str, Meta], values: dict[str, Any]) -> _Op:
    fmt = rules.choice(values["data_format"], "data_format", rules.DATA_FORMATS, name)
    ((slot, meta),) = inputs.items()
    check_dtypes((slot,), (meta.dtype,), name)
    rank = len(meta.shape)
    if not 3 <= rank <= 5:
        raise ShapeError(f"{name}: '{slot}' must have rank 3 to 5, got shape {meta.shape}")
    channel = rank - 1 if fmt == "NXC" else 1
    attrs = {"axes": tuple(axis for axis in range(rank) if axis != channel), "keep_dims": False}
    return _Op("ReduceSum", attrs, Meta((meta.shape[channel],), meta.dtype))


# arguments that are the shape of the result, and the attribute of the node that they are
_SHAPES = {"src_shape": "src_shape", "weights_shape": "weights_shape", "filter_shape": "weights_shape"}

_FUNCTIONS = {
    "conv_transpose": _Function(("src", "weights", "bias"), _ATTRS, partial(_family, "ConvTranspose")),
    "conv_transpose_backward_data": _Function(
        ("diff_dst", "weights"), (*_ATTRS, "src_shape"), partial(_family, "ConvTransposeBackwardData")
    ),
    "conv_transpose_backward_weights": _Function(
        ("src", "diff_dst"), (*_ATTRS, "weights_shape"), partial(_family, "ConvTransposeBackwardWeights")
    ),
    "conv_transpose_backprop_filters": _Function(
        ("input_forward", "output_delta"),
        (*_ATTRS[:-1], "filter_format", "filter_shape"),
        partial(_family, "ConvTransposeBackpropFilters"),
    ),
    "conv_transpose_backward_bias": _Function(("diff_dst",), ("data_format",), _bias_gradient),
}


def _hashable(value: Any) -> Any:
    """Lists and arrays of attributes as tuples, so that the plan cache can find them."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            raise TypeError(f"attributes must be integers, got an array of {value.dtype}")
        return tuple(value.tolist()) if value.ndim == 1 else value
    return value.item() if isinstance(value, np.integer) else value


def _slow(name: str, given: tuple[Any, ...], attrs: tuple[Any, ...], out: Any, engine: Any) -> Array:
    """A call that no cached plan serves: check everything, build a plan, keep it, run it."""
    if engine is not None and not isinstance(engine, Engine):
        raise TypeError(f"{name}: 'engine' must come from dgo.engine(...), got {type(engine).__name__}")
    function = _FUNCTIONS[name]
    ins = tuple(
        None if item is None and slot == "bias" else arrays.as_array(item, f"{name}: '{slot}'")
        for slot, item in zip(function.slots, given, strict=True)
    )
    plain = tuple(_hashable(value) for value in attrs)
    target = None if out is None else arrays.as_array(out, f"{name}: 'out'")
    retry = any(a is not b for a, b in zip((*ins, *plain, target), (*given, *attrs, out), strict=True))
    if retry:
        result = cache.call(name, ins, plain, target, engine, partial(_build, name))
        return result if out is None else out
    return _build(name, ins, attrs, out, engine)


def _build(name: str, ins: tuple[Any, ...], attrs: tuple[Any, ...], out: Any, engine: Engine | None) -> Array:
    function = _FUNCTIONS[name]
    present = [(slot, array) for slot, array in zip(function.slots, ins, strict=True) if array is not None]
    metas = {slot: Meta(array.shape, canonical(array.dtype, f"{name}: '{slot}'")) for slot, array in present}
    kind, checked, result = function.op(name, metas, dict(zip(function.attrs, attrs, strict=True)))
    shape, dtype = tuple(map(int, result.shape)), result.dtype  # type: ignore[arg-type]
    inputs = [
        Argument(slot, metas[slot].dtype, array.shape, arrays.element_strides(array, f"{name}: '{slot}'"))
        for slot, array in present
    ]
    target = None
    if out is not None:
        target = arrays.as_array(out, f"{name}: 'out'")
        arrays.check_out(target, shape, dtype, f"{name}: 'out'")
        arrays.check_apart([("out", target)], present, name)
    strides = dense_strides(shape) if target is None else arrays.element_strides(target, f"{name}: 'out'")
    generation = cache.generation()
    env = Env(engine or default_engine(), pool.get_num_threads(), algorithm=default_algorithm())
    plan = plan_op(kind, checked, inputs, Argument("dst", dtype, shape, strides), env, name)
    cache.insert(name, ins, attrs, out, engine, plan.executor, generation)
    destination = np.empty(shape, numpy_dtype(dtype)) if target is None else target
    plan.executor.run([array for _, array in present], [destination])
    return destination if out is None else out


_forward = partial(_slow, "conv_transpose")
_backward_data = partial(_slow, "conv_transpose_backward_data")
_backward_weights = partial(_slow, "conv_transpose_backward_weights")
_backprop_filters = partial(_slow, "conv_transpose_backprop_filters")
_backward_bias = partial(_slow, "conv_transpose_backward_bias")

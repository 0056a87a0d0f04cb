"""One-shot functions: NumPy in, NumPy out. The plan of a call is cached by shapes, strides, dtypes and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._core import Executor, PlanCache, new_array
from .compile.single import Argument, plan_op
from .dtypes import CODES, canonical
from .errors import ShapeError
from .graph import Value
from .ir.env import Env, default_algorithm
from .ops.annotations import Written
from .ops.family import annotated, family, with_keywords, with_words
from .ops.typed import WORDS, check_dtypes, read_shape, resolve
from .runtime import arrays
from .runtime import threads as pool
from .runtime.engines import Engine, default_engine
from .runtime.locks import Builds
from .schema import KEYWORDS
from .schema.arguments import show, spelt, too_many
from .shapes import Meta, resolved
from .shapes.attributes import DATA_FORMATS, Dims, attributes, choice, integer
from .shapes.registry import check_sizes
from .strides import dense_strides
from .words import ARGUMENTS

Array = np.ndarray[Any, Any]

cache = PlanCache()
_builds = Builds()


class _Function(NamedTuple):
    """A one-shot function for the slow path: names of its arrays and attributes, and a function that makes the op."""

    slots: tuple[str, ...]
    attrs: tuple[str, ...]
    op: Callable[[str, Mapping[str, Meta], dict[str, Any], Dims | None], _Op]


_FUNCTIONS: dict[str, _Function] = {}


def conv_transpose_backward_bias(
    diff_dst: Any, *, data_format: DataFormat = "NXC", out: Any = None, engine: Engine | None = None
) -> Array:
    """Gradient of `conv_transpose` with respect to the bias: the sum of diff_dst over all axes but the channels.

    Args:
        diff_dst: (N, spatial..., OC) for NXC, (N, OC, spatial...) for NCX; rank 3 to 5.
        data_format: NXC or NCX.
        out: the array to write the result to, else a new one. engine: as for `conv_transpose`.

    Returns:
        diff_bias: (OC,).

    Raises:
        ShapeError: another rank. InvalidArgumentError: another dtype or format.

    Example:
        >>> dgo.conv_transpose_backward_bias(np.ones((2, 3, 4), np.float32))
        array([6., 6., 6., 6.], dtype=float32)

    Source: oneDNN Graph API, ReduceSum.
    """
    return cache.call("conv_transpose_backward_bias", (diff_dst,), (data_format,), out, engine, _backward_bias)


def convolution_backward_bias(
    diff_dst: Any, *, data_format: DataFormat = "NXC", out: Any = None, engine: Engine | None = None
) -> Array:
    """Gradient of `convolution` with respect to the bias: the sum of diff_dst over all axes but the channels.

    Args:
        diff_dst: (N, spatial..., OC) for NXC, (N, OC, spatial...) for NCX; rank 3 to 5.
        data_format: NXC or NCX.
        out: the array to write the result to, else a new one. engine: as for `convolution`.

    Returns:
        diff_bias: (OC,).

    Raises:
        ShapeError: another rank. InvalidArgumentError: another dtype or format.

    Example:
        >>> dgo.convolution_backward_bias(np.ones((2, 3, 4), np.float32))
        array([6., 6., 6., 6.], dtype=float32)

    Source: oneDNN Graph API, ReduceSum.
    """
    return cache.call("convolution_backward_bias", (diff_dst,), (data_format,), out, engine, _plain_backward_bias)


def _output_shape(
    kind: str, where: str, src_shape: Any, weights_shape: Any, given: Mapping[str, Any]
) -> tuple[int | None, ...]:
    shapes = [_dims(v, n, where) for v, n in ((src_shape, "src_shape"), (weights_shape, "weights_shape"))]
    record = attributes(len(shapes[0]) - 2, where, given, KEYWORDS[WORDS[kind]])
    return resolved(kind, shapes, record, where).known.result


def _dims(shape: Any, name: str, where: str) -> tuple[int | None, ...]:
    if isinstance(shape, str | bytes | Mapping) or not hasattr(shape, "__iter__"):
        raise TypeError(f"{where}: '{name}' must be a sequence of ints, got {type(shape).__name__}")
    dims = tuple(None if item is None else integer(item, name, where) for item in shape)
    check_sizes(dims, where, f"'{name}'")
    return dims


class _Op(NamedTuple):
    """The op of a call: its kind, checked attributes, and the result's shape and dtype."""

    kind: str
    attrs: Mapping[str, Any]
    result: Meta


def _family(
    kind: str, extra: dict[str, str], name: str, inputs: Mapping[str, Meta], values: dict[str, Any], wanted: Dims | None
) -> _Op:
    """An op of the convolution kinds; `wanted`: the shape of `out`."""
    shape = {attribute: read_shape(values.pop(argument), argument, name) for argument, attribute in extra.items()}
    checked, result = resolve(kind, list(inputs.values()), list(inputs), values, shape, name, wanted)
    return _Op(kind, checked, result)


def _bias_gradient(name: str, inputs: Mapping[str, Meta], values: dict[str, Any], _wanted: Dims | None) -> _Op:
    fmt = choice(values["data_format"], "data_format", DATA_FORMATS, name)
    ((slot, meta),) = inputs.items()
    check_dtypes((slot,), (meta.dtype,), name)
    rank = len(meta.shape)
    if not 3 <= rank <= 5:
        raise ShapeError(f"{name}: '{slot}' must have rank 3 to 5, got shape {meta.shape}")
    channel = rank - 1 if fmt == "NXC" else 1
    attrs = {"axes": tuple(axis for axis in range(rank) if axis != channel), "keep_dims": False}
    return _Op("ReduceSum", attrs, Meta((meta.shape[channel],), meta.dtype))


for _name in ("conv_transpose_backward_bias", "convolution_backward_bias"):
    _FUNCTIONS[_name] = _Function(("diff_dst",), ("data_format",), _bias_gradient)


def plan_attributes(name: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """The attributes of a one-shot call as the plan cache keys them: all, in order."""
    words = signature(globals()[name]).parameters
    return tuple(given.get(attr, words[attr].default) for attr in _FUNCTIONS[name].attrs)


def _operand(item: Any, slot: str, name: str) -> Array:
    """An array of a call, which names the builder where it is a Value."""
    if item is None:
        known = ", ".join(signature(globals()[name]).parameters)
        needed = "a NumPy array or an object with __dlpack__"
        raise TypeError(f"{name}: '{slot}': needs {needed}, got NoneType; its arguments are {known}")
    if isinstance(item, Value):
        raise TypeError(f"{name}: '{slot}' is the Value {item.name!r} of a graph; use dgo.ops.{name}, or pass an array")
    return arrays.as_array(item, f"{name}: '{slot}'")


def _default(attr: str, name: str) -> Any:
    """Of an attribute that is not given."""
    default = signature(globals()[name]).parameters[attr].default
    if default is Parameter.empty:
        raise TypeError(f"{name}: {attr} must be given")
    return default


def _hashable(value: Any) -> Any:
    """Lists, arrays and sizes of tensors as plain tuples, which the plan cache can hash."""
    if isinstance(value, list | tuple):
        return value if type(value) is tuple else tuple(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            raise TypeError(f"attributes must be integers, got an array of {value.dtype}")
        return tuple(value.tolist()) if value.ndim == 1 else value
    return value.item() if isinstance(value, np.integer) else value


def _slow(name: str, given: tuple[Any, ...], attrs: tuple[Any, ...], out: Any, engine: Any) -> Array:
    """A call without a cached plan: checks the arguments, builds a plan, caches it and runs it."""
    if engine is not None and not isinstance(engine, Engine):
        raise TypeError(f"{name}: 'engine' must come from dgo.engine(...), got {show(engine)}")
    function = _FUNCTIONS[name]
    ins = tuple(
        None if item is None and slot == "bias" else _operand(item, slot, name)
        for slot, item in zip(function.slots, given, strict=True)
    )
    plain = tuple(
        _default(attr, name) if value is None else _hashable(value)
        for attr, value in zip(function.attrs, attrs, strict=True)
    )
    target = None if out is None else arrays.as_array(out, f"{name}: 'out'")
    if any(a is not b for a, b in zip((*ins, *plain, target), (*given, *attrs, out), strict=True)):
        found: Array | None = cache.call(name, ins, plain, target, engine, None)
        if found is not None:
            return found if out is None else out
    result = _build(name, ins, plain, target, engine)
    return result if out is None else out


def _build(
    name: str, ins: tuple[Any, ...], attrs: tuple[Any, ...], target: Array | None, engine: Engine | None
) -> Array:
    """Builds the plan of a call on NumPy arrays."""
    function = _FUNCTIONS[name]
    present = [(slot, array) for slot, array in zip(function.slots, ins, strict=True) if array is not None]
    metas = {slot: Meta(array.shape, canonical(array.dtype, f"{name}: '{slot}'")) for slot, array in present}
    wanted = None if target is None else target.shape
    kind, checked, result = function.op(name, metas, dict(zip(function.attrs, attrs, strict=True)), wanted)
    shape, dtype = tuple(map(int, result.shape)), result.dtype  # type: ignore[arg-type]
    inputs = [
        Argument(slot, metas[slot].dtype, array.shape, arrays.element_strides(array, f"{name}: '{slot}'"))
        for slot, array in present
    ]
    if target is not None:
        arrays.check_out(target, shape, dtype, f"{name}: 'out'")
        arrays.check_apart([("out", target)], present, name)
    strides = dense_strides(shape) if target is None else arrays.element_strides(target, f"{name}: 'out'")
    key = name, ins, attrs, target, engine

    def make() -> Executor:
        start = cache.start()
        env = _env(engine or default_engine(), pool.get_num_threads(), default_algorithm())
        plan = plan_op(kind, checked, inputs, Argument("dst", dtype, shape, strides), env, name)
        cache.insert(*key, plan.executor, start)
        return plan.executor

    executor = _builds.once(lambda: cache.executor(*key), make)
    destination: Array = new_array(CODES[dtype], shape) if target is None else target
    executor.run([array for _, array in present], [destination])
    return destination


@lru_cache(16)
def _env(engine: Engine, threads: int, algorithm: str) -> Env:
    """The environment of a compilation, which asks the library and the CPU once."""
    return Env(engine, threads, algorithm=algorithm)


_backward_bias = partial(_slow, "conv_transpose_backward_bias")
_plain_backward_bias = partial(_slow, "convolution_backward_bias")

# A call costs 2 us, so that no wrapper may stand between it and the cache. A keyword that has another word is None
# until it is given, so that both at once are seen.
_TEMPLATE = """\
def {name}({positional}, *more, {named}, **others):
    if more:
        raise too_many({name!r}, known)
    if others:
        return {name}({leading}, **spelt({name!r}, dict({keywords}, **others), known))
    return cache.call({name!r}, ({slots},), ({attrs},), out, engine, slow)
"""


# a word for 'padding', such as "same", is one of auto_pad
_DOUBLED = {"auto_pad", *(word for ours in ARGUMENTS.values() for word in ours)}
_KEYWORD = Parameter.KEYWORD_ONLY
_LAST = (
    Parameter("out", _KEYWORD, default=None, annotation=Written("Any")),
    Parameter("engine", _KEYWORD, default=None, annotation=Written("Engine | None")),
)


def _one_shot(kind: str, **extra: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Make the one-shot function of an op kind: `**attributes` becomes the op's keywords, out and engine.

    extra: {argument that is the shape of the result: attribute of the op}.
    """
    words = WORDS[kind]

    def decorate(described: Callable[..., Array]) -> Callable[..., Array]:
        name, shape = described.__name__, with_keywords(described, words)
        shape = shape.replace(parameters=[*shape.parameters.values(), *_LAST])
        leading = [p.name for p in shape.parameters.values() if p.kind is not _KEYWORD]
        defaults = {p.name: p.default for p in shape.parameters.values() if p.kind is _KEYWORD}
        slots = tuple(word for word in leading if word not in extra)
        attrs = (*KEYWORDS[words], *extra)
        _FUNCTIONS[name] = _Function(slots, attrs, partial(_family, kind, extra))

        def late(word: str) -> bool:
            return word in _DOUBLED or defaults[word] is Parameter.empty

        source = _TEMPLATE.format(
            name=name,
            positional=", ".join(f"{word}=None" for word in leading),
            named=", ".join(f"{word}={None if late(word) else default!r}" for word, default in defaults.items()),
            leading=", ".join(leading),
            keywords=", ".join(f"{word}={word}" for word in defaults),
            slots=", ".join(slots),
            attrs=", ".join(
                f"{defaults[word]!r} if {word} is None else {word}"
                if word in _DOUBLED and defaults[word] is not Parameter.empty
                else word
                for word in attrs
            ),
        )

        scope = {
            **globals(),
            "spelt": spelt,
            "too_many": too_many,
            "known": shape.parameters.keys(),
            "slow": partial(_slow, name),
        }
        # tracebacks point at the description
        above = "\n" * (described.__code__.co_firstlineno - 1)
        exec(compile(above + source, __file__, "exec"), scope)
        made: Callable[..., Array] = scope[name]
        made.__doc__ = with_words(described.__doc__, words)
        made.__annotations__ = annotated(shape)
        made.__signature__ = shape  # type: ignore[attr-defined]
        return made

    return decorate


if TYPE_CHECKING:
    from ._functional import DataFormat as DataFormat
    from ._functional import conv_transpose as conv_transpose
    from ._functional import conv_transpose_backprop_filters as conv_transpose_backprop_filters
    from ._functional import conv_transpose_backward_data as conv_transpose_backward_data
    from ._functional import conv_transpose_backward_weights as conv_transpose_backward_weights
    from ._functional import conv_transpose_output_shape as conv_transpose_output_shape
    from ._functional import convolution as convolution
    from ._functional import convolution_backward_data as convolution_backward_data
    from ._functional import convolution_backward_weights as convolution_backward_weights
    from ._functional import convolution_output_shape as convolution_output_shape
else:

    @_one_shot("ConvTranspose")
    def conv_transpose(src: Any, weights: Any, bias: Any = None, **attributes: Any) -> Array:
        """Transposed convolution of arrays.

        dst = strides * (src - 1) + dilations * (kernel - 1) + 1 - pads_begin - pads_end + output_padding per axis.

        Args:
            src: (N, spatial..., IC) for NXC, (N, IC, spatial...) for NCX; float32, bfloat16 or float16; 1 to 3
                spatial axes; any non-negative strides.
            weights: IOX (IC, OC/groups, k...), XOI (k..., OC/groups, IC), OIX (OC/groups, IC, k...) or
                XIO (k..., IC, OC/groups); with groups also (IC/groups, OC, k...) and its permutations.
                Weights may change between calls, so each call packs them again; a net packs a `Graph.constant` once.
            bias: (OC,), optional, of the same dtype.
            **attributes: keywords of the op.
            out: where to write the result; may be strided, must not overlap the arguments.
            engine: `dgo.engine(...)`; None: the default CPU engine.

        Returns:
            dst, (N, spatial..., OC) or (N, OC, spatial...); `out` if given.

        Raises:
            ShapeError: shapes that disagree. InvalidArgumentError: dtypes, strides or attributes out of range.
            TypeError: wrong Python types.

        Example:
            >>> src = np.array([[[1], [2]]], np.float32)  # (N, W, IC) = (1, 2, 1)
            >>> weights = np.array([[[1]], [[2]], [[3]]], np.float32)  # XOI: (k, OC, IC) = (3, 1, 1)
            >>> dgo.conv_transpose(src, weights, strides=2)[0, :, 0]
            array([1., 2., 5., 4., 6.], dtype=float32)

        Source: oneDNN Graph API, ConvTranspose.
        """

    @_one_shot("ConvTransposeBackwardData", src_shape="src_shape")
    def conv_transpose_backward_data(
        diff_dst: Any, weights: Any, *, src_shape: Sequence[int] | None = None, **attributes: Any
    ) -> Array:
        """Gradient of `conv_transpose` with respect to src.

        Args:
            diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
            weights: as of `conv_transpose`.
            **attributes: keywords of the op.
            src_shape: the shape of src; checked against the one that diff_dst and the attributes give.
            out: the array to write the result to, else a new one. engine: as for `conv_transpose`.

        Returns:
            diff_src, (N, spatial..., IC) or (N, IC, spatial...).

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`.

        Example:
            >>> diff_dst = np.ones((1, 5, 1), np.float32)
            >>> weights = np.array([[[1]], [[2]], [[3]]], np.float32)
            >>> dgo.conv_transpose_backward_data(diff_dst, weights, strides=2)[0, :, 0]
            array([6., 6.], dtype=float32)

        Source: oneDNN Graph API, ConvTransposeBackwardData.
        """

    @_one_shot("ConvTransposeBackwardWeights", weights_shape="weights_shape")
    def conv_transpose_backward_weights(src: Any, diff_dst: Any, weights_shape: Any = None, **attributes: Any) -> Array:
        """Gradient of `conv_transpose` with respect to the weights.

        Args:
            src: (N, spatial..., IC) or (N, IC, spatial...).
            diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
            weights_shape: ints or a 1-D integer array, in `weights_format`; left out, it is derived.
            **attributes: keywords of the op.
            out: the array to write the result to, else a new one. engine: as for `conv_transpose`.

        Returns:
            diff_weights in the shape that weights_shape asked for, else in the library's grouped shape.

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`; also when the shapes do not determine the
            kernel size.

        Example:
            >>> src = np.array([[[1], [2]]], np.float32)
            >>> diff_dst = np.ones((1, 5, 1), np.float32)
            >>> dgo.conv_transpose_backward_weights(src, diff_dst, strides=2)[:, 0, 0]
            array([3., 3., 3.], dtype=float32)

        Source: oneDNN Graph API, ConvTransposeBackwardWeights.
        """

    @_one_shot("ConvTransposeBackpropFilters", filter_shape="weights_shape")
    def conv_transpose_backprop_filters(
        input_forward: Any, output_delta: Any, filter_shape: Any = None, **attributes: Any
    ) -> Array:
        """`conv_transpose_backward_weights` under the names of the older ConvTransposeBackpropFilters.

        Args:
            input_forward: the forward input, (N, spatial..., IC) or (N, IC, spatial...).
            output_delta: the gradient of the forward output.
            filter_shape: ints or a 1-D integer array, in `filter_format`; left out, it is derived.
            **attributes: keywords of the op.
            out: the array to write the result to, else a new one. engine: as for `conv_transpose`.

        Returns:
            filter_delta in `filter_format`: XIO (k..., IC, OC/groups) or OIX (OC/groups, IC, k...).

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `conv_transpose_backward_weights`.

        Example:
            >>> src = np.array([[[1], [2]]], np.float32)
            >>> diff_dst = np.ones((1, 5, 1), np.float32)
            >>> dgo.conv_transpose_backprop_filters(
            ...     src, diff_dst, strides=2, pads_begin=0, pads_end=0, dilations=1
            ... )[:, 0, 0]
            array([3., 3., 3.], dtype=float32)
        """

    @family()
    def conv_transpose_output_shape(
        src_shape: Sequence[int | None], weights_shape: Sequence[int | None], **attributes: Any
    ) -> tuple[int | None, ...]:
        """The shape of `conv_transpose`'s result; needs no library. None stands for a size that is not known.

        Args:
            src_shape, weights_shape: sizes.
            **attributes: keywords of the op.

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `conv_transpose`.

        Example:
            >>> dgo.conv_transpose_output_shape((8, 64, 64, 256), (4, 4, 128, 256), strides=2, pads_begin=1, pads_end=1)
            (8, 128, 128, 128)
        """
        return _output_shape("ConvTranspose", "conv_transpose_output_shape", src_shape, weights_shape, attributes)

    @_one_shot("Convolution")
    def convolution(src: Any, weights: Any, bias: Any = None, **attributes: Any) -> Array:
        """Convolution of arrays.

        dst = floor((src + pads_begin + pads_end - dilations * (kernel - 1) - 1) / strides) + 1 per axis.

        Args:
            src: (N, spatial..., IC) for NXC, (N, IC, spatial...) for NCX; float32, bfloat16 or float16; 1 to 3
                spatial axes; any non-negative strides.
            weights: OIX (OC, IC/groups, k...), XIO (k..., IC/groups, OC), IOX (IC/groups, OC, k...) or
                XOI (k..., OC, IC/groups). They may change between calls: what is packed of them is packed at each
                call. Nets keep it (`Graph.constant`).
            bias: (OC,), optional, of the same dtype.
            **attributes: keywords of the op.
            out: where to write the result; may be strided, must not overlap the arguments.
            engine: `dgo.engine(...)`; None: the default CPU engine.

        Returns:
            dst, (N, spatial..., OC) or (N, OC, spatial...); `out` if given.

        Raises:
            ShapeError: shapes that disagree. InvalidArgumentError: dtypes, strides or attributes out of range.
            TypeError: wrong Python types.

        Example:
            >>> src = np.arange(5, dtype=np.float32).reshape(1, 5, 1)  # (N, W, IC)
            >>> weights = np.array([[[1]], [[2]], [[3]]], np.float32)  # XIO: (k, IC, OC) = (3, 1, 1)
            >>> dgo.convolution(src, weights)[0, :, 0]
            array([ 8., 14., 20.], dtype=float32)

        Source: oneDNN Graph API, Convolution.
        """

    @_one_shot("ConvolutionBackwardData", src_shape="dst_shape")
    def convolution_backward_data(
        diff_dst: Any, weights: Any, *, src_shape: Sequence[int] | None = None, **attributes: Any
    ) -> Array:
        """Gradient of `convolution` with respect to src.

        Args:
            diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
            weights: as of `convolution`.
            **attributes: keywords of the op.
            src_shape: the shape of src; left out, the smallest sizes that give diff_dst, plus output_padding.
            out: the array to write the result to, else a new one. engine: as for `convolution`.

        Returns:
            diff_src, (N, spatial..., IC) or (N, IC, spatial...).

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `convolution`.

        Example:
            >>> diff_dst = np.ones((1, 3, 1), np.float32)
            >>> weights = np.array([[[1]], [[2]], [[3]]], np.float32)
            >>> dgo.convolution_backward_data(diff_dst, weights)[0, :, 0]
            array([1., 3., 6., 5., 3.], dtype=float32)

        Source: oneDNN Graph API, ConvolutionBackwardData.
        """

    @_one_shot("ConvolutionBackwardWeights", weights_shape="weights_shape")
    def convolution_backward_weights(src: Any, diff_dst: Any, weights_shape: Any = None, **attributes: Any) -> Array:
        """Gradient of `convolution` with respect to the weights.

        Args:
            src: (N, spatial..., IC) or (N, IC, spatial...).
            diff_dst: the gradient of dst, (N, spatial..., OC) or (N, OC, spatial...).
            weights_shape: ints or a 1-D integer array, in `weights_format`; left out, it is derived where src and
                diff_dst determine it.
            **attributes: keywords of the op.
            out: the array to write the result to, else a new one. engine: as for `convolution`.

        Returns:
            diff_weights in `weights_format`.

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `convolution`; also when the shapes do not determine the
            kernel size.

        Example:
            >>> src = np.arange(5, dtype=np.float32).reshape(1, 5, 1)
            >>> diff_dst = np.ones((1, 3, 1), np.float32)
            >>> dgo.convolution_backward_weights(src, diff_dst)[:, 0, 0]
            array([3., 6., 9.], dtype=float32)

        Source: oneDNN Graph API, ConvolutionBackwardWeights.
        """

    @family("convolution")
    def convolution_output_shape(
        src_shape: Sequence[int | None], weights_shape: Sequence[int | None], **attributes: Any
    ) -> tuple[int | None, ...]:
        """The shape of `convolution`'s result; needs no library. None stands for a size that is not known.

        Args:
            src_shape, weights_shape: sizes.
            **attributes: keywords of the op.

        Raises:
            ShapeError, InvalidArgumentError, TypeError: as `convolution`.

        Example:
            >>> dgo.convolution_output_shape((8, 224, 224, 3), (7, 7, 3, 64), strides=2, pads_begin=3, pads_end=3)
            (8, 112, 112, 64)
        """
        return _output_shape("Convolution", "convolution_output_shape", src_shape, weights_shape, attributes)

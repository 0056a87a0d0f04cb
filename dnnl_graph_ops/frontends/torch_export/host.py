"""Runs ops without a rule in PyTorch: as steps of a net, or folded if all operands are known."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...errors import Error, RuntimeUnavailableError, ShapeError, UnsupportedError, extra
from ...graph import Value
from ...once import once
from ...runtime.dlpack import from_dlpack, to_dlpack
from ...shapes import Meta
from ..reading.node import Array
from ..reading.traced import Earlier, OpCall, Operand, Other, mapped
from .releases import warn_of_newer


def pytorch(where: str) -> Any:
    """Returns the package torch.

    Raises:
        RuntimeUnavailableError: the package is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise RuntimeUnavailableError(f"{where}: needs PyTorch ({error}); install it: {extra('torch')}") from error
    warn_of_newer(str(torch.__version__))
    return torch


class Known(NamedTuple):
    """An op, and the names of its positional and keyword arguments."""

    op: Any
    positional: tuple[str, ...]
    named: tuple[str, ...]
    is_random: bool


@functools.lru_cache(maxsize=1024)
def _found(name: str) -> Known | str:
    """Returns the op of a name such as aten.topk.default, or why it does not map tensors to tensors only."""
    torch = pytorch("from_torch")
    try:
        found = functools.reduce(getattr, name.split("."), torch.ops)
        schema = found._schema
    except (AttributeError, RuntimeError):
        return f"PyTorch has no op {name[:80]!r}"
    takes = [argument for argument in schema.arguments if "Tensor" in str(argument.type)]
    gives = all(str(result.type) in ("Tensor", "List[Tensor]") for result in schema.returns) and schema.returns
    if schema.is_mutable or not gives or not (takes or name.partition(".")[2].split(".")[0] in _MAKERS):
        return f"{name[:80]} is no function of tensors alone"
    names: list[tuple[str, ...]] = [
        tuple(one.name for one in schema.arguments if one.kwarg_only is only) for only in (False, True)
    ]
    return Known(found, names[0], names[1], torch.Tag.nondeterministic_seeded in found.tags)


def overload(name: str, where: str, arguments: Mapping[str, Any]) -> Known:
    """Returns the op of a name such as aten.topk.default, if it maps tensors to tensors and nothing else.

    Raises:
        UnsupportedError: no such op, or it writes to its arguments, is random or is no op on tensors.
    """
    found = _found(name)
    if isinstance(found, str):
        raise UnsupportedError(f"{where}: {found}")
    if _is_training(arguments):
        raise UnsupportedError(f"{where}: as in training; call model.eval() before it is exported")
    if name in _BY_MEMORY:
        raise UnsupportedError(f"{where}: {name} depends on how its operand lies in memory")
    # dropout with p = 0 is not random
    drops = arguments.get("dropout_p") if "dropout_p" in found.positional else arguments.get("train", True)
    if found.is_random and drops:
        raise UnsupportedError(f"{where}: {name[:80]} gives random numbers")
    return found


def _is_training(arguments: Mapping[str, Any]) -> bool:
    """Whether an op updates running statistics."""
    counts = arguments.get("training") or arguments.get("use_input_stats")
    return bool(arguments.get("train") or (counts and arguments.get("running_mean") is not None))


# functions of numbers
_MAKERS = frozenset(
    {
        "arange", "bartlett_window", "blackman_window", "empty", "eye", "full", "hamming_window", "hann_window",
        "kaiser_window", "linspace", "logspace", "ones", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
    }
)  # fmt: skip


def tensor_of(array: Array) -> Any:
    """Returns a tensor over an array's memory."""
    torch = pytorch("from_torch")
    if array.dtype.kind in "fiub" and array.flags.writeable:
        return torch.from_numpy(array)
    if array.dtype.kind == "c":
        return torch.from_numpy(array.copy())
    return torch.from_dlpack(to_dlpack(array))


def array_of(tensor: Any) -> Array:
    """Returns an array over a tensor's memory."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    try:
        found: Array = tensor.numpy()
    except TypeError:
        # a dtype that PyTorch lacks
        return from_dlpack(tensor)
    return found


# Arrays may have other strides than PyTorch planned: these ops depend on strides, their replacements do not.
_IN_ANY_ORDER = {
    "aten.view.default": "aten.reshape.default",
    "aten._unsafe_view.default": "aten.reshape.default",
    "aten.view_as.default": "aten.reshape_as.default",
}
# ops whose results depend on how their operands lie in memory
_BY_MEMORY = frozenset({"aten.resize.default", "aten.resize_as.default"})
# ops whose kernels need row-major tensors, which PyTorch's graphs provide
_ROW_MAJOR = frozenset({"aten.native_group_norm.default"})


def _prepared(series: Sequence[OpCall], where: str, device: str = "cpu") -> Callable[[Sequence[Any]], list[Any]]:
    """Returns a function from the operands' tensors, all on `device`, to the results of the last op."""
    torch = pytorch(where)
    kinds = {"dtype": torch.dtype, "memory_format": torch.memory_format}

    def fixed(value: Any) -> Any:
        if not isinstance(value, Other):
            return value
        if value == ("device", "cpu"):
            return torch.device(device)
        constant = getattr(torch, value.name, None)
        if value.kind not in kinds or not isinstance(constant, kinds[value.kind]):
            raise UnsupportedError(f"{where}: an argument that is a {value.kind}, {value.name[:80]}")
        return constant

    calls = []
    for name, arguments in series:
        found = overload(name, where, arguments)
        given = [mapped(arguments[key], fixed) for key in found.positional if key in arguments]
        named = {key: mapped(arguments[key], fixed) for key in found.named if key in arguments}
        moving = [i for i, value in enumerate(given) if _moves(value)], [key for key in named if _moves(named[key])]
        op = overload(_IN_ANY_ORDER[name], where, {}).op if name in _IN_ANY_ORDER else found.op
        calls.append((op, given, named, *moving, name in _ROW_MAJOR))

    def run(tensors: Sequence[Any]) -> list[Any]:
        made: list[list[Any]] = []

        def real(value: Any) -> Any:
            if isinstance(value, Operand):
                return tensors[value.number]
            return made[value.number][value.part] if isinstance(value, Earlier) else value

        for op, given, named, places, keys, is_row_major in calls:
            filled = list(given)
            for i in places:
                filled[i] = mapped(filled[i], real)
                if is_row_major:
                    filled[i] = filled[i].contiguous()
            result = op(*filled, **{**named, **{key: mapped(named[key], real) for key in keys}} if keys else named)
            made.append(list(result) if isinstance(result, tuple | list) else [result])
        return made[-1]

    def undisturbed(tensors: Sequence[Any]) -> list[Any]:
        if not torch.is_autocast_enabled("cpu"):
            return run(tensors)
        with torch.autocast("cpu", enabled=False):
            return run(tensors)

    return undisturbed


def _moves(value: Any) -> bool:
    """Whether an argument contains tensors."""
    return any(map(_moves, value)) if isinstance(value, list) else isinstance(value, Operand | Earlier)


def computed(call: Any) -> list[Array]:
    """Returns the results of ops on known tensors."""
    arrays: list[Any] = [one.constant if isinstance(one, Value) else one for one in call.items]
    made = list(map(array_of, _prepared(call.series, call.where)(list(map(tensor_of, arrays)))))
    if not any(np.may_share_memory(result, array) for result in made for array in arrays):
        for result in made:
            call.spend(result)
    return made


def inferred(call: Any) -> tuple[tuple[str, tuple[int | None, ...]], ...] | None:
    """Returns dtype and shape of the results if all sizes are known; None if not, or if PyTorch cannot infer them."""
    torch = pytorch(call.where)
    if any(None in one.shape for one in call.items):
        return None
    try:
        run = _prepared(call.series, call.where, "meta")
        kinds = [getattr(torch, _torch_name(one)) for one in call.items]
        empty = [torch.empty(one.shape, dtype=kind, device="meta") for one, kind in zip(call.items, kinds, strict=True)]
        return tuple((stated(one.dtype), tuple(one.shape)) for one in run(empty))
    except (Error, RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return None


_NAMES = {"boolean": "bool", "f8_e5m2": "float8_e5m2", "f8_e4m3": "float8_e4m3fn"}


def _torch_name(item: Any) -> str:
    """Returns PyTorch's name of the dtype of a value or an array."""
    dtype = dtypes.numpy_dtype(item.dtype) if isinstance(item.dtype, str) else item.dtype
    return _NAMES.get(dtypes.label(dtype)) or dtype.name


def stated(dtype: Any) -> str:
    """Returns the canonical name of a dtype of PyTorch, or PyTorch's name."""
    name = str(dtype).removeprefix("torch.")
    try:
        return dtypes.canonical(name)
    except Error:
        return name


@dataclass(frozen=True)
class TorchStep:
    """Ops as a step of a net, which returns the first results of the last op."""

    where: str
    series: tuple[OpCall, ...]
    # of the ops' `count` inputs, those that are part of the step
    parts: Mapping[int, Array]
    count: int
    results: tuple[Meta, ...]

    by, own = "PyTorch", None

    @property
    def title(self) -> str:
        return ", ".join(one.op for one in self.series)

    @property
    def key(self) -> bytes:
        digest = hashlib.sha256(repr((self.series, self.count)).encode())
        for number, array in self.parts.items():
            digest.update(repr((number, array.dtype, array.shape)).encode() + array.tobytes())
        return digest.digest()

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the results.

        Raises:
            Error: PyTorch fails, or its results differ from the traced ones.
        """
        rest = iter(arrays)
        tensors = [tensor_of(next(rest)) if one is None else one for one in self._parts]
        try:
            made = list(map(array_of, self._run(tensors)[: len(self.results)]))
        except (Error, MemoryError):
            raise
        except Exception as error:
            raise Error(f"{self.where}: PyTorch: {type(error).__name__}: {error}") from None
        for array, (shape, dtype) in zip(made, self._wanted, strict=True):
            if array.shape != shape or array.dtype != dtype:
                raise ShapeError(f"{self.where}: PyTorch gives {array.dtype} of {array.shape}, not {dtype} of {shape}")
        return made

    @once
    def _parts(self) -> list[Any]:
        return [tensor_of(self.parts[i]) if i in self.parts else None for i in range(self.count)]

    @once
    def _run(self) -> Callable[[Sequence[Any]], list[Any]]:
        return _prepared(self.series, self.where)

    @once
    def _wanted(self) -> list[tuple[Any, Any]]:
        return [(meta.shape, dtypes.numpy_dtype(meta.dtype)) for meta in self.results]


def appended(call: Any) -> tuple[Value, ...]:
    """Appends the op to a graph of known sizes.

    Raises:
        UnsupportedError: results whose shape depends on data, or of dtypes that the package lacks.
    """
    # results after the last one that is read may have other shapes than PyTorch announces
    count = len(call.node.outputs)
    metas = call.metas[:count]
    if any(None in meta.shape for meta in metas):
        raise UnsupportedError(f"{call.where}: the shape of its result depends on data")
    if call.inferred and [shape for _, shape in call.inferred[:count]] != [meta.shape for meta in metas]:
        raise ShapeError(f"{call.where}: gives {call.inferred}, where {metas} was announced")
    parts = {i: one for i, one in enumerate(call.items) if isinstance(one, np.ndarray) and _is_part(one)}
    step = TorchStep(call.where, call.series, parts, len(call.items), tuple(metas))
    # raises the reason of a refusal
    step._run  # noqa: B018
    operands = [call.as_value(one) for i, one in enumerate(call.items) if i not in parts]
    slots = [f"dst_{i}" for i in range(len(metas))]
    made = call.graph._add_node("Wildcard", call.where, operands, {}, metas, slots, None, call.node.name)
    call.graph.nodes[-1].host = step
    return made


def is_own(array: Array) -> bool:
    """Whether the package has a dtype."""
    return dtypes.label(array.dtype) in dtypes.CODES


def _is_part(array: Array) -> bool:
    """Whether a known tensor is part of the step, not a constant: few elements, or a dtype that the package lacks."""
    return array.nbytes <= 1 << 12 or not is_own(array)

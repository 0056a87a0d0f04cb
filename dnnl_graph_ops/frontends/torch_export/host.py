"""Ops that no rule expresses, computed by PyTorch itself: as steps of a net, or once where all is known."""

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


@dataclass(frozen=True)
class Other:
    """An argument that is neither tensor nor number: its kind and name, such as a dtype."""

    kind: str
    name: str


@dataclass(frozen=True)
class Operand:
    """Stands for a tensor in the arguments of a step: which of its inputs."""

    number: int


@dataclass(frozen=True)
class Before:
    """Stands for a result of an earlier op of the same series."""

    number: int
    part: int


class Link(NamedTuple):
    """An op of a series, and its arguments by name."""

    op: str
    arguments: Mapping[str, Any]


# ops one after the other
Series = list[Link]


def pytorch(where: str) -> Any:
    """The package torch.

    Raises:
        RuntimeUnavailableError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise RuntimeUnavailableError(f"{where}: needs PyTorch ({error}); install it: {extra('torch')}") from error
    return torch


class Known(NamedTuple):
    """An op, and what is asked of it at each call: the names of its arguments without and with names."""

    op: Any
    positional: tuple[str, ...]
    named: tuple[str, ...]
    is_random: bool


@functools.lru_cache(maxsize=1024)
def _found(name: str) -> Known | str:
    """The op of a name such as aten.topk.default; or why it is none of tensors alone."""
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
    """The op of a name such as aten.topk.default, of those that compute tensors of tensors and nothing else.

    Raises:
        UnsupportedError: there is none, or it writes to its arguments, gives random numbers or is none of tensors.
    """
    found = _found(name)
    if isinstance(found, str):
        raise UnsupportedError(f"{where}: {found}")
    if _is_training(arguments):
        raise UnsupportedError(f"{where}: as in training; call model.eval() before it is exported")
    # what drops nothing gives no random numbers
    drops = arguments.get("dropout_p") if "dropout_p" in found.positional else arguments.get("train", True)
    if found.is_random and drops:
        raise UnsupportedError(f"{where}: {name[:80]} gives random numbers")
    return found


def _is_training(arguments: Mapping[str, Any]) -> bool:
    """Whether it counts on statistics that it writes."""
    counts = arguments.get("training") or arguments.get("use_input_stats")
    return bool(arguments.get("train") or (counts and arguments.get("running_mean") is not None))


# functions of numbers alone
_MAKERS = frozenset(
    {
        "arange", "bartlett_window", "blackman_window", "empty", "eye", "full", "hamming_window", "hann_window",
        "kaiser_window", "linspace", "logspace", "ones", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
    }
)  # fmt: skip


def tensor_of(array: Array) -> Any:
    """A tensor over the memory of an array."""
    torch = pytorch("from_torch")
    if array.dtype.kind in "fiub" and array.flags.writeable:
        return torch.from_numpy(array)
    if array.dtype.kind == "c":
        return torch.from_numpy(array.copy())
    return torch.from_dlpack(to_dlpack(array))


def array_of(tensor: Any) -> Array:
    """An array over the memory of a tensor."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    try:
        found: Array = tensor.numpy()
    except TypeError:
        # a type that only we have
        return from_dlpack(tensor)
    return found


# Arrays may lie in another order than PyTorch planned: these ask for strides, the ops in their place for elements.
_IN_ANY_ORDER = {
    "aten.view.default": "aten.reshape.default",
    "aten._unsafe_view.default": "aten.reshape.default",
    "aten.view_as.default": "aten.reshape_as.default",
}
# kernels of row-major tensors alone, as PyTorch's graphs give them
_ROW_MAJOR = frozenset({"aten.native_group_norm.default"})


def _prepared(series: Series, where: str, device: str = "cpu") -> Callable[[Sequence[Any]], list[Any]]:
    """A function of the tensors that `Operand`s stand for, all on `device`, to the results of the last op."""
    torch = pytorch(where)
    kinds = {"dtype": torch.dtype, "memory_format": torch.memory_format}

    def fixed(value: Any) -> Any:
        if isinstance(value, list):
            return [fixed(item) for item in value]
        if isinstance(value, Other):
            if (value.kind, value.name) == ("device", "cpu"):
                return torch.device(device)
            constant = getattr(torch, value.name, None)
            if value.kind not in kinds or not isinstance(constant, kinds[value.kind]):
                raise UnsupportedError(f"{where}: an argument that is a {value.kind}, {value.name[:80]}")
            return constant
        return value

    calls = []
    for name, arguments in series:
        found = overload(name, where, arguments)
        given = [fixed(arguments[key]) for key in found.positional if key in arguments]
        named = {key: fixed(arguments[key]) for key in found.named if key in arguments}
        moving = [i for i, value in enumerate(given) if _moves(value)], [key for key in named if _moves(named[key])]
        op = overload(_IN_ANY_ORDER[name], where, {}).op if name in _IN_ANY_ORDER else found.op
        calls.append((op, given, named, *moving, name in _ROW_MAJOR))

    def run(tensors: Sequence[Any]) -> list[Any]:
        made: list[list[Any]] = []

        def real(value: Any) -> Any:
            if isinstance(value, Operand):
                return tensors[value.number]
            if isinstance(value, Before):
                return made[value.number][value.part]
            return [real(item) for item in value] if isinstance(value, list) else value

        for op, given, named, places, keys, is_row_major in calls:
            filled = list(given)
            for i in places:
                filled[i] = real(filled[i]).contiguous() if is_row_major else real(filled[i])
            result = op(*filled, **{**named, **{key: real(named[key]) for key in keys}} if keys else named)
            made.append(list(result) if isinstance(result, tuple | list) else [result])
        return made[-1]

    def undisturbed(tensors: Sequence[Any]) -> list[Any]:
        if not torch.is_autocast_enabled("cpu"):
            return run(tensors)
        with torch.autocast("cpu", enabled=False):
            return run(tensors)

    return undisturbed


def _moves(value: Any) -> bool:
    """Whether an argument has tensors in it."""
    return any(map(_moves, value)) if isinstance(value, list) else isinstance(value, Operand | Before)


def _taken_apart(part: Any, tensors: list[Any]) -> Any:
    """A series, or part of it, with `Operand`s in place of tensors, which are collected."""
    if isinstance(part, dict):
        return {name: _taken_apart(value, tensors) for name, value in part.items()}
    if isinstance(part, list):
        return [_taken_apart(item, tensors) for item in part]
    if isinstance(part, Link):
        return Link(part.op, _taken_apart(part.arguments, tensors))
    if not isinstance(part, Value | np.ndarray):
        return part
    place = next((i for i, one in enumerate(tensors) if one is part), len(tensors))
    if place == len(tensors):
        tensors.append(part)
    return Operand(place)


def computed(step: Any, series: Series) -> list[Array]:
    """The results of ops on known tensors."""
    tensors: list[Any] = []
    apart = _taken_apart(series, tensors)
    arrays: list[Any] = [one.constant if isinstance(one, Value) else one for one in tensors]
    made = [array_of(one) for one in _prepared(apart, step.where)([tensor_of(a) for a in arrays])]
    if not any(np.may_share_memory(result, array) for result in made for array in arrays):
        for result in made:
            step.spend(result)
    return made


def inferred(step: Any) -> list[tuple[str, tuple[int | None, ...]]] | None:
    """dtype and shape of the results, where all sizes are known; None: they are not, or PyTorch cannot tell."""
    torch = pytorch(step.where)
    try:
        tensors: list[Any] = []
        apart = _taken_apart(step.series(), tensors)
        if any(None in one.shape for one in tensors):
            return None
        kinds = [getattr(torch, _torch_name(one)) for one in tensors]
        empty = [torch.empty(one.shape, dtype=kind, device="meta") for one, kind in zip(tensors, kinds, strict=True)]
        return [(stated(one.dtype), tuple(one.shape)) for one in _prepared(apart, step.where, "meta")(empty)]
    except (Error, RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return None


_NAMES = {"boolean": "bool", "f8_e5m2": "float8_e5m2", "f8_e4m3": "float8_e4m3fn"}


def _torch_name(item: Any) -> str:
    """PyTorch's name of the dtype of a value or an array."""
    dtype = dtypes.numpy_dtype(item.dtype) if isinstance(item.dtype, str) else item.dtype
    return _NAMES.get(dtypes.label(dtype)) or dtype.name


def stated(dtype: Any) -> str:
    """The canonical name of a dtype of PyTorch, or its own where there is none."""
    name = str(dtype).removeprefix("torch.")
    try:
        return dtypes.canonical(name)
    except Error:
        return name


@dataclass(frozen=True)
class TorchStep:
    """Ops as a step of a net, which gives the first results of the last one."""

    where: str
    series: Series
    # tensors that are no operands, by their numbers
    parts: Mapping[int, Array]
    count: int
    results: tuple[Meta, ...]

    @property
    def title(self) -> str:
        return ", ".join(one.op for one in self.series)

    @property
    def own(self) -> None:
        return None

    @property
    def by(self) -> str:
        return "PyTorch"

    @property
    def key(self) -> bytes:
        digest = hashlib.sha256(repr((self.series, self.count)).encode())
        for number, array in self.parts.items():
            digest.update(repr((number, array.dtype, array.shape)).encode() + array.tobytes())
        return digest.digest()

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Its results.

        Raises:
            Error: PyTorch fails, or gives something else than it announced.
        """
        rest = iter(arrays)
        parts = self.parts
        tensors = [tensor_of(parts[i] if i in parts else next(rest)) for i in range(self.count)]
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
    def _run(self) -> Callable[[Sequence[Any]], list[Any]]:
        return _prepared(self.series, self.where)

    @once
    def _wanted(self) -> list[tuple[Any, Any]]:
        return [(meta.shape, dtypes.numpy_dtype(meta.dtype)) for meta in self.results]


def appended(step: Any) -> tuple[Value, ...]:
    """The op in a graph whose sizes are known.

    Raises:
        UnsupportedError: results whose shape depends on data, or of types that the package does not have.
    """
    # those behind the last result that is read may be of other shapes than PyTorch announces
    count = len(step.node.outputs)
    metas = step.metas()[:count]
    if any(None in meta.shape for meta in metas):
        raise UnsupportedError(f"{step.where}: the shape of its result depends on data")
    found = inferred(step)
    if found is not None and [shape for _, shape in found[:count]] != [meta.shape for meta in metas]:
        raise ShapeError(f"{step.where}: gives {found}, where {metas} was announced")
    tensors: list[Any] = []
    apart = _taken_apart(step.series(), tensors)
    _prepared(apart, step.where)
    parts = {i: one for i, one in enumerate(tensors) if not isinstance(one, Value) and _is_part(one)}
    operands = [step.tensor(one) for i, one in enumerate(tensors) if i not in parts]
    slots = [f"dst_{i}" for i in range(len(metas))]
    made = step.graph._add_node("Wildcard", step.where, operands, {}, metas, slots, None, step.node.name)
    made[0].node.host = TorchStep(step.where, apart, parts, len(tensors), tuple(metas))
    return made


def is_own(array: Array) -> bool:
    """Whether the package has such a type."""
    return dtypes.label(array.dtype) in dtypes.CODES


def _is_part(array: Array) -> bool:
    """What is no constant of the graph: few elements, and those of types that it does not have."""
    return array.nbytes <= 1 << 12 or not is_own(array)

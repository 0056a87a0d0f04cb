"""Writes the stub of the extension from its functions' signatures and texts; `python tools/make_stubs.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from inspect import Parameter, Signature, isclass
from typing import Any

from .text import function, quoted

_HEADER = '''"""Made by `python tools/make_stubs.py`; a test compares.

The oneDNN Graph C API one to one, and what runs compiled plans. Enumerated arguments take the enums below or their
integer values. Strides count elements. Errors are those of `dnnl_graph_ops.errors`; the GIL is released around
everything that computes or waits.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from . import _kernels

kernels = _kernels

# A NumPy array of any dtype, an object with the buffer protocol, or the address of memory.
_Memory: TypeAlias = np.ndarray[Any, Any] | bytearray | memoryview | int
_Ref: TypeAlias = tuple[int, int]  # slot, byte offset
# slot, byte offset, dtype, shape, strides
_View: TypeAlias = tuple[int, int, int, Sequence[int], Sequence[int]]
_Arrays: TypeAlias = list[Any] | tuple[Any, ...]
_Items: TypeAlias = tuple[Any, ...]
_Slow: TypeAlias = Callable[[_Items, _Items, Any, Any], Any]
_Layout: TypeAlias = tuple[int, Sequence[int], Sequence[int]]  # dtype, shape, strides
_Start: TypeAlias = tuple[int, float, int]

'''

# {pybind11's spelling: the stub's}
_WORDS = (
    (r"typing\.SupportsInt \| typing\.SupportsIndex", "int"),
    (r"typing\.SupportsFloat \| typing\.SupportsIndex", "float"),
    (r"dnnl_graph_ops\._core\.|collections\.abc\.|typing\.", ""),
    (r"typing_extensions\.CapsuleType", "object"),
    (r"numpy\.ndarray", "np.ndarray[Any, Any]"),
    (r"numpy\.dtype", "np.dtype[Any]"),
    (r"<[\w.]+: -?\d+>", "..."),
    (r"tuple\[int, int, int, Sequence\[int\], Sequence\[int\]\]", "_View"),
    (r"Sequence\[tuple\[int, int\]\]", "Sequence[_Ref]"),
    (r"= \[\]", "= ()"),
)
# types that the extension does not tell: of an argument, or of a result
_TYPES = {
    "Library.functions": "dict[str, bool]",
    "LogCapture.stop": "list[tuple[int, str]]",
    "LogicalTensor.dims": "tuple[int | None, ...] | None",
    "LogicalTensor.strides": "tuple[int | None, ...] | None",
    "Op.set_attr.value": "float | bool | str | Sequence[float]",
    "Tensor.__init__.buffer": "_Memory",
    "Tensor.scalar.value": "_Memory",
    "Tensor.set_data_handle.buffer": "_Memory",
    "Executor.__init__.engine": "Engine | None",
    "Executor.add_callback.callback": "Callable[..., object]",
    "Executor.only_if.flag": "_Ref",
    **{
        f"Executor.{name}.{some}": "_Arrays"
        for name in ("run", "benchmark", "profile")
        for some in ("inputs", "outputs")
    },
    "Executor.describe": "list[dict[str, Any]]",
    "Executor.constants": "list[np.ndarray[Any, Any]]",
    "Formula.__init__.constants": "tuple[Any, ...]",
    "Recording.__init__.traced": "type[Any]",
    "Recording.frozen": "Any",
    "Recording.frozen.value": "Any",
    "Recording.plain": "Any",
    "Recording.plain.value": "Any",
    "Recording.first": "Any",
    "Recording.first.value": "Any",
    "PlanSteps.__init__.steps": "Sequence[tuple[str, Sequence[int], tuple[_Ref, bool] | None]]",
    "PlanSteps.fill.steps": "list[Any]",
    "PlanSteps.fill.constants": "Sequence[tuple[Any, bool]]",
    "ScratchLives.__init__.spans": "Sequence[tuple[int, int]]",
    "Formula.__call__": "Any",
    "Formula.written.dims": "Sequence[Size]",
    "Formula.written.conditions": "Sequence[tuple[Any, str, Any]]",
    "Formula.written.result": "Any",
    "Formula.written.made_by": "dict[int, tuple[Any, str]]",
    "Formula.written.traced": "type[Any]",
    "Formula.written.functions": "Any",
    "SizeTrace.dim": "Size",
    "SizeTrace.total": "Any",
    "SizeTrace.total.sizes": "Sequence[Any]",
    "SizeTrace.bounds": "tuple[int, int]",
    "SizeTrace.bounds.size": "Size",
    "SizeTrace.is_multiple.a": "Size | int",
    "SizeTrace.is_multiple.b": "Size",
    "SizeTrace.atom_of.size": "Size",
    "SizeTrace.answers": "list[tuple[Any, str, Any]]",
    "SizeTrace.end_apart": "list[tuple[Any, str, Any]]",
    "plan_totals": "dict[str, int]",
    "noting_freed": "Callable[[Any], None]",
    "noting_freed.also": "Callable[[Any], object]",
    "dlpack_open": "tuple[int, int, tuple[int, ...], tuple[int, ...] | None, tuple[int, int], bool, object]",
    "dlpack_import.dtypes": "dict[tuple[int, int], np.dtype[Any]]",
    "lent_array": "np.ndarray[Any, Any] | None",
    "Message.__init__.made": "type[Any]",
    "Message.take.fields": "Sequence[tuple[int, str, Any]]",
    "Message.absent": "Any",
    "Message.read": "Any",
    "similar_sums.rows": "np.ndarray[Any, Any]",
    "thinned": "tuple[bytes, list[tuple[int, int, int]]]",
}
# signatures of calls and constructors, which have no text
_MORE = {
    "NetBase": '''\
_input_names: tuple[str, ...]
_plans: PlanCache
def __init__(
    self, names: Sequence[str], n_outputs: int, plans: PlanCache, row_major: bool = True, threads: int = 0
) -> None:
    """row_major: new results are; otherwise calls without out= go to `_slow_call`. threads: of calls, 0: any."""
def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any: ...
def _slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...''',
    "Size": '''\
@property
def value(self) -> int:
    """The value in the trace, without a condition."""
@property
def number(self) -> int:
    """The number in the trace."""
@property
def trace(self) -> Any:
    """The trace."""
def __getattr__(self, name: str) -> Any: ...
def __index__(self) -> int: ...
def __int__(self) -> int: ...
def __float__(self) -> float: ...
def __neg__(self) -> Any: ...
def __abs__(self) -> Any: ...
def __add__(self, value: Any, /) -> Any: ...
def __radd__(self, value: Any, /) -> Any: ...
def __sub__(self, value: Any, /) -> Any: ...
def __rsub__(self, value: Any, /) -> Any: ...
def __mul__(self, value: Any, /) -> Any: ...
def __rmul__(self, value: Any, /) -> Any: ...
def __floordiv__(self, value: Any, /) -> Any: ...
def __rfloordiv__(self, value: Any, /) -> Any: ...
def __mod__(self, value: Any, /) -> Any: ...
def __rmod__(self, value: Any, /) -> Any: ...
def __lt__(self, value: Any, /) -> bool: ...
def __le__(self, value: Any, /) -> bool: ...
def __gt__(self, value: Any, /) -> bool: ...
def __ge__(self, value: Any, /) -> bool: ...''',
    "TensorCall": '''\
def __init__(
    self,
    plans: PlanCache,
    name: str | None,
    attributes: tuple[Any, ...],
    tensors: tuple[Any, ...],
    make: Callable[[], Any],
) -> None:
    """A net's plans have no name. tensors: as they will come, None for what is absent; make(): for the result."""
def __call__(self, *tensors: Any) -> Any:
    """The result; None where tensors differ in type, dtype, shape or strides, or where there is no plan."""''',
    "TensorMarks": "def __init__(self, tensors: Sequence[Any]) -> None: ...",
}
_SIGNATURE = re.compile(r"^(?:\d+\. )?\w*(\(.*\) -> .*)$", re.MULTILINE)


def core() -> str:
    """Returns the stub of `_core`."""
    lines = "\n".join(_lines()).rstrip()
    return _HEADER + re.sub(r"\n{3,}", "\n\n", lines) + "\n"


def _lines() -> Iterator[str]:
    for name, item in vars(import_module("dnnl_graph_ops._core")).items():
        if name.startswith("__") or not hasattr(item, "__doc__") or name == "kernels":
            continue
        if not isclass(item):
            for made, says in _signatures(item.__doc__, name):
                yield from function(name, made, says)
        elif issubclass(item, IntEnum):
            yield from (
                f"class {name}(enum.IntEnum):",
                *(f"    {key} = {one.value}" for key, one in item.__members__.items()),
            )
            yield ""
        elif not name.startswith("_"):
            says = item.__doc__ or ""
            lines = [*(line[4:] for line in quoted(says, 4)), ""] if says else []
            lines += _MORE.get(name, "").splitlines()
            members = [(key, member) for key, member in vars(item).items() if key not in _HIDDEN]
            # last, as the name hides the decorator
            for key, member in sorted(members, key=lambda pair: pair[0] == "property"):
                lines += _member(name, key, member)
            yield from ("", f"class {name}:", *(f"    {line}" if line else "" for line in lines), "")


_HIDDEN = frozenset(("__module__", "__doc__", "__new__", "__repr__", "_pybind11_conduit_v1_", "__vectorcalloffset__"))


def _member(scope: str, name: str, member: Any) -> Iterator[str]:
    said = getattr(member, "__func__", member).__doc__
    if isinstance(member, property) and member.fget.__doc__ != said:
        # the text next to the signature
        said = f"{member.fget.__doc__}\n{said}"
    every = _signatures(said, f"{scope}.{name}")
    for made, says in every:
        if isinstance(member, property):
            yield "@property"
        elif isinstance(member, staticmethod):
            yield "@staticmethod"
        if len(every) > 1:
            yield "@overload"
        lines = function(name, made, says, 4)
        yield from lines[:-1] if says else lines


def _signatures(said: str | None, where: str) -> list[tuple[Signature, str]]:
    """Returns the signatures in a text, and the text after each."""
    parts = _SIGNATURE.split(said or "")[1:]
    return [(_parsed(text, where), says.strip()) for text, says in zip(parts[::2], parts[1::2], strict=True)]


def _parsed(text: str, where: str) -> Signature:
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    (made,) = ast.parse(f"def _{text}: ...").body
    assert isinstance(made, ast.FunctionDef) and made.returns is not None
    args = made.args
    names = [*args.posonlyargs, *args.args]
    defaults = [Parameter.empty] * (len(names) - len(args.defaults)) + [ast.literal_eval(one) for one in args.defaults]
    parameters = []
    for number, (item, default) in enumerate(zip(names, defaults, strict=True)):
        kind = Parameter.POSITIONAL_ONLY if number < len(args.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        is_self = not number and item.arg in ("self", "arg0")
        told = _TYPES.get(f"{where}.{item.arg}") or (ast.unparse(item.annotation) if item.annotation else "")
        told += " | None" if default is None and "None" not in told and told != "Any" else ""
        annotation = Parameter.empty if is_self else told
        parameters.append(Parameter("self" if is_self else item.arg, kind, default=default, annotation=annotation))
    return Signature(parameters, return_annotation=_TYPES.get(where) or ast.unparse(made.returns))

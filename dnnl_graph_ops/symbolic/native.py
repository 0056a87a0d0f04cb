"""Records calls of native kernels' factories and functions whose arguments depend on sizes of a trace.

Such a call runs at once, on the sizes' values, and is evaluated again for other dims. Its result is a `Traced` where it
is an object, such as a kernel, and a new atom of the trace where it is an integer. Other results, such as the reason of
a refusal, become conditions of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import Lock, local
from typing import TYPE_CHECKING, Any, TypeVar

from .._core import Recording
from .size import Size, Trace

T = TypeVar("T")
_lock = Lock()
_traces = 0  # that are open, in all threads
_this_thread = local()


@contextmanager
def tracing() -> Iterator[Trace]:
    """Opens a trace: native calls are recorded within this context, as far as they read sizes of a trace."""
    global _traces
    trace = Trace()
    before, _this_thread.trace = current(), trace
    with _lock:
        _traces += 1
    try:
        yield trace
    finally:
        trace.close()
        _this_thread.trace = before
        with _lock:
            _traces -= 1


def current() -> Trace | None:
    """Returns the trace that this thread has open; None: all sizes are integers."""
    return getattr(_this_thread, "trace", None) if _traces else None


def cached(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Returns a decorator that caches results as `lru_cache` does, except of calls in a trace, which may have sizes."""

    def decorator(function: Callable[..., T]) -> Callable[..., T]:
        from_cache = lru_cache(most)(function)

        @wraps(function)
        def call(*args: Any) -> T:
            return from_cache(*args) if current() is None else function(*args)

        return call

    return decorator


class Traced:
    """An object that a native call returned: `value` in the trace, and the call, by which other dims get theirs.

    `call`: the name of a function, an object and the name of its method, or the number of an item of `args[0]`.

    Attributes of the object are sizes where they are integers, else conditions of the trace; its methods are recorded
    as calls.
    """

    __slots__ = ("args", "call", "keywords", "trace", "value")

    def __init__(self, trace: Trace, value: Any, call: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.trace, self.value, self.call, self.args, self.keywords = trace, value, call, args, keywords

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.value, name)
        if callable(attribute):
            return lambda *args, **keywords: _recorded(self.trace, attribute, (self, name), args, keywords)
        if isinstance(attribute, int) and not isinstance(attribute, bool):
            return self.trace.result(self, name, attribute)
        return self.trace.require(self, name, attribute)


def _recorded(
    trace: Trace, function: Callable[..., Any], call: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Calls a native function, and records the call; `call`: its name, or an object and the name of its method.

    An equal call is recorded once.
    """
    key = call if isinstance(call, str) else (id(call[0]), call[1]), frozen((args, *keywords.items()))
    recorded: Traced | None = trace.calls.get(key)
    if recorded is None:
        recorded = trace.calls[key] = Traced(
            trace,
            function(*plain(args), **{name: plain(item) for name, item in keywords.items()}),
            call,
            args,
            keywords,
        )
    return _result(recorded)


def _result(recorded: Traced) -> Any:
    """Returns the result of a call: an integer as a size, an object as it is, and any other as a condition."""
    trace, value = recorded.trace, recorded.value
    if isinstance(value, int) and not isinstance(value, bool):
        return trace.result(recorded, "", value)
    if value is None or isinstance(value, bool | float | str | bytes):
        return trace.require(recorded, "", value)
    if isinstance(value, tuple | list):
        return type(value)(_item(recorded, number) for number in range(len(value)))
    return recorded


def _item(of: Traced, number: int) -> Any:
    """Returns an item of a call's result; how many items a native call returns does not depend on sizes."""
    key = id(of), number
    if key not in of.trace.calls:
        of.trace.calls[key] = Traced(of.trace, of.value[number], number, (of,), {})
    return _result(of.trace.calls[key])


_recording = Recording(Traced)
# a key of arguments of a trace, in which sizes are their numbers there
frozen = _recording.frozen
# arguments with the values that their sizes and objects have in the trace, without conditions
plain = _recording.plain


def pinned(value: Any) -> None:
    """Adds the condition that all sizes which an object was made with have the values of the trace."""
    if type(value) is Size:
        int(value)
    elif type(value) is Traced:
        pinned((value.args, *value.keywords.values()))
        pinned(value.call)
    elif isinstance(value, tuple | list):
        for item in value:
            pinned(item)


class _Function:
    """A native function or class that is recorded when it is called with sizes of a trace."""

    def __init__(self, name: str, native: Any) -> None:
        self.__name__, self.native = name, native

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _traces:
            mark = _recording.first((args, *kwargs.values()))
            if mark is not None:
                return _recorded(mark.trace, self.native, self.__name__, args, kwargs)
        return self.native(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)


class _Kernels:
    """Stands for `_core.kernels`, whose functions and classes are those of the extension."""

    def __init__(self, module: Any) -> None:
        self._module: Any = module

    def __getattr__(self, name: str) -> Any:
        native = getattr(self._module, name)
        found = _Function(name, native) if callable(native) and not name.startswith("_") else native
        self.__dict__[name] = found
        return found


if TYPE_CHECKING:
    from .._core import kernels as kernels
else:
    from .._core import kernels as _native

    kernels = _Kernels(_native)

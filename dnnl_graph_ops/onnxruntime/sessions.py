"""Puts the provider in front of the sessions that a process makes with the CPU alone."""

from __future__ import annotations

import functools
import weakref
from types import TracebackType
from typing import Any

from .library import get_ep_name, onnxruntime, register

_CPU, _AZURE = "CPUExecutionProvider", "AzureExecutionProvider"
# the method of ONNX Runtime that was replaced; empty: none
_replaced: list[Any] = []
# options of callers that have the provider by `install`
_extended: weakref.WeakSet[Any] = weakref.WeakSet()


class Installed:
    """What `install` returns: as a context manager it uninstalls at its end, if this call has installed."""

    def __init__(self, is_first: bool) -> None:
        self._is_first = is_first

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_first:
            uninstall()


def install() -> Installed:
    """Adds the provider to every `onnxruntime.InferenceSession` of this process that asks for the CPU provider alone.

    A session asks for the CPU alone with `providers=["CPUExecutionProvider"]`, and with no providers where ONNX Runtime
    has no other provider. All other sessions, and earlier sessions, do not change. A second call has no
    effect.

    Returns:
        A context manager that ends the installation; `uninstall()` does so too.

    Raises:
        RuntimeUnavailableError: as `register`.
    """
    package = onnxruntime()
    register()
    if _replaced:
        return Installed(False)
    session = package.InferenceSession
    original = session.__init__

    @functools.wraps(original)
    def begin(
        self: Any,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Any = None,
        provider_options: Any = None,
        **kwargs: Any,
    ) -> None:
        if _asks_for_cpu(package, sess_options, providers):
            sess_options, providers = _in_front(package, sess_options)
            provider_options = None
        original(self, path_or_bytes, sess_options, providers, provider_options, **kwargs)

    _replaced.append(original)
    session.__init__ = begin
    return Installed(True)


def uninstall() -> None:
    """Ends the effect of `install` on later sessions; without an effect if nothing is installed."""
    if _replaced:
        onnxruntime().InferenceSession.__init__ = _replaced.pop()


def _in_front(package: Any, options: Any) -> tuple[Any, list[Any] | None]:
    """Returns options and providers for a session with the provider in front, with the session's number of threads."""
    number = 0 if options is None else options.intra_op_num_threads
    settings = {"threads": str(number)} if number > 0 else {}
    if get_ep_name() in package.get_available_providers():
        return options, [(get_ep_name(), settings), _CPU]
    # ONNX Runtime before 1.24 does not know registered providers by name: the options hold them, for all later sessions
    options = package.SessionOptions() if options is None else options
    if options not in _extended:
        options.add_provider_for_devices(register(), settings)
        _extended.add(options)
    return options, None


def _asks_for_cpu(package: Any, options: Any, providers: Any) -> bool:
    if options is not None and options.has_providers() and options not in _extended:
        return False
    # settings have no effect: ONNX Runtime's CPU provider has none, although libraries state some
    names = [item[0] if isinstance(item, tuple) else item for item in providers or ()]
    # the stock wheel names Azure, which no session takes unless asked to
    return names == [_CPU] if names else {*package.get_available_providers()} <= {_CPU, _AZURE, get_ep_name()}

"""Registers the execution provider's library, which is the extension module: one thread pool, one store of plans."""

from __future__ import annotations

from typing import Any

from .._core import __file__ as _path
from ..errors import RuntimeUnavailableError, extra
from ..runtime.info import EXECUTION_PROVIDER as _NAME

# the first ONNX Runtime that takes execution providers with all that this one uses
_OLDEST = (1, 23)


def get_library_path() -> str:
    """Returns the path of the library for `onnxruntime.register_execution_provider_library`."""
    return _path


def get_ep_name() -> str:
    """Returns the name of the execution provider, under which `register` registers the library as well."""
    return _NAME


def onnxruntime() -> Any:
    """Returns the package `onnxruntime`.

    Raises:
        RuntimeUnavailableError: it is missing, or older than 1.23.
    """
    try:
        import onnxruntime as package  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"the execution provider needs the package onnxruntime ({error}); install it: {extra('onnxruntime')}"
        ) from error
    version = tuple(int(part) for part in package.__version__.split(".")[:2])
    if version < _OLDEST:
        raise RuntimeUnavailableError(
            f"the execution provider needs onnxruntime 1.23 or later, got {package.__version__}; install it: "
            f"{extra('onnxruntime')}"
        )
    return package


def register() -> list[Any]:
    """Registers the execution provider with ONNX Runtime, if it is not registered, and returns its devices.

    Returns:
        A list with the device of the provider, an `OrtEpDevice`: `options.add_provider_for_devices(register(), {})`.

    Raises:
        RuntimeUnavailableError: the package `onnxruntime` is missing, or older than 1.23, or cannot load the library.
    """
    package = onnxruntime()
    if not (found := _devices(package)):
        try:
            package.register_execution_provider_library(_NAME, get_library_path())
        except Exception as error:  # ONNX Runtime has a class for each of its codes, without a common one
            raise RuntimeUnavailableError(f"onnxruntime refuses {get_library_path()}: {error}") from error
        found = _devices(package)
    return found


def _devices(package: Any) -> list[Any]:
    return [device for device in package.get_ep_devices() if device.ep_name == _NAME]

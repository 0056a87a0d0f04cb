"""Runs in ONNX Runtime, as an execution provider of its sessions (extra `onnxruntime`), and in its place.

`register()` makes the provider known to ONNX Runtime and returns its devices, for
`SessionOptions.add_provider_for_devices`. `install()` puts it in front of every session that asks for the CPU alone.
`InferenceSession` has the methods of ONNX Runtime's, and does not need it.
"""

from typing import TYPE_CHECKING

from ..ops.annotations import unquote as _unquote
from ..schema.arguments import no_attribute as _no_attribute
from .inference import InferenceSession
from .library import get_ep_name, get_library_path, register
from .sessions import install, uninstall

__all__ = ["InferenceSession", "get_ep_name", "get_library_path", "install", "register", "uninstall"]

_unquote(globals())

# not for type checkers: they would take any name for one of the module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _no_attribute(__name__, name, __all__)

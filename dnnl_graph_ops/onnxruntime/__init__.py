"""Runs in ONNX Runtime: an execution provider for its sessions (extra `onnxruntime`).

`register()` makes the provider known to ONNX Runtime and returns its devices, for
`SessionOptions.add_provider_for_devices`. `install()` puts it in front of every session that asks for the CPU alone.
"""

from .library import get_ep_name, get_library_path, register
from .sessions import install, uninstall

__all__ = ["get_ep_name", "get_library_path", "install", "register", "uninstall"]

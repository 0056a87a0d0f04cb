"""The stub of the submodule `kernels`, which stubtest cannot follow from a single file."""

import ast
import re
from pathlib import Path

import dnnl_graph_ops
from dnnl_graph_ops import _core

STUB = Path(dnnl_graph_ops.__file__).parent / "_core.pyi"


def declared():
    """Name to parameter names; None for a class."""
    (body,) = (
        node.body
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "kernels"
    )
    out = {node.name: None for node in body if isinstance(node, ast.ClassDef)}
    out |= {node.name: [a.arg for a in node.args.args] for node in body if isinstance(node, ast.FunctionDef)}
    return out


def present():
    out = {}
    for name in dir(_core.kernels):
        if name.startswith("__"):
            continue
        value = getattr(_core.kernels, name)
        signature = None if isinstance(value, type) else value.__doc__.partition("->")[0]
        out[name] = None if signature is None else re.findall(r"[(,]\s*(\w+):", signature)
    return out


def test_kernels():
    assert declared() == present()

"""The stub of the builders lists every one of them with its signature."""

import ast
import inspect
from pathlib import Path

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema
from dnnl_graph_ops.ops import stubs

STUB = Path(dgo.ops.__file__).with_suffix(".pyi").read_text(encoding="utf-8")


def test_stub_is_up_to_date():
    assert stubs.text() == STUB, "run python -m dnnl_graph_ops.ops.stubs > dnnl_graph_ops/ops/__init__.pyi"


def test_every_builder_is_there():
    assert set(dgo.ops.__all__) == {*schema.BUILDERS, "conv_transpose_backprop_filters"}
    body = ast.parse(STUB).body
    defined = {node.name: node.args for node in body if isinstance(node, ast.FunctionDef)}
    imported = {name.asname for node in body if isinstance(node, ast.ImportFrom) for name in node.names if name.asname}
    assert defined.keys() | imported == set(dgo.ops.__all__)
    for name, arguments in defined.items():
        listed = [*arguments.args, *([arguments.vararg] if arguments.vararg else []), *arguments.kwonlyargs]
        assert [argument.arg for argument in listed] == [*inspect.signature(getattr(dgo.ops, name)).parameters], name

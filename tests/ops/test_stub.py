"""The stub of the builders lists every one of them with its signature."""

import ast
import inspect
import sys
from pathlib import Path

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import schema
from dnnl_graph_ops.words import ARGUMENTS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import stubs

STUB = Path(dgo.ops.__file__).with_suffix(".pyi").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", stubs.FILES)
def test_stub_is_up_to_date(name):
    written = (Path(dgo.__file__).parent / name).read_text(encoding="utf-8")
    assert stubs.FILES[name]() == written, "run python tools/make_stubs.py"


def test_every_builder_is_there():
    assert set(dgo.ops.__all__) == {*schema.BUILDERS, "conv_transpose_backprop_filters"}
    body = ast.parse(STUB).body
    shown = defined(STUB)
    imported = {name.asname for node in body if isinstance(node, ast.ImportFrom) for name in node.names if name.asname}
    assert shown.keys() | imported == set(dgo.ops.__all__)
    for name, arguments in shown.items():
        listed = [*arguments.args, *([arguments.vararg] if arguments.vararg else []), *arguments.kwonlyargs]
        assert [argument.arg for argument in listed if argument.arg not in ARGUMENTS] == [
            *inspect.signature(getattr(dgo.ops, name)).parameters
        ], name


def defined(text):
    """The arguments of each function; of an overloaded one those of its first form."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: node.args for node in reversed(functions)}


@pytest.mark.parametrize("name", sorted(name for name in dgo.__all__ if name.startswith("conv_transpose")))
def test_one_shot_functions_show_their_keywords(name):
    shape = inspect.signature(getattr(dgo, name))
    if name != "conv_transpose_backward_bias":
        given = defined(stubs.one_shots())[name]
        listed = [argument.arg for argument in (*given.args, *given.kwonlyargs) if argument.arg not in ARGUMENTS]
        assert listed == [*shape.parameters]
        assert {"strides", "output_padding", "groups"} <= set(listed)
    text = inspect.getdoc(getattr(dgo, name))
    assert "**attributes" not in text and "Others" not in text
    for word in shape.parameters:
        assert word in text, word

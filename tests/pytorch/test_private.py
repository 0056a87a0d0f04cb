"""What PyTorch keeps to itself and the package uses: it is there, and nothing else is used."""

import ast
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch import private

ROOM = Path(dgt.__file__).parent
# of modules and of other objects, by which no import fails in a release without them
ATTRIBUTES = {
    "nn.Module": "_call_impl _compiled_call_impl _replicate_for_data_parallel _apply _wrapped_call_impl",
    "nn.Conv2d(1, 1, 1)": "_modules _parameters _forward_hooks _forward_pre_hooks _backward_hooks _backward_pre_hooks "
    "_reversed_padding_repeated_twice",
    "nn.ConvTranspose2d(1, 1, 1)": "_output_padding",
    "forward_ad": "_current_level",
    "torch": "_check _dynamo _guards",
    "torch._dynamo.utils.get_metrics_context()": "_metrics _start_time_ns in_progress",
    "torch._guards.CompileContext": "current_compile_id",
    "torch._C": "DispatchKeySet DispatchKey",
    "torch.fx.Graph()": "_tracer_cls",
}
# the compiler's, which whole_model/ alone uses
COMPILER = {
    "make_boxed_func": "torch._functorch._aot_autograd.utils",
    "aot_module_simplified": "torch._functorch.aot_autograd",
    "TracingContext": "torch._guards",
}


@pytest.mark.parametrize("owner", ATTRIBUTES)
def test_attributes_are_there(owner):
    with torch.random.fork_rng():
        thing = eval(owner, {"nn": nn, "torch": torch, "forward_ad": forward_ad})
    assert [name for name in ATTRIBUTES[owner].split() if not hasattr(thing, name)] == []


def names_of(path):
    """Private names that a file takes from PyTorch: imported, or as attributes of modules and of classes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torch"):
            inner = any(part.startswith("_") for part in node.module.split("."))
            yield from (alias.name for alias in node.names if inner or alias.name.startswith("_"))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value).split(".")[0]
            yield from [node.attr] if owner in ("torch", "nn", "F", "parametrizations") else ()


@pytest.mark.slow
def test_private_names_stand_in_one_file():
    attributes = {name for names in ATTRIBUTES.values() for name in names.split()} | {"_C"}
    found = {
        (path.name, name)
        for path in ROOM.rglob("*.py")
        if path.name != "private.py"
        for name in names_of(path)
        if name not in attributes and not (name in COMPILER and path.parent.name == "whole_model")
    }
    assert found == set()


def test_every_name_is_used():
    texts = [path.read_text("utf-8") for path in ROOM.rglob("*.py") if path.name != "private.py"]
    assert [name for name in private.__all__ if not any(name in text for text in texts)] == []


def test_what_watches_is_seen():
    """The questions of a call's key have other answers under a mode, a transform, a tracer and in autocast."""
    seen = []

    def note(x):
        seen.append(private.are_transforms_active())
        return x

    torch.func.vmap(note)(torch.ones(1))
    assert seen == [True] and not private.are_transforms_active()
    with torch.utils._python_dispatch.TorchDispatchMode():
        assert private.dispatch_modes() == 1
    with torch.overrides.TorchFunctionMode():
        assert private.function_modes() == 1
    with torch.autocast("cpu"):
        assert private.is_autocast_enabled()
    assert (private.dispatch_modes(), private.function_modes(), private.is_autocast_enabled()) == (0, 0, False)
    assert private.tracing_state() is None and private.top_saving_hooks(True) is None
    with torch.autograd.graph.save_on_cpu():
        assert private.top_saving_hooks(True) is not None

"""help() of each class, method and function: what it is, what it raises, and its C++ or C name."""

import inspect
import re
from enum import IntEnum

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import graph_api

# of Python only: they have no name in C++
OWN = {"engine.memory_of", "graph.from_json", "graph.to_json", "op.get_name", "tensor.from_numpy", "tensor.to_numpy"}
NO_FAULTS = "no argument, or arguments of the object's own kind"


def documented():
    """Every public class, method and function by its path."""
    for name in graph_api.__all__:
        found = getattr(graph_api, name)
        if inspect.ismodule(found):
            yield from ((f"{name}.{key}", getattr(found, key)) for key in found.__all__)
        elif isinstance(found, type) and issubclass(found, IntEnum):
            continue
        else:
            yield name, found
            if isinstance(found, type):
                methods = [key for key, item in vars(found).items() if not key.startswith("_") and _is_method(item)]
                yield from ((f"{name}.{key}", getattr(found, key)) for key in methods)


def _is_method(item):
    return (
        inspect.isfunction(item)
        or isinstance(item, staticmethod | classmethod)
        or (hasattr(item, "__get__") and (type(item).__name__ == "_MakesOrRebinds"))
    )


ITEMS = dict(documented())


def test_there_are_as_many_as_in_cpp():
    assert len(ITEMS) > 80 and {"tensor.from_numpy", "op.set_attr", "sycl_interop.execute", "set_verbose"} <= set(ITEMS)


@pytest.mark.parametrize("name", ITEMS)
def test_docstring(name):
    text = inspect.getdoc(ITEMS[name]) or ""
    first = text.split("\n\n")[0]
    assert first.rstrip().endswith((".", ":")) or "C++: " in first or "C: " in first, "a sentence first"
    assert not first.startswith("What "), "what something is is said by its name"
    if name not in OWN:
        assert re.search(r"\bC(\+\+)?: \w+", text), "the name in C++ or C"


@pytest.mark.parametrize("name", ITEMS)
def test_arguments_are_told(name):
    """By name in Args, or in the text of those with one or two."""
    item = ITEMS[name]
    text = inspect.getdoc(item) or ""
    names = [p for p in inspect.signature(item).parameters if p not in ("self", "native", "e", "constants")]
    if len(names) > 2 and not re.search(r"UnsupportedError\. |`[\w.]+` makes it|^As ", text):
        assert [n for n in names if not re.search(rf"\b{n}\b", text)] == []


@pytest.mark.parametrize("name", ITEMS)
def test_errors_are_of_the_family_and_told(name):
    item = ITEMS[name]
    text = inspect.getdoc(item) or ""
    told = set(re.findall(r"\b(\w+Error)\b", text))
    assert all(hasattr(dgo, word) or word in ("TypeError", "FileNotFoundError") for word in told)
    takes = [p for p in inspect.signature(item).parameters if p not in ("self", "runtime")]
    if takes and not re.search(r"Error\b|Raises", text):
        assert name in SILENT, "what it raises"


# they take one object, whose type is in the signature, and raise TypeError alone
SILENT = {
    "compiled_partition", "engine.get_count", "logical_tensor.is_equal", "op.add_input", "op.add_inputs",
    "op.add_output", "op.add_outputs", "sycl_interop.execute",
}  # fmt: skip


def test_the_module_says_where_its_names_come_from():
    assert "RFC" in graph_api.__doc__ and "https://" in graph_api.__doc__

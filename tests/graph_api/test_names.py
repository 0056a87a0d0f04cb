"""What the C++ headers declare has its name in graph_api, or a reason here why not."""

import inspect
import re
from enum import IntEnum

import pytest

from bindings import headers
from dnnl_graph_ops import graph_api

RENAMED = {"graph_dump_mode": "dump_mode"}
# a pattern of qualified names, and why there is none such in Python
REASONS = {
    r"dnnl::(graph::)?(graph_)?handle(_traits)?(::.*)?": "Python's objects own their handles by themselves",
    r"dnnl::error(::.*)?": "exceptions are those of dnnl_graph_ops.errors, by kind",
    r".*::operator=": "assignment binds names in Python",
    r".*::convert_to_c": "enumerators are ints",
    r"dnnl::graph::req": "a helper of templates",
    r"dnnl::graph::logical_tensor::dims?": "sizes are lists of ints",
    r"dnnl::graph::op::kind::LastSymbol": "the end of a range",
    r"dnnl::graph::op::attr::end": "the end of a range",
    r"dnnl::accumulation_mode(::.*)?": "an attribute of ops, whose values are texts",
    r"dnnl::sycl_interop::([gs]et_buffer|(get_)?memory_kind(::.*)?|make_memory|execute)": "of the primitive API",
    r"dnnl::get_(primitive_desc|kind|cache_blob)": "of primitives",
    r"dnnl::([sg]et_primitive_cache_capacity)": "a cache of the primitive API; the package leaves it to the library",
    r"dnnl::(reset_profiling|get_profiling_data)": "experimental: no build of a package has it",
    r"dnnl::version": "dnnl_graph_ops.Runtime.version",
    r"dnnl::verbose_profiling_enabled": "what ONEDNN_VERBOSE was set to",
    r"dnnl::stream::flags::profiling": "experimental: no build of a package has it",
}
# in graph_api, and not in these headers
MORE = {
    "allocator": (),
    "compiled_partition": (),
    "cpu_isa": (),
    "cpu_isa_hints": (),
    "dump_mode": (),
    "engine": ("kind",),
    "fpmath_mode": (),
    "graph": ("fpmath_mode", "from_json", "get_deterministic", "set_deterministic", "to_json"),
    "logical_tensor": (),
    "op": ("get_id", "get_kind", "get_name"),
    "partition": (),
    "status": (),
    "stream": (),
    "tensor": ("from_numpy", "to_numpy"),
}


def reason(name):
    return next((why for pattern, why in REASONS.items() if re.fullmatch(pattern, name)), None)


def python_object(name):
    """What a qualified name stands for; None if there is none such."""
    parts = name.removeprefix("dnnl::").removeprefix("graph::").split("::")
    if len(parts) > 1 and parts[-1] == parts[-2]:
        parts.pop()  # a constructor
    found = graph_api
    for part in parts:
        found = getattr(found, RENAMED.get(part, part), None)
        if found is None:
            return None
    return found


@pytest.mark.parametrize("release", headers.WHEELS)
def test_every_name_of_cpp(release):
    names = headers.declared(release)["cpp"]
    assert len(names) > 300 and "dnnl::graph::compiled_partition::get_inplace_ports" in names
    assert [name for name in names if python_object(name) is None and reason(name) is None] == []


def test_enumerators_are_those_of_cpp():
    codes = headers.declared("3.13")["enumerators"]
    for name in headers.declared("3.13")["cpp"]:
        found = python_object(name)
        if isinstance(found, IntEnum) and f"dnnl_{found.name}" in codes and "fpmath" not in name:
            assert found == codes[f"dnnl_{found.name}"], name


def test_each_reason_is_of_something():
    names = headers.declared("3.13")["cpp"]
    unused = [pattern for pattern in REASONS if not any(re.fullmatch(pattern, name) for name in names)]
    assert unused == []
    both = [n for n in names if reason(n) and python_object(n) is not None and not n.startswith("dnnl::sycl_interop")]
    assert both == []


def test_nothing_is_invented():
    """Public names of the classes beside those of the headers."""
    names = {name.split("::", 1)[1].removeprefix("graph::") for name in headers.declared("3.13")["cpp"]}
    for name, more in MORE.items():
        cls = getattr(graph_api, name)
        if issubclass(cls, IntEnum):
            continue
        own = {key for key in vars(cls) if not key.startswith("_")}
        assert own - {n.split("::")[1] for n in names if n.startswith(f"{name}::")} - set(more) == set(), name
    functions = {n for n, value in vars(graph_api).items() if inspect.isfunction(value) and not n.startswith("_")}
    assert functions - names == set()

"""Nothing that the C headers declare may be missing from the extension."""

import pytest

from dnnl_graph_ops import _core

from . import headers
from .raw import library

ENUMS = {
    "dnnl_graph_op_attr_": _core.OpAttr,
    "dnnl_graph_op_": _core.OpKind,
    "dnnl_graph_layout_type_": _core.LayoutType,
    "dnnl_graph_tensor_property_": _core.TensorProperty,
    "dnnl_graph_partition_policy_": _core.PartitionPolicy,
    "dnnl_graph_dump_mode_": _core.DumpMode,
    "dnnl_fpmath_mode_": _core.FpmathMode,
    "dnnl_data_type_": _core.DataType,
    "dnnl_stream_": _core.StreamFlags,
}
# Enumerators without a prefix of their own.
PLAIN = {
    _core.DataType: "f16 bf16 f32 s32 s8 u8 f64 boolean f8_e5m2 f8_e4m3 s4 u4 e8m0 f4_e2m1 f4_e3m0 s64",
    _core.EngineKind: "cpu gpu",
    _core.Status: "success out_of_memory invalid_arguments unimplemented last_impl_reached runtime_error "
    "not_required invalid_graph invalid_graph_op invalid_shape invalid_data_type",
}
# Not values that anything takes: counts and ends of ranges, aliases, and an attribute that means none.
SKIPPED = {
    "dnnl_graph_op_last_symbol",
    "dnnl_graph_op_attr_undef",
    "dnnl_graph_op_attr_end",
    "dnnl_data_type_max",
    "dnnl_stream_default_flags",
    "dnnl_stream_flags_max",
}
# Enums of the primitive API that the Graph API takes nowhere.
FOREIGN = ("dnnl_accumulation_mode_",)


def exposed(name):
    """The enum and the member name under which the extension has a C enumerator."""
    for kind, names in PLAIN.items():
        if name.removeprefix("dnnl_") in names.split():
            return kind, name.removeprefix("dnnl_")
    if name == "dnnl_any_engine":
        return _core.EngineKind, "any"
    for prefix, kind in ENUMS.items():
        if name.startswith(prefix):
            return kind, name.removeprefix(prefix)
    return None, name


@pytest.fixture(params=headers.WHEELS)
def declared(request):
    return headers.declared(request.param)


def test_every_enumerator(declared):
    assert len(declared["enumerators"]) > 150
    wrong = []
    for name, value in declared["enumerators"].items():
        if name in SKIPPED or name.startswith(FOREIGN):
            continue
        kind, member = exposed(name)
        if kind is None or member not in kind.__members__ or kind[member] != value:
            wrong.append(f"{name} = {value}")
    assert not wrong


def test_nothing_is_invented():
    known = {exposed(name) for name in headers.declared("3.13")["enumerators"]}
    kinds = {*ENUMS.values(), *PLAIN}
    assert [str(member) for kind in kinds for member in kind if (kind, member.name) not in known] == []


def test_every_function(declared):
    assert len(declared["functions"]) >= 56
    assert set(declared["functions"]) - library().functions().keys() == set()


def test_the_bundled_library_has_what_its_headers_declare():
    present = library().functions()
    assert [name for name in headers.declared("3.2")["functions"] if not present[name]] == []
    assert all(library().has(name) == there for name, there in present.items())

"""Nothing that the C headers declare may be missing from the extension."""

import pytest

from dnnl_graph_ops import _core

from . import headers
from .raw import library

# The oldest release that is supported, and the newest one known.
RELEASES = {"3.2": ("onednn-devel-cpu-gomp", "2023.2.0"), "3.13": ("onednn-devel", "2026.1.0")}

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


@pytest.fixture(scope="module", params=RELEASES)
def texts(request, tmp_path_factory):
    return headers.unpack(*RELEASES[request.param], tmp_path_factory.mktemp("headers"))


def test_every_enumerator(texts):
    declared = headers.enumerators(texts)
    assert len(declared) > 150
    wrong = []
    for name, value in declared.items():
        if name in SKIPPED or name.startswith(FOREIGN):
            continue
        kind, member = exposed(name)
        if kind is None or member not in kind.__members__ or kind[member] != value:
            wrong.append(f"{name} = {value}")
    assert not wrong


def test_nothing_is_invented(tmp_path_factory):
    declared = headers.enumerators(headers.unpack(*RELEASES["3.13"], tmp_path_factory.mktemp("headers")))
    known = {exposed(name) for name in declared}
    kinds = {*ENUMS.values(), *PLAIN}
    assert [str(member) for kind in kinds for member in kind if (kind, member.name) not in known] == []


def test_every_function(texts):
    declared = headers.functions(texts)
    assert len(declared) >= 56
    assert declared - library().functions().keys() == set()


def test_the_bundled_library_has_what_its_headers_declare(tmp_path):
    declared = headers.functions(headers.unpack(*RELEASES["3.2"], tmp_path))
    present = library().functions()
    assert [name for name in declared if not present[name]] == []
    assert all(library().has(name) == there for name, there in present.items())

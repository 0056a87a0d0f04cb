"""Enumerations with the names of the C++ API, and classes that hold them: `engine.kind.cpu` is `engine.cpu`.

Values come from the C headers, through the extension, and from the op table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import EnumMeta, IntEnum
from typing import Any

from .. import dtypes, schema, words
from .._core import (
    CpuIsa,
    CpuIsaHints,
    DataType,
    DumpMode,
    EngineKind,
    FpmathMode,
    LayoutType,
    PartitionPolicy,
    Status,
    StreamFlags,
    TensorProperty,
)
from ..schema.arguments import suggest

# the public module of the names
_HERE = __name__.rpartition(".")[0]
# aliases: op kinds and attributes of oneDNN 3.0 and earlier, and names of the RFC
OTHER_KINDS = {"ConvTransposeBackpropFilters": "ConvTransposeBackwardWeights"}
OTHER_ATTRS = {"filter_shape": "weights_shape"}


# C++ prefixes other than dnnl::graph::
_CPP = dict.fromkeys(("engine", "stream", "fpmath_mode", "cpu_isa", "cpu_isa_hints"), "dnnl::")
_CPP["dump_mode"] = "dnnl::graph::graph_"


# {builder or name of another package, in lower case: the enumerator}
_MEANT = {
    **{builder.replace("_", ""): kind for builder, kind in schema.BUILDERS.items()},
    **{name: schema.BUILDERS[ours] for name, ours in words.OPS.items() if ours in schema.BUILDERS},
}


def _hint(name: str, known: Iterable[str]) -> str:
    """Returns "; did you mean ...?" for an enumerator that is not there; "" for private names."""
    if name.startswith("_"):
        return ""
    names = list(known)
    meant = (_MEANT.get(name.lower()), dtypes.usual(name))
    return next((f"; did you mean {one!r}?" for one in meant if one in names), suggest(name, names))


class _Told(EnumMeta):
    """The class of enumerations whose errors for unknown names have the nearest enumerator."""

    def __getattr__(cls, name: str) -> Any:
        path = cls.__qualname__
        said = f"{path} has no enumerator {name!r}{_hint(name, cls.__members__)}"
        raise AttributeError(said, name=name, obj=None)

    def __getitem__(cls, name: str) -> Any:
        try:
            return super().__getitem__(name)
        except KeyError:
            raise KeyError(
                f"{cls.__qualname__} has no enumerator {name!r}{_hint(str(name), cls.__members__)}"
            ) from None


class _Enumerators(IntEnum, metaclass=_Told):
    """The base of all enumerations."""


class _Holder(type):
    """The class of classes that hold enumerators, whose errors for unknown names have the nearest one."""

    def __getattr__(cls, name: str) -> Any:
        said = f"{cls.__qualname__} has no attribute {name!r}{_hint(name, [one for one in dir(cls) if one[0] != '_'])}"
        raise AttributeError(said, name=name, obj=None)


def _enumeration(path: str, values: Mapping[str, int]) -> Any:
    """Returns an IntEnum whose qualified name is its path in the module, for pickle."""
    made = _Enumerators(path.rpartition(".")[2], dict(values), module=_HERE, qualname=path)  # type: ignore[misc]
    made.__doc__ = f"C++: {_CPP.get(path.partition('.')[0], 'dnnl::graph::')}{path.replace('.', '::')}."
    return made


def _like(path: str, native: type[IntEnum], **more: int) -> Any:
    return _enumeration(path, {**{name: item.value for name, item in native.__members__.items()}, **more})


def _kinds() -> dict[str, int]:
    native = {kind: op.value for kind, op in schema.OPS.items() if not op.own}
    ordered = dict(sorted(native.items(), key=lambda item: item[1]))
    return {**ordered, **{other: native[kind] for other, kind in OTHER_KINDS.items()}}


def _attrs() -> dict[str, int]:
    codes = dict(sorted(schema.ATTR_CODES.items(), key=lambda item: item[1]))
    return {"undef": 0, **codes, **{other: codes[attr] for other, attr in OTHER_ATTRS.items()}}


engine_kind = _like("engine.kind", EngineKind)
stream_flags = _like("stream.flags", StreamFlags, default_flags=StreamFlags.in_order)
data_type = _like("logical_tensor.data_type", DataType, dt_undef=0)
layout_type = _like("logical_tensor.layout_type", LayoutType, lt_undef=0)
property_type = _like("logical_tensor.property_type", TensorProperty, pt_undef=0)
op_kind = _enumeration("op.kind", _kinds())
op_attr = _enumeration("op.attr", _attrs())
partition_policy = _like("partition.policy", PartitionPolicy)
fpmath_modes = _like("fpmath_mode", FpmathMode)
status = _like("status", Status)
dump_mode = _like("dump_mode", DumpMode)
cpu_isa = _like("cpu_isa", CpuIsa)
cpu_isa_hints = _like("cpu_isa_hints", CpuIsaHints)


def _holder(name: str, scopes: Mapping[str, Any], without: Iterable[str] = ()) -> Any:
    """Returns a class that holds enumerations by their C++ names, and all their enumerators."""
    members = {
        key: member
        for enumeration in scopes.values()
        for key, member in enumeration.__members__.items()
        if key not in without
    }
    return _Holder(name, (), {"__slots__": (), "__module__": _HERE, **members, **scopes})


EngineNames = _holder("EngineNames", {"kind": engine_kind})
StreamNames = _holder("StreamNames", {"flags": stream_flags})
# three enumerations have an undef; the class has the RFC's names for them
LogicalTensorNames = _holder(
    "LogicalTensorNames",
    {"data_type": data_type, "layout_type": layout_type, "property_type": property_type},
    without=("undef",),
)
OpNames = _holder("OpNames", {"kind": op_kind, "attr": op_attr})
GraphNames = _holder("GraphNames", {"fpmath_mode": fpmath_modes})
PartitionNames = _holder("PartitionNames", {"policy": partition_policy})

"""The op table against the C headers it was read from, and its own consistency."""

import re
import sys
from pathlib import Path

import pytest

from dnnl_graph_ops import dtypes, schema

HEADER = Path(sys.prefix) / "include/oneapi/dnnl/dnnl_graph_types.h"


def enumerators(text, prefix):
    """Names and values of the enumerators in order, as a C compiler counts them."""
    result, value = {}, -1
    for name, given in re.findall(rf"\b({prefix}\w+)\s*(?:=\s*(0x[0-9a-fA-F]+|\d+))?\s*,", text):
        value = int(given, 0) if given else value + 1
        result[name.removeprefix(prefix)] = value
    return result


@pytest.fixture(scope="module")
def header():
    if not HEADER.exists():
        pytest.skip("the headers of oneDNN are not installed here")
    return HEADER.read_text()


def test_every_op_kind_of_the_header_has_its_value(header):
    kinds = re.search(r"typedef enum \{([^}]*)\} dnnl_graph_op_kind_t", header).group(1)
    expected = enumerators(kinds, "dnnl_graph_op_")
    del expected["last_symbol"]
    found = {op.builder: op.value for op in schema.OPS.values() if op.since <= (3, 2)}
    assert len(expected) == 83
    assert found == expected


def test_every_attribute_of_the_header_has_its_code(header):
    names = re.search(r"typedef enum \{([^}]*)\} dnnl_graph_op_attr_t", header).group(1)
    expected = enumerators(names, "dnnl_graph_op_attr_")
    for name in ("undef", "end"):
        expected.pop(name, None)
    assert {name: schema.ATTR_CODES[name] for name in expected} == expected
    assert set(schema.ATTR_CODES) - set(expected) == {"group_shape", "accumulation_mode"}


def test_88_kinds_with_distinct_values_and_builders():
    assert sorted(op.value for op in schema.OPS.values()) == list(range(88))
    assert len(schema.BUILDERS) == 88
    assert schema.BUILDERS["batch_norm_backward"] == "BatchNormTrainingBackward"


def test_builders_have_python_names_and_no_argument_twice():
    for op in schema.OPS.values():
        names = [slot.name for slot in op.inputs] + list(op.attrs)
        assert all(name.isidentifier() for name in [op.builder, *names])
        assert len(set(names)) == len(names), op.kind


def test_dtypes_and_defaults_of_the_table_are_usable():
    for op in schema.OPS.values():
        for slot in op.inputs + op.outputs:
            assert set(slot.dtypes) <= set(dtypes.CODES), op.kind
        for attr in op.attrs.values():
            if attr.type == "string":
                assert attr.allowed, (op.kind, attr.name)
            if attr.default is not None and attr.allowed:
                assert attr.default in attr.allowed


def test_optional_slots_follow_the_required_ones():
    for op in schema.OPS.values():
        for slots in (op.inputs, op.outputs):
            required = [slot.required for slot in slots if not slot.variadic]
            assert required == sorted(required, reverse=True), op.kind

"""Dtypes that ops take and give, and versions that have them."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from dnnl_graph_ops import dtypes, schema
from dnnl_graph_ops.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("f32", "f32"),
        ("F32", "f32"),
        ("Float32", "f32"),
        (np.float32, "f32"),
        (np.dtype("float16"), "f16"),
        ("bfloat16", "bf16"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.dtype(ml_dtypes.bfloat16), "bf16"),
        (np.longlong, "s64"),
        (np.intp, "s64"),
        (bool, "boolean"),
        (np.bool_, "boolean"),
        ("bool", "boolean"),
        (ml_dtypes.float8_e4m3fn, "f8_e4m3"),
        (ml_dtypes.float8_e5m2, "f8_e5m2"),
        (ml_dtypes.int4, "s4"),
        ("uint4", "u4"),
        ("u4", "u4"),
    ],
)
def test_names_of_dtypes(given, name):
    assert dtypes.canonical(given) == name
    assert dtypes.canonical(dtypes.numpy_dtype(name)) == name


@pytest.mark.parametrize(
    "given", ["f64", "float", "<f4", "", np.float64, np.dtype(">f4"), np.uint32, ml_dtypes.float8_e4m3b11fnuz]
)
def test_dtypes_that_do_not_exist_here(given):
    with pytest.raises(InvalidArgumentError):
        dtypes.canonical(given)


@pytest.mark.parametrize("given", [float, int, None, 3, [], np.zeros(3, np.float32), object, str])
def test_no_dtypes(given):
    with pytest.raises(TypeError, match="dtype"):
        dtypes.canonical(given)


def test_sizes():
    assert [dtypes.itemsize(name) for name in ("f32", "bf16", "s64", "u4")] == [4, 2, 8, 1]
    assert dtypes.nbytes("u4", 5) == 3
    assert dtypes.nbytes("bf16", 5) == 10


def test_inputs_of_one_group_have_one_dtype():
    with pytest.raises(InvalidArgumentError, match=r"src \(f32\) and weights \(bf16\) must have the same"):
        schema.check_inputs("Convolution", ["f32", "bf16"], "conv")


def test_a_dtype_that_the_op_does_not_take():
    with pytest.raises(InvalidArgumentError, match="src has dtype s8, but ReLU takes f32, bf16, f16"):
        schema.check_inputs("ReLU", ["s8"], "relu")


@pytest.mark.parametrize(
    ("kind", "count", "wanted"),
    [
        ("ReLU", 2, "1 input "),
        ("Convolution", 1, "2 or 3"),
        ("LayerNorm", 2, "1 or 3"),
        ("Concat", 65, "1 to 64"),
    ],
)
def test_wrong_numbers_of_inputs(kind, count, wanted):
    with pytest.raises(InvalidArgumentError, match=f"takes {wanted}.*got {count}"):
        schema.check_inputs(kind, ["f32"] * count, "op")


def test_statistics_in_bf16_only_beside_bf16_data():
    schema.check_inputs("BatchNormInference", ["bf16"] * 5, "bn")
    schema.check_inputs("BatchNormInference", ["bf16"] + ["f32"] * 4, "bn")
    with pytest.raises(InvalidArgumentError, match="gamma is bf16 but src is f32"):
        schema.check_inputs("BatchNormInference", ["f32"] + ["bf16"] * 4, "bn")


@pytest.mark.parametrize(
    ("kind", "inputs", "wanted", "result"),
    [
        ("ReLU", ["bf16"], None, ("bf16",)),
        ("GreaterEqual", ["s32", "s32"], None, ("boolean",)),
        ("GenIndex", ["f32"], None, ("s32",)),
        ("Dequantize", ["u8"], None, ("f32",)),
        ("Quantize", ["f32"], "s8", ("s8",)),
        ("TypeCast", ["bf16"], "f32", ("f32",)),
        ("MatMul", ["bf16", "bf16"], None, ("bf16",)),
        ("MatMul", ["bf16", "bf16"], "f32", ("f32",)),
        ("Add", ["f32", "bf16"], "f32", ("f32",)),
        ("Add", ["bf16", "bf16"], None, ("bf16",)),
        ("SoftMax", ["bf16"], None, ("bf16", "f32")),
        ("LayerNorm", ["bf16", "f32", "f32"], None, ("bf16", "f32", "f32")),
        ("LayerNorm", ["bf16"], None, ("bf16", "f32", "f32")),
        ("DynamicDequantize", ["s8", "bf16"], None, ("bf16",)),
        ("Select", ["boolean", "f16", "f16"], None, ("f16",)),
        ("Dropout", ["f32", "s64", "s64", "f32"], None, ("f32", "u8")),
    ],
)
def test_output_dtypes(kind, inputs, wanted, result):
    assert schema.output_dtypes(kind, inputs, "op", wanted) == result


@pytest.mark.parametrize(
    ("kind", "inputs", "wanted", "message"),
    [
        ("ReLU", ["f32"], "bf16", "gives f32, not bf16"),
        ("TypeCast", ["f32"], None, "needs the dtype of its result"),
        ("TypeCast", ["f32"], "f32", "cannot turn f32 into f32"),
        ("TypeCast", ["f16"], "bf16", "cannot turn f16 into bf16"),
        ("Quantize", ["f32"], None, "needs the dtype"),
        ("Quantize", ["f32"], "f32", "gives u8, s8"),
        ("MatMul", ["f32", "f32"], "bf16", "cannot turn f32 into bf16"),
        ("Add", ["f32", "bf16"], None, r"op: src_0 \(f32\) and src_1 \(bf16\) have different dtypes"),
    ],
)
def test_output_dtypes_that_cannot_be(kind, inputs, wanted, message):
    with pytest.raises(InvalidArgumentError, match=message):
        schema.output_dtypes(kind, inputs, "op", wanted)


@pytest.mark.parametrize(
    ("kind", "inputs", "version", "attrs", "outputs", "reason"),
    [
        ("ReLU", ["f32"], (3, 2, 0), {}, ["f32"], None),
        ("GroupNorm", ["f32"], (3, 2, 0), {}, ["f32"], "needs oneDNN 3.6 or later; oneDNN 3.2 is loaded"),
        ("GroupNorm", ["f32"], (3, 6, 0), {}, ["f32"], None),
        ("Select", ["boolean", "f32", "f32"], (3, 2), {}, ["f32"], "CPU kernel for Select from 3.5"),
        ("Pow", ["f32"], (3, 13, 2), {"beta": 2.0}, ["f32"], "no version"),
        ("GELU", ["f32"], (3, 2), {"mode": "gelu_erf"}, ["f32"], None),
        ("GELU", ["f32"], (3, 2), {"mode": "gelu_tanh"}, ["f32"], "mode='gelu_tanh'.*3.9"),
        ("Add", ["s32", "s32"], (3, 8), {}, ["s32"], "src_0 of s32 needs oneDNN 3.9"),
        ("Add", ["f32", "bf16"], (3, 7), {}, ["f32"], "mixed dtypes.*3.8"),
        ("Add", ["f32", "bf16"], (3, 8), {}, ["f32"], None),
        ("MatMul", ["bf16", "bf16"], (3, 2), {}, ["f32"], "mixed dtypes"),
        ("SoftMax", ["f32"], (3, 8), {}, ["f32", "f32"], "stats.*3.9"),
        ("Quantize", ["f32"], (3, 2), {}, ["f8_e5m2"], "3.4"),
        ("DynamicDequantize", ["u4", "f32"], (3, 6), {}, ["f32"], "3.7"),
    ],
)
def test_availability(kind, inputs, version, attrs, outputs, reason):
    found = schema.availability(kind, inputs, version, attrs, outputs=outputs)
    if reason is None:
        assert found is None
    else:
        import re

        assert re.search(reason, found)


def mixtures():
    """Every two inputs of every op that must have one dtype, or that decide on the dtype of the result together."""
    for kind, op in schema.OPS.items():
        slots = [*op.inputs, *(slot for slot in op.inputs if slot.variadic)]
        inputs = {slot.group for slot in slots}
        for (i, first), (j, second) in itertools.combinations(enumerate(slots), 2):
            alike = first.group == second.group or not inputs & {slot.group for slot in op.outputs}
            if alike and {"f32", "f16"} <= {*first.dtypes} & {*second.dtypes}:
                mixed = ["f32" if not slot.dtypes or "f32" in slot.dtypes else slot.dtypes[0] for slot in slots]
                mixed[j] = "f16"
                yield kind, i, j, mixed


def test_float_dtypes_are_not_mixed_unless_the_result_is_stated():
    seen = {}
    for kind, _, j, mixed in mixtures():
        op = schema.OPS[kind]
        seen[kind] = j
        with pytest.raises(InvalidArgumentError, match=r"different dtypes|must have the same dtype") as error:
            schema.output_dtypes(kind, mixed, f"{op.builder} 'here'")
        text = str(error.value)
        assert text.startswith(f"{op.builder} 'here': ")
        assert all(word in text for word in ("(f32)", "(f16)", op.inputs[min(j, len(op.inputs) - 1)].name, "type_cast"))
    assert {"Add", "Subtract", "Multiply", "Divide", "Convolution", "MatMul", "Concat", "Select", "PReLU"} <= {*seen}
    for kind in ("Add", "Subtract", "Multiply", "Divide"):
        assert schema.output_dtypes(kind, ["f32", "f16"], "op", "f32") == ("f32",)

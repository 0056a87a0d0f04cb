"""What Inf and NaN become in every op but the (transposed) convolutions: the table of docs/nonfinite.md, read."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from reference.ops import OPAQUE, Slot, evaluate
from shapes.generate import GENERATORS, inside

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops, schema
from dnnl_graph_ops.convolution.nodes import CONV_KINDS
from dnnl_graph_ops.program import element_ops
from dnnl_graph_ops.program.post_op_errors import ALONE, LOST, worst

PAGE = Path(__file__).parents[2] / "docs" / "nonfinite.md"
HEADER = '| op | what is in | by default | with `tune="off"` |'
SPECIAL = {"NaN": np.nan, "Inf": np.inf, "-Inf": -np.inf}
KINDS = sorted(set(schema.OPS) - set(CONV_KINDS) - OPAQUE - {"End", "Dropout", "Wildcard"})
# by the operand of which each result sums a few elements: the reference multiplies all others by zero
SUMS_OF_FEW = {"Interpolate": 0, "InterpolateBackward": 1}
TRIES = (5, 20, 60)


def exceptions() -> dict[tuple[str, str, str], tuple[str, str]]:
    """By op, operand and what is in it: what becomes of it by default and with tune="off", "kept" or "lost"."""
    lines = PAGE.read_text("utf-8").splitlines()
    rows = lines[lines.index(HEADER) + 2 :]
    found = {}
    for row in rows[: rows.index("")]:
        names, what, *becomes = (cell.strip() for cell in row.strip("|").split("|"))
        value, _, operand = what.partition(" in ")
        found |= {(name, operand, value): (becomes[0], becomes[1]) for name in names.split(", ")}
    return found


def drawn(rng: np.random.Generator, meta) -> np.ndarray:
    array = np.rint(rng.standard_normal(meta.shape) * 3)
    return np.asarray(array > 0 if meta.dtype == "boolean" else np.abs(array) if meta.dtype == "u8" else array).astype(
        dtypes.numpy_dtype(meta.dtype)
    )


def agree(found: np.ndarray, wanted: np.ndarray, name: str) -> bool:
    """NaN from NaN; from infinities something that is not finite, as a sum may meet them in another order."""
    found, wanted = (np.asarray(array, np.float64) for array in (found, wanted))
    if name == "NaN":
        return bool((np.isnan(found) == np.isnan(wanted)).all())
    return bool((np.isfinite(found) == np.isfinite(wanted)).all())


def definition(node, arrays, place: int) -> list[np.ndarray]:
    slots = [Slot(value.dtype, value.shape) for value in node.outputs]
    if SUMS_OF_FEW.get(node.kind) != place:
        return evaluate(node.kind, arrays, node.attrs, slots)
    touched = np.where(np.isfinite(arrays[place]), np.float32(0), np.float32(1))
    (reached,) = evaluate(node.kind, [*arrays[:place], touched, *arrays[place + 1 :]], node.attrs, slots)
    return [np.where(reached != 0, arrays[place][~np.isfinite(arrays[place])][0], np.float32(0))]


def spoiled(case, kind: str, rng: np.random.Generator, kept) -> Iterator[tuple[int, str, list[np.ndarray]]]:
    """Arrays with one element of one operand that is not finite: the operand's place, what is in it, all arrays."""
    slots = schema.OPS[kind].inputs
    finite = inside(kind, case.attrs, [drawn(rng, meta) for meta in case.metas])
    for place, (meta, array) in enumerate(zip(case.metas, finite, strict=True)):
        if meta.dtype != "f32" or not array.size:
            continue
        at = rng.integers(array.size)
        for name, value in SPECIAL.items():
            if kept(slots[min(place, len(slots) - 1)].name, name):
                arrays = [np.array(each) for each in finite]
                arrays[place].flat[at] = value
                yield place, name, arrays


@pytest.mark.parametrize("tune", ["heuristic", "off"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_the_page_says(kind, tune, seed, amount):
    known, column = exceptions(), 0 if tune == "heuristic" else 1
    for number in range(amount(*TRIES)):
        case = GENERATORS[kind](Random(f"{seed} {kind} nonfinite {number}"))
        print(f"reproduce: --seed {seed}, case {number}\n{case}")
        graph = dgo.Graph()
        inputs = [graph.input(f"x{i}", meta.shape, meta.dtype) for i, meta in enumerate(case.metas)]
        given = {} if case.dtype is None else {"dtype": case.dtype}
        made = getattr(ops, schema.OPS[kind].builder)(*inputs, **case.attrs, **given)
        outputs = made if isinstance(made, tuple) else (made,)
        net, node = graph.compile(list(outputs), tune=tune), outputs[0].node

        def kept(operand: str, name: str) -> bool:
            return known.get((kind, operand, name), ("kept", "kept"))[column] == "kept"

        for place, name, arrays in spoiled(case, kind, np.random.default_rng([seed, number]), kept):
            try:
                wanted = definition(node, arrays, place)
            except ValueError:  # windows that the reference's rules do not make
                continue
            results = net(*arrays)
            for output, found, want in zip(
                outputs, results if isinstance(results, tuple) else (results,), wanted, strict=True
            ):
                assert output.dtype not in element_ops.FLOATS or agree(found, want, name), f"{name} in operand {place}"


HALVED = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": "NCX"}
HEADS = {
    "conv_transpose": ((1, 3, 32, 32), (3, 8, 4, 4), {**HALVED, "weights_format": "IOX"}),
    "convolution": ((1, 16, 14, 14), (8, 16, 3, 3), {**HALVED, "weights_format": "OIX"}),
    "matmul": ((4, 32, 16), (4, 16, 48), {}),
}
POST_OPS = {
    "clamp": {"min": -1.0, "max": 6.0},
    "exp": {},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "maximum": np.float32(0.5),
    "minimum": np.float32(0.5),
    "relu": {},
}


@pytest.mark.parametrize("post_op", POST_OPS)
@pytest.mark.parametrize("head", HEADS)
def test_post_ops_keep_nan(head, post_op, rng):
    shape, weights, attrs = HEADS[head]
    graph = dgo.Graph()
    x = graph.input("x", shape)
    product = getattr(ops, head)(x, rng.integers(-2, 3, weights).astype(np.float32), **attrs)
    other = POST_OPS[post_op]
    operands = [product] if isinstance(other, dict) else [product, np.full((1,) * product.ndim, other)]
    result = getattr(ops, post_op)(*operands, **(other if isinstance(other, dict) else {}))
    array = rng.integers(-2, 3, shape).astype(np.float32)
    array.flat[array.size // 2] = np.nan
    node = product.node
    (sums,) = evaluate(node.kind, [array, node.inputs[1].constant], node.attrs, [Slot("f32", product.shape)])
    assert np.isnan(graph.compile(result)(array))[np.isnan(sums)].all()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_what_runs_term_by_term_keeps_nan_in_post_ops(dtype, rng):
    graph = dgo.Graph()
    shapes = {"src": (3, 2, 7, 3, 4), "weights": (17, 2, 1, 1, 1), "bias": (17,)}
    operands = [graph.input(name, shape, dtype) for name, shape in shapes.items()]
    sums = ops.convolution(*operands, data_format="NCX", weights_format="OIX")
    arrays = [rng.integers(-2, 3, shape).astype(dtypes.numpy_dtype(dtype)) for shape in shapes.values()]
    arrays[1][3, 1] = np.inf
    arrays[0][1, 1, 2, 1, 1] = np.nan
    (want,) = evaluate("ReLU", evaluate("Convolution", arrays, sums.node.attrs, [Slot("f32", sums.shape)]), {},
                       [Slot(dtype, sums.shape)])  # fmt: skip
    found = graph.compile(ops.relu(sums), algorithm="direct")(*arrays)
    np.testing.assert_array_equal(found.astype(np.float32), want.astype(np.float32))


def test_the_page_has_what_the_library_loses():
    found = {kind for (kind, _, value), (_, off) in exceptions().items() if value == "NaN" and off == "lost"}
    losing = {key[2] for key, measured in worst().items() if key[:2] == (ALONE, "f32") and measured.nan == LOST}
    assert found > losing and found <= set(schema.OPS)

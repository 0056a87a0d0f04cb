"""Weights between all pairs of formats, as values and as views."""

from itertools import product

import numpy as np
import pytest
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo

torch = pytest.importorskip("torch", reason="the reference")

KERNEL = (2, 3, 4)
PLAIN = {
    "IOX": "IOX",
    "XOI": "XOI",
    "OIX": "OIX",
    "XIO": "XIO",
    "pytorch": "IOX",
    "onnx": "IOX",
    "keras": "XOI",
    "tensorflow": "XOI",
}
ORDINARY = {
    "OIX": "OIX",
    "XIO": "XIO",
    "IOX": "IOX",
    "XOI": "XOI",
    "pytorch": "OIX",
    "onnx": "OIX",
    "keras": "XIO",
    "tensorflow": "XIO",
    "megengine": "OIX",
}
DOCUMENTED = {f"documented_{fmt.lower()}": fmt for fmt in ("IOX", "XOI", "OIX", "XIO")}
NAMES = (*PLAIN, *DOCUMENTED, "megengine")


def laid(iox, name, groups):
    """Weights (IC, OC/groups, k...) in a named format."""
    if name in PLAIN:
        return ct.from_iox(iox, PLAIN[name])
    if name in DOCUMENTED:
        return ct.documented(iox, DOCUMENTED[name], groups)
    return iox if groups == 1 else iox.reshape(groups, iox.shape[0] // groups, *iox.shape[1:])


def laid_ordinary(oix, name, groups):
    """Weights (OC, IC/groups, k...) of a Convolution in a named format."""
    if name == "megengine" and groups > 1:
        return oix.reshape(groups, oix.shape[0] // groups, *oix.shape[1:])
    letters, rank = ORDINARY[name], oix.ndim - 2
    axes = {"O": (0,), "I": (1,), "X": range(2, rank + 2)}
    return oix.transpose([axis for letter in letters for axis in axes[letter]])


def weights(groups, rank, dtype=np.float32):
    shape = (2 * groups, 3, *KERNEL[:rank])
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("source", "target"), list(product(NAMES, NAMES)))
def test_all_pairs(source, target, rank, groups):
    iox = weights(groups, rank)
    given = np.ascontiguousarray(laid(iox, source, groups))
    found = dgo.convert_weights(given, source.upper(), target.title(), groups=groups)
    expected = laid(iox, target, groups)
    assert found.shape == expected.shape
    assert (found == expected).all()


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in product(NAMES, NAMES) if not set(pair) & set(DOCUMENTED)]
)
@pytest.mark.parametrize("groups", [1, 2])
def test_views(source, target, groups):
    given = np.ascontiguousarray(laid(weights(groups, 2), source, groups))
    found = dgo.convert_weights(given, source, target, groups=groups)
    assert np.shares_memory(found, given)
    assert (np.array(found.strides) >= 0).all()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("source", "target"), list(product(ORDINARY, ORDINARY)))
def test_all_pairs_of_convolution(source, target, rank, groups):
    """They are views all, and come back as they were."""
    oix = weights(groups, rank)
    given = np.ascontiguousarray(laid_ordinary(oix, source, groups))
    found = dgo.convert_weights(given, source.lower(), target.upper(), groups=groups, op="Convolution")
    assert np.array_equal(found, laid_ordinary(oix, target, groups))
    assert np.shares_memory(found, given)
    back = dgo.convert_weights(found, target, source, groups=groups, op="convolution")
    assert np.array_equal(back, given)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", [n for n in ORDINARY if n != "megengine"])
def test_results_of_convolution_agree(name, groups, seed):
    """The formats that the functions take, converted, give what PyTorch gives on the original."""
    rng = np.random.default_rng(seed)
    oix = rng.integers(-3, 4, (2 * groups, 3, 2, 2)).astype(np.float32)
    src = rng.integers(-3, 4, (1, 3 * groups, 4, 5)).astype(np.float32)
    converted = dgo.convert_weights(oix, "pytorch", name, groups=groups, op="convolution")
    found = dgo.convolution(src, converted, groups=groups, data_format="NCX", weights_format=ORDINARY[name])
    exact = torch.nn.functional.conv2d(torch.tensor(src), torch.tensor(oix), groups=groups)
    assert np.array_equal(found, exact.numpy())


def test_documented_groups_are_copied_without_need_never():
    given = weights(1, 2)
    assert np.shares_memory(dgo.convert_weights(given, "IOX", "documented_xoi"), given)
    grouped = weights(2, 2)
    assert np.shares_memory(dgo.convert_weights(grouped, "documented_iox", "megengine", groups=1), grouped)


@pytest.mark.sweep
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", [n for n in NAMES if n != "megengine"])
def test_results_agree(name, groups, seed):
    """The formats that the functions take, converted, give the result of the original."""
    rng = np.random.default_rng(seed)
    iox = rng.integers(-3, 4, (2 * groups, 3, 2, 2)).astype(np.float32)
    src = rng.integers(-3, 4, (1, 3, 3, 2 * groups)).astype(np.float32)
    converted = dgo.convert_weights(iox, "IOX", name, groups=groups)
    taken = {**PLAIN, **DOCUMENTED}[name]
    found = dgo.conv_transpose(src, converted, strides=2, groups=groups, weights_format=taken)
    assert np.array_equal(found, ct.forward(src, iox, strides=2, groups=groups, weights_format="IOX"))


@pytest.mark.parametrize("dtype", ["int8", "float16", "bool", "float64"])
def test_any_dtype(dtype):
    given = weights(1, 2, dtype)
    assert dgo.convert_weights(given, "IOX", "XOI").dtype == given.dtype


@pytest.mark.parametrize(
    ("arguments", "groups", "error", "words"),
    [
        ((np.zeros((2, 3, 4)), "IOX", "HWOX"), 1, dgo.InvalidArgumentError, "'target' .* got 'HWOX'"),
        ((np.zeros((2, 3, 4)), 3, "IOX"), 1, TypeError, "'source'"),
        (([[[1]]], "IOX", "XOI"), 1, TypeError, "'array' must be a NumPy array, got list"),
        ((np.zeros((2, 3)), "IOX", "XOI"), 1, dgo.ShapeError, r"got shape \(2, 3\)"),
        ((np.zeros((1,) * 6), "IOX", "XOI"), 1, dgo.ShapeError, "shape"),
        ((np.zeros((3, 3, 4)), "IOX", "XOI"), 2, dgo.ShapeError, "3 does not divide into 2 groups"),
        ((np.zeros((3, 1, 2, 4)), "megengine", "XOI"), 2, dgo.ShapeError, "is 3, but groups=2"),
        (
            (np.zeros((2, 3, 4)), "IOX", "XOI"),
            0,
            dgo.InvalidArgumentError,
            "'groups' must be at least 1, got 0",
        ),
        ((np.zeros((2, 3, 4)), "IOX", "XOI"), 1.0, TypeError, "'groups'"),
    ],
)
def test_mistakes(arguments, groups, error, words):
    with pytest.raises(error, match=words):
        dgo.convert_weights(*arguments, groups=groups)


@pytest.mark.parametrize(
    ("names", "op", "groups", "error", "words"),
    [
        (
            ("documented_iox", "OIX"),
            "convolution",
            1,
            dgo.InvalidArgumentError,
            "'source'.*of op='conv_transpose', not",
        ),
        (("OIX", "documented_xoi"), "convolution", 2, dgo.InvalidArgumentError, "'target'.* take one of OIX, XIO"),
        (("OHWI", "XIO"), "convolution", 1, dgo.InvalidArgumentError, r"'source'.* weights.transpose\(1, 2, 3, 0\)"),
        (("OIX", "XIO"), "deconvolution", 1, dgo.InvalidArgumentError, "'op' must be one of conv_transpose, convolu"),
        (("OIX", "XIO"), None, 1, TypeError, "'op'"),
        (("OIX", "XIO"), "convolution", 2, dgo.ShapeError, "axis 0 of size 3 does not divide into 2 groups"),
    ],
)
def test_mistakes_of_the_op(names, op, groups, error, words):
    with pytest.raises(error, match=words):
        dgo.convert_weights(np.zeros((3, 2, 4)), *names, groups=groups, op=op)

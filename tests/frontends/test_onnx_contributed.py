"""Operators of ONNX Runtime's own domain, of random shapes, and files that its optimizer writes, against itself."""

import contextlib
import copy

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
ort = pytest.importorskip("onnxruntime", reason="the reference")

from onnx import helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

from .models import reference  # noqa: E402
from .one_node import node, proto_of, run  # noqa: E402

MICROSOFT = "com.microsoft"
# of the largest result; of integers one unit
FLOATS, INTEGERS = 2e-5, 1.0


def own(kind, inputs, outputs="y", **attrs):
    names = ["" if name == "-" else name for name in outputs.split()]
    inputs = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, inputs, names, domain=MICROSOFT, **attrs)


class Draw:
    """Random sizes and arrays of a case: n sequences of l elements in h heads of d numbers."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.n, self.l, self.h = (self.whole(1, 4) for _ in range(3))
        self.d = 2 * self.whole(1, 4)
        self.w = self.h * self.d
        self.x = self.floats(self.n, self.l, self.w)

    def whole(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def bytes(self, dtype, *shape):
        limits = np.iinfo(dtype)
        return self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def mask(self, *shape):
        """Ones and zeros, ones at the first key."""
        return np.maximum(self.rng.integers(0, 2, shape), np.arange(shape[-1]) == 0).astype(np.int32)

    def scale(self, low=0.02, high=0.2):
        return np.array(self.rng.uniform(low, high), np.float32)


CASES = {}


def case(function):
    """Enters a function of a Draw that returns (nodes, feeds, known arrays) or several of these."""
    CASES[function.__name__] = function
    return function


@case
def gelus(d):
    feeds, bias = {"x": d.x}, {"b": d.floats(d.w)}
    for kind, attrs in (("Gelu", {}), ("QuickGelu", {}), ("QuickGelu", {"alpha": float(d.scale(0.5, 2))})):
        yield own(kind, "x", **attrs), feeds, {}
    yield own("BiasGelu", "x b"), feeds, bias
    yield own("FastGelu", "x"), feeds, {}
    yield own("FastGelu", "x b"), {**feeds, **bias}, {}


@case
def norms_of_sums(d):
    for skip in (d.floats(d.n, d.l, d.w), d.floats(1, d.l, d.w), d.floats(d.l, d.w)):
        known = {name: d.floats(d.w) for name in "geb"}
        feeds = {"x": d.x, "s": skip}
        for inputs in ("x s g", "x s g e", "x s g e b", "x s g - b"):
            some = {name: known[name] for name in known if name in inputs.split()}
            for outputs in ("y", "y - - z"):
                yield own("SkipLayerNormalization", inputs, outputs, epsilon=1e-3), feeds, some
        some = {name: known[name] for name in "gb"}
        yield own("SkipSimplifiedLayerNormalization", "x s g b", "y - - z", epsilon=1e-5), feeds, some
    yield node("SimplifiedLayerNormalization", "x g", axis=-1, epsilon=1e-5), {"x": d.x}, {"g": d.floats(d.w)}


@case
def embeddings(d):
    known = {
        "we": d.floats(9, d.w),
        "pe": d.floats(12, d.w),
        "se": d.floats(2, d.w),
        "g": d.floats(d.w),
        "b": d.floats(d.w),
    }
    ids, places = ({name: d.rng.integers(0, 9, (d.n, d.l)).astype(np.int32)} for name in ("i", "p"))
    more = {name: d.rng.integers(0, 2, (d.n, d.l)).astype(np.int32) for name in ("s", "m")}
    less = {name: array for name, array in known.items() if name != "se"}
    kind = "EmbedLayerNormalization"
    yield own(kind, "i s we pe se g b m", "y mask total", epsilon=1e-6), {**ids, **more}, known
    yield own(kind, "i - we pe - g b - p", "y mask"), {**ids, **places}, less
    yield own(kind, "i - we pe - g b", "y mask"), ids, less


@case
def fused_products(d):
    for bits in range(16):
        a, b = d.floats(2, 3, 4, 5), d.floats(2, 3, 5, 6)
        names = [name for i, name in enumerate(("transA", "transB", "transBatchA", "transBatchB")) if bits >> i & 1]
        a, b = (x.swapaxes(2, 3) if f"trans{name}" in names else x for x, name in ((a, "A"), (b, "B")))
        a, b = (np.moveaxis(x, 2, 0) if f"transBatch{name}" in names else x for x, name in ((a, "A"), (b, "B")))
        attrs = {**dict.fromkeys(names, 1), "alpha": float(d.rng.choice([1, 0.125]))}
        yield own("FusedMatMul", "a b", **attrs), {"a": a.copy(), "b": b.copy()}, {}
    yield own("FusedMatMul", "a b", transB=1), {"a": d.floats(4), "b": d.floats(5, 4)}, {}


ACTIVATIONS = {
    "Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.2], "Clip": [0.0, 6.0], "HardSigmoid": [0.2, 0.4],
}  # fmt: skip


@case
def fused_activations(d):
    weights = {"w": d.floats(3, 3, 3, 3), "b": d.floats(3)}
    feeds = {"x": d.floats(d.n, 3, 6, 7)}
    matrix = {"w": d.floats(6, 5), "b": d.floats(6)}
    for kind, numbers in ACTIVATIONS.items():
        attrs = {"activation": kind, **({"activation_params": numbers} if numbers else {})}
        yield own("FusedConv", "x w b", pads=[1] * 4, strides=[2, 1], **attrs), feeds, weights
        yield own("FusedConv", "x w b z", pads=[1] * 4, **attrs), {**feeds, "z": d.floats(d.n, 3, 6, 7)}, weights
        if kind != "Clip":
            named = dict(zip(("activation_alpha", "activation_beta"), numbers, strict=False))
            yield (
                own("FusedGemm", "x w b", activation=kind, transB=1, alpha=0.5, **named),
                {"x": d.floats(4, 5)},
                matrix,
            )


@case
def attention(d):
    known = {"W": d.floats(d.w, 3 * d.w), "B": d.floats(3 * d.w)}
    lengths = d.rng.integers(1, d.l + 1, d.n).astype(np.int32)
    masks = {"lengths": lengths, "keys": d.mask(d.n, d.l), "pairs": d.mask(d.n, d.l, d.l)}
    for way in (0, 1):
        yield own("Attention", "x W B", num_heads=d.h, unidirectional=way), {"x": d.x}, known
    for mask in masks.values():
        yield own("Attention", "x W B m", num_heads=d.h), {"x": d.x, "m": mask}, known
    yield own("Attention", "x W", num_heads=d.h, scale=0.3), {"x": d.x}, {"W": known["W"]}
    bias = d.floats(d.n, d.h, d.l, d.l)
    yield own("Attention", "x W B m - a", num_heads=d.h), {"x": d.x, "m": masks["keys"], "a": bias}, known
    yield own("Attention", "x W B", "y pr", num_heads=d.h), {"x": d.x}, known
    before = d.whole(1, 4)
    feeds = {"x": d.x, "p": d.floats(2, d.n, d.h, before, d.d), "m": d.mask(d.n, d.l + before)}
    yield own("Attention", "x W B m p", "y pr", num_heads=d.h, unidirectional=1), feeds, known
    sizes = [d.w, d.w, 2 * d.h]
    known = {"W": d.floats(d.w, sum(sizes)), "B": d.floats(sum(sizes))}
    yield own("Attention", "x W B", num_heads=d.h, qkv_hidden_sizes=sizes), {"x": d.x}, known


@case
def multi_head_attention(d):
    keys = d.whole(1, 6)
    feeds = {"x": d.x, "k": d.floats(d.n, keys, d.w), "v": d.floats(d.n, keys, d.w)}
    kind, heads = "MultiHeadAttention", {"num_heads": d.h}
    yield own(kind, "x k v", "y a b", **heads), feeds, {}
    for mask in (d.mask(d.n, keys), d.rng.integers(1, keys + 1, d.n).astype(np.int32)):
        yield own(kind, "x k v - m", **heads), {**feeds, "m": mask}, {}
    for first, second in ((d.n, d.h), (1, 1)):
        yield own(kind, "x k v - - a", scale=0.2, **heads), {**feeds, "a": d.floats(first, second, d.l, keys)}, {}
    same = {"x": d.x, "k": d.floats(d.n, d.l, d.w), "v": d.floats(d.n, d.l, d.w)}
    yield own(kind, "x k v", unidirectional=1, **heads), same, {}
    past = {name: d.floats(d.n, d.h, 3, d.d) for name in ("pk", "pv")}
    yield own(kind, "x k v - - - pk pv", "y a b", **heads), {**same, **past}, {}
    split = {name: d.floats(d.n, d.h, keys, d.d) for name in "kv"}
    yield own(kind, "x k v", **heads), {**feeds, **split}, {}


@case
def positions(d):
    waves = {"c": d.floats(16, d.d // 2), "s": d.floats(16, d.d // 2)}
    for pairs in (0, 1):
        for places in (d.rng.integers(0, 16, (d.n, d.l)), np.array([d.whole(0, 5)])):
            split = d.floats(d.n, d.h, d.l, d.d)
            yield own("RotaryEmbedding", "x p c s", interleaved=pairs), {"x": split, "p": places}, waves


@case
def integer_products(d):
    for kind in (np.int8, np.uint8):
        feeds, weights = {"x": d.floats(2, 3, 6)}, d.bytes(kind, 6, 7)
        one = {"b": weights, "s": d.scale(), "z": np.array(3, kind)}
        many = {"b": weights, "s": d.scale() * np.ones(7, np.float32), "z": d.bytes(kind, 7), "c": d.floats(7)}
        yield own("DynamicQuantizeMatMul", "x b s z"), feeds, one
        yield own("DynamicQuantizeMatMul", "x b s z c"), feeds, many
        data = {"a": d.bytes(np.uint8, 2, 3, 6), "p": np.array([0.1], np.float32), "q": np.array([9], np.uint8)}
        yield own("MatMulIntegerToFloat", "a b p s q z c"), data, many
    for block in (16, 32):
        depth, made = 16 * d.whole(2, 4), d.whole(3, 8)
        blocks = -(-depth // block)
        attrs = {"K": depth, "N": made, "bits": 4, "block_size": block}
        known = {"b": d.bytes(np.uint8, made, blocks, block // 2), "s": d.scale() * np.ones(made * blocks, np.float32)}
        feeds = {"x": d.floats(3, depth)}
        yield own("MatMulNBits", "x b s", **attrs), feeds, known
        yield (
            own("MatMulNBits", "x b s z", **attrs),
            feeds,
            {**known, "z": d.bytes(np.uint8, made * ((blocks + 1) // 2))},
        )
    known = {"W": d.bytes(np.int8, d.w, 3 * d.w), "B": d.floats(3 * d.w), "ws": np.array(0.01, np.float32),
             "wz": np.array(0, np.int8)}  # fmt: skip
    feeds = {"x": d.bytes(np.uint8, d.n, d.l, d.w), "xs": np.array(0.02, np.float32), "xz": np.array(120, np.uint8),
             "m": d.mask(d.n, d.l)}  # fmt: skip
    yield own("QAttention", "x W B xs ws m xz wz", num_heads=d.h), feeds, known


@case
def quantized(d):
    """Scales and zero points are known, or inputs."""
    for kind in (np.uint8, np.int8):
        by = {name: d.scale() for name in ("as", "bs", "ys")} | {name: d.bytes(kind) for name in ("az", "bz", "yz")}
        feeds, two = {"a": d.bytes(kind, 2, 3, 4)}, {"a": d.bytes(kind, 2, 3, 4), "b": d.bytes(kind, 2, 3, 4)}
        nodes = [
            (own("QLinearAdd", "a as az b bs bz ys yz"), two),
            (own("QLinearMul", "a as az b bs bz ys yz"), two),
            (own("QLinearConcat", "ys yz a as az b bs bz", axis=1), two),
            (own("QLinearLeakyRelu", "a as az ys yz", alpha=0.1), feeds),
            (own("QLinearSigmoid", "a as az ys yz"), feeds),
            (own("QLinearWhere", "c a as az b bs bz ys yz"), {**two, "c": d.rng.random((2, 3, 4)) < 0.5}),
        ]
        for made, data in nodes:
            known = {name: np.asarray(array) for name, array in by.items() if name in made.input}
            yield made, data, known
            yield made, {**data, **known}, {}
        weights = {"w": d.bytes(np.int8, 5, 6), "bs": d.scale(), "wz": np.array(0, np.int8),
                   "c": d.rng.integers(-99, 99, 5).astype(np.int32)}  # fmt: skip
        data = {"a": d.bytes(kind, 3, 6), "as": d.scale(), "az": np.asarray(d.bytes(kind))}
        ends = {"ys": np.array(0.9, np.float32), "yz": np.asarray(d.bytes(kind))}
        yield own("QGemm", "a as az w bs wz c ys yz", transB=1), {**data, **ends}, weights
        yield own("QGemm", "a as az w bs wz c", transB=1), data, weights


@case
def channels_last(d):
    for kind in (np.uint8, np.int8):
        by = {"as": d.scale(), "az": np.asarray(d.bytes(kind)), "ys": d.scale(1, 2), "yz": np.asarray(d.bytes(kind))}
        feeds = {"a": d.bytes(kind, d.n, 6, 5, 4)}
        window = {"kernel_shape": [2, 2], "strides": [2, 1]}
        for last in (0, 1):
            yield own("QLinearAveragePool", "a as az ys yz", channels_last=last, **window), feeds, by
            yield own("QLinearGlobalAveragePool", "a as az ys yz", channels_last=last), feeds, by
        yield own("NhwcMaxPool", "a", **window), feeds, {}
        weights = {"w": d.bytes(np.int8, 6, 4, 3, 3), "ws": d.scale() * np.ones(6, np.float32),
                   "wz": np.array(0, np.int8), "c": d.rng.integers(-99, 99, 6).astype(np.int32)}  # fmt: skip
        yield own("QLinearConv", "a as az w ws wz ys yz c", channels_last=1, pads=[1] * 4), feeds, {**by, **weights}


def check(made, feeds, known, way):
    proto = proto_of([made], feeds, known, way=way, domains=[MICROSOFT])
    feeds = {} if way == "folded" else feeds
    for name, result, want in zip(made.output, run(proto, feeds), reference(proto, feeds, literal=True), strict=False):
        assert (result.shape, result.dtype) == (want.shape, want.dtype), (made, name)
        error = np.abs(result.astype(np.float64) - want).max(initial=0)
        floats = FLOATS * max(np.abs(want).max(initial=0), 1) if want.dtype.kind == "f" else INTEGERS
        # ONNX Runtime rounds sums of integers and tanh otherwise
        assert error <= (50 if made.op_type in ("FastGelu", "QAttention") else 1) * floats, (made, error)


@pytest.mark.sweep(every=2)
@pytest.mark.cases(1, 3, 50, each=1)
@pytest.mark.parametrize("way", ["sizes", "symbolic"])
@pytest.mark.parametrize("name", CASES)
def test_operators(name, way, start, seed):
    d = Draw((seed, start))
    print(f"--seed={seed}, case {start}")
    for made, feeds, known in CASES[name](d):
        check(made, feeds, known, way)


def broken(rng, made, feeds, known):
    """Changes a node, or the shape or the dtype of what it reads."""
    way = rng.integers(0, 5)
    if way == 0 and made.attribute:
        attr = made.attribute[rng.integers(0, len(made.attribute))]
        attr.i, attr.f = int(rng.choice([0, -1, 1, 2, 2**40])), float(rng.choice([0, -1, np.nan, np.inf]))
        del attr.ints[: int(rng.integers(0, 2))]
    elif way == 1:
        made.input[rng.integers(0, len(made.input))] = rng.choice(["", made.input[0], made.input[-1]])
    elif way == 2:
        del made.input[rng.integers(0, len(made.input)) :]
    elif way == 3:
        made.output.append(f"o{len(made.output)}")
    else:
        arrays = known if known and rng.random() < 0.5 else feeds
        name = rng.choice(list(arrays))
        kind = rng.choice(["float32", "int64", "uint8", "float64"])
        array = arrays[name]
        arrays[name] = [array.reshape(-1), array[None], array.astype(kind), array.reshape(-1)[:0]][rng.integers(0, 4)]


@pytest.mark.cases(20, 200, 2000, each=20)
def test_broken_nodes_raise_errors_of_the_package(start, seed):
    whole = [one for function in CASES.values() for one in function(Draw(3))]
    for number in range(start, start + 20):
        rng = np.random.default_rng((seed, number))
        made, feeds, known = copy.deepcopy(whole[rng.integers(0, len(whole))])
        for _ in range(rng.integers(1, 3)):
            if made.input:
                broken(rng, made, feeds, known)
        print(f"--seed={seed}, case {number}: {made.op_type}")
        way, outputs = rng.choice(["sizes", "symbolic", "folded"]), [name for name in made.output if name]
        proto = proto_of([made], feeds, known, way=way, domains=[MICROSOFT], outputs=outputs)
        with contextlib.suppress(dgo.Error):
            net = dgo.from_onnx(proto).compile()
            net.run({name: feeds[name] for name in net.input_names})


@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_statistics_of_norms(kind, rng):
    """ONNX Runtime computes none on CPUs; files name them all the same."""
    x, skip = (rng.standard_normal((2, 3, 8)).astype(np.float32) for _ in range(2))
    made, feeds = own(kind, "x s g", "y m i", epsilon=1e-3), {"x": x, "s": skip}
    proto = proto_of([made], feeds, {"g": np.ones(8, np.float32)}, domains=[MICROSOFT])
    _, mean, inverse = run(proto, feeds)
    total = x.astype(np.float64) + skip
    wanted = total.mean(-1, keepdims=True)
    np.testing.assert_allclose(mean, wanted, atol=1e-6)
    centred = total if "Simplified" in kind else total - wanted
    np.testing.assert_allclose(inverse, (np.square(centred).mean(-1, keepdims=True) + 1e-3) ** -0.5, rtol=1e-5)


def test_masks_of_ends_and_begins(seed):
    """Of a known number of sequences."""
    d = Draw(seed)
    ends = d.rng.integers(1, d.l + 1, d.n)
    known = {"W": d.floats(d.w, 3 * d.w), "m": np.concatenate([ends, d.rng.integers(0, ends)]).astype(np.int32)}
    check(own("Attention", "x W - m", num_heads=d.h), {"x": d.x}, known, "sizes")


def test_quantized_operators_in_branches(rng):
    """A subgraph's operators are replaced as well."""
    add = own("QLinearAdd", "a s z a s z s z", "t")
    then = helper.make_graph([add], "then", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([node("Identity", "a", "e")], "other", [], [onnx.ValueInfoProto(name="e")])
    known = {"s": np.array(0.1, np.float32), "z": np.array(7, np.uint8)}
    for condition in (True, False):
        feeds = {"a": rng.integers(0, 256, (2, 3)).astype(np.uint8), "c": np.array(condition)}
        proto = proto_of([node("If", "c", then_branch=then, else_branch=other)], feeds, known, domains=[MICROSOFT])
        (result,), (wanted,) = run(proto, feeds), reference(proto, feeds, literal=True)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (own("GroupQueryAttention", "x x x"), "no op for com.microsoft.GroupQueryAttention, which ONNX Runtime alone"),
        (node("SimplifiedLayerNormalization", "x g", "y m"), "its output 'inv_std_var'"),
        (own("Attention", "x g", num_heads=1, do_rotary=1), "do_rotary=1, only 0"),
        (own("MultiHeadAttention", "x", num_heads=1), "queries, keys and values in one tensor"),
        (node("Multinomial", "x"), "random numbers"),
    ],
)
def test_the_rest_is_refused_by_name(made, message):
    feeds = {"x": np.ones((2, 3), np.float32)}
    proto = proto_of([made], feeds, {"g": np.ones((3, 3), np.float32)}, domains=[MICROSOFT])
    with pytest.raises(dgo.UnsupportedError, match=message):
        dgo.from_onnx(proto)

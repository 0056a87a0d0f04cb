"""Quantized convolutions by own products of integers, as whole graphs, against NumPy's integers and its f32."""

import numpy as np
import pytest
from bindings.emulated import needs_emulated_sets
from children import child
from reference import conv_transpose as ct
from reference import convolution as conv

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import integers, partition
from dnnl_graph_ops.algorithms.table import ALGORITHMS
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.onednn import exact_int8
from dnnl_graph_ops.runtime import cpu

SETS = ("amxint8", "avx512vnni", "avxvnni", "avx2words", "emulatedint8tiles", "emulatedint8")
OWN = {a.name for a in ALGORITHMS if a.on_integers} - {partition.NAME}
EACH = 40
RANGES = {"s8": (-128, 127), "u8": (0, 255)}
BUILD = {"Convolution": ops.convolution, "ConvTranspose": ops.conv_transpose}
BOUND = {
    "": (lambda v: v, lambda v: v),
    "relu": (ops.relu, lambda v: np.maximum(v, np.float32(0))),
    "clamp": (lambda v: ops.clamp(v, min=-1.5, max=2.5), lambda v: np.clip(v, np.float32(-1.5), np.float32(2.5))),
}
TRUTH = {"Convolution": conv.forward, "ConvTranspose": ct.forward}


def quantity(rng, dtype, shape):
    low, high = RANGES[dtype]
    return rng.integers(low, high + 1, shape).astype(dgo.dtypes.numpy_dtype(dtype))


def point(rng, dtype):
    return int(rng.integers(*RANGES[dtype], endpoint=True))


class Layer:
    """A random quantized layer, or a dilated one of stride 1: a graph and what it computes."""

    def __init__(self, rng, dilated=False):
        self.kind = str(rng.choice(list(BUILD)))
        rank, self.groups = int(rng.choice([1, 2, 2, 3])), int(rng.choice([1, 1, 2]))
        self.src, self.dst = (str(rng.choice(["s8", "u8"])) for _ in range(2))
        self.weights = str(rng.choice(["s8", "s8", "u8"]))
        inner, outer = (int(rng.choice([3, 8, 16, 20, 33])) for _ in range(2))
        taps = tuple(int(n) for n in rng.integers(1, 5, rank))
        self.spatial = tuple(int(n) for n in rng.integers(4, 9, rank))
        self.channels = inner * self.groups, outer * self.groups
        dilations = [int(rng.choice([1, 1, 2])) if k < 3 else 1 for k in taps]
        self.attrs = {
            "strides": [int(n) for n in rng.integers(1, 4, rank)],
            "dilations": dilations,
            "pads_begin": [int(rng.integers(0, k)) for k in taps],
            "pads_end": [int(rng.integers(0, k)) for k in taps],
            "groups": self.groups,
        }
        if dilated:
            wide = [int(rng.integers(1, 4)) for _ in taps]
            pads = [d * (k - 1) for d, k in zip(wide, taps, strict=True)]
            self.attrs |= {"strides": [1] * rank, "dilations": wide, "pads_begin": pads}
            self.attrs["pads_end"] = [pad // 2 for pad in pads]
        self.data_format = str(rng.choice(["NCX", "NXC"]))
        transposed = self.kind == "ConvTranspose"
        self.weights_format = "IOX" if transposed else "OIX"
        shape = (inner * self.groups, outer, *taps) if transposed else (outer * self.groups, inner, *taps)
        zeros = rng.choice([0, 1, 2], p=[0.3, 0.3, 0.4])  # none, one, one for each channel
        self.w = quantity(rng, self.weights, shape)
        self.axis = 1 if transposed else 0
        count = shape[self.axis] if rng.random() < 0.5 else 1
        self.w_zeros = [point(rng, self.weights) if zeros else 0] * count
        if zeros == 2:
            self.w_zeros = [point(rng, self.weights) for _ in range(count)]
        self.w_scales = np.exp(rng.uniform(-7, -2, count)).astype(np.float32)
        self.x_zero, self.y_zero = point(rng, self.src), point(rng, self.dst)
        self.of_call = bool(rng.random() < 0.3)
        self.x_scale, self.y_scale = (np.float32(np.exp(rng.uniform(-3, 2))) for _ in range(2))
        self.bias = rng.standard_normal(self.channels[1]).astype(np.float32) if rng.random() < 0.5 else None
        self.tail = str(rng.choice(["", "relu", "add", "clamp", "add, relu"]))
        self.rounds = bool(rng.random() < 0.8)
        self.adds = self.rounds and bool(rng.random() < 0.4)
        n = int(rng.integers(1, 3))
        last = self.data_format == "NXC"
        shape = (n, *self.spatial, self.channels[0]) if last else (n, self.channels[0], *self.spatial)
        self.x = quantity(rng, self.src, shape)
        self.sums = self._sums()
        self.beside = rng.standard_normal(self.sums.shape).astype(np.float32)
        self.residual = quantity(rng, str(rng.choice(["s8", "u8"])), self.sums.shape)
        self.r_scale, self.sum_scale = (np.float32(np.exp(rng.uniform(-3, 2))) for _ in range(2))
        self.r_zero = point(rng, dgo.dtypes.canonical(self.residual.dtype))
        self.sum_zero = point(rng, self.src)
        self.bound = str(rng.choice(["", "relu", "clamp"]))

    def graph(self):
        graph = dgo.Graph()
        x = graph.input("x", self.x.shape, self.src)
        per_channel = {"qtype": "per_channel", "axis": self.axis} if len(self.w_scales) > 1 else {}
        wide = ops.dequantize(
            graph.constant(self.w), scales=list(map(float, self.w_scales)), zps=self.w_zeros, **per_channel
        )
        bias = [] if self.bias is None else [graph.constant(self.bias)]
        if self.of_call:
            src = ops.dynamic_dequantize(x, graph.input("scale", (1,)), graph.input("zero", (1,), self.src))
        else:
            src = ops.dequantize(x, scales=[float(self.x_scale)], zps=[self.x_zero])
        y = BUILD[self.kind](
            src, wide, *bias,
            data_format=self.data_format, weights_format=self.weights_format, **self.attrs,
        )  # fmt: skip
        if self.tail == "relu":
            y = ops.relu(y)
        elif self.tail == "clamp":
            y = ops.clamp(y, min=-1.5, max=2.5)
        elif self.tail.startswith("add"):
            y = ops.add(y, graph.input("beside", self.beside.shape, "f32"))
            y = ops.relu(y) if self.tail == "add, relu" else y
        if self.rounds:
            y = ops.quantize(y, scales=[float(self.y_scale)], zps=[self.y_zero], dtype=self.dst)
        return graph, self._with_sum(graph, y) if self.adds else y

    def _with_sum(self, graph, y):
        residual = graph.input("residual", self.residual.shape, dgo.dtypes.canonical(self.residual.dtype))
        floats = [
            ops.dequantize(y, scales=[float(self.y_scale)], zps=[self.y_zero]),
            ops.dequantize(residual, scales=[float(self.r_scale)], zps=[self.r_zero]),
        ]
        y = BOUND[self.bound][0](ops.add(*floats[:: 1 if self.r_zero % 2 else -1]))
        return ops.quantize(y, scales=[float(self.sum_scale)], zps=[self.sum_zero], dtype=self.src)

    def _sums(self):
        sides = [-1 if axis == self.axis else 1 for axis in range(self.w.ndim)]
        centred = self.w.astype(np.float64) - np.reshape(self.w_zeros, sides)
        return TRUTH[self.kind](
            self.x.astype(np.float64) - self.x_zero, centred, data_format=self.data_format,
            weights_format=self.weights_format, **self.attrs,
        )  # fmt: skip

    def _along(self, vector):
        return vector if self.data_format == "NXC" else vector.reshape(-1, *[1] * len(self.spatial))

    def truth(self):
        scales = self.w_scales * self.x_scale
        scales = np.tile(scales, self.channels[1] // len(scales))
        y = self.sums.astype(np.float32) * self._along(scales)
        if self.bias is not None:
            y = y + self._along(self.bias)
        if self.tail == "relu":
            y = np.maximum(y, np.float32(0))
        elif self.tail == "clamp":
            y = np.clip(y, np.float32(-1.5), np.float32(2.5))
        elif self.tail.startswith("add"):
            y = y + self.beside
            y = np.maximum(y, np.float32(0)) if self.tail == "add, relu" else y
        if not self.rounds:
            return y, y
        whole, quotients = _rounded(y, self.y_scale, self.y_zero, self.dst)
        if not self.adds:
            return whole, quotients
        floats = (whole.astype(np.float32) - self.y_zero) * self.y_scale
        floats = floats + (self.residual.astype(np.float32) - self.r_zero) * self.r_scale
        return _rounded(BOUND[self.bound][1](floats), self.sum_scale, self.sum_zero, self.src)

    @property
    def step(self):
        """How far results of floats are from quotients: a step of the integers that a residual is added to is more."""
        return self.rounds * 0.5 + self.adds * float(self.y_scale / self.sum_scale)


def _rounded(values, scale, zero, dtype):
    """Returns integers and quotients, both within the dtype."""
    quotients = values / scale
    whole = np.clip(np.rint(quotients) + zero, *RANGES[dtype])
    return whole.astype(dgo.dtypes.numpy_dtype(dtype)), np.clip(quotients + zero, *RANGES[dtype])


def check(rng, dilated=False):
    """Runs a layer by each algorithm on integers, and by one in floats; returns the former's names."""
    layer = Layer(rng, dilated)
    graph, y = layer.graph()
    net = graph.compile(y)
    zero = np.array([layer.x_zero], layer.x.dtype)
    feeds = {
        "x": layer.x,
        "beside": layer.beside,
        "residual": layer.residual,
        "scale": layer.x_scale.reshape(1),
        "zero": zero,
    }
    feeds = {value.name: feeds[value.name] for value in net.inputs}
    (head,) = (node.name for node in graph.nodes if node.kind == layer.kind)
    names = [info.name for info in net.algorithms(head)]
    own = [name for name in names if name in OWN]
    expected, quotients = layer.truth()
    for name in own:
        got = graph.compile(y, algorithms={head: name}).run(feeds, {y.name: unlike(expected)})[y.name]
        np.testing.assert_array_equal(got, expected, name)
    floats = [name for name in names if name not in OWN]
    if own and floats:
        name = str(rng.choice(floats))
        got = graph.compile(y, algorithms={head: name}).run(feeds, {y.name: unlike(expected)})[y.name]
        error = np.abs(got - quotients.astype(np.float64)).max()
        assert error <= layer.step + 1e-4 * np.abs(quotients).max(), name
    return own


def unlike(expected):
    """Returns an array to write to, of what no result is."""
    return np.full_like(expected, np.nan) if expected.dtype == np.float32 else ~expected


def exact(seed, start, dilated=False):
    """Checks EACH layers: how many were own."""
    count = 0
    for number in range(start, start + EACH):
        print(f"--seed={seed} number {number}")
        count += bool(check(np.random.default_rng([seed, number]), dilated))
    return count


def refusal(isa):
    try:
        kernels.int8_layout(16, 5, isa)
    except dgo.RuntimeUnavailableError as error:
        return str(error)
    return ""


@pytest.mark.child
@pytest.mark.cases(40, 40, 400, each=EACH)
@pytest.mark.parametrize("isa", [*SETS, "dilated"])
def test_every_algorithm_on_integers_is_exact(isa, seed, start):
    """`dilated`: words, which may run by Winograd."""
    dilated, isa = isa == "dilated", isa if isa in SETS else "avx2words"
    if refusal(isa):
        pytest.skip(refusal(isa))
    code = f"""
from backends.test_int8_nets import exact
print("own", exact({seed}, {start}, {dilated}))"""
    done = child("-c", code, ONEDNN_MAX_CPU_ISA="AVX2", DNNL_GRAPH_OPS_INT8=isa)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    # others have too few channels for whole vectors
    assert int(done.stdout.split()[-1]) > EACH // 2


@needs_emulated_sets
@pytest.mark.child
def test_few_channels_are_not_multiplied_in_tiles(seed):
    # the emulated sets stand for those of a CPU with tiles
    code = f"""
from dnnl_graph_ops.algorithms import integers
integers._TILES, integers._WITHOUT_TILES = "emulatedint8tiles", "emulatedint8"
from backends import test_int8_nets as cases
print(cases.exact({seed}, 0), [integers.set_for("emulatedint8tiles", depth) for depth in (15, 16)])
"""
    done = child("-c", code, ONEDNN_MAX_CPU_ISA="AVX2", DNNL_GRAPH_OPS_INT8="emulatedint8tiles")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert "['emulatedint8', 'emulatedint8tiles']" in done.stdout


def compiled(graph, *outputs):
    net = graph.compile(outputs)
    return net, [part.formulation for part in net.explain().partitions]


def layer_of(graph, x, zero=3, **attrs):
    rng = np.random.default_rng(0)
    w = graph.constant(quantity(rng, "s8", (16, 16, 3, 3)))
    wide = ops.dequantize(w, scales=[0.01], zps=[zero])
    return ops.convolution(x, wide, pads_begin=1, pads_end=1, data_format="NCX", weights_format="OIX", **attrs)


@pytest.mark.choice
def test_a_dequantize_that_others_read_is_made_again_for_the_convolution():
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 16, 6, 6), "u8"), scales=[0.5], zps=[1])
    y = ops.quantize(ops.add(layer_of(graph, x), x), scales=[0.1], zps=[7], dtype="u8")
    net, forms = compiled(graph, y, x)
    assert OWN.intersection(forms)
    data = np.random.default_rng(1).integers(0, 256, (1, 16, 6, 6)).astype(np.uint8)
    quantized, wide = (net.run({"x": data})[value.name] for value in (y, x))
    np.testing.assert_array_equal(wide, (data.astype(np.float32) - 1) * np.float32(0.5))
    w = quantity(np.random.default_rng(0), "s8", (16, 16, 3, 3)).astype(np.float64) - 3
    sums = conv.forward(data - 1.0, w, data_format="NCX", weights_format="OIX", pads_begin=1, pads_end=1)
    f32 = sums.astype(np.float32) * (np.float32(0.5) * np.float32(0.01)) + wide
    np.testing.assert_array_equal(quantized, np.clip(np.rint(f32 / np.float32(0.1) + np.float32(7)), 0, 255))


@pytest.mark.choice
def test_what_has_too_many_terms_or_is_not_asked_for_runs_as_before():
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 16, 6, 6), "u8"), scales=[0.5])
    assert OWN.intersection(compiled(graph, layer_of(graph, x))[1])
    plain = graph.compile(layer_of(graph, x), tune="off")
    assert all(part.formulation not in OWN for part in plain.explain().partitions)
    deep = ops.dequantize(graph.input("deep", (1, 33100, 1), "u8"), scales=[0.5])
    w = ops.dequantize(graph.constant(np.ones((16, 33100, 1), np.int8)), scales=[1.0], zps=[1])
    assert OWN.isdisjoint(compiled(graph, ops.convolution(deep, w, data_format="NCX", weights_format="OIX"))[1])


def test_a_layer_of_one_position_sums_its_channels_alone_whatever_the_kernel():
    channels, graph = 33000, dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 1, 1, channels), "u8"), scales=[1.0])
    w = ops.dequantize(graph.constant(np.full((channels, 4, 2, 2), -128, np.int8)), scales=[1.0], zps=[127])
    y = ops.conv_transpose(x, w, name="c", data_format="NXC", weights_format="IOX", strides=[1, 1])
    net = graph.compile(y, algorithms={"c": "builtin integer"})
    result = net(np.full((1, 1, 1, channels), 255, np.uint8))
    assert (result == np.float32(-(255**2) * channels)).all(), "the lowest sum, close to that of 32 bits"


@pytest.mark.choice
def test_integers_are_joined_as_integers(seed):
    """A part with the scale and zero point of the whole is written where it belongs; another is rounded alone."""
    graph, rng = dgo.Graph(), np.random.default_rng(seed)
    same, other = (graph.input(name, (1, 16, 6, 6), "s8") for name in ("same", "other"))
    wide = [ops.dequantize(same, scales=[0.3], zps=[5]), ops.dequantize(other, scales=[0.7], zps=[-9])]
    joined = ops.quantize(ops.concat(*wide, axis=1), scales=[0.3], zps=[5], dtype="s8")
    pooled = ops.quantize(
        ops.max_pool(wide[0], strides=[2, 2], kernel=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], data_format="NCX"),
        scales=[0.3], zps=[5], dtype="s8",
    )  # fmt: skip
    net = graph.compile([joined, pooled])
    by_kinds = {part.kinds: part for part in net.explain().partitions}
    assert by_kinds[("Concat",)].compute_dtype == "s8"
    assert ("Dequantize", "MaxPool", "Quantize") in by_kinds, "the library pools integers"
    given = {"same": quantity(rng, "s8", same.shape), "other": quantity(rng, "s8", other.shape)}
    got = net.run(given)
    floats = (given["other"].astype(np.float32) + np.float32(9)) * np.float32(0.7)
    rounded = np.clip(np.rint(floats / np.float32(0.3) + np.float32(5)), -128, 127)
    assert (got[joined.name][:, :16] == given["same"]).all()
    assert np.abs(got[joined.name][:, 16:] - rounded).max() <= 1, "oneDNN multiplies by the inverse of a scale"
    windows = given["same"].reshape(1, 16, 3, 2, 3, 2)
    np.testing.assert_array_equal(got[pooled.name], windows.max((3, 5)))


def test_a_join_that_others_read_stays(seed):
    graph, rng = dgo.Graph(), np.random.default_rng(seed)
    parts = [graph.input(name, (1, 16, 4, 4), "u8") for name in "ab"]
    joined = ops.concat(*(ops.dequantize(part, scales=[0.5]) for part in parts), axis=1)
    whole = ops.quantize(joined, scales=[0.5], dtype="u8")
    net = graph.compile([joined, whole])
    data = {part.name: quantity(rng, "u8", part.shape) for part in parts}
    got, expected = net.run(data), np.concatenate([data["a"], data["b"]], 1)
    np.testing.assert_array_equal(got[whole.name], expected)
    np.testing.assert_array_equal(got[joined.name], expected * np.float32(0.5))


@pytest.mark.choice
@pytest.mark.parametrize("returned", [False, True])
def test_a_sum_runs_with_its_convolution(seed, returned):
    """The step has the same bits as others; it is none where the net returns what is added."""
    graph, rng = dgo.Graph(), np.random.default_rng(seed)
    x = graph.input("x", (1, 16, 6, 6), "u8")
    inner = ops.quantize(layer_of(graph, ops.dequantize(x, scales=[0.5]), zero=0), scales=[0.3], zps=[7], dtype="u8")
    floats = ops.dequantize(inner, scales=[0.3], zps=[7])
    y = ops.relu(ops.add(floats, ops.dequantize(x, scales=[0.5])))
    y = ops.quantize(y, scales=[0.4], zps=[0], dtype="u8")
    net = graph.compile([y, *([inner] if returned else [])])
    kinds = [part.kinds for part in net.explain().partitions]
    sums = [set(some) >= {"Convolution", "Add"} for some in kinds]
    env = Env(dgo.engine("cpu"), 1)
    if not exact_int8.table(env.engine.runtime.cpu_runtime, env.release, cpu.isa(env.engine)).exact:
        # the library may compute the convolution where it was tried
        assert any(sums) != returned
    data = quantity(rng, "u8", x.shape)
    expected = graph.compile([y], tune="off").run({"x": data})[y.name]
    assert np.abs(net.run({"x": data})[y.name].astype(int) - expected).max() <= 1


@pytest.mark.choice
def test_what_the_library_partitions_exactly_is_weighed():
    """It multiplies integers faster than floats on this CPU and by these constants, and was tried: it is exact."""
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 16, 6, 6), "u8"), scales=[0.5], zps=[3])
    y = ops.quantize(ops.relu(layer_of(graph, x, zero=0)), scales=[0.25], zps=[2], dtype="u8")
    env = Env(dgo.engine("cpu"), 1)
    # ReLU is one of those post-ops that were tried everywhere; nothing is known of a CPU that nobody tried
    tried = exact_int8.table(env.engine.runtime.cpu_runtime, env.release, cpu.isa(env.engine)).exact
    (head,) = (node.name for node in graph.nodes if node.kind == "Convolution")
    net = graph.compile(y)
    names = {info.name for info in net.algorithms(head)}
    assert (partition.NAME in names) == bool(env.has_int8_products and tried)
    data = np.random.default_rng(1).integers(0, 256, x.shape).astype(np.uint8)
    for name in names & {*OWN, partition.NAME}:
        chosen = graph.compile(y, algorithms={head: name})
        assert [part.formulation for part in chosen.explain().partitions] == [name]
        np.testing.assert_array_equal(chosen(data), net(data))


def test_sizes_that_vary_share_packed_weights(seed):
    graph = dgo.Graph()
    x = ops.dequantize(graph.input("x", (1, 16, None, 6), "s8"), scales=[0.5], zps=[-3])
    net = graph.compile(ops.quantize(layer_of(graph, x), scales=[0.25], zps=[2], dtype="s8"))
    w = quantity(np.random.default_rng(0), "s8", (16, 16, 3, 3)).astype(np.float64) - 3
    for size in (5, 9, 14):
        data = quantity(np.random.default_rng([seed, size]), "s8", (1, 16, size, 6))
        sums = conv.forward(data + 3.0, w, data_format="NCX", weights_format="OIX", pads_begin=1, pads_end=1)
        f32 = sums.astype(np.float32) * (np.float32(0.5) * np.float32(0.01))
        np.testing.assert_array_equal(net(data), np.clip(np.rint(f32 * np.float32(4) + np.float32(2)), -128, 127))


@pytest.mark.child
def test_none_leaves_integers_to_the_library_and_to_floats():
    code = (
        "from dnnl_graph_ops._core import kernels\nfrom backends.test_int8_nets import exact\nassert exact(0, 0) == 0"
    )
    done = child("-c", code, ONEDNN_MAX_CPU_ISA="AVX2", DNNL_GRAPH_OPS_INT8="none")
    assert done.returncode == 0, done.stderr[-3000:]


def scaled_by_the_call(seed):
    """Checks a layer whose source has its scale and zero point at the call; returns its algorithms."""
    rng, graph = np.random.default_rng(seed), dgo.Graph()
    x, w = quantity(rng, "u8", (2, 9, 10, 32)), quantity(rng, "s8", (24, 32, 3, 3))
    scale, point = graph.input("scale", (1,)), graph.input("point", (1,), "u8")
    wide = ops.dequantize(graph.constant(w), scales=[0.25], zps=[7])
    attrs = {"pads_begin": 1, "pads_end": 1, "data_format": "NXC", "weights_format": "OIX"}
    y = ops.convolution(ops.dynamic_dequantize(graph.input("x", x.shape, "u8"), scale, point), wide, **attrs)
    net, forms = compiled(graph, y)
    got = net.run({"x": x, "scale": np.float32([0.5]), "point": np.uint8([200])})[y.name]
    sums = conv.forward(x - 200.0, w - 7.0, **attrs)
    np.testing.assert_array_equal(got, sums.astype(np.float32) / 8)
    return forms


@pytest.mark.child
def test_words_whose_scale_the_call_tells_are_filtered(seed):
    code = f"from backends.test_int8_nets import scaled_by_the_call\nprint(scaled_by_the_call({seed}))"
    done = child("-c", code, ONEDNN_MAX_CPU_ISA="AVX2", DNNL_GRAPH_OPS_INT8="avx2words")
    assert done.returncode == 0, done.stderr[-3000:]
    assert integers.FILTERING in done.stdout


def many_channels(zeros):
    """The algorithms of 3x3 layers of 1000 channels with weights of 127, one for each zero point."""
    graph, w = dgo.Graph(), np.full((32, 1000, 3, 3), 127, np.int8)
    x = ops.dequantize(graph.input("x", (1, 8, 8, 1000), "u8"), scales=[0.5])
    attrs = {"pads_begin": 1, "pads_end": 1, "data_format": "NXC", "weights_format": "OIX"}
    wide = [ops.dequantize(graph.constant(w), scales=[0.5], zps=[zero]) for zero in zeros]
    return compiled(graph, *(ops.convolution(x, weights, **attrs) for weights in wide))[1]


@pytest.mark.child
def test_sums_that_exceed_32_bits_in_tiles_are_not_filtered():
    code = "from backends.test_int8_nets import many_channels\nprint(*map(many_channels, ([0], [-128], [100])))"
    done = child("-c", code, ONEDNN_MAX_CPU_ISA="AVX2", DNNL_GRAPH_OPS_INT8="avx2words")
    assert done.returncode == 0, done.stderr[-3000:]
    assert [integers.FILTERING in part for part in done.stdout.split("] [")] == [True, False, True]

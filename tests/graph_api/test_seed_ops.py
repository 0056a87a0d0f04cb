"""The transposed convolution and its two gradients by these objects: each attribute of their pages, or what says no."""

import numpy as np
import pytest
from reference import conv_transpose as truth
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import op

from .common import LT, RUNTIMES, cpu, run, runtime_or_skip, single, strided

KINDS = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
BUILDERS = {
    "ConvTranspose": "conv_transpose",
    "ConvTransposeBackwardData": "conv_transpose_backward_data",
    "ConvTransposeBackwardWeights": "conv_transpose_backward_weights",
}
CASES = {
    "plain": {},
    "strided": {"strides": 2},
    "padded": {"strides": 2, "pads_begin": 1, "pads_end": 1},
    "uneven pads": {"strides": 2, "pads_begin": 1, "pads_end": 0},
    "stride 3": {"strides": 3, "pads_begin": 1, "pads_end": 1},
    "dilated": {"dilations": 2},
    "dilated and strided": {"dilations": 3, "strides": 2, "pads_begin": 1, "pads_end": 1},
    "output padding": {"strides": 2, "pads_begin": 1, "pads_end": 1, "output_padding": 1},
    "groups": {"strides": 2, "groups": 2},
    "depthwise": {"strides": 2, "groups": 4},
    "SAME_UPPER": {"strides": 2, "auto_pad": "SAME_UPPER"},
    "SAME_LOWER": {"strides": 2, "auto_pad": "SAME_LOWER"},
    "same at stride 1": {"auto_pad": "SAME_UPPER"},
    "VALID": {"strides": 2, "auto_pad": "VALID", "pads_begin": 5, "pads_end": 5},
    "kernel below stride": {"strides": 5},
    "output padding of a stride": {"output_padding": 1},
}
REQUIRED = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0}
BATCH, CHANNELS, KERNEL = 2, 4, 3


class Problem:
    """Shapes x, w, y of a case, and the op of a kind on them."""

    def __init__(self, case, rank, data_format, weights_format, rng, dtype="f32"):
        self.attrs = dict(case)
        self.formats = {"data_format": data_format, "weights_format": weights_format}
        self.dtype, self.rank = dtype, rank
        spatial = (5, 4, 3)[:rank]
        x = integers(rng, (BATCH, CHANNELS, *spatial), dtype, 2)
        w = integers(rng, (CHANNELS, CHANNELS // case.get("groups", 1), *(KERNEL,) * rank), dtype, 2)
        self.x = np.ascontiguousarray(truth.from_channels_first(x, data_format))
        self.w = np.ascontiguousarray(truth.from_iox(w, weights_format))
        y = truth.forward(self.x, self.w, **self.attrs, **self.formats)
        self.y = integers(rng, y.shape, dtype, 2)

    def expected(self, kind):
        if kind == KINDS[0]:
            return truth.forward(self.x, self.w, **self.attrs, **self.formats)
        if kind == KINDS[1]:
            return truth.backward_data(self.y, self.w, src_spatial=self.spatial(self.x), **self.attrs, **self.formats)
        kernel = (KERNEL,) * self.rank
        return truth.backward_weights(self.x, self.y, kernel, **self.attrs, **self.formats)

    def spatial(self, array):
        return array.shape[2:] if self.formats["data_format"] == "NCX" else array.shape[1:-1]

    def tensors(self, kind):
        arrays = {"ConvTranspose": "xwy", KINDS[1]: "ywx", KINDS[2]: "xyw"}[kind]
        dtype = LT.data_type[self.dtype]
        lts = [strided(i, getattr(self, name).shape, dtype) for i, name in enumerate(arrays)]
        return lts[:2], lts[2:], {i: getattr(self, name) for i, name in enumerate(arrays[:2])}

    def op(self, kind):
        inputs, outputs, _ = self.tensors(kind)
        o = op(0, op.kind[kind], inputs, outputs, "seed")
        for name, value in (REQUIRED | self.attrs).items():
            per_axis = name not in ("groups", "auto_pad")
            o.set_attr(op.attr[name], [value] * self.rank if per_axis else value)
        for name, value in self.formats.items():
            o.set_attr(op.attr[name], value)
        return o


def refused_by_attributes(kind, attrs):
    """What the library is known to refuse or to compute wrong whatever the shapes."""
    if kind == KINDS[0]:
        return attrs.get("output_padding", 0) >= attrs.get("strides", 1)
    if kind == KINDS[1]:
        return attrs.get("dilations", 1) != 1
    return kind == KINDS[2] and attrs.get("auto_pad", "None").startswith("SAME")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("formats", [("NXC", "XOI"), ("NCX", "IOX"), ("NXC", "IOX"), ("NCX", "XOI")], ids="-".join)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.sweep
def test_each_attribute(runtime, kind, case, formats, rank, rng):
    runtime_or_skip(runtime)
    problem = Problem(CASES[case], rank, *formats, rng)
    if kind != KINDS[0] and "output_padding" in problem.attrs:
        with pytest.raises(dgo.InvalidArgumentError, match=f"oneDNN has none there; dgo.ops.{BUILDERS[kind]} computes"):
            single(problem.op(kind), runtime)
        return
    part = single(problem.op(kind), runtime)
    inputs, outputs, arrays = problem.tensors(kind)
    refused = refused_by_attributes(kind, problem.attrs)
    assert part.is_supported() is not refused
    if refused:
        with pytest.raises(dgo.UnsupportedError, match=rf"op 0 \({kind} 'seed'\).*dgo\.ops\.{BUILDERS[kind]} computes"):
            part.compile(inputs, outputs, cpu(runtime))
        return
    (result,) = run(part.compile(inputs, outputs, cpu(runtime)), arrays, (inputs, outputs), runtime)
    np.testing.assert_array_equal(result, problem.expected(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights_format", ["OIX", "XIO", "iox"])
def test_formats_of_the_pages(kind, weights_format, rng):
    problem = Problem({}, 2, "NXC", "IOX", rng)
    problem.formats["weights_format"] = weights_format
    if weights_format == "iox":
        assert single(problem.op(kind)).is_supported()
        return
    with pytest.raises(dgo.InvalidArgumentError, match=rf"weights_format.*IOX.*dgo\.ops\.{BUILDERS[kind]} computes"):
        single(problem.op(kind))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("kind", KINDS)
def test_types(kind, dtype, rng):
    problem = Problem(CASES["padded"], 2, "NXC", "XOI", rng, dtype)
    inputs, outputs, arrays = problem.tensors(kind)
    try:
        cp = single(problem.op(kind)).compile(inputs, outputs, cpu())
    except dgo.UnsupportedError as error:
        assert dtype != "f32"
        pytest.skip(str(error))
    (result,) = run(cp, arrays, (inputs, outputs))
    np.testing.assert_array_equal(result, problem.expected(kind).astype(result.dtype))


def test_bias(rng):
    problem = Problem(CASES["padded"], 2, "NXC", "XOI", rng)
    inputs, outputs, arrays = problem.tensors(KINDS[0])
    bias = integers(rng, 4)
    o = problem.op(KINDS[0])
    o.add_input(strided(9, [4]))
    inputs = [*inputs, strided(9, [4])]
    (result,) = run(single(o).compile(inputs, outputs, cpu()), {**arrays, 9: bias}, (inputs, outputs))
    np.testing.assert_array_equal(result, problem.expected(KINDS[0]) + bias)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["weights_shape", "filter_shape"])
def test_the_shape_of_the_weights(name, known, rng):
    problem = Problem(CASES["padded"], 2, "NXC", "XOI", rng)
    inputs, outputs, arrays = problem.tensors(KINDS[2])
    if not known:
        outputs = [LT(2, LT.f32, 4, LT.strided)]
    o = op(0, op.ConvTransposeBackpropFilters, inputs, outputs)
    for attr, value in (REQUIRED | problem.attrs).items():
        o.set_attr(op.attr[attr], [value] * 2)
    o.set_attr(op.attr[name], problem.w.shape)
    (result,) = run(single(o).compile(inputs, outputs, cpu()), arrays, (inputs, outputs))
    np.testing.assert_array_equal(result, problem.expected(KINDS[2]))


def test_the_shape_of_the_weights_as_a_tensor(rng):
    """The library has no kernel for it."""
    problem = Problem(CASES["padded"], 2, "NXC", "XOI", rng)
    o = problem.op(KINDS[2])
    o.add_input(strided(9, [4], LT.s32))
    with pytest.raises(dgo.Error) as caught:
        part = single(o)
        part.compile([*problem.tensors(KINDS[2])[0], strided(9, [4], LT.s32)], problem.tensors(KINDS[2])[1], cpu())
    assert isinstance(caught.value, dgo.UnsupportedError | dgo.InvalidArgumentError)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides": [1]}, "strides"),
        ({"strides": [0, 1]}, "strides"),
        ({"strides": [-1, 1]}, "strides"),
        ({"dilations": [0, 1]}, "dilations"),
        ({"dilations": [1, 1, 1]}, "dilations"),
        ({"pads_begin": [-1, 0]}, "pads_begin"),
        ({"pads_end": [1]}, "pads_end"),
        ({"groups": 0}, "groups"),
        ({"groups": -1}, "groups"),
        ({"groups": 3}, "groups|channels"),
        ({"output_padding": [0]}, "output_padding"),
        ({"pads_begin": [9, 9]}, "."),
    ],
)
def test_attributes_that_do_not_fit(changes, message, rng):
    """Each of these reads past its list, divides by zero or computes something else in some version."""
    problem = Problem({}, 2, "NXC", "XOI", rng)
    o = problem.op(KINDS[0])
    for name, value in changes.items():
        o.set_attr(op.attr[name], value)
    inputs, _, _ = problem.tensors(KINDS[0])
    with pytest.raises(dgo.InvalidArgumentError, match=message):
        single(o).compile(inputs, [LT(2, LT.f32, LT.strided)], cpu())


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((2, 5, 4, 3), (3, 3, 4, 4)),
        ((2, 5, 4), (3, 3, 4, 4)),
        ((2, 5, 4, 4), (3, 4, 4)),
        ((2, 4), (4, 4)),
        ((2, 3, 3, 3, 3, 4), (1, 1, 1, 1, 4, 4)),
        ((2, 5, 4, 4), (0, 3, 4, 4)),
    ],
)
def test_shapes_that_do_not_fit(x, w):
    rank = max(len(x) - 2, 1)
    o = op(0, op.ConvTranspose, [strided(0, x), strided(1, w)], [LT(2, LT.f32, LT.strided)])
    for name, value in REQUIRED.items():
        o.set_attr(op.attr[name], [value] * rank)
    with pytest.raises(dgo.InvalidArgumentError):
        single(o).compile([strided(0, x), strided(1, w)], [LT(2, LT.f32, LT.strided)], cpu())

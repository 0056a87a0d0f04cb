"""Attributes that 32 bits do not hold, or that reach far beyond src and dst: refused by name, or exact, in time and
memory that the shapes account for."""

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops.algorithms.table import candidates
from dnnl_graph_ops.compile.tune import runner_of
from dnnl_graph_ops.convolution.nodes import make_problem
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.program import Buffer, Place, View
from dnnl_graph_ops.strides import dense_strides

MOST = 2**31 - 1
HUGE = (2**31, 2**32 + 1, 2**61 - 1, 2**62, 2**63 - 1)
ONE_PER_AXIS = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")


def ones(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.sweep
@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("name", ONE_PER_AXIS)
@pytest.mark.parametrize("groups", [1, 4])
def test_every_attribute_ends_at_32_bits(name, value, groups):
    src, weights, dst = ones(1, 3, 3, 4), ones(2, 2, 4 // groups, 4), ones(1, 4, 4, 4)
    attrs = {name: (value, 0 if name.startswith(("pads", "output")) else 1), "groups": groups}
    for call in (
        lambda: dgo.conv_transpose(src, weights, **attrs),
        lambda: dgo.conv_transpose_backward_data(dst, weights, **attrs),
        lambda: dgo.conv_transpose_backward_weights(src, dst, weights.shape, **attrs),
        lambda: dgo.conv_transpose_output_shape(src.shape, weights.shape, **attrs),
    ):
        with pytest.raises(dgo.InvalidArgumentError, match=rf"'{name}'.*{MOST}.*{value}"):
            call()


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("kind", ["convolution", "avg_pool", "max_pool"])
def test_windows_end_there_too(kind, value):
    graph = dgo.Graph()
    x = graph.input("x", (1, 4, 4, 4))
    common = {"strides": 1, "pads_begin": 0, "pads_end": 0}
    for name in ("strides", "pads_begin", "pads_end", "dilations", "kernel"):
        attrs = common | {name: (value, 1)}
        with pytest.raises(dgo.Error, match=str(MOST)):
            if kind == "convolution":
                if name == "kernel":
                    attrs.pop("kernel")
                    attrs["dilations"] = (value, 1)
                dgo.ops.convolution(x, ones(2, 2, 4, 4), **({"dilations": 1} | attrs))
            elif kind == "avg_pool":
                if name == "dilations":
                    attrs = common | {"strides": (value, 1)}
                dgo.ops.avg_pool(x, **({"kernel": 2, "exclude_pad": False} | attrs))
            else:
                dgo.ops.max_pool(x, **({"kernel": 2} | attrs))


@pytest.mark.parametrize(
    ("attrs", "kernel"),
    [
        ({"strides": 2**30, "pads_end": 2**31 - 8}, 2),
        ({"dilations": 2**30, "pads_end": 2**31 - 8}, 3),
        ({"strides": 2**30, "dilations": 2**30, "pads_end": 2**31 - 8}, 2),
    ],
)
def test_an_axis_spans_no_more(attrs, kernel):
    """Each attribute fits, what they come to does not."""
    with pytest.raises(dgo.ShapeError, match=r"spatial axis 0 spans \d+ elements"):
        dgo.conv_transpose(ones(1, 4, 4), ones(kernel, 4, 4), **attrs)


# what a tap or a position that lies outside of dst must not do: (src, kernel, attributes), 1 channel a group
FAR = {
    "second tap outside": ((4, 4), (2, 2), {"dilations": (2**28, 1), "pads_end": (2**28, 0)}),
    "both outside": ((4, 4), (2, 2), {"dilations": 2**28, "pads_end": 2**28}),
    "first tap outside": ((4, 4), (2, 1), {"dilations": (2**28, 1), "pads_begin": (2**28, 0)}),
    "only the first position": ((2, 3), (2, 2), {"strides": (2**28, 1), "pads_end": (2**28, 0)}),
    "only the last position": ((2, 3), (2, 2), {"strides": (2**28, 1), "pads_begin": (2**28, 0)}),
    "tap and position meet": (
        (2, 2),
        (2, 2),
        {"strides": (2**27, 2), "dilations": (2**27, 1), "pads_begin": (2**27, 0), "pads_end": (2**27, 0)},
    ),
    "one position, a stride of its own": ((1, 5), (3, 3), {"strides": (2**30, 2)}),
    "one tap, a dilation of its own": ((3, 5), (1, 3), {"dilations": (2**30, 2)}),
    "last axis": ((3, 4), (1, 2), {"dilations": (1, 2**28), "pads_end": (0, 2**28)}),
    "stride of the last axis": ((3, 2), (2, 3), {"strides": (2, 2**28), "pads_end": (0, 2**28 - 2)}),
}


DIRECTIONS = {
    "ConvTranspose": ("src", "weights", "dst"),
    "ConvTransposeBackwardData": ("dst", "weights", "src"),
    "ConvTransposeBackwardWeights": ("src", "dst", "weights"),
}


def definition(arrays, attrs):
    """All three results of a layer in (H, W), by looping over positions and taps; weights are (k, k, OC, IC)."""
    src, weights, dst = arrays["src"], arrays["weights"], arrays["dst"]
    results = {name: np.zeros(array.shape) for name, array in arrays.items()}
    for i in np.ndindex(src.shape[1:3]):
        for k in np.ndindex(weights.shape[:2]):
            o = tuple(
                i[a] * attrs["strides"][a] + k[a] * attrs["dilations"][a] - attrs["pads_begin"][a] for a in (0, 1)
            )
            if all(0 <= place < size for place, size in zip(o, dst.shape[1:3], strict=True)):
                at_i, at_o = (slice(None), *i), (slice(None), *o)
                results["dst"][at_o] += np.einsum("ni,oi->no", src[at_i], weights[k])
                results["src"][at_i] += np.einsum("no,oi->ni", dst[at_o], weights[k])
                results["weights"][k] += np.einsum("no,ni->oi", dst[at_o], src[at_i])
    return results


def like(array, view):
    """An array of the op as a problem's view has its axes."""
    flat = np.ascontiguousarray(array, np.float32).reshape(-1)[view.offset :]
    return np.lib.stride_tricks.as_strided(flat, view.shape, [4 * stride for stride in view.strides])


@pytest.mark.sweep
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("name", FAR)
def test_far_taps_and_positions(name, groups, kind, rng):
    """Every form against the definition; small integers, so exactly."""
    spatial, kernel, given = FAR[name]
    plain = {"output_padding": 0, "pads_begin": 0, "pads_end": 0, "strides": 1, "dilations": 1} | given
    attrs = {key: value if isinstance(value, tuple) else (value, value) for key, value in plain.items()}
    shape, w_shape = (2, *spatial, 8), (*kernel, 8 // groups, 8)
    dst_shape = dgo.conv_transpose_output_shape(shape, w_shape, groups=groups, **attrs)
    shapes = {"src": shape, "weights": w_shape, "dst": dst_shape}
    arrays = {key: rng.integers(-3, 4, size).astype(np.float32) for key, size in shapes.items()}
    # one kernel a channel is a diagonal matrix for each tap
    full = arrays | {"weights": arrays["weights"] * (1 if groups == 1 else np.eye(8, dtype=np.float32))}
    truth = definition(full, attrs)
    if groups > 1:
        truth["weights"] = np.diagonal(truth["weights"], axis1=2, axis2=3)[:, :, None]

    *operands, result = DIRECTIONS[kind]
    in_order = sorted(operands, key=tuple(arrays).index)
    places = (Place.INPUT, Place.INPUT, Place.OUTPUT)
    views = [
        View(Buffer(place, "f32", arrays[key].size, i), arrays[key].shape, dense_strides(arrays[key].shape))
        for i, (place, key) in enumerate(zip(places, (*operands, result), strict=True))
    ]
    labels = {"groups": groups, "data_format": "NXC", "weights_format": "XOI", "src_shape": shape}
    problem = make_problem(kind, attrs | labels, views[:2], views[2])
    env, ran = Env(dgo.engine("cpu"), dgo.get_num_threads()), 0
    for form, _ in candidates(problem, env):
        try:
            runner = runner_of(problem, env, form)
        except dgo.UnsupportedError:
            continue
        out = runner.outputs[0]
        out[...] = np.nan
        views_of = {"src": problem.y, "weights": problem.w, "dst": problem.x}
        runner.executor.run([like(arrays[key], views_of[key]) for key in in_order], [out])
        assert np.array_equal(out, like(truth[result], views_of[result])), form.name
        ran += 1
    assert ran >= 2


CHILD = """
import resource
import time
import numpy as np
import dnnl_graph_ops as dgo

resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
start = time.process_time()
{code}
print("seconds", time.process_time() - start)
"""


def bounded(code, gigabytes=3):
    done = child("-c", CHILD.format(limit=int(gigabytes * 2**30), code=code), seconds=120, OMP_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split("seconds")[1]) < 20


@pytest.mark.child
@pytest.mark.parametrize("d", [2**61 - 1, 2**61, 2**62, 2**63 - 1])
@pytest.mark.parametrize("shape", ["depthwise", "overlap-add"])
def test_overflowing_sizes_are_refused(d, shape):
    """These wrote behind their buffers, or divided by zero."""
    layers = {
        "depthwise": "np.ones((1, 8, 16384, 64), 'f'), np.ones((8, 1, 2, 2), 'f'), groups=8, data_format='NCX', "
        "weights_format='IOX'",
        "overlap-add": "np.ones((2, 24, 24, 16), 'f'), np.ones((2, 1, 16, 16), 'f')",
    }
    bounded(
        f"try:\n    dgo.conv_transpose({layers[shape]}, dilations=({d}, 1), pads_end=({d}, 0))\n"
        "except dgo.InvalidArgumentError as error:\n    assert '2147483647' in str(error)\n"
        "else:\n    raise SystemExit('accepted')"
    )


@pytest.mark.child
def test_the_row_cache_holds_no_more_than_src():
    """9 GB a thread for 256 KB of src, and an abort when they were not there."""
    bounded(
        "x, w = np.ones((8, 16, 8, 8, 8), 'f'), np.ones((16, 1, 3, 3, 3), 'f')\n"
        "y = dgo.conv_transpose(x, w, dilations=2048, pads_begin=2040, pads_end=2040, groups=16, data_format='NCX', "
        "weights_format='IOX')\n"
        "assert y.shape == (8, 16, 24, 24, 24) and (y[:, :, 8:16, 8:16, 8:16] == 1).all() and y.sum() == 65536, y.sum()"
    )


@pytest.mark.child
@pytest.mark.parametrize(
    "call",
    [
        f"dgo.conv_transpose(np.ones((1, 1, 1), 'f'), np.ones((1, 1, 1), 'f'), strides={MOST})",
        "dgo.conv_transpose(np.ones((1, 2, 1), 'f'), np.ones((1, 1, 1), 'f'), strides=50_000_000)",
        "dgo.conv_transpose(np.ones((1, 2, 8), 'f'), np.ones((1, 1, 8), 'f'), strides=5_000_000, groups=8)",
        f"dgo.conv_transpose(np.ones((1, 1, 4), 'f'), np.ones((1, 4, 4), 'f'), strides={MOST})",
        f"dgo.conv_transpose(np.ones((1, 2, 4), 'f'), np.ones((2, 4, 4), 'f'), strides={2**29}, pads_end={2**29})",
        f"dgo.conv_transpose(np.ones((1, 1, 4), 'f'), np.ones((2, 4, 4), 'f'), dilations={2**29}, pads_end={2**29})",
        f"dgo.conv_transpose(np.ones((1, 4, 4), 'f'), np.ones((2, 4, 4), 'f'), dilations={2**29}, pads_end={2**29})",
        f"dgo.conv_transpose(np.ones((1, 4, 8), 'f'), np.ones((2, 1, 8), 'f'), dilations={2**29}, pads_end={2**29}, "
        "groups=8)",
        f"dgo.conv_transpose_backward_data(np.ones((1, 1, 4), 'f'), np.ones((1, 4, 4), 'f'), strides={MOST})",
        f"dgo.conv_transpose_backward_weights(np.ones((1, 2, 4), 'f'), np.ones((1, 1, 4), 'f'), (1, 4, 4), "
        f"strides={2**29}, pads_end={2**29})",
    ],
)
def test_work_is_that_of_the_shapes(call):
    bounded(call, 1.5)


@pytest.mark.parametrize("direction", ["forward", "backward data", "backward weights"])
def test_kernels_beyond_32767_taps(direction):
    """The own forms do not take them; others do."""
    taps = 32768
    x, w = np.ones((1, 4, 8), np.float32), np.ones((taps, 8, 8), np.float32)
    attrs = {"strides": taps, "pads_begin": 1}
    y = np.ones((1, 4 * taps - 1, 8), np.float32)
    if direction == "forward":
        graph = dgo.Graph()
        net = graph.compile(dgo.ops.conv_transpose(graph.input("x", x.shape), graph.constant(w), **attrs))
        for result in (net(x), dgo.conv_transpose(x, w, **attrs)):
            assert result.shape == y.shape and (result == 8).all()
    elif direction == "backward data":
        result = dgo.conv_transpose_backward_data(y, w, **attrs)
        assert (result[:, 1:] == 8 * taps).all() and (result[:, 0] == 8 * (taps - 1)).all()
    else:
        result = dgo.conv_transpose_backward_weights(x, y, w.shape, **attrs)
        assert (result[1:] == 4).all() and (result[0] == 3).all()


def problem(**changes):
    values = {
        "batch": 1, "in_channels": 8, "out_channels": 8, "in_spatial": (4, 4), "out_spatial": (8, 8),
        "kernel": (4, 4), "strides": (2, 2), "pads_begin": (1, 1), "tile": (1, 1), "dilations": (1, 1), "groups": 1,
    }  # fmt: skip
    return _core.kernels.FilterProblem(**(values | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"dilations": (2**62, 1)},
        {"dilations": (MOST, 1)},
        {"strides": (2**62, 1)},
        {"strides": (2**31, 1)},
        {"in_spatial": (0, 4)},
        {"out_spatial": (2**40, 4)},
        {"in_spatial": (2**62, 4)},
        {"pads_begin": (2**62, 0)},
        {"pads_begin": (-(2**62), 0)},
        {"batch": 0},
        {"batch": 2**62},
        {"in_channels": 2**62},
        {"kernel": (32768, 1)},
        {"kernel": (32767, 32767), "strides": (1, 1)},
        {"in_channels": 2**30, "out_channels": 2**30},
    ],
)
def test_kernels_called_directly(changes):
    """The kernels' own descriptions bound what no caller has checked."""
    described = problem(**changes)
    assert described.refusal() and described.col2im_refusal()
    strides = [1 << 12, 32, 8]
    kernels = _core.kernels
    for make in (
        lambda: kernels.filter_dgrad(described, 3, strides, 3, strides),
        lambda: kernels.col2im_product(described, 3, strides, 3, strides),
        lambda: kernels.filter_fprop(described, 3, strides, 3, strides),
        lambda: kernels.filter_wgrad(described, 3, strides, 3, strides, 3, [1, 8, 64, 64]),
        lambda: kernels.filter_pack(described, "dgrad", 3, [1, 8, 64, 64]),
        lambda: described.packed_size("dgrad"),
    ):
        with pytest.raises(dgo.InvalidArgumentError, match=r"filter product|overlap product"):
            make()


@pytest.mark.parametrize(
    "what", ["strides", "dilations", "pads_begin", "kernel", "src_spatial", "dst_spatial", "n", "c"]
)
@pytest.mark.parametrize("value", [2**31, 2**62, -1 - 2**40])
def test_depthwise_kernels_called_directly(what, value):
    kernels = _core.kernels
    values = {
        "n": 1, "c": 8, "src_spatial": [4, 4], "dst_spatial": [5, 5], "kernel": [2, 2], "strides": [1, 1],
        "pads_begin": [0, 0], "dilations": [1, 1],
    }  # fmt: skip
    values[what] = [value, 1] if isinstance(values[what], list) else value
    strides = {"src_strides": [128, 1, 32, 8], "weights_strides": [1, 16, 8], "dst_strides": [200, 1, 40, 8]}
    for make in (
        kernels.depthwise_dgrad, kernels.depthwise_fprop, kernels.depthwise_wgrad,
    ):  # fmt: skip
        with pytest.raises(dgo.Error, match=what if what not in "nc" else "n, c"):
            make(kernels.DepthwiseProblem(kernels.LayerSizes(**values), 3, **strides))
    columns = {"dst_dtype": 3, "dst_strides": strides["dst_strides"], "col_strides": [1, 1, 1, 1, 1, 1]}
    for make, extra in ((kernels.im2col, {"col_dtype": 3}), (kernels.col2im, {})):
        with pytest.raises(dgo.Error):
            make(kernels.LayerSizes(**values), **columns, **extra)


def test_sizes_that_multiply_past_any_array():
    kernels, big = _core.kernels, 2**31 - 1
    strides = [1, 1, 1, 1]
    with pytest.raises(dgo.ShapeError, match="elements"):
        layer = kernels.LayerSizes(big, big, [big, big], [1, 1], [1, 1], [1, 1], [0, 0], [1, 1])
        kernels.depthwise_dgrad(kernels.DepthwiseProblem(layer, 3, strides, [1] * 3, strides))
    with pytest.raises(dgo.ShapeError, match="elements"):
        kernels.copy([2**40, 2**40], 3, [1, 1], 3, [1, 1])
    with pytest.raises(dgo.ShapeError, match="beyond any array"):
        kernels.copy([3, 3], 3, [2**62, 1], 3, [3, 1])
    with pytest.raises(dgo.ShapeError, match="elements"):
        kernels.row_product(1, 2**31, 2**31, 2**31, 3, [0, 1, 1], 3, [0, 1, 1], 3, [0, 1, 1])
    with pytest.raises(dgo.ShapeError, match="beyond any array"):
        kernels.row_product(1, 2, 2, 2, 3, [0, 2**62, 1], 3, [0, 1, 1], 3, [0, 1, 1])
    with pytest.raises(dgo.InvalidArgumentError, match="zero_elements"):
        kernels.copy_list([], 3, 3, 2**62)

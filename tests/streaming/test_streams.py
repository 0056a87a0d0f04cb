"""Streams of nets: results of the whole for every way of cutting, refusals, states, threads, files."""

import json
import threading
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from concurrently import in_threads
from streaming import drawn
from streaming.drawn import cuts_of, together

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

NCX = {"data_format": "NCX", "weights_format": "OIX"}
PLAIN = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}


def weights(*shape):
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float32)


def data(*shape):
    return np.random.default_rng(7).integers(-4, 5, shape).astype(np.float32)


def small(channels=2):
    """A net with look-ahead, a skip and two rates: (1, channels, n) to (1, 3, 2 n)."""
    graph = dgo.Graph()
    x = graph.input("x", (1, channels, None))
    first = ops.convolution(x, weights(3, channels, 5), **{**PLAIN, "pads_begin": 2, "pads_end": 2}, **NCX)
    up = ops.conv_transpose(
        ops.relu(first), weights(3, 3, 4), strides=2, pads_begin=1, pads_end=1, data_format="NCX", weights_format="IOX"
    )
    inner = ops.convolution(up, weights(3, 3, 3), strides=1, pads_begin=3, pads_end=3, dilations=3, **NCX)
    return graph.compile(ops.add(up, inner))


@pytest.mark.numbers(120, every=(10, 2, 1))
def test_drawn_nets(seed, number):
    print(f"--seed={seed}, net {number}: python -m streaming.drawn 1 {seed} {number}")
    assert sum(drawn.check(seed, number).values()) > 0


@pytest.mark.slow
def test_many_drawn_nets(seed):
    kinds = Counter()
    for number in range(1000, 1200):
        kinds += drawn.check(seed, number)
    assert min(kinds.values()) > 0


@pytest.mark.parametrize("chunk", [1, 3, 8, 50])
def test_cuts_do_not_change_a_bit(chunk):
    net, rng = small(), np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 41)).astype(np.float32)
    stream = net.stream(chunk=chunk)
    results = [together(stream, x, cuts)[0] for cuts in ([1] * 41, [41], [0, 20, 0, 21], cuts_of(rng, 41))]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
        np.testing.assert_allclose(result, net(x), rtol=1e-5, atol=1e-5)


def test_samples_come_as_soon_as_they_are_known():
    net, x = small(), data(1, 2, 30)
    stream = net.stream(chunk=1)
    sizes = [stream.push(x[..., i : i + 1]).shape[-1] for i in range(30)]
    assert stream.latency == 4
    assert stream.delay(100) == 40
    # five of the input are looked at for the first output, then two outputs for each
    assert sizes == [0] * 4 + [sizes[4]] + [2] * 25
    assert stream.flush().shape[-1] == 60 - sum(sizes)


def test_a_causal_net_has_no_latency():
    graph = dgo.Graph()
    x = graph.input("x", (None, 2, None))
    padded = ops.pad(x, pads_begin=[0, 0, 1000], pads_end=[0, 0, 0])
    y = ops.convolution(padded, weights(2, 2, 2), strides=1, pads_begin=0, pads_end=0, dilations=1000, **NCX)
    net = graph.compile(
        ops.conv_transpose(y, weights(2, 2, 4), strides=2, pads_end=2, data_format="NCX", weights_format="IOX")
    )
    stream = net.stream(chunk=5)
    assert (stream.latency, stream.start) == (0, 5)
    samples = data(3, 2, 1205)
    assert stream.push(samples[..., :5]).shape == (3, 2, 10)
    np.testing.assert_array_equal(
        np.concatenate([net.stream(chunk=5).push(samples[..., :1200]), net(samples)[..., 2400:]], -1), net(samples)
    )


@pytest.mark.parametrize(
    ("taps", "before", "behind", "stride"), [(3, 7, 9, 1), (1, 2, 2, 1), (2, 6, 5, 3), (2, 5, 5, 4)]
)
def test_outputs_of_pads_alone(taps, before, behind, stride):
    graph = dgo.Graph()
    x = graph.input("x", (1, 2, None))
    pads = {"strides": stride, "pads_begin": before, "pads_end": behind, "dilations": 1}
    net = graph.compile(ops.convolution(ops.relu(x), weights(2, 2, taps), np.ones(2, np.float32), **pads, **NCX))
    for chunk, total in ((1, 17), (4, 23)):
        whole = data(1, 2, total)
        np.testing.assert_array_equal(together(net.stream(chunk=chunk), whole, [total])[0], net(whole))


def test_short_streams_are_whole_calls():
    net, x = small(), data(1, 2, 3)
    stream = net.stream(chunk=4)
    assert stream.push(x).shape == (1, 3, 0)
    np.testing.assert_array_equal(stream.flush(), net(x))
    with pytest.raises(dgo.InvalidArgumentError, match="nothing was pushed"):
        stream.flush()


def test_another_stream_begins_behind_flush_and_reset():
    net, x = small(), data(1, 2, 33)
    stream = net.stream(chunk=4)
    for end in (stream.flush, stream.reset, stream.flush):
        stream.push(x[..., :21])
        end()
    np.testing.assert_array_equal(together(stream, x, [10, 23])[0], net(x))


def test_an_unknown_batch_is_bound_by_the_first_push():
    graph = dgo.Graph()
    x = graph.input("x", (None, 2, None))
    net = graph.compile(ops.convolution(x, weights(2, 2, 3), **{**PLAIN, "pads_begin": 1, "pads_end": 1}, **NCX))
    stream = net.stream(chunk=4)
    for batch in (1, 3):
        whole = data(batch, 2, 19)
        stream.push(whole[..., :9])
        with pytest.raises(dgo.ShapeError, match="flush or reset"):
            stream.push(data(2, 2, 5))
        rest = [stream.push(whole[..., 9:]), stream.flush()]
        np.testing.assert_array_equal(np.concatenate(rest, -1)[..., -10:], net(whole)[..., -10:])


def test_inputs_that_do_not_run_along_the_axis_are_fixed():
    graph = dgo.Graph()
    x, speaker = graph.input("x", (1, 2, None)), graph.input("speaker", (1, 4))
    scale = ops.static_reshape(ops.matmul(speaker, weights(4, 2)), shape=[1, 2, 1], special_zero=False)
    net = graph.compile(ops.multiply(x, scale))
    with pytest.raises(TypeError, match="'fixed' needs an array for each of the inputs speaker"):
        net.stream(chunk=4)
    with pytest.raises(TypeError, match="mapping"):
        net.stream(chunk=4, fixed=3)
    samples, voice = data(1, 2, 13), data(1, 4)
    result = together(net.stream(chunk=4, fixed={"speaker": voice}), samples, [13])[0]
    np.testing.assert_array_equal(result, net(samples, voice))


def test_several_inputs_and_outputs_run_together():
    graph = dgo.Graph()
    a, b = graph.input("a", (1, 2, None)), graph.input("b", (1, 2, None))
    far = ops.convolution(a, weights(2, 2, 7), **{**PLAIN, "pads_begin": 3, "pads_end": 3}, **NCX)
    net = graph.compile([ops.add(far, b), ops.max_pool(b, kernel=[2], strides=[2], pads_begin=[0], pads_end=[0],
                                                       data_format="NCX")])  # fmt: skip
    x, y = data(1, 2, 26), data(1, 2, 26) + 1
    stream = net.stream(chunk=3)
    assert (stream.chunk, stream.period) == (4, 2)
    with pytest.raises(dgo.ShapeError, match="different lengths"):
        stream.push(x, y[..., 1:])
    with pytest.raises(TypeError, match="one array for each of the inputs a, b"):
        stream.push(x)
    parts = [stream.push(x[..., i : i + 5], b=y[..., i : i + 5]) for i in range(0, 26, 5)] + [stream.flush()]
    for result, whole in zip(zip(*parts, strict=True), net(x, y), strict=True):
        np.testing.assert_array_equal(np.concatenate(result, -1), whole)


@pytest.mark.parametrize("chunk", [1, 9])
def test_channels_last(chunk):
    graph = dgo.Graph()
    x = graph.input("x", (1, None, 3))
    y = ops.relu(ops.convolution(x, weights(5, 3, 4), pads_begin=2, pads_end=2))
    y = ops.bias_add(ops.conv_transpose(y, weights(4, 4, 4), strides=2, pads_begin=1, pads_end=1), weights(4))
    y = ops.max_pool(y, kernel=[3], strides=[2], pads_begin=[1], pads_end=[1])
    y = ops.interpolate(y, mode="nearest", scales=[3.0])
    net = graph.compile(ops.avg_pool(y, kernel=[3], strides=[1], pads_begin=[1], pads_end=[1], exclude_pad=True) * 6)
    whole, stream = data(1, 50, 3), net.stream(axis=1, chunk=chunk)
    parts = [stream.push(whole[:, at : at + 7]) for at in range(0, 50, 7)] + [stream.flush()]
    np.testing.assert_array_equal(np.concatenate(parts, 1), net(whole))


def test_an_axis_of_an_image_and_a_net_of_a_file(tmp_path):
    graph = dgo.Graph()
    x = graph.input("x", (2, 3, None, 6))
    y = ops.convolution(x, weights(4, 3, 3, 3), pads_begin=1, pads_end=1, strides=(2, 1), **NCX)
    net = graph.compile(ops.relu(y))
    whole = data(2, 3, 45, 6)
    wanted = net(whole)
    net.save(tmp_path / "image.net")
    for one in (net, dgo.load(tmp_path / "image.net")):
        stream = one.stream(axis=2, chunk=5)
        parts = [stream.push(whole[:, :, at : at + 11]) for at in range(0, 45, 11)] + [stream.flush()]
        np.testing.assert_array_equal(np.concatenate(parts, 2), wanted)


def refused(build, axis=-1, shape=(1, 4, None)):
    graph = dgo.Graph()
    net = graph.compile(build(graph.input("x", shape)))
    with pytest.raises(dgo.UnsupportedError) as found:
        net.stream(axis, chunk=4)
    return str(found.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: ops.reduce_mean(x, axes=[2], keep_dims=True, name="pooled"), "reduces the streamed axis"),
        (lambda x: ops.softmax(x, axis=2, name="pooled"), "normalizes the streamed axis"),
        (lambda x: ops.layer_norm(ops.static_transpose(x, order=[0, 1, 2]), begin_norm_axis=1, use_affine=False,
                                  keep_stats=False, name="pooled"), "normalizes the streamed axis"),
        (lambda x: ops.matmul(x, x, transpose_a=True, name="pooled"), "depends on two samples"),
        (lambda x: ops.matmul(x, x, transpose_b=True, name="pooled"), "sums over the streamed axis"),
        (lambda x: ops.slice(x, starts=[-3], ends=[2**31], axes=[2], name="pooled"), "begin depends on the length"),
        (lambda x: ops.slice(x, starts=[0], ends=[9], axes=[2], name="pooled"), "ends at sample 9"),
        (lambda x: ops.add(x, np.ones((1, 4, 7), np.float32), name="pooled"), "samples of its own along the axis"),
        (lambda x: ops.concat(x, ops.relu(x), axis=2, name="pooled"), "begins where another one ends"),
        (lambda x: ops.pad(x, pads_begin=[0, 0, 2], pads_end=[0, 0, 0], mode="wrap", name="pooled"),
         "depend on the end"),
        (lambda x: ops.static_reshape(x, shape=[-1, 4], special_zero=False, name="pooled"), "none of its own"),
        (lambda x: ops.interpolate(x, mode="linear", scales=[2.0], coordinate_transformation_mode="align_corners",
                                   data_format="NCX", name="pooled"), "depend on the length"),
        (lambda x: ops.interpolate(x, mode="nearest", scales=[1.5], data_format="NCX", name="pooled"), "whole factors"),
        (lambda x: ops.avg_pool(x, kernel=[3], strides=[2], pads_begin=[0], pads_end=[0], exclude_pad=True,
                                rounding_type="ceil", data_format="NCX", name="pooled"), "last window"),
        (lambda x: ops.convolution(x, weights(2, 4, 3), strides=2, auto_pad="same_upper", **NCX, name="pooled"),
         "depend on the length"),
        (lambda x: ops.add(x, ops.interpolate(x, mode="nearest", scales=[2.0], data_format="NCX"), name="pooled"),
         "different numbers of samples"),
        (lambda x: ops.prelu(x, ops.static_reshape(x.graph.constant(np.ones(7, np.float32)), shape=[7],
                                                   special_zero=False), per_channel_broadcast=False,
                             data_format="NCX", name="pooled"), "samples of its own along the axis"),
        (lambda x: ops.group_norm(x, groups=2, use_affine=False, keep_stats=False, data_format="NCX", name="pooled"),
         "no rule for GroupNorm"),
    ],
)  # fmt: skip
def test_refusals_name_the_op(build, words):
    message = refused(lambda x: ops.abs(build(ops.relu(x))))
    assert "'pooled' (op " in message
    assert words in message


def test_a_channel_axis_is_no_stream():
    graph = dgo.Graph()
    with pytest.raises(dgo.UnsupportedError, match="as channels"):
        graph.compile(ops.bias_add(graph.input("x", (1, None, 4)), np.ones(3, np.float32), data_format="NCX")).stream(
            1, chunk=4
        )


def test_outputs_beside_the_stream_are_refused():
    graph = dgo.Graph()
    x, other = graph.input("x", (1, 4, None)), graph.input("other", (1, 4))
    net = graph.compile([ops.relu(x), ops.abs(other)])
    with pytest.raises(dgo.UnsupportedError, match="output 'abs_0' cannot be given in chunks"):
        net.stream(chunk=4, fixed={"other": data(1, 4)})


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"chunk": 0}, dgo.InvalidArgumentError, "'chunk' must be at least 1"),
        ({"chunk": 2.5}, TypeError, "chunk"),
        ({"chunk": 4, "axis": 1}, dgo.InvalidArgumentError, "no input has an unknown size"),
        ({"chunk": 4, "axis": 9}, dgo.InvalidArgumentError, "no input has an unknown size"),
    ],
)
def test_wrong_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        small().stream(**arguments)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (data(1, 3, 5), dgo.ShapeError),
        (data(2, 5), dgo.ShapeError),
        (data(1, 2, 5).astype(np.float64), dgo.InvalidArgumentError),
        ("x", TypeError),
    ],
)
def test_a_wrong_push_changes_nothing(array, error):
    net, x = small(), data(1, 2, 20)
    stream = net.stream(chunk=4)
    before = stream.push(x[..., :11])
    with pytest.raises(error):
        stream.push(array)
    rest = [before, stream.push(x[..., 11:]), stream.flush()]
    np.testing.assert_array_equal(np.concatenate(rest, -1), net(x))


def test_waiting_samples_are_copies():
    net, x = small(), data(1, 2, 20)
    stream, buffer, parts = net.stream(chunk=7), np.empty((1, 2, 5), np.float32), []
    for at in range(0, 20, 5):
        buffer[...] = x[..., at : at + 5]
        parts.append(stream.push(buffer).copy())
        buffer[...] = 99
    np.testing.assert_array_equal(np.concatenate([*parts, stream.flush()], -1), net(x))


def test_what_a_stream_keeps_does_not_grow():
    net, x = small(), data(1, 2, 400)
    stream = net.stream(chunk=4)
    sizes = set()
    for at in range(0, 400, 40):
        stream.push(x[..., at : at + 40])
        sizes.add(sum(array.nbytes for array in (*stream._kept.values(), *stream._rest)))
    assert len(sizes) == 1
    assert sizes.pop() < 1000


def test_streams_share_plans_and_run_in_threads():
    net = small()
    streams = [net.stream(chunk=4) for _ in range(16)]
    inputs = [data(1, 2, 60) * (i + 1) for i in range(16)]

    def run(index):
        result = together(streams[index], inputs[index], [7] * 8 + [4])[0]
        np.testing.assert_array_equal(result, net(inputs[index]))

    in_threads(16, run)
    assert len(net._streams) == 1


def test_streams_in_turns_do_not_mix():
    net = small()
    streams = [net.stream(chunk=4) for _ in range(3)]
    inputs = [data(1, 2, 30) + i for i in range(3)]
    parts = [
        [stream.push(x[..., at : at + 6]) for stream, x in zip(streams, inputs, strict=True)] for at in range(0, 30, 6)
    ]
    ends = [stream.flush() for stream in streams]
    for results, end, x in zip(zip(*parts, strict=True), ends, inputs, strict=True):
        np.testing.assert_array_equal(np.concatenate([*results, end], -1), net(x))


def test_a_stream_is_for_one_thread_at_a_time():
    stream = small().stream(chunk=4)
    began, may_end = threading.Event(), threading.Event()

    def hold():
        with stream._alone():
            began.set()
            assert may_end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert began.wait(60)
        with pytest.raises(dgo.Error, match="another thread uses this stream"):
            stream.push(data(1, 2, 4))
    finally:
        may_end.set()
        thread.join()


@pytest.mark.parametrize("pushed", [0, 3, 22])
def test_a_saved_stream_goes_on(tmp_path, pushed):
    net, x = small(), data(1, 2, 41)
    stream, other = net.stream(chunk=4), net.stream(chunk=4)
    before = stream.push(x[..., :pushed])
    stream.save(tmp_path / "state")
    stream.push(x[..., pushed:])
    other.push(data(1, 2, 30))
    other.load(tmp_path / "state")
    assert other.samples == pushed
    np.testing.assert_array_equal(np.concatenate([before, other.push(x[..., pushed:]), other.flush()], -1), net(x))


def test_files_of_other_streams_are_refused(tmp_path):
    net, path = small(), tmp_path / "state"
    stream = net.stream(chunk=4)
    stream.push(data(1, 2, 22))
    stream.save(path)
    for other in (net.stream(chunk=5), small(3).stream(chunk=4)):
        with pytest.raises(dgo.InvalidArgumentError):
            other.load(path)
    whole = path.read_bytes()
    for wrong in (b"", b"text", whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(dgo.InvalidArgumentError, match="no file of a stream"):
            stream.load(path)
    with pytest.raises(FileNotFoundError):
        stream.load(tmp_path / "none")
    header = np.frombuffer(
        json.dumps({"format": 1, "chunk": 4, "samples": 9, "begun": True, "arrays": []}).encode(), np.uint8
    )
    with open(path, "wb") as file:
        np.savez(file, header=header)
    with pytest.raises(dgo.InvalidArgumentError, match="another net"):
        stream.load(path)
    assert stream.samples == 22


def test_bf16_nets_stream(tmp_path):
    graph = dgo.Graph()
    x = graph.input("x", (1, 2, None), "bf16")
    w = weights(2, 2, 3).astype(ml_dtypes.bfloat16)
    net = graph.compile(ops.convolution(x, w, **{**PLAIN, "pads_begin": 1, "pads_end": 1}, **NCX))
    samples, stream = data(1, 2, 20).astype(ml_dtypes.bfloat16), net.stream(chunk=3)
    np.testing.assert_array_equal(together(stream, samples, [20])[0], net(samples))
    parts = [stream.push(samples[..., :8])]
    stream.save(tmp_path / "state")
    stream.load(tmp_path / "state")
    parts += [stream.push(samples[..., 8:]), stream.flush()]
    np.testing.assert_array_equal(np.concatenate(parts, -1), net(samples))

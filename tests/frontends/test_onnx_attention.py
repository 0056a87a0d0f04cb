"""Attention and rotary embeddings as ops of a graph, against PyTorch."""

import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
torch = pytest.importorskip("torch", reason="the reference")

from onnx import helper  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

N, HEADS, LENGTH, KEYS, DEPTH = 2, 6, 5, 7, 8


def attention(given, inputs, outputs=("y",), opset=24, **attrs):
    """A model of one node; sizes by name in `inputs` are those of the call."""
    code = helper.np_dtype_to_tensor_dtype
    names = ["q", "k", "v", "mask", "past_k", "past_v"]
    used = [name if name in given else "" for name in names]
    while not used[-1]:
        used.pop()
    node = helper.make_node("Attention", used, list(outputs), **attrs)
    infos = [
        helper.make_tensor_value_info(name, code(array.dtype), inputs.get(name, array.shape))
        for name, array in given.items()
    ]
    results = [helper.make_tensor_value_info(name, code(given["q"].dtype), None) for name in outputs]
    graph = helper.make_graph([node], "attention", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def triple(heads=HEADS, shared=HEADS, length=LENGTH, keys=KEYS):
    return {
        "q": f32(N, heads, length, DEPTH),
        "k": f32(N, shared, keys, DEPTH, seed=1),
        "v": f32(N, shared, keys, 4, seed=2),
    }


def expected(given, mask=None, **more):
    q, k, v = (torch.from_numpy(given[name]) for name in "qkv")
    mask = None if mask is None else torch.from_numpy(mask)
    found = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True, **more)
    # what sees nothing gives zeros, in ONNX
    return np.nan_to_num(found.numpy())


def kinds(net):
    return {
        step.step.split(" (")[0] for part in net.explain().partitions for step in part.steps if "NumPy" in step.step
    }


def agree(proto, given, wanted):
    net = dgo.from_onnx(proto).compile()
    found = net.run(given)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert "Attention" not in kinds(net)
    return net


MASKS = {
    "none": None,
    "true": np.random.default_rng(3).random((LENGTH, KEYS)) > 0.4,
    "of a batch": np.random.default_rng(3).random((N, 1, LENGTH, KEYS)) > 0.4,
    "a row without": np.arange(LENGTH)[:, None] + np.zeros(KEYS) > 0,
    "added": f32(HEADS, LENGTH, KEYS, seed=4),
    "minus infinity": np.where(np.random.default_rng(3).random((LENGTH, KEYS)) > 0.4, 0, -np.inf).astype(np.float32),
    "a row of it": np.where(np.arange(LENGTH)[:, None] + np.zeros(KEYS) > 0, 0, -np.inf).astype(np.float32),
    "the least number": np.where(np.arange(KEYS) > 2, 0, np.finfo(np.float32).min)[None].astype(np.float32),
}


@pytest.mark.parametrize("shared", [HEADS, 2, 1])
@pytest.mark.parametrize("name", MASKS)
def test_masks_and_shared_heads(name, shared):
    given, mask = triple(shared=shared), MASKS[name]
    wanted = expected(given, mask)
    given |= {} if mask is None else {"mask": mask}
    agree(attention(given, {}), given, wanted)


def test_causal_and_scale():
    given = triple(keys=LENGTH)
    agree(attention(given, {}, is_causal=1, scale=0.3), given, expected(given, is_causal=True, scale=0.3))


def test_causal_behind_a_cache():
    """A query sees all that was before it, and what comes out is the next cache."""
    given = triple()
    whole = {name: np.concatenate((f32(N, HEADS, 3, given[name].shape[3], seed=9), given[name]), 2) for name in "kv"}
    mask = np.arange(KEYS + 3) <= np.arange(LENGTH)[:, None] + 3
    wanted = expected({**whole, "q": given["q"]}, mask)
    given |= {"past_k": whole["k"][:, :, :3], "past_v": whole["v"][:, :, :3]}
    net = agree(attention(given, {}, ("y", "next_k", "next_v"), is_causal=1), given, wanted)
    found = net.run(given)
    for name in "kv":
        np.testing.assert_array_equal(found[f"next_{name}"], whole[name])


def test_packed_heads_and_sizes_of_the_call():
    given = {name: f32(N, LENGTH, HEADS * DEPTH, seed=i) for i, name in enumerate("qkv")}
    proto = attention(
        given, dict.fromkeys("qkv", ("n", "length", HEADS * DEPTH)), q_num_heads=HEADS, kv_num_heads=HEADS, is_causal=1
    )
    net = dgo.from_onnx(proto).compile()
    for length in (LENGTH, 1, 9):
        given = {name: f32(N, length, HEADS * DEPTH, seed=i) for i, name in enumerate("qkv")}
        heads = {name: one.reshape(N, length, HEADS, DEPTH).swapaxes(1, 2) for name, one in given.items()}
        wanted = expected(heads, is_causal=True).swapaxes(1, 2).reshape(N, length, -1)
        np.testing.assert_allclose(net.run(given)["y"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [(2, 0), (1, -1), (-1, 1)])
def test_windows(window):
    given, (left, right) = triple(), window
    apart = np.arange(KEYS) - np.arange(LENGTH)[:, None]
    mask = (apart >= -left if left >= 0 else True) & (apart <= right if right >= 0 else True)
    proto = attention(given, {}, opset=25, left_window_size=left, right_window_size=right)
    agree(proto, given, expected(given, np.asarray(mask)))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_narrow(kind):
    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[kind]
    wide = {name: one.astype(dtype).astype(np.float32) for name, one in triple().items()}
    mask = MASKS["a row of it"]
    given = {name: one.astype(dtype) for name, one in {**wide, "mask": mask}.items()}
    found = dgo.from_onnx(attention(given, {})).compile().run(given)["y"]
    np.testing.assert_allclose(found.astype(np.float32), expected(wide, mask), atol=0.03)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_causal_in_16_bits(kind, rng):
    """Within two units in the last place, as results are that onnx records."""
    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[kind]
    given = {name: rng.random(one.shape).astype(dtype) for name, one in triple().items()}
    q, k, v = (one.astype(np.float64) for one in given.values())
    scores = np.where(np.tri(LENGTH, KEYS, dtype=bool), q @ k.swapaxes(2, 3) / np.sqrt(DEPTH), -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    exact = shares / shares.sum(-1, keepdims=True) @ v
    found = dgo.from_onnx(attention(given, {}, is_causal=1)).compile().run(given)["y"]
    unit = float(ml_dtypes.finfo(dtype).eps) * 2.0 ** np.floor(np.log2(exact))
    assert np.max(np.abs(found.astype(np.float64) - exact) / unit) < 2


def test_shapes_that_do_not_fit():
    given = triple(shared=4)
    with pytest.raises(dgo.Error, match="6 heads of queries for 4"):
        dgo.from_onnx(attention(given, {})).compile().run(given)

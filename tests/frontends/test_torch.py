"""PyTorch tensors in and out: one memory, owners released."""

import gc
import weakref

import numpy as np
import pytest

import dnnl_graph_ops as dgo

torch = pytest.importorskip("torch")

DTYPES = ["float32", "bfloat16", "float16", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_memory_in_both_directions(dtype):
    tensor = torch.ones(3, 4, dtype=getattr(torch, dtype))
    array = dgo.from_dlpack(tensor, copy=False)
    assert array.ctypes.data == tensor.data_ptr() and array.dtype.name == dtype
    again = torch.from_dlpack(dgo.to_dlpack(array))
    assert again.data_ptr() == tensor.data_ptr() and again.dtype == tensor.dtype
    array[1, 2] = 0
    assert not tensor[1, 2] and not again[1, 2]
    assert dgo.from_dlpack(tensor, copy=True).ctypes.data != tensor.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_land_in_tensors(dtype):
    x, w = torch.ones(1, 4, 4, 3, dtype=getattr(torch, dtype)), torch.ones(2, 2, 5, 3, dtype=getattr(torch, dtype))
    y = torch.empty(1, 8, 8, 5, dtype=x.dtype)
    place = y.data_ptr()
    dgo.conv_transpose(x, w, strides=2, out=dgo.from_dlpack(y, copy=False))
    assert y.data_ptr() == place and bool((y == 3).all())


def test_owners_are_released():
    array = np.ones(1000, np.float32)
    tensor = torch.from_dlpack(dgo.to_dlpack(array))
    alive = weakref.ref(array)
    del array
    gc.collect()
    assert alive() is not None and float(tensor.sum()) == 1000
    del tensor
    gc.collect()
    assert alive() is None

    tensor = torch.ones(1000)
    view, alive = dgo.from_dlpack(tensor, copy=False), weakref.ref(tensor.untyped_storage())
    del tensor
    gc.collect()
    assert view.sum() == 1000
    del view
    gc.collect()
    assert alive() is None


def test_parameters_are_told_to_be_detached():
    x, layer = torch.ones(1, 3, 4, 4), torch.nn.ConvTranspose2d(3, 5, 2)
    orders = {"data_format": "NCX", "weights_format": "IOX"}
    words = "the Parameter requires gradients, and nothing here records any; pass tensor.detach"
    with pytest.raises(dgo.InvalidArgumentError, match=f"conv_transpose: 'weights': {words}"):
        dgo.conv_transpose(x, layer.weight, **orders)
    graph = dgo.Graph()
    given = graph.input("x", (1, 3, 4, 4))
    with pytest.raises(dgo.InvalidArgumentError, match=words):
        dgo.ops.conv_transpose(given, layer.weight, **orders)
    net = graph.compile(dgo.ops.conv_transpose(given, layer.weight.detach(), **orders))
    with pytest.raises(dgo.InvalidArgumentError, match="the Tensor requires gradients"):
        net(x.requires_grad_())
    with pytest.raises(TypeError, match=r"got Parameter; a tensor's is tensor\.detach"):
        dgo.convert_weights(layer.weight, "pytorch", "XOI")
    got = net(x.detach())
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, layer(x).detach().numpy() - layer.bias.detach().numpy()[:, None, None], atol=1e-5)

"""PyTorch tensors in and out: one memory, owners released, and the gradients of the example."""

import gc
import importlib.util
import weakref
from pathlib import Path

import numpy as np
import pytest

import dnnl_graph_ops as dgo

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).parents[2] / "examples" / "08_torch_autograd.py"
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


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("torch_autograd", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:.*not a double precision:UserWarning")
@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_gradcheck_tells_right_from_wrong(example, factor):
    right = example.conv_transpose_function()

    class Scaled(right):
        @staticmethod
        def backward(ctx, dy):
            return tuple(factor * gradient for gradient in right.backward(ctx, dy))

    torch.manual_seed(1)
    shapes = (example.SHAPE, (example.SHAPE[1], example.OUT_CHANNELS, 3, 3), (example.OUT_CHANNELS,))
    given = tuple(torch.randn(shape, requires_grad=True) for shape in shapes)
    passed = torch.autograd.gradcheck(
        Scaled.apply, given, eps=example.STEP, atol=1e-3, rtol=1e-3, nondet_tol=1e-5, raise_exception=False
    )
    assert passed is (factor == 1.0)

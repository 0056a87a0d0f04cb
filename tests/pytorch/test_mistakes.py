"""Mistakes with PyTorch's modules and tensors are told with their remedy."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
import dnnl_graph_ops as dgo  # noqa: E402
import dnnl_graph_ops.torch as dgt  # noqa: E402


def model():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).eval()


def test_modules_of_torchscript_are_refused():
    module = torch.jit.trace(model(), torch.ones(1, 3, 8, 8))
    with pytest.raises(TypeError, match=r"optimize: TorchScript's modules cannot be changed; pass the one that"):
        dgt.optimize(module)


@pytest.mark.parametrize("wrapped", [lambda array: array, lambda array: (array,)])
def test_arrays_in_place_of_tensors(wrapped):
    inputs = wrapped(np.ones((1, 3, 8, 8), np.float32))
    with pytest.raises(TypeError, match=r"optimize: the model takes tensors, got an array; pass torch\.from_numpy"):
        dgt.optimize(model(), example_inputs=inputs)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: model().state_dict(), "OrderedDict; load it into one, module.load_state_dict(values)"),
        (lambda: "model.pt", "str; read the file in PyTorch, and pass the module"),
        (lambda: torch.nn.Conv2d, "type; pass an instance of it"),
    ],
)
def test_what_is_no_module(given, said):
    with pytest.raises(TypeError) as error:
        dgt.optimize(given())
    assert said in str(error.value)


def test_integers_are_no_dtype_of_layers():
    with pytest.raises(dgo.InvalidArgumentError, match=r"int8 is by dnnl_graph_ops\.quantize"):
        dgt.optimize(model(), dtype="int8")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("compile", "torch.compile(model, backend='dnnl_graph_ops')"),
        ("optimise", "it is dgt.optimize(model)"),
        ("quantize", "dnnl_graph_ops.quantize.calibrate"),
        ("profile", "it is dgt.report(model, *inputs)"),
        ("refrsh", "did you mean 'refresh'?"),
    ],
)
def test_names_of_other_packages(name, said):
    with pytest.raises(AttributeError) as error:
        getattr(dgt, name)
    assert said in str(error.value)

"""Optimized models against PyTorch's own: the same numbers, and weights that change are seen."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from children import child
from torch import nn

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.torch.layers.modules import is_ours, state_of


@pytest.fixture(autouse=True)
def seeded(request):
    torch.manual_seed(request.config.getoption("--seed"))


def integers(*shape):
    return torch.randint(-3, 4, shape).float()


@torch.no_grad()
def with_integers(model):
    for parameter in model.parameters():
        parameter.copy_(integers(*parameter.shape))
    return model


def model():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Conv2d(4, 2, 1)]
    return with_integers(nn.Sequential(*layers))


LAYERS = {
    "1d": (lambda: nn.Conv1d(4, 6, 5, padding=2), (2, 4, 30)),
    "2d, strided": (lambda: nn.Conv2d(4, 6, 3, stride=2, bias=False), (2, 4, 9, 10)),
    "3d, dilated": (lambda: nn.Conv3d(2, 4, 3, dilation=2), (1, 2, 7, 8, 9)),
    "groups": (lambda: nn.Conv2d(6, 9, 3, groups=3), (2, 6, 7, 7)),
    "same, uneven": (lambda: nn.Conv2d(3, 4, (4, 3), padding="same"), (2, 3, 8, 9)),
    "valid": (lambda: nn.Conv1d(3, 4, 3, padding="valid"), (2, 3, 9)),
    "reflected": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 8, 9)),
    "circular": (lambda: nn.Conv1d(3, 4, 3, padding=2, padding_mode="circular"), (2, 3, 9)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(4, 6, 16, 8, 4), (2, 4, 11)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), (2, 4, 6, 7)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(4, 2, 2, 2, bias=False), (1, 4, 3, 4, 5)),
    "transposed, groups": (lambda: nn.ConvTranspose2d(6, 9, 4, 2, 1, groups=3), (2, 6, 5, 5)),
    "no batch": (lambda: nn.Conv2d(3, 4, 3), (3, 8, 9)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_and_its_gradients_are_exact(name):
    make, shape = LAYERS[name]
    theirs = with_integers(make())
    ours = dgt.optimize(theirs)
    for x in (integers(*shape), integers(*shape).transpose(0, -1).contiguous().transpose(0, -1)):
        results = []
        for layer in (ours, theirs):
            layer.zero_grad()
            source = x.detach().requires_grad_()
            out = layer(source)
            weigh = torch.arange(out.numel()).reshape(out.shape).remainder(5).float()
            (out * weigh).sum().backward()
            results.append([out, source.grad, *(p.grad for p in layer.parameters())])
        for mine, other in zip(*results, strict=True):
            assert torch.equal(mine, other)
    with torch.no_grad():
        for layer in (ours, theirs):
            layer.eval()
        assert torch.equal(ours(x), theirs(x))
        assert torch.equal(ours(x), theirs(x))


@pytest.fixture
def ours_computes(request):
    """Nothing depends on times."""
    torch.use_deterministic_algorithms(True)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))


def test_a_second_training_step_finds_its_plans(ours_computes):
    ours, x = dgt.optimize(nn.Sequential(nn.Conv2d(3, 5, 3), nn.ConvTranspose2d(5, 4, 2, 2))), integers(2, 3, 7, 9)
    ours(x.requires_grad_()).sum().backward()
    made = dgo.cache_info()["misses"]
    ours(x).sum().backward()
    assert dgo.cache_info()["misses"] == made > 0


def test_only_the_class_differs():
    theirs = model()
    ours = dgt.optimize(theirs)
    assert repr(ours) == repr(theirs)
    assert all(isinstance(ours[i], type(theirs[i])) for i in range(4))
    assert [is_ours(layer) for layer in ours] == [True, False, True, True]
    assert not any(map(is_ours, theirs))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())


def test_strides_of_numpy_are_ints():
    layer = with_integers(nn.Conv2d(3, 4, 3, stride=tuple(np.array([2, 1]))))
    x = integers(1, 3, 9, 8)
    assert torch.equal(dgt.optimize(layer)(x), layer(x))


def test_inplace_and_layers():
    given = model()
    assert dgt.optimize(given, inplace=True, layers=lambda name, module: name != "0") is given
    assert [is_ours(layer) for layer in given] == [False, False, True, True]


def test_a_model_without_convolutions_is_warned_of_once(recwarn):
    warnings.simplefilter("default")
    for _ in range(3):
        model = dgt.optimize(nn.Linear(3, 4))
    assert type(model) is nn.Linear
    (only,) = recwarn
    assert str(only.message) == "optimize: no convolution of Linear was taken, and nothing else is changed"
    assert only.filename == __file__


@pytest.mark.parametrize(
    ("word", "dtype"),
    [("bf16", torch.bfloat16), ("BFloat16", torch.bfloat16), ("half", torch.float16), ("torch.float32", torch.float32)],
)
def test_dtypes_have_words(word, dtype):
    ours = dgt.optimize(nn.Conv2d(3, 4, 3), dtype=word)
    assert state_of(ours).dtype is dtype
    with torch.no_grad():
        x = integers(1, 3, 6, 6)
        assert torch.equal(ours(x), dgt.optimize(ours, dtype=dtype)(x)) and ours(x).dtype is x.dtype


@pytest.mark.parametrize("word", ["bf17", "float", "s8", torch.float64, 16])
def test_other_dtypes_are_refused(word):
    with pytest.raises(InvalidArgumentError, match=f"optimize: 'dtype' must be 'bf16', .*, got {word!r}"):
        dgt.optimize(nn.Conv2d(3, 4, 3), dtype=word)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_on_their_own(again):
    x = integers(2, 3, 6, 6)
    ours = dgt.optimize(model()).eval()
    with torch.no_grad():
        before = ours(x)
        other = again(ours)
        assert torch.equal(other(x), before)
        other[0].weight.zero_()
        other[0].bias.zero_()
        assert not torch.equal(other(x), before)
        assert torch.equal(ours(x), before)


CHANGES = {
    "in place": lambda layer: layer.weight.mul_(2),
    "copied": lambda layer: layer.weight.copy_(integers(*layer.weight.shape)),
    "loaded": lambda layer: layer.load_state_dict({k: v + 1 for k, v in layer.state_dict().items()}),
    "assigned": lambda layer: layer.load_state_dict({k: v + 1 for k, v in layer.state_dict().items()}, assign=True),
    "replaced": lambda layer: setattr(layer, "weight", nn.Parameter(layer.weight + 1)),
    "data replaced": lambda layer: setattr(layer.weight, "data", layer.weight + 1),
    "bias": lambda layer: layer.bias.add_(1),
    "no bias": lambda layer: setattr(layer, "bias", None),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", [lambda: nn.Conv2d(3, 4, 3), lambda: nn.ConvTranspose2d(3, 4, 3)])
def test_changed_weights_are_seen(make, change):
    ours = dgt.optimize(with_integers(make())).eval()
    theirs = with_integers(make()).eval()
    x = integers(2, 3, 6, 6)
    with torch.no_grad():
        for _ in range(3):
            ours(x)
            CHANGES[change](ours)
            if ours.bias is None:
                theirs.bias = None
            theirs.load_state_dict(ours.state_dict())
            assert torch.equal(ours(x), theirs(x))


def test_an_optimizer_is_seen():
    ours, x = dgt.optimize(nn.Conv2d(3, 4, 3)), torch.randn(2, 3, 6, 6)
    optimizer = torch.optim.Adam(ours.parameters())
    for _ in range(3):
        ours.train()
        ours(x).square().sum().backward()
        optimizer.step()
        ours.eval()
        with torch.no_grad():
            wanted = nn.functional.conv2d(x, ours.weight, ours.bias)
            torch.testing.assert_close(ours(x), wanted)


def test_what_versions_cannot_tell():
    ours, x = dgt.optimize(with_integers(nn.Conv2d(3, 4, 3))).eval(), integers(2, 3, 6, 6)
    with torch.no_grad():
        ours(x)
        ours.weight.data.mul_(2)
        dgt.refresh(ours)
        assert torch.equal(ours(x), nn.functional.conv2d(x, ours.weight, ours.bias))


def test_a_report_changes_nothing():
    ours, x = dgt.optimize(model()), integers(2, 3, 6, 6)
    state = copy.deepcopy(ours.state_dict())
    report = dgt.report(ours, x)
    assert ours.training
    assert all(torch.equal(a, b) for a, b in zip(state.values(), ours.state_dict().values(), strict=True))
    assert [row.layer for row in report] == ["0"] * 3 + ["2"] * 3 + ["3"] * 3
    assert [row.direction for row in report[:3]] == ["forward", "backward_data", "backward_weights"]
    assert len(str(report).splitlines()) == 12
    assert {row["computed_by"] for row in report.to_dict()["layers"]} <= {"dnnl_graph_ops", "PyTorch"}


def test_a_report_has_a_line_for_each_layer_and_totals():
    made = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3)), nn.ConvTranspose1d(4, 2, 4, 2))
    report = dgt.report(dgt.optimize(made).eval(), torch.ones(1, 3, 8))
    assert [row.direction for row in report] == ["forward"] * 2
    assert report[0].text == "ParametrizedConv1d(3, 4, kernel_size=(3,), stride=(1,))"
    _, *rows, total, whole = str(report).splitlines()
    assert len(rows) == 2 and total.startswith("layers: ") and total.endswith(" ms in PyTorch")
    assert whole.startswith("the model: waiting: ")
    assert report.to_dict()["their_seconds"] == report.their_seconds >= report.seconds > 0


def test_a_report_counts_no_gradient_of_the_models_input():
    made, x = dgt.optimize(nn.Sequential(nn.Conv1d(3, 4, 3), nn.Conv1d(4, 2, 3))), torch.ones(1, 3, 8)
    assert [row.calls for row in dgt.report(made, x)] == [1, 0, 1, 1, 1, 1]
    assert [row.calls for row in dgt.report(made, x.clone().requires_grad_())] == [1] * 6


@pytest.mark.child
@pytest.mark.parametrize("call", ["dgt.optimize(model)", "torch.compile(model, backend='dnnl_graph_ops')(x)"])
def test_a_misspelt_instruction_set_is_an_error(call):
    code = (
        f"import torch, dnnl_graph_ops.torch as dgt; x = torch.ones(1, 2, 5); model = torch.nn.Conv1d(2, 2, 1); {call}"
    )
    done = child("-c", code, DNNL_GRAPH_OPS_ISA="avx3")
    assert done.returncode != 0
    assert "DNNL_GRAPH_OPS_ISA is 'avx3', which is no instruction set of" in done.stderr


def test_the_log_names_layers(caplog):
    layer = nn.Conv1d(2, 3, 5)
    with caplog.at_level("INFO", logger="dnnl_graph_ops.torch.choice"):
        dgt.report(dgt.optimize(layer).eval(), torch.ones(1, 2, 61))
    assert caplog.messages
    for line in caplog.messages:
        assert line.startswith("convolution, weights (3, 2, 5) torch.float32, extents (1, 56): computed by ")
        assert line.endswith(" ms in PyTorch")


def test_a_report_says_what_is_slower_here():
    def row(direction, computed_by, ours, theirs, layer="0"):
        return dgt.LayerTime(layer, "Conv1d(1, 1)", direction, (1, 1, 8), 2, computed_by, ours, theirs, "measured")

    report = dgt.Report(
        [
            row("forward", "PyTorch", 4e-3, 3e-3),
            row("backward_data", "dnnl_graph_ops", 1e-3, 2e-3),
            row("forward", "PyTorch", None, None, "1"),
        ]
    )
    assert (report.seconds, report.their_seconds) == pytest.approx((8e-3, 10e-3))
    lines = [line.split() for line in str(report).splitlines()]
    assert lines[1][-6:] == ["-", "slower", "here:", "left", "to", "PyTorch"]
    assert lines[2] == ["backward_data", "dnnl_graph_ops", "1.000", "2.000", "2.00", "measured"]
    assert lines[3][0] == "1"
    assert lines[4] == ["layers:", "8.000", "ms", "here,", "10.000", "ms", "in", "PyTorch"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: dgt.optimize("model"), TypeError),
        (lambda: dgt.optimize(nn.ReLU(), layers="all"), TypeError),
        (lambda: dgt.refresh(None), TypeError),
        (lambda: dgt.report(None), TypeError),
        (lambda: dgt.report(nn.Conv2d(1, 1, 1)), InvalidArgumentError),
        (lambda: dgt.report(dgt.optimize(nn.Conv2d(1, 1, 1))), InvalidArgumentError),
    ],
)
def test_mistakes(call, error):
    with pytest.raises(error):
        call()


def test_inputs_that_the_model_does_not_take_are_told_from_others():
    ours, x = dgt.optimize(nn.Conv2d(1, 1, 1)), torch.ones(1, 1, 2, 2)
    words = r"report: .*Conv2d takes \(input.*.*0 example inputs .*pass the model's arguments.*dgt.report\(model, x\)"
    with pytest.raises(InvalidArgumentError, match=words):
        dgt.report(ours)
    with pytest.raises(InvalidArgumentError, match=r"optimize: .* was given 2 example inputs"):
        dgt.optimize(nn.Conv2d(1, 1, 1), example_inputs=(x, x))
    assert len(dgt.report(ours, x)) == 3

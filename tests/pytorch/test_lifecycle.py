"""What happens to a model between its making and its end, with optimized layers in it."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.fx.experimental import optimization
from torch.nn.utils import parametrizations, parametrize, prune

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.choice.verdicts import Verdict
from dnnl_graph_ops.torch.layers import call_cache
from dnnl_graph_ops.torch.layers.modules import is_ours, state_of

from .common import assert_equal, input_of, integers, results, with_integers

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def seeded(seed):
    torch.manual_seed(seed)


MAKE = {
    "Conv1d": lambda: nn.Conv1d(4, 6, 3, padding=1),
    "Conv2d": lambda: nn.Conv2d(4, 6, 3, stride=2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1),
    "ConvTranspose3d": lambda: nn.ConvTranspose3d(4, 2, 2, 2),
}


@pytest.fixture(params=MAKE)
def layer(request):
    return with_integers(MAKE[request.param]())


def assert_near(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-3)


def assert_same(ours, theirs, x, close=False):
    """In training and in eval mode, three times each; `theirs` takes the state of `ours`."""
    with torch.no_grad():
        for mine, other in zip(
            (*ours.parameters(), *ours.buffers()), (*theirs.parameters(), *theirs.buffers()), strict=True
        ):
            other.copy_(mine)
    check = assert_near if close else assert_equal
    for train in (True, False):
        for module in (ours, theirs):
            module.train(train)
        for _ in range(3):
            check(results(ours, x), results(theirs, x))
            with torch.no_grad():
                check(results(ours, x, train=False), results(theirs, x, train=False))


# -- what computes weights ------------------------------------------------------------------------------------


class Doubled(nn.Module):
    def forward(self, w):
        return w * 2

    def right_inverse(self, w):
        return w / 2


WEIGHTS = {
    "old weight_norm": (torch.nn.utils.weight_norm, torch.nn.utils.remove_weight_norm),
    "old spectral_norm": (torch.nn.utils.spectral_norm, torch.nn.utils.remove_spectral_norm),
    "weight_norm": (parametrizations.weight_norm, lambda m: parametrize.remove_parametrizations(m, "weight")),
    "spectral_norm": (parametrizations.spectral_norm, lambda m: parametrize.remove_parametrizations(m, "weight")),
    "orthogonal": (parametrizations.orthogonal, lambda m: parametrize.remove_parametrizations(m, "weight")),
    "own": (
        lambda m: parametrize.register_parametrization(m, "weight", Doubled()),
        lambda m: parametrize.remove_parametrizations(m, "weight"),
    ),
    "of the bias": (
        lambda m: parametrize.register_parametrization(m, "bias", Doubled()),
        lambda m: parametrize.remove_parametrizations(m, "bias"),
    ),
    "pruned": (lambda m: prune.l1_unstructured(m, "weight", 5), lambda m: prune.remove(m, "weight")),
    "pruned twice": (
        lambda m: prune.random_structured(prune.l1_unstructured(m, "weight", 5), "weight", 1, 0),
        lambda m: prune.remove(m, "weight"),
    ),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_computed_weights(layer, name, before):
    """Registered before and after `optimize`, changed, and removed."""
    change, undo = WEIGHTS[name]
    x = input_of(layer)
    theirs, ours = copy.deepcopy(layer), copy.deepcopy(layer)
    if before:
        change(theirs), change(ours)
        ours = dgt.optimize(ours)
    else:
        ours = dgt.optimize(ours)
        with torch.no_grad():
            ours.eval()(x), ours(x)
        ours.train(), change(theirs), change(ours)
    assert is_ours(ours)
    assert isinstance(ours, type(layer))
    for round in range(2):
        assert_same(ours, theirs, x, close=True)
        with torch.no_grad():
            for parameter in ours.parameters():
                parameter.add_(1 + round)
    if name == "own":
        with torch.no_grad():
            before = ours.eval()(x)
            ours.weight = ours.weight + 1
            assert not torch.equal(before, ours(x))
    theirs.load_state_dict(ours.state_dict())
    undo(ours), undo(theirs)
    assert is_ours(ours)
    assert ours.state_dict().keys() == layer.state_dict().keys()
    assert_same(ours, theirs, x, close=True)
    # the hook of parametrizations.weight_norm stays, and cannot be pickled
    other = copy.deepcopy(ours) if name == "weight_norm" else pickle.loads(pickle.dumps(ours))
    assert_same(other, theirs, x, close=True)


def test_a_parametrization_by_other_tensors_is_not_cached():
    """Nobody can know where its weights come from."""

    class Scaled(nn.Module):
        factor = 1.0

        def forward(self, w):
            return w * self.factor

    ours, x = dgt.optimize(with_integers(nn.Conv2d(4, 6, 3))).eval(), integers(2, 4, 7, 7)
    parametrize.register_parametrization(ours, "weight", Scaled())
    with torch.no_grad():
        one = [ours(x) for _ in range(3)][-1]
        Scaled.factor = 2.0
        bias = ours.bias[:, None, None]
        assert torch.equal(ours(x) - bias, 2 * (one - bias))


# -- classes of users -----------------------------------------------------------------------------------------


class Named(nn.Conv2d):
    """Nothing of its own but what makes it."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, padding=1)
        self.extra = nn.Parameter(torch.ones(1))


class Standardized(nn.Conv2d):
    def forward(self, x):
        w = self.weight - self.weight.mean()
        return self._conv_forward(x, w, self.bias)


class Padded(nn.Conv2d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, weight * 2, bias)


@pytest.mark.parametrize(
    ("make", "taken"),
    [(lambda: Named(4), True), (lambda: Standardized(4, 6, 3), False), (lambda: Padded(4, 6, 3), False)],
)
def test_subclasses(make, taken):
    theirs = with_integers(make())
    ours = dgt.optimize(theirs)
    assert is_ours(ours) is taken
    assert isinstance(ours, type(theirs))
    assert repr(ours) == repr(theirs)
    assert_same(ours, theirs, integers(2, 4, 7, 7), close=True)
    other = pickle.loads(pickle.dumps(ours))
    assert type(other) is type(ours)
    assert_same(other, theirs, integers(2, 4, 7, 7), close=True)
    assert type(copy.deepcopy(ours)) is type(ours)


# -- hooks ----------------------------------------------------------------------------------------------------


def test_hooks_are_called_as_before(layer):
    x = input_of(layer)

    def heard(module):
        said = []
        module.register_forward_pre_hook(lambda m, args: said.append(("pre", args[0].shape)))
        module.register_forward_hook(lambda m, args, out: said.append(("forward", out.shape)) or out * 2)
        module.register_full_backward_pre_hook(lambda m, grad: said.append(("backward pre", grad[0].sum())))
        module.register_full_backward_hook(
            lambda m, into, grad: said.append(("backward", into[0].sum(), grad[0].sum()))
        )
        module.register_state_dict_pre_hook(lambda m, *args: said.append("state"))
        module.register_state_dict_post_hook(lambda m, state, *args: said.append(sorted(state)))
        module.register_load_state_dict_pre_hook(lambda m, state, *args: said.append(("load", sorted(state))))
        module.weight.register_hook(lambda grad: said.append(("weight", grad.sum())))
        module.weight.register_post_accumulate_grad_hook(lambda p: said.append(("grad", p.grad.sum())))
        found = results(module, x)
        module.load_state_dict(module.state_dict())
        return said, found

    (said, found), (wanted, expected) = heard(dgt.optimize(layer)), heard(copy.deepcopy(layer))
    assert said == wanted
    assert_equal(found, expected)


# -- saved, loaded, moved -------------------------------------------------------------------------------------


def sequence():
    return with_integers(
        nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.ConvTranspose2d(6, 3, 4, 2, 1))
    )


def test_saved_and_loaded():
    theirs, x = sequence(), integers(2, 4, 7, 7)
    ours = dgt.optimize(theirs)
    for source, target in [(theirs, ours), (ours, theirs)]:
        file = io.BytesIO()
        torch.save(source.state_dict(), file)
        file.seek(0)
        assert target.load_state_dict(torch.load(file, weights_only=True), strict=True).missing_keys == []
    with torch.no_grad():
        ours.eval()(x)
    file = io.BytesIO()
    torch.save(ours, file)
    assert b"packed" not in file.getvalue()
    file.seek(0)
    other = torch.load(file, weights_only=False)
    assert is_ours(other[0])
    assert_same(other, theirs, x, close=True)


def test_a_file_is_no_larger():
    theirs = sequence()
    ours = dgt.optimize(theirs).eval()
    with torch.no_grad():
        ours(integers(2, 4, 7, 7))
    assert len(pickle.dumps(ours)) < len(pickle.dumps(theirs)) + 1000


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.double(),
        lambda m: m.double().float(),
        lambda m: m.bfloat16(),
        lambda m: m.half().float(),
        lambda m: m.to(memory_format=torch.channels_last),
        lambda m: m.to("meta"),
        lambda m: with_integers(m.to("meta").to_empty(device="cpu")),
        lambda m: m.share_memory(),
        lambda m: m.requires_grad_(False),
        lambda m: m.to(torch.complex64),
    ],
)
def test_moved(move):
    theirs, x = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.ConvTranspose2d(6, 3, 4, 2, 1)), integers(2, 4, 7, 7)
    ours = dgt.optimize(with_integers(theirs))
    with torch.no_grad():
        ours.eval()(x), ours(x)
    theirs, ours = move(theirs), move(ours)
    if theirs[0].weight.is_meta:
        x = x.to("meta")
        assert ours(x).shape == theirs(x).shape
        return
    theirs.load_state_dict(ours.state_dict())
    x = x.to(theirs[0].weight.dtype)
    # between the layers bf16 rounds numbers of some hundreds, and not every CPU's sums alike
    atol = 4 if x.dtype == torch.bfloat16 else 1
    for train in (True, False):
        ours.train(train), theirs.train(train)
        for _ in range(3):
            torch.testing.assert_close(ours(x), theirs(x), rtol=0.02, atol=atol, equal_nan=True)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("swap", [False, True])
def test_future_switches(layer, overwrite, swap):
    """`torch.__future__` has other ways of moving and of loading."""
    x, theirs, ours = input_of(layer), copy.deepcopy(layer), dgt.optimize(layer).eval()
    torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        with torch.no_grad():
            ours(x)
            ours.double().float()
            ours(x)
            ours.load_state_dict({k: v + 1 for k, v in theirs.state_dict().items()})
            theirs.load_state_dict({k: v + 1 for k, v in theirs.state_dict().items()})
            assert torch.equal(ours(x), theirs(x))
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
        torch.__future__.set_swap_module_params_on_conversion(False)


# -- transformed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", [True, False])
def test_functional_call(train):
    theirs, x = sequence(), integers(2, 4, 7, 7)
    ours = dgt.optimize(theirs).train(train)
    with torch.no_grad():
        ours(x)
        for module in (ours, theirs):
            module.train(train)
        other = {k: v + 1 for k, v in theirs.state_dict().items()}
        mine, wanted = (torch.func.functional_call(copy.deepcopy(m), other, (x,)) for m in (ours, theirs))
        assert_near(mine, wanted)


@pytest.mark.parametrize("train", [True, False])
def test_ensembles(train):
    """Parameters stacked by torch.func.stack_module_state, and called under vmap."""
    models = [
        with_integers(nn.Sequential(nn.Conv2d(4, 6, 3), nn.Tanh(), nn.ConvTranspose2d(6, 3, 2, 2))) for _ in range(3)
    ]
    ours, x = [dgt.optimize(m).train(train) for m in models], integers(2, 4, 7, 7)
    parameters, buffers = torch.func.stack_module_state(ours)
    base = copy.deepcopy(ours[0]).to("meta")
    for skeleton in (base, ours[0]):

        def call(p, b, x, skeleton=skeleton):
            return torch.func.functional_call(skeleton, (p, b), (x,))

        for _ in range(2):
            made = torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
            assert_near(made, torch.stack([m(x) for m in models]))
    gradients = torch.func.grad(lambda p: torch.func.functional_call(ours[0], p, (x,)).sum())(
        dict(ours[0].named_parameters())
    )
    wanted = torch.func.grad(lambda p: torch.func.functional_call(models[0], p, (x,)).sum())(
        dict(models[0].named_parameters())
    )
    assert_near({k: v.detach() for k, v in gradients.items()}, {k: v.detach() for k, v in wanted.items()})


def test_forward_mode(layer):
    x, ours = input_of(layer), dgt.optimize(layer)
    for train in (True, False):
        ours.train(train)
        a, b = (torch.func.jvp(m, (x,), (x + 1,)) for m in (ours, layer))
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


# -- exported -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", [True, False])
def test_traced_and_scripted(train):
    theirs, x = sequence(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    for module in (ours, theirs):
        module.train(train)
    with torch.no_grad():
        ours.eval()(x)
        ours.train(train)
    for make in (lambda m: torch.jit.trace(m, x, check_trace=False), torch.jit.script):
        made = make(copy.deepcopy(ours))
        assert "dnnl_graph_ops::" not in str(made.inlined_graph)
        assert_near(made(x), theirs(x))
        file = io.BytesIO()
        torch.jit.save(made, file)
        file.seek(0)
        torch.jit.load(file)(x)
        assert made.state_dict().keys() == theirs.state_dict().keys()


def test_scripting_leaves_the_model_as_it_was():
    ours, x = dgt.optimize(sequence()).eval(), integers(2, 4, 8, 8)
    made = torch.jit.script(ours)
    assert is_ours(ours[0]) and is_ours(ours[3])
    with torch.no_grad():
        ours[0].weight.mul_(2)
        assert_near(made(x), ours(x))
    # a method that is not exported changes nothing, and one layer alone
    one = dgt.optimize(nn.Conv1d(2, 3, 3, padding="same"))
    assert_near(torch.jit.script(one)(torch.ones(1, 2, 9)), one(torch.ones(1, 2, 9)))
    frozen = torch.jit.freeze(torch.jit.script(ours))
    assert_near(frozen(x), ours(x))


def test_symbolically_traced():
    theirs, x = sequence().eval(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    made = torch.fx.symbolic_trace(ours)
    assert [n.op for n in made.graph.nodes] == [n.op for n in torch.fx.symbolic_trace(theirs).graph.nodes]
    assert is_ours(made.get_submodule("0"))
    assert_near(made(x), theirs(x))
    # fused by PyTorch's own pass
    fused = optimization.fuse(ours)
    assert_near(fused(x), theirs(x))
    # a layer that is traced through
    made = torch.fx.symbolic_trace(ours[0])
    assert_near(made(x), theirs[0](x))


def test_exported_to_onnx(tmp_path):
    onnx = pytest.importorskip("onnx")
    theirs, x = sequence().eval(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    with torch.no_grad():
        ours(x)
    kinds = []
    for number, model in enumerate((ours, theirs)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (x,), str(tmp_path / f"{number}.onnx"), dynamo=False)
        file = onnx.load(tmp_path / f"{number}.onnx")
        kinds.append([(node.op_type, node.domain) for node in file.graph.node])
    assert kinds[0] == kinds[1]
    assert ("ConvTranspose", "") in kinds[0]


def test_exported_by_torch_export():
    theirs, x = sequence().eval(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    program = torch.export.export(ours, (x,))
    assert_near(program.module()(x), theirs(x))


@pytest.mark.slow
@pytest.mark.parametrize("train", [True, False])
def test_compiled(train):
    """In whole, with gradients, and copied."""
    theirs, x = sequence().train(train), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    with torch.no_grad():
        copy.deepcopy(ours)(x)
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    assert_near(list(results(compiled, x).values()), list(results(theirs, x).values()))
    assert all(is_ours(m) for m in compiled.modules() if isinstance(m, nn.modules.conv._ConvNd))
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        next(other.parameters()).zero_()
        assert not torch.equal(other(x), compiled(x))
    assert_near(compiled(x), theirs(x))
    ours.compile(backend="aot_eager")
    assert_near(ours(x), theirs(x))


def test_fused_and_quantized_by_pytorch():
    theirs, x = sequence().eval(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    fused = nn.utils.fusion.fuse_conv_bn_eval(ours[0], ours[1])
    assert is_ours(fused)
    with torch.no_grad():
        for _ in range(3):
            assert_near(fused(x), theirs[1](theirs[0](x)))
            assert_near(ours(x), theirs(x))
    model = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.Flatten(), nn.Linear(6 * 64, 5)).eval()
    quantized = torch.ao.quantization.quantize_dynamic(dgt.optimize(model), {nn.Linear})
    assert is_ours(quantized[0])
    assert_near(quantized(x), torch.ao.quantization.quantize_dynamic(model, {nn.Linear})(x))


# -- wrapped --------------------------------------------------------------------------------------------------


def test_averaged():
    theirs, x = sequence(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    averages = [
        torch.optim.swa_utils.AveragedModel(m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
        for m in (ours, theirs)
    ]
    with torch.no_grad():
        for _ in range(3):
            for average, module in zip(averages, (ours, theirs), strict=True):
                average.eval()(x)
                for parameter in module.parameters():
                    parameter.add_(1)
                average.update_parameters(module)
            assert_near(averages[0](x), averages[1](x))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("faster", [None, True, False], ids=["measured", "ours", "theirs"])
def test_checkpointed(reentrant, faster, monkeypatch):
    """Whoever is found to be faster at the first call computes the second, which must save as many tensors."""
    if faster is not None:
        monkeypatch.setattr(call_cache, "verdict", lambda *_: Verdict(faster))
    theirs, x = sequence(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)

    class Checkpointed(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.model, x, use_reentrant=reentrant)

    assert_near(results(Checkpointed(ours), x), results(Checkpointed(theirs), x))


def test_replicated():
    """As DataParallel does: copies whose parameters are other tensors."""
    theirs, x = sequence().eval(), integers(2, 4, 8, 8)
    ours = dgt.optimize(theirs)
    with torch.no_grad():
        ours(x)
        replica = copy.copy(ours[0])
        replica = ours[0]._replicate_for_data_parallel()
        for name, value in ours[0]._parameters.items():
            setattr(replica, name, value.detach() * 2)
        for _ in range(3):
            assert_near(ours[0](x), theirs[0](x))
            assert_near(replica(x), 2 * theirs[0](x))
    assert_near(nn.DataParallel(ours)(x), theirs(x))


def test_offloaded():
    """Activations that autograd saves may be packed by the user's hooks."""
    theirs, x = sequence(), integers(2, 4, 8, 8)
    ours, seen = dgt.optimize(theirs), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.shape) or t.clone(), lambda t: t):
        found = results(ours, x)
    assert_near(found, results(theirs, x))
    assert torch.Size((2, 4, 8, 8)) in seen
    with torch.autograd.graph.save_on_cpu():
        assert_near(results(ours, x), results(theirs, x))


def test_a_saved_tensor_that_changes_is_noticed(layer):
    x, ours = input_of(layer).requires_grad_(), dgt.optimize(layer)
    out = ours(x)
    with torch.no_grad():
        ours.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_state_is_no_part_of_the_module(layer):
    ours = dgt.optimize(layer)
    assert state_of(ours) is state_of(ours)
    assert ours.state_dict().keys() == layer.state_dict().keys()
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in layer.named_modules()]
    assert dir(layer) == [n for n in dir(ours) if n in dir(layer)]

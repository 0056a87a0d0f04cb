"""torch.compile(model, backend="dnnl_graph_ops"): results, graphs, parameters that change, gradients, sizes."""

import logging
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from frontends import user_models
from torch import nn
from torch.nn import functional as F

from dnnl_graph_ops.bench import zoo
from dnnl_graph_ops.bench.zoo import export
from dnnl_graph_ops.passes import mixed_precision as precision
from dnnl_graph_ops.torch.choice.verdicts import Verdict
from dnnl_graph_ops.torch.whole_model import backend

TOLERANCE = 2e-5


class Counted:
    """The backend, with what it was given and the regions that it made."""

    def __init__(self, monkeypatch):
        self.graphs, self.regions, self.entries = [], [], []
        for name, kept in (("Region", self.regions), ("_Entry", self.entries)):
            made = getattr(backend, name)

            def make(*args, made=made, kept=kept):
                kept.append(made(*args))
                return kept[-1]

            monkeypatch.setattr(backend, name, make)

    def __call__(self, module, inputs, **options):
        made = backend.dnnl_graph_ops(module, inputs, **options)
        # where PyTorch does not begin anew
        self.graphs.append(module)
        return made


@pytest.fixture
def counted(monkeypatch, caplog):
    """With nothing left to PyTorch that a net can run, whoever is faster."""
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: True)
    torch._dynamo.reset()
    with caplog.at_level(logging.INFO, backend.__name__):
        yield Counted(monkeypatch)
    said = [one.getMessage() for one in caplog.records if one.name == backend.__name__]
    assert [text for text in said if not text.startswith(backend.LEFT)] == []
    torch._dynamo.reset()


def flat(results):
    return list(results) if isinstance(results, tuple | list) else [results]


def agree(compiled, module, inputs):
    with torch.no_grad():
        got, wanted = flat(compiled(*inputs)), flat(module(*inputs))
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert type(mine) is type(theirs) and mine == theirs
            continue
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if theirs.is_floating_point():
            assert float((mine - theirs).abs().max()) <= TOLERANCE * max(float(theirs.abs().max()), 1e-3)
        else:
            assert torch.equal(mine, theirs)


# the default tier takes every fourth
PYTORCH = ("dcgan", "pix2pix_in", "unet", "nnunet_decoder", "fsrcnn", "hifigan", "vae_decoder",
           "resnet18", "encodec_decoder")  # fmt: skip


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("name", PYTORCH)
def test_the_zoo_is_one_graph_and_one_net(name, counted):
    module = zoo.build(name, small=True)
    inputs = tuple(map(torch.from_numpy, export.inputs(name, small=True)))
    agree(torch.compile(module, backend=counted), module, inputs)
    assert len(counted.graphs) == len(counted.regions) == 1
    assert all(entry.net is not None for entry in counted.entries)


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("name", user_models.MODELS)
def test_what_users_have(name, counted):
    module, inputs = user_models.made(name)
    agree(torch.compile(module, backend=counted), module, inputs)
    assert all(entry.net is not None for entry in counted.entries)
    # PyTorch captures no recurrent layers
    assert counted.entries or name in ("gru", "lstm", "seq2seq")


@pytest.mark.slow
def test_a_new_length_needs_no_new_graph(counted):
    module = zoo.build("hifigan", small=True)
    compiled = torch.compile(module, backend=counted, dynamic=True)
    for length in (4, 9, 7, 12):
        agree(compiled, module, (torch.randn(1, 80, length),))
    assert len(counted.graphs) == len(counted.entries) == 1


@pytest.mark.slow
def test_attention_over_pixels_of_any_number(counted):
    class Pixels(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.qkv, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 48), nn.Conv2d(16, 4, 1)

        def forward(self, x):
            n, c, h, w = (x := self.first(x)).shape
            q, k, v = self.qkv(x.flatten(2).transpose(1, 2)).view(n, h * w, 3, 4, 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
            return self.last(y.transpose(1, 2).view(n, c, h, w))

    module = Pixels()
    compiled = torch.compile(module, backend=counted, dynamic=True)
    for height, width in ((6, 7), (8, 5), (9, 9)):
        agree(compiled, module, (torch.randn(2, 3, height, width),))
    # one for squares, which PyTorch takes apart
    assert len(counted.graphs) <= 2
    assert all(entry.net is not None for entry in counted.entries) and len(counted.regions) == len(counted.graphs)


def layers():
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.ConvTranspose2d(8, 4, 4, 2, 1),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 36, 5),
    ).eval()  # fmt: skip


X = torch.linspace(-1, 1, 2 * 3 * 36).reshape(2, 3, 6, 6)


@pytest.mark.slow
def test_parameters_that_change_are_seen(counted):
    module = layers()
    compiled = torch.compile(module, backend=counted)
    agree(compiled, module, (X,))
    with torch.no_grad():
        module[0].weight.mul_(2)
        agree(compiled, module, (X,))
        module[1].running_mean.add_(0.5)
        agree(compiled, module, (X,))
    module.load_state_dict({name: one * 0.5 for name, one in module.state_dict().items()})
    agree(compiled, module, (X,))
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    module(X).square().sum().backward()
    optimizer.step()
    agree(compiled, module, (X,))
    assert len(counted.graphs) == 1 and len(counted.regions[0]._entries) == 1


def test_changes_that_versions_do_not_tell(counted):
    module = layers()
    compiled = torch.compile(module, backend=counted)
    optimizer = torch.optim.Adam(module.parameters(), 0.1, fused=True)
    for _ in range(2):
        agree(compiled, module, (X,))
        module(X).square().sum().backward()
        optimizer.step()
    agree(compiled, module, (X,))
    module[0].weight.data.mul_(2)
    agree(compiled, module, (X,))


def test_modules_that_share_a_graph(counted):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(3))
            for block in self.blocks:
                block.compile(backend=counted)

        def forward(self, x):
            for block in self.blocks:
                x = torch.relu(block(x))
            return x

    module, x = Both(), torch.randn(1, 4, 9)
    wanted = x
    with torch.no_grad():
        for block in module.blocks:
            wanted = torch.relu(F.conv1d(wanted, block.weight, block.bias, padding=1))
        for _ in range(2):
            assert torch.allclose(module(x), wanted, atol=1e-6)


@pytest.mark.parametrize(("faster", "builds"), [(True, backend._FIRST_BUILDS), (False, 1)])
def test_many_modules_that_share_a_graph_build_few_nets(faster, builds, monkeypatch):
    """Nets whose parameters alternate would hardly be used."""
    torch._dynamo.reset()
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: faster)
    counted = Counted(monkeypatch)
    blocks = [nn.Conv1d(4, 4, 3, padding=1) for _ in range(backend._FIRST_BUILDS + 2)]
    compiled = torch.compile(lambda x, block: torch.relu(block(x)), backend=counted)
    x = torch.linspace(-1, 1, 36).reshape(1, 4, 9)
    with torch.no_grad():
        for _ in range(2):
            for block in blocks:
                agree(compiled, lambda x, block=block: torch.relu(block(x)), (x, block))
    torch._dynamo.reset()
    assert len(counted.graphs) == 1 and len(counted.entries) == builds


def test_nets_that_run_often_are_built_again(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: True)
    counted, module = Counted(monkeypatch), nn.Conv1d(4, 4, 3)
    compiled, times = torch.compile(module, backend=counted), backend._FIRST_BUILDS + 2
    with torch.no_grad():
        for _ in range(times):
            module.weight.add_(0.5)
            for _ in range(backend._RUNS_OF_A_BUILD):
                agree(compiled, module, (torch.ones(1, 4, 9),))
    torch._dynamo.reset()
    assert len(counted.entries) == times


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True])
def test_gradients_are_those_of_pytorch(train, counted):
    module, theirs = layers().train(train), layers().train(train)
    compiled = torch.compile(module, backend=counted)
    for _ in range(2):
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        compiled(x).square().sum().backward()
        theirs(y).square().sum().backward()
        assert torch.allclose(x.grad, y.grad, rtol=1e-4, atol=1e-5)
        for mine, other in zip(module.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(mine.grad, other.grad, rtol=1e-4, atol=1e-4)
        for mine, other in zip(module.buffers(), theirs.buffers(), strict=True):
            assert torch.allclose(mine, other, atol=1e-5)
    assert not counted.regions
    module.eval()
    agree(compiled, module, (X,))
    assert counted.regions


def test_gradients_of_inputs_alone(counted):
    module = layers().requires_grad_(False)
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    torch.compile(module, backend=counted)(x).sum().backward()
    module(y).sum().backward()
    assert torch.allclose(x.grad, y.grad, atol=1e-5)


def test_convolutions_of_all_kinds_with_gradients(counted):
    def kinds(x, w, t):
        y = F.conv1d(x, w, None, 1, "same", 2) + F.conv1d(x, w, stride=1, padding=1)
        y = y + F.conv1d(x[0], w, padding=(1,))
        return F.conv_transpose1d(y, t, stride=(2,), padding=1, output_padding=1, dilation=2).square().sum()

    given = [torch.randn(2, 4, 9), torch.randn(6, 4, 3), torch.randn(6, 3, 3)]
    some, others = ([one.clone().requires_grad_() for one in given] for _ in range(2))
    torch.compile(kinds, backend=counted)(*some).backward()
    kinds(*others).backward()
    for mine, theirs in zip(some, others, strict=True):
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-4, atol=1e-3)


def test_what_no_net_has_runs_in_pytorch(counted):
    conv = nn.Conv2d(3, 8, 3, padding=1)

    def mixed(x):
        y = torch.relu(conv(x)) * 2
        y = y.to(torch.complex64).abs() + torch.rand_like(y) * 0
        return torch.sigmoid(conv(y[:, :3]) + 1)

    agree(torch.compile(mixed, backend=counted), mixed, (X,))
    assert len(counted.graphs) == 1 and len(counted.regions) >= 2
    assert all(entry.net is not None for entry in counted.entries)


@torch.no_grad()
def test_tensors_that_captured_code_makes_of_numbers(counted):
    def shifted(x):
        basis = torch.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=x.dtype)
        return torch.relu(x + basis) @ basis.T, basis

    compiled = torch.compile(shifted, backend=counted, fullgraph=True)
    for dtype in (torch.float32, torch.bfloat16):
        for x in (torch.ones(2, 3, dtype=dtype), torch.full((2, 3), -2, dtype=dtype)):
            for got, want in zip(compiled(x), shifted(x), strict=True):
                assert got.dtype is dtype and torch.equal(got, want)
    assert all(entry.net is not None for entry in counted.entries)


@torch.no_grad()
def test_tensors_made_of_numbers_beside_random_numbers(counted):
    def shifted(x):
        basis = torch.tensor([1.0, 2, 3])
        return torch.relu(x + basis) * 2 + basis + torch.rand_like(x) * 0

    compiled = torch.compile(shifted, backend=counted)
    for x in (torch.ones(2, 3), torch.full((2, 3), -2.0)):
        assert torch.equal(compiled(x), shifted(x))
    assert [entry.net is not None for entry in counted.entries] == [True]


def test_results_that_depend_on_data(counted):
    def found(x):
        y = torch.relu(x * 2)
        return torch.nonzero(y), y.sum()

    agree(torch.compile(found, backend=counted), found, (X,))


def test_inputs_that_are_written_to_or_returned(counted):
    def writes(x):
        x.add_(1)
        return x, x[:, 1:], x.t()

    a, b = torch.ones(3, 4), torch.ones(3, 4)
    with torch.no_grad():
        got, wanted = torch.compile(writes, backend=counted)(a), writes(b)
    assert torch.equal(a, b) and got[0] is a
    for mine, theirs in zip(got, wanted, strict=True):
        assert torch.equal(mine, theirs) and mine.stride() == theirs.stride()


def test_memory_formats(counted):
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
    compiled = torch.compile(module, backend=counted)
    agree(compiled, module, (x,))
    with torch.no_grad():
        assert compiled(x).stride() == module(x).stride()
    agree(torch.compile(lambda x: torch.relu(x), backend=counted), torch.relu, (X.transpose(1, 2),))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_and_autocast(dtype, counted):
    module = layers().to(dtype)
    with torch.inference_mode():
        got, wanted = torch.compile(module, backend=counted)(X.to(dtype)), layers()(X)
    assert got.dtype == dtype and torch.allclose(got.float(), wanted, atol=0.05)
    module = layers()
    with torch.inference_mode(), torch.autocast("cpu", dtype):
        got = torch.compile(module, backend=counted)(X)
    assert got.dtype == dtype and torch.allclose(got.float(), wanted, atol=0.05)
    assert all(entry.net is not None for entry in counted.entries)


def test_parameters_made_in_inference_mode(counted):
    with torch.inference_mode():
        module = layers()
        compiled = torch.compile(module, backend=counted)
        wanted = module(X)
        for _ in range(2):
            assert torch.allclose(compiled(X), wanted, atol=1e-5)


@pytest.mark.slow
def test_numbers_among_the_arguments(counted):
    def scaled(x, by, n):
        return (x * by)[:, :n] + n

    compiled = torch.compile(scaled, backend=counted, dynamic=True)
    with torch.no_grad():
        for by, n in ((2, 2), (3, 1), (2.5, 2)):
            assert torch.allclose(compiled(X, by, n), scaled(X, by, n))


FLOATS = {
    "rounded": lambda x, n: x + round(n / 2 * 123.4567, 1),
    "a result": lambda x, n: (torch.relu(x) * (n / 4) + 1, n / 4),
    "read between parts": lambda x, n: torch.relu(torch.special.zeta(torch.relu(x) + 2, n / 4 + 2) * (n / 4)) + 1,
    "of sizes": lambda x, n: torch.relu(x) * (x.shape[-1] / n) + x.shape[-1] / 8,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS)
def test_floats_computed_from_sizes(name):
    program = FLOATS[name]
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="dnnl_graph_ops", dynamic=True)
    for n, size in ((2, 6), (5, 7)):
        x = X[..., :1].repeat(1, 1, 1, size)
        agree(compiled, program, (x, n))


def test_options_are_those_of_compile(counted):
    module = layers()
    agree(torch.compile(module, backend=counted, options={"tune": "off"}), module, (X,))
    assert counted.entries[0].net._options.tune == "off"


@pytest.mark.parametrize(
    ("options", "said"),
    [({"precision": "bf17"}, "bf17"), ({"tune": "mesure"}, "mesure"), ({"tunes": "off"}, "tunes"),
     ({"max_error": 0.1}, "max_error"), ({"precision": "auto", "max_error": -1}, "max_error")],
)  # fmt: skip
def test_options_that_there_are_not(options, said):
    torch._dynamo.reset()
    compiled = torch.compile(nn.ReLU(), backend=backend.dnnl_graph_ops, options=options)
    with torch.no_grad(), pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=f"InvalidArgument.*{said}"):
        compiled(X)


def test_the_first_call_is_the_sample_of_a_precision_that_is_measured(counted, monkeypatch):
    monkeypatch.setattr(precision, "_gain", lambda node, dtype, env: (1.0, ""))
    monkeypatch.setattr(precision, "multiplied", lambda env: ("bf16",))
    module = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3)).eval()
    made = torch.compile(module, backend=counted, options={"precision": "auto", "max_error": 0.05})
    with torch.inference_mode():
        found, wanted = made(X), module(X)
    assert 0 < float((found - wanted).abs().max() / wanted.abs().max()) < 0.05
    assert [entry.net.precision_report.dtype for entry in counted.entries] == ["bf16"]


@pytest.mark.parametrize("faster", [False, True])
def test_what_is_slower_runs_in_pytorch(faster, counted, monkeypatch):
    """By trial, for about such sizes."""
    monkeypatch.undo()
    tried = []

    def trial(ours, theirs, once):
        ours()
        tried.append((ours, theirs))
        return Verdict(faster)

    monkeypatch.setattr(backend, "tried", trial)
    ran = []
    run = backend._Entry.run
    monkeypatch.setattr(backend._Entry, "run", lambda entry, args: ran.append(entry) or run(entry, args))
    module = nn.Conv1d(4, 4, 3)
    compiled = torch.compile(module, backend=backend.dnnl_graph_ops, dynamic=True)
    for size, trials in ((40, 1), (41, 1), (100, 2)):
        agree(compiled, module, (torch.randn(2, 4, size),))
        assert len(tried) == trials
    # each trial, and each call where it is faster
    assert len(ran) == 2 + 3 * faster


def test_threads(counted):
    module = layers()
    compiled = torch.compile(module, backend=counted)
    agree(compiled, module, (X,))
    failures = []

    def run():
        try:
            for _ in range(20):
                agree(compiled, module, (X,))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.child
def test_the_name_alone_is_enough(tmp_path):
    """PyTorch finds the backend by the entry point that pyproject.toml has."""
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    line = re.search(r'\[project\.entry-points\."torch_dynamo_backends"\]\ndnnl_graph_ops = "([^"]+)"', project)
    assert line
    info = tmp_path / "stand_in-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[torch_dynamo_backends]\ndnnl_graph_ops = {line[1]}\n")
    program = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import torch\n"
        "assert 'dnnl_graph_ops' in torch.compiler.list_backends()\n"
        "assert 'dnnl_graph_ops' not in sys.modules\n"
        "m = torch.nn.Conv2d(3, 4, 3)\n"
        "with torch.no_grad():\n"
        "    x = torch.ones(1, 3, 8, 8)\n"
        "    y = torch.compile(m, backend='dnnl_graph_ops')(x)\n"
        "    assert torch.allclose(y, m(x), atol=1e-5)\n"
        "assert 'dnnl_graph_ops' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_ops_that_pytorch_runs_are_logged(caplog, monkeypatch):
    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)

        def forward(self, x):
            x = torch.relu(self.first(x))
            inside = torch.special.bessel_j0(x)
            outside = torch.view_as_real(torch.fft.fft(x))[..., 0]
            return torch.relu(self.second(inside + outside))

    torch._dynamo.reset()
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: entry.run(args) is not None)
    module, x = Between().eval(), torch.randn(2, 3, 8, 8)
    with caplog.at_level(logging.INFO, "dnnl_graph_ops"):
        agree(torch.compile(module, backend="dnnl_graph_ops", dynamic=False), module, (x,))
    said = [one.getMessage() for one in caplog.records if one.getMessage().startswith(backend.LEFT)]
    assert any("as steps of a net" in text and "1 aten.special_bessel_j0" in text for text in said)
    assert any("that no net of this package has" in text and "aten._fft_" in text for text in said)


def test_a_graph_that_pytorch_runs_faster_is_logged(caplog, monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: False)
    module, x = nn.Conv2d(3, 8, 3).eval(), torch.randn(2, 3, 8, 8)
    with caplog.at_level(logging.INFO, "dnnl_graph_ops"):
        agree(torch.compile(module, backend="dnnl_graph_ops"), module, (x,))
    said = [one.getMessage() for one in caplog.records]
    assert any(re.fullmatch("PyTorch runs a graph of \\d+ nodes: it is faster", text) for text in said)


@pytest.mark.slow
def test_gradients_that_captured_code_asks_for(counted):
    def gradient_of(x):
        with torch.enable_grad():
            y = torch.sin(x)
            torch._dynamo.graph_break()
            torch.sigmoid(torch.sin(torch.cos(y))).sum().backward()
            return x.grad

    found = []
    for function in (gradient_of, torch.compile(gradient_of, backend="dnnl_graph_ops")):
        x = torch.linspace(-2, 2, 9, requires_grad=True)
        with torch.no_grad():
            found.append(function(x))
    assert counted.entries
    assert torch.allclose(*found, atol=1e-6)

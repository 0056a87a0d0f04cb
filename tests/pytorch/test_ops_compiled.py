"""The custom ops in torch.export and torch.compile."""

from contextlib import nullcontext

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim, export

import dnnl_graph_ops.torch as dgt

from .op_cases import Case, computed_by

CASES = {
    "1d": Case((3, 2, 12), (4, 2, 3), (2,), (1,)),
    "2d": Case((3, 4, 8, 6), (4, 2, 3, 3), (1, 1), (1, 1), groups=2, x_layout="last"),
    "t 1d": Case((3, 2, 6), (2, 3, 4), (2,), (1,), transposed=True),
    "t 2d": Case((3, 4, 4, 6), (4, 3, 2, 2), (2, 2), transposed=True, x_layout="last"),
    "t 3d": Case((2, 2, 3, 4, 5), (2, 3, 2, 2, 2), (2, 1, 2), transposed=True, bias=False),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    torch.compiler.reset()
    with computed_by(True):
        yield request.param


def larger(case):
    """The same for other sizes of the batch and the last axis."""
    return case._replace(x=(case.x[0] + 2, *case.x[1:-1], case.x[-1] + 4))


class Layer(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        _, self.w, self.b = (t if t is None else torch.nn.Parameter(t) for t in case.tensors())

    def forward(self, x):
        return torch.relu(self.case.ours(x * 2, self.w, self.b)) + 1


class Theirs(Layer):
    def forward(self, x):
        return torch.relu(self.case.theirs(x * 2, self.w, self.b)) + 1


def both(case):
    ours = Layer(case)
    theirs = Theirs(case)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def trained(layer, x, *dynamic):
    """Result and gradients; axes of x that compilers are told not to rely on."""
    x = x.detach().requires_grad_()
    for axis in dynamic:
        torch._dynamo.mark_dynamic(x, axis)
    out = layer(x)
    weigh = torch.arange(out.numel()).reshape(out.shape).remainder(5).float()
    return out.detach(), *torch.autograd.grad((out * weigh).sum(), [x, *layer.parameters()])


def assert_same(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("strict", [False, True])
def test_export(case, strict):
    ours, theirs = both(case)
    x = case.tensors()[0]
    program = export(ours, (x,), strict=strict)
    assert f"dnnl_graph_ops.{case.kind}.default" in {str(node.target) for node in program.graph.nodes}
    assert torch.equal(program.module()(x), theirs(x))
    # decomposed, the op stays
    program = program.run_decompositions()
    assert f"dnnl_graph_ops.{case.kind}.default" in {str(node.target) for node in program.graph.nodes}
    assert torch.equal(program.module()(x), theirs(x))


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("strict", [False, True])
def test_export_of_any_batch_and_length(case, strict):
    ours, theirs = both(case)
    x = case.tensors()[0]
    program = export(
        ours, (x,), dynamic_shapes={"x": {0: Dim("batch"), x.ndim - 1: Dim.AUTO}}, strict=strict
    ).run_decompositions()
    for given in (x, larger(case).tensors()[0]):
        assert torch.equal(program.module()(given), theirs(given))


def test_export_saved(tmp_path):
    case = CASES["2d"]
    ours, theirs = both(case)
    x = case.tensors()[0]
    torch.export.save(export(ours, (x,)), tmp_path / "net.pt2")
    assert torch.equal(torch.export.load(tmp_path / "net.pt2").module()(x), theirs(x))


@pytest.mark.slow
@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("dynamic", [False, True])
def test_traced_ahead_of_time(case, dynamic):
    ours, theirs = both(case)
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for given in (case, larger(case)):
        x = given.tensors()[0]
        assert_same(trained(compiled, x), trained(theirs, x))
        with torch.no_grad():
            assert torch.equal(compiled(x), theirs(x))


@pytest.mark.slow
def test_marked_dynamic(case):
    """Neither the batch nor the length is fixed by what the op guards on, and nothing is compiled anew."""
    ours, theirs = both(case)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, backend=counter, fullgraph=True)
    for i in range(4):
        x = case._replace(x=(case.x[0] + i, *case.x[1:-1], case.x[-1] + 2 * i)).tensors()[0]
        assert_same(trained(compiled, x, 0, x.ndim - 1), trained(theirs, x))
    assert counter.frame_count == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2d", "t 1d"])
def test_inductor(name):
    torch.compiler.reset()
    case = CASES[name]
    with computed_by(True):
        ours, theirs = both(case)
        compiled = torch.compile(ours, fullgraph=True, dynamic=True)
        for given in (case, larger(case), case._replace(x_layout="reversed")):
            x = given.tensors()[0]
            assert_same(trained(compiled, x), trained(theirs, x))


@pytest.mark.slow
def test_inductor_keeps_memory_formats():
    torch.compiler.reset()
    case = CASES["2d"]
    x, w, b = case.tensors()

    def f(op):
        def run(x):
            y = op(x.sin().round(), w, b)
            return y.abs(), y.permute(0, 2, 3, 1).view(-1)

        return run

    for by in (True, False):
        with computed_by(by), torch.no_grad():
            ours = torch.compile(f(case.ours), fullgraph=True)(x)
            theirs = f(case.theirs)(x)
            assert [t.stride() for t in ours] == [t.stride() for t in theirs]
            assert_same(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("region", [nullcontext, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_compiled_autograd(region):
    torch.compiler.reset()
    case = CASES["2d"]
    x, w, b = case.tensors(requires_grad=True)
    with computed_by(True), region():
        wanted = torch.autograd.grad(case.theirs(x, w, b).pow(2).sum(), w)[0]
        out = case.ours(x, w, b).pow(2).sum()
        with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
            out.backward()
    # in bf16 PyTorch rounds sums more than once on some CPUs
    rtol = 0 if region is nullcontext else 2**-6
    torch.testing.assert_close(w.grad, wanted, rtol=rtol, atol=0)


@pytest.mark.slow
def test_compiled_autograd_of_modules():
    torch.compiler.reset()
    theirs = torch.nn.Conv2d(2, 3, 3)
    ours, x = dgt.optimize(theirs), torch.ones(2, 2, 5, 5)
    with computed_by(True):
        for layer in (ours, theirs):
            out = layer(x).sum()
            with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
                out.backward()
    assert torch.equal(ours.weight.grad, theirs.weight.grad)


def test_sizes_that_are_known_when_it_runs():
    torch.compiler.reset()
    case = CASES["t 2d"]
    x, w, b = case.tensors()

    class Cut(torch.nn.Module):
        def forward(self, x, count):
            n = count.item()
            torch._check(n >= 1)
            torch._check(n <= 3)
            return case.ours(x[:n].contiguous(), w, b)

    with computed_by(True):
        program = export(Cut(), (x, torch.tensor(2)))
        for n in (1, 3):
            assert torch.equal(program.module()(x, torch.tensor(n)), case.theirs(x[:n], w, b))


@pytest.mark.slow
def test_compiled_transforms():
    torch.compiler.reset()
    case = CASES["t 1d"]
    x, w, b = case.tensors()

    def samples(op):
        def loss(w, b, x):
            return (op(x[None], w, b) ** 2).sum()

        return lambda w, b, x: torch.func.vmap(torch.func.grad(loss, (0, 1)), (None, None, 0))(w, b, x)

    with computed_by(True):
        compiled = torch.compile(samples(case.ours), backend="aot_eager", fullgraph=True)
        assert_same(compiled(w, b, x), samples(case.theirs)(w, b, x))


@pytest.mark.slow
def test_compiled_autocast():
    torch.compiler.reset()
    case = CASES["2d"]
    ours, theirs = both(case)
    x = case.tensors()[0]
    with computed_by(True):
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        results = []
        for layer in (compiled, theirs):
            with torch.autocast("cpu", torch.bfloat16):
                results.append(trained(layer, x))
        assert [t.dtype for t in results[0]] == [t.dtype for t in results[1]]
        assert_same(*results)

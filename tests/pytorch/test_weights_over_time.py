"""Rounds of calls and changes of whole tensors, by every way that PyTorch has: no result is of earlier values."""

import ctypes
import gc

import pytest
import torch
from children import child
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.utils import parametrizations

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.layers import modules
from dnnl_graph_ops.torch.optimize import _copied
from dnnl_graph_ops.torch.whole_model import backend

from .changes import CHANGES, WAYS
from .common import integers, with_integers


@pytest.fixture(autouse=True)
def ours_computes(monkeypatch):
    monkeypatch.setattr(backend._Entry, "is_faster", lambda entry, args: True)
    torch.use_deterministic_algorithms(True)
    torch._dynamo.reset()
    yield
    torch.use_deterministic_algorithms(False)
    torch._dynamo.reset()


def model_of_integers():
    return with_integers(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3))).eval()


def optimized(**options):
    def make(model):
        ours = dgt.optimize(model, **options)
        return ours, ours

    return make


def compiled(model):
    ours = _copied(model)
    return ours, torch.compile(ours, backend="dnnl_graph_ops")


def under_autocast(model):
    ours = dgt.optimize(model)

    def run(x):
        with torch.autocast("cpu", torch.bfloat16):
            return ours(x)

    return ours, run


# functions of a model that return a copy, and what calls it
ENGINES = {
    "optimize": optimized(),
    "optimize in bf16": optimized(dtype="bf16"),
    "optimize under autocast": under_autocast,
    "compile": compiled,
}


def assert_near(mine, theirs, is_exact=False):
    limits = {"rtol": 0, "atol": 0} if is_exact else {"rtol": 0.02, "atol": 0.02 * float(theirs.abs().max())}
    torch.testing.assert_close(mine.float(), theirs, **limits)


def rounds_of(model, engine, change, count, x, is_exact):
    """Calls and changes a model at random, and compares each result with PyTorch's for the same parameters."""
    ours, run = ENGINES[engine](model)
    for _ in range(count):
        with torch.no_grad():
            theirs = torch.func.functional_call(model, ours.state_dict(), (x,))
            for _ in range(int(torch.randint(1, 4, ()))):
                assert_near(run(x), theirs, is_exact and engine in ("optimize", "compile"))
        for _ in range(int(torch.randint(1, 3, ()))):
            change(ours)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CHANGES)
def test_whole_tensors_that_change_are_seen(name, engine, amount, seed):
    torch.manual_seed(seed)
    model = model_of_integers()

    def change(ours):
        CHANGES[name](ours, [integers(*each.shape) for each in model.parameters()])

    rounds_of(model, engine, change, amount(6, 12, 200), integers(1, 8, 6, 6, most=2), True)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, parametrizations.weight_norm, parametrizations.spectral_norm])
@pytest.mark.parametrize("way", ["data assigned", "data written", "copy_"])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_sources_of_computed_weights(norm, way, engine, amount, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(norm(nn.Conv2d(4, 8, 3)), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()
    factors = iter([0.5, 2.0] * 1000)

    @torch.no_grad()
    def change(ours):
        factor = next(factors)
        for parameter in ours.parameters():
            WAYS[way](parameter, parameter.detach() * factor)

    rounds_of(model, engine, change, amount(4, 8, 200), torch.randn(1, 4, 6, 6), False)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics(engine, momentum, amount, seed):
    """Written by calls in training, with recorded gradients: PyTorch counts no version."""
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(8, momentum=momentum)
    model = nn.Sequential(nn.Conv2d(4, 8, 3), norm, nn.Conv2d(8, 4, 1)).eval()

    def change(ours):
        ours.train()(torch.randn(4, 4, 6, 6) * float(torch.rand(())) * 5 + torch.randn(4, 1, 1))
        ours.eval()

    rounds_of(model, engine, change, amount(6, 12, 200), torch.randn(1, 4, 6, 6), False)


# -- what is not seen -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["optimize", "compile"])
@pytest.mark.parametrize("by", [lambda p: p.data, lambda p: p.detach().numpy()], ids=["data", "NumPy"])
@torch.no_grad()
def test_few_elements_are_not_seen_until_refresh(by, engine, monkeypatch):
    """As the pages say: of 36,864 elements 64 are read."""
    packings = []

    def counted(made):
        return lambda *given: packings.append(made) or made(*given)

    for module, name in ((modules, "Packed"), (backend, "_Entry")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    model = with_integers(nn.Sequential(nn.Conv2d(64, 64, 3))).eval()
    ours, run = ENGINES[engine](model)
    x, seen = torch.ones(1, 64, 3, 3), 0
    for number in range(20):
        for _ in range(3):
            run(x)
        before = len(packings)
        assert before == number + 1 + seen
        element = by(ours[0].weight).reshape(-1)[number * 1800 + 7 :][:1]
        element += 1
        for _ in range(3):
            run(x)
        seen += len(packings) > before
        dgt.refresh(ours)
        for _ in range(3):
            assert torch.equal(run(x), torch.func.functional_call(model, ours.state_dict(), (x,)))
    assert seen <= 5


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("calls", [1, 3])
@torch.no_grad()
def test_replaced_memory_is_free_after_the_next_call(engine, calls):
    """Without the garbage collector."""
    model = nn.Sequential(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.ConvTranspose2d(64, 32, 3)).eval()
    ours, run = ENGINES[engine](model)
    x = torch.randn(1, 32, 6, 6)
    gc.disable()
    try:
        for _ in range(3):
            for _ in range(calls):
                run(x)
            replaced = [StorageWeakRef(p.untyped_storage()) for p in ours.parameters()]
            for p in ours.parameters():
                p.data = p.data * 2
            run(x)
            assert [reference.expired() for reference in replaced] == [True] * len(replaced)
    finally:
        gc.enable()


MEMORY = """
import ctypes, gc, sys
import torch
from torch import nn
import dnnl_graph_ops.torch as dgt

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Info

def used():
    info = mallinfo()
    return info.uordblks + info.hblkhd

kind, calls = sys.argv[1], int(sys.argv[2])
model = nn.Sequential(*[nn.Conv1d(256, 256, 5, padding=2) for _ in range(8)]).eval().requires_grad_(False)
x = torch.randn(1, 256, 32)
with torch.no_grad():
    if kind == "compile":
        run = torch.compile(model, backend="dnnl_graph_ops")
    else:
        run = model = dgt.optimize(model, inplace=True, dtype=None if kind == "optimize" else kind)
    size = sum(p.nbytes for p in model.parameters())
    for _ in range(3):
        run(x)
    before = used()
    for _ in range(100):
        for p in model.parameters():
            p.data = p.data * 0.999
        for _ in range(calls):
            run(x)
    # plans may read the weights as they are, until the next call
    run(x)
    print((used() - before) / size)
"""


@pytest.mark.child
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33, which counts used bytes")
@pytest.mark.parametrize(("kind", "calls"), [("optimize", 0), ("optimize", 3), ("bf16", 1), ("compile", 3)])
def test_memory_after_a_hundred_assignments(kind, calls):
    """10 MB of parameters."""
    done = child("-c", MEMORY, kind, str(calls), seconds=300, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.1

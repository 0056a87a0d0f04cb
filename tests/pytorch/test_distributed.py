"""Optimized models in other processes and in several at once."""

import multiprocessing
import os
import tempfile

import pytest
import torch
import torch.distributed as dist
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch.layers.modules import is_ours

from .common import integers, results, with_integers

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]
RANKS = 2


@pytest.fixture(autouse=True)
def seeded(seed):
    torch.manual_seed(seed)


def model():
    """The same in all processes; without anything that couples the images of a batch."""
    torch.manual_seed(1)
    return with_integers(
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Conv2d(4, 2, 1))
    )


def batch():
    torch.manual_seed(2)
    return integers(4, 3, 6, 6)


def run(function, *arguments):
    """In so many spawned processes, joined by gloo."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_begin, (function, folder, arguments), nprocs=RANKS)


def _begin(rank, function, folder, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    try:
        function(rank, *arguments)
    finally:
        dist.destroy_process_group()
    # PyTorch's thread for gloo drops what it worked on when it gets to it, for which it may want the interpreter: one
    # that ends meanwhile is aborted, models of PyTorch's own alike
    os._exit(0)


def mine(x, rank):
    return x.chunk(RANKS)[rank]


def _ddp(rank):
    theirs, ours = model(), dgt.optimize(model())
    whole = results(theirs, batch())
    wrapped = nn.parallel.DistributedDataParallel(ours)
    for static in (False, True):
        wrapped = nn.parallel.DistributedDataParallel(ours, static_graph=static, gradient_as_bucket_view=static)
        for _ in range(3):
            wrapped.zero_grad()
            out = wrapped(mine(batch(), rank))
            weigh = mine(torch.arange(RANKS * out.numel()).reshape(-1, *out.shape[1:]).remainder(5).float(), rank)
            out.backward(weigh)
            for name, parameter in ours.named_parameters():
                # the mean over ranks
                assert torch.equal(parameter.grad * RANKS, whole[name]), name
    # what the first rank has, all get
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(rank)
    ours.eval()
    with torch.no_grad():
        ours(batch())
    wrapped = nn.parallel.DistributedDataParallel(ours)
    with torch.no_grad():
        assert torch.equal(wrapped(batch()), theirs(batch()))


@pytest.mark.child
def test_two_ranks_have_the_gradients_of_one():
    run(_ddp)


def _sharded(rank):
    from torch.distributed.fsdp import fully_shard

    for reshard in (True, False):
        models = [dgt.optimize(model()), model()]
        for module in models:
            for layer in module:
                if isinstance(layer, nn.modules.conv._ConvNd):
                    fully_shard(layer, reshard_after_forward=reshard)
            fully_shard(module)
        _trained(models, rank)


def _fully_sharded(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    for originals in (True, False):

        def wrap(module, originals=originals):
            return FullyShardedDataParallel(module, use_orig_params=originals, device_id=torch.device("cpu"))

        _trained([wrap(dgt.optimize(model())), wrap(model())], rank)


def _trained(models, rank):
    """Steps of an optimizer between calls in eval mode: both models have the same outputs all the time."""
    optimizers = [torch.optim.SGD(module.parameters(), lr=1.0) for module in models]
    x = mine(batch(), rank)
    assert any(is_ours(layer) for layer in models[0].modules())
    for _ in range(4):
        outs = []
        for module, optimizer in zip(models, optimizers, strict=True):
            module.eval()
            with torch.no_grad():
                for _ in range(3):
                    outs.append(module(x))
            module.train()
            optimizer.zero_grad()
            module(x).sum().backward()
            for parameter in module.parameters():
                # small enough to stay exact
                if parameter.grad is not None:
                    parameter.grad.sign_()
            optimizer.step()
        for out in outs:
            assert torch.equal(out, outs[-1]), (out - outs[-1]).abs().max()


@pytest.mark.child
def test_fully_shard():
    run(_sharded)


@pytest.mark.child
def test_fully_sharded_data_parallel():
    run(_fully_sharded)


# -- processes ------------------------------------------------------------------------------------------------


def _shared_child(ours, x, queue, go):
    torch.set_num_threads(1)
    ours.eval()
    with torch.no_grad():
        for _ in range(3):
            out = ours(x)
        queue.put(out.tolist())
        assert go.wait(60)
        # what the parent wrote is seen by who is told
        dgt.refresh(ours)
        queue.put(ours(x).tolist())


@pytest.mark.child
def test_shared_memory_and_a_spawned_process():
    context = torch.multiprocessing.get_context("spawn")
    queue, go = context.Queue(), context.Event()
    ours, x = dgt.optimize(model()).eval(), batch()
    ours.share_memory()
    with torch.no_grad():
        first = ours(x)
    child = context.Process(target=_shared_child, args=(ours, x, queue, go))
    child.start()
    assert queue.get(timeout=120) == first.tolist()
    with torch.no_grad():
        ours[0].weight.add_(1)
        second = ours(x)
    go.set()
    assert queue.get(timeout=120) == second.tolist()
    child.join(60)
    assert child.exitcode == 0


def _forked_child(ours, x, wanted, pipe):
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            fine = torch.equal(ours.eval()(x), wanted["output"])
        ours.train()
        found = results(ours, x)
        fine &= all(torch.equal(found[name], value) for name, value in wanted.items())
        other = dgt.optimize(model())
        fine &= torch.equal(results(other, x)["output"], wanted["output"])
        pipe.send(fine)
    except BaseException as error:
        pipe.send(repr(error))


@pytest.mark.child
def test_a_forked_child_computes():
    """With one thread: the others stayed in the parent."""
    ours, x = dgt.optimize(model()), batch()
    wanted = results(ours, x)
    with torch.no_grad():
        ours.eval()(x)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_forked_child, args=(ours, x, wanted, there))
    child.start()
    assert here.poll(120), "the child hangs"
    assert here.recv() is True
    child.join(60)
    assert child.exitcode == 0


class Images(torch.utils.data.Dataset):
    """Whose workers compute."""

    def __init__(self, ours):
        self.ours = ours

    def __len__(self):
        return 4

    def __getitem__(self, index):
        torch.set_num_threads(1)
        with torch.no_grad():
            return self.ours(batch()[index : index + 1])[0]


def test_workers_of_a_data_loader():
    ours = dgt.optimize(model()).eval()
    with torch.no_grad():
        wanted = ours(batch())
    loader = torch.utils.data.DataLoader(
        Images(ours), batch_size=4, num_workers=2, multiprocessing_context="fork", timeout=120
    )
    assert torch.equal(next(iter(loader)), wanted)

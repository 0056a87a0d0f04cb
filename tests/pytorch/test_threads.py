"""PyTorch and our engine compute in one pool of threads, whichever is imported first."""

import pytest
from children import child

from dnnl_graph_ops.torch import openmp

SCRIPT = """
import os, sys
import {first}
import {second}
import torch
import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.torch import openmp
from dnnl_graph_ops.torch.choice import verdicts
from dnnl_graph_ops.torch.layers import call_cache, compute

with open("/proc/self/maps") as maps:
    assert len(openmp.libraries(maps)) == 1

def ours(key, mine, theirs):
    mine()
    return verdicts.Verdict(True)

compute.verdict = call_cache.verdict = ours
layer, x = dgt.optimize(torch.nn.Conv2d(16, 32, 3, padding=1)).eval(), torch.randn(8, 16, 32, 32)

def threads():
    return len(os.listdir("/proc/self/task"))

with torch.no_grad():
    torch.set_num_threads(2)
    wanted = torch.conv2d(x, layer.weight, layer.bias, padding=1)
    before = threads()
    for _ in range(3):
        torch.testing.assert_close(layer(x), wanted)
    assert threads() == before
    for count in (1, 2, 1):
        torch.set_num_threads(count)
        layer(x)
        assert dgo.get_num_threads() == torch.get_num_threads() == count
    dgo.set_num_threads(2)
    torch.testing.assert_close(layer(x), wanted)
    assert dgo.get_num_threads() == torch.get_num_threads() == 1
print("done")
"""


@pytest.mark.child
@pytest.mark.parametrize("order", [("torch", "dnnl_graph_ops.torch"), ("dnnl_graph_ops.torch", "torch")])
def test_one_pool(order):
    first, second = order
    found = child("-W", "error::RuntimeWarning", "-c", SCRIPT.format(first=first, second=second))
    assert found.stdout == "done\n", found.stderr


def test_two_libraries(monkeypatch, tmp_path):
    lines = ["7f00-7f01 r-xp 0 08:01 1  /usr/lib/libc.so.6", "7f02-7f03 r-xp 0 08:01 2  /usr/lib/libgomp.so.1.0.0"]
    maps = tmp_path / "maps"
    monkeypatch.setattr(openmp, "_MAPS", maps)
    openmp.warn_of_two()
    maps.write_text("\n".join(lines * 2))
    openmp.warn_of_two()
    maps.write_text("\n".join([*lines, "7f04-7f05 r-xp 0 08:01 3  /x/torch.libs/libgomp-a34b3233.so.1"]))
    with pytest.warns(RuntimeWarning, match="import torch before") as caught:
        openmp.warn_of_two()
    assert "libgomp-a34b3233.so.1" in str(caught[0].message)

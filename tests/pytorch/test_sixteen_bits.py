"""Results in f16 and bf16 are about as near to float64 as eager's, whatever the magnitude of the data."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dnnl_graph_ops as dgo
from dnnl_graph_ops.backends import attention

from .program_ways import tensor_of
from .sixteen_bits import DTYPES, WAYS, Case, check, failures

EACH = 4
MAGNITUDES = [10.0**power for power in range(-5, 5)]
# rules of several ops: an expression of x, and how far the mean of x is from 0, in parts of its deviation
RULES = {
    "var": ("torch.var(x, -1)", 0), "var of a mean": ("torch.var(x, -1)", 30), "std": ("torch.std(x, (0, 1))", 0),
    "std over all": ("torch.std(x)", 3), "rms_norm": ("F.rms_norm(x, (60,), eps=1e-6)", 0),
    "rms_norm of two axes": ("F.rms_norm(x, (3, 60), eps=1e-6)", 1), "logsumexp": ("torch.logsumexp(x, -1)", 0),
    "layer_norm": ("F.layer_norm(x, (60,), eps=1e-6)", 3), "group_norm": ("F.group_norm(x, 1, eps=1e-6)", 3),
    "instance_norm": ("F.instance_norm(x, eps=1e-6)", 3), "softmax": ("torch.softmax(x, -1)", 0),
    "log_softmax": ("torch.log_softmax(x, 1)", 0), "mean": ("torch.mean(x, (0, 2))", 1), "sum": ("torch.sum(x, 0)", 1),
    "norm": ("torch.linalg.vector_norm(x, 2, -1)", 0), "cumsum": ("torch.cumsum(x, -1)", 0),
    "normalize": ("F.normalize(x, dim=-1)", 0), "cosine_similarity": ("F.cosine_similarity(x, x.flip(0), -1)", 1),
    "mse_loss": ("F.mse_loss(x, x.flip(0))", 0), "cross_entropy": ("F.cross_entropy(x[0], torch.tensor([1, 0, 7]))", 0),
    "standardized": ("x / x.std(-1, keepdim=True)", 0), "batch_norm of rows": (
        "F.batch_norm(x[0], x[0, 0], x[0].square().mean(0) + 1e-4, eps=1e-6)", 30),
    "large factor": ("x * 1e-4 * 30000.0", 0), "factor beyond f16": ("x.clamp(-1e-3, 1e-3) * 1e5", 0),
    "factor below f16": ("x * 2e-9 * 1e4", 0), "baddbmm": ("torch.baddbmm(x[:, :, :3], x, x.mT, alpha=1e-3)", 0),
    "addmm": ("torch.addmm(x[0, 0, :3], x[0], x[0].mT)", 0),
    "silu": ("F.silu(x)", 0), "gelu": ("F.gelu(x)", 0), "softplus": ("F.softplus(x, beta=2)", 0),
    "glu": ("F.glu(x)", 0), "softsign": ("F.softsign(x)", 0), "celu": ("F.celu(x, alpha=0.1)", 0),
    "addcmul": ("torch.addcmul(x, x[0], x[0], value=0.1)", 0), "lerp": ("torch.lerp(x, x.flip(0), 0.3)", 0),
}  # fmt: skip


@pytest.mark.cases(4, 40, 2000, each=EACH)
def test_exported_programs(start, seed):
    check(seed, range(start, start + EACH), "export")


@pytest.mark.slow
@pytest.mark.cases(4, 40, 2000, each=EACH)
def test_compiled_programs(start, seed):
    check(seed, range(start, start + EACH), "compile")


# of each rule both dtypes and both ways
RUNS = [(rule, [*DTYPES][(i // 2 + j) % 2], [*WAYS][(i + j) % 2]) for i, rule in enumerate(RULES) for j in range(2)]


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(("rule", "dtype", "way"), RUNS)
def test_rules(rule, dtype, way):
    """Over magnitudes from 1e-5 to 1e4."""
    text, shift = RULES[rule]
    random = torch.Generator().manual_seed(1)
    cases = {}
    for number, magnitude in enumerate(MAGNITUDES):
        x = ((torch.randn(2, 3, 60, generator=random, dtype=torch.float64) + shift) * magnitude).to(DTYPES[dtype])
        cases[number] = Case(f"(lambda x: {text})(t[0])", [x])
    assert not failures(cases, way)


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def result(function, *tensors, **options):
    exported = torch.export.export(Called(function), tensors)
    return tensor_of(dgo.from_torch(exported).compile(**options)(*tensors))


@pytest.mark.parametrize("tune", ["off", "heuristic"])
def test_scores_beyond_f16(tune):
    """Scores of 1e5 and more decide which value is taken."""
    q, k = torch.eye(4).half()[None, None] * 512, torch.eye(4).half()[None, None] * 512
    v = torch.arange(32.0).reshape(1, 1, 4, 8).half()
    made = result(F.scaled_dot_product_attention, q, k, v, tune=tune)
    assert torch.equal(made, v)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("mask", ["none", "causal", "add", "hides rows"])
def test_scores_are_not_rounded(dtype, mask):
    """Scores that differ by less than 16 bits hold decide the shares."""
    # 1024 + i / 4: bf16 and f16 would round them to one number
    keys = torch.stack([torch.full((8,), 32.0), torch.arange(8) / 4], -1).to(dtype)[None, None]
    q = torch.tensor([32.0, 1.0]).to(dtype).expand(1, 1, 8, 2)
    v = torch.eye(8).to(dtype)[None, None]
    masks = {"add": torch.zeros(8, 8, dtype=dtype), "hides rows": torch.ones(8, 8).tril(-1).bool()}
    given = [masks[mask]] if mask in masks else []

    def function(q, k, v, *mask_of):
        kind = {"attn_mask": mask_of[0]} if mask_of else {"is_causal": mask == "causal"}
        return F.scaled_dot_product_attention(q, k, v, scale=1.0, **kind)

    made = result(function, q, keys, v, *given).double()
    wide = [one if one.dtype is torch.bool else one.double() for one in (q, keys, v, *given)]
    want = function(*wide)
    assert float((made - want).abs().max()) <= 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("mask", [(6, 10), (2, 1, 6, 10), (2, 3, 1, 10)], ids=str)
def test_some_heads_at_a_time(mask, monkeypatch):
    monkeypatch.setattr(attention, "_SCORES", 2 * 6 * 10)
    random = torch.Generator().manual_seed(2)
    shapes = (2, 3, 6, 8), (2, 3, 10, 8), (2, 3, 10, 5), mask
    tensors = [(3 * torch.randn(shape, generator=random)).bfloat16() for shape in shapes]
    case = Case("F.scaled_dot_product_attention(t[0], t[1], t[2], attn_mask=t[3])", tensors)
    assert not failures({0: case}, "export")


@pytest.mark.parametrize("options", [{}, {"tune": "off"}, {"policy": "debug"}], ids=str)
@pytest.mark.parametrize("axes", [(64,), (4, 64)], ids=str)
def test_squares_beyond_f16(axes, options):
    """Numbers whose squares are beyond the range of f16, and whose root mean square is 512."""
    x = (torch.arange(512) % 2 * 1024 - 512.0).reshape(2, 4, 64).half()
    made = result(lambda x: F.rms_norm(x, axes, eps=0.0), x, **options)
    assert torch.equal(made, x / 512)


@pytest.mark.parametrize("power", [-12, 0, 12])
def test_deviation_of_any_magnitude(power):
    x = (torch.arange(64) % 2 * 2 - 1.0).half() * 2.0**power
    made = result(lambda x: x.std(-1, correction=0), x[None])
    assert float(made) == math.ldexp(1, power)

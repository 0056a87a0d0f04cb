"""Random programs: values, shapes, types, strides and complaints are those of eager PyTorch."""

from dataclasses import replace

import pytest
import torch

import dnnl_graph_ops as dgo
from dnnl_graph_ops.frontends.torch_export.table import RULES

from .drawing import ROWS
from .program_ways import tensor_of
from .programs import agree, check, drawn

EACH = 2


@pytest.mark.slow
@pytest.mark.cases(4, 32, 1000, each=EACH)
def test_exported_programs(start, seed):
    for case in range(start, start + EACH):
        check(drawn(seed, case), "export", f"--seed={seed}: drawn({seed}, {case})")


@pytest.mark.slow
@pytest.mark.cases(8, 24, 400, each=EACH)
def test_compiled_programs(start, seed):
    for case in range(start, start + EACH):
        check(drawn(seed, case), "compile", f"--seed={seed}: drawn({seed}, {case})")
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.cases(4, 24, 400, each=EACH)
def test_divided_programs(start, seed):
    for case in range(start, start + EACH):
        check(drawn(seed, case), "divided", f"--seed={seed}: drawn({seed}, {case})")
    torch._dynamo.reset()


@pytest.mark.slow
def test_failures_shrink_to_one_line(monkeypatch):
    """Of programs some of whose ops do nothing."""
    planted = {"abs": "aten.abs.default", "neg": "aten.neg.default"}
    large = (program for case in range(1000) if len((program := drawn(3, case, {"neg": ("f32",)})).steps) == 3)
    with monkeypatch.context() as patch:
        for name in planted.values():
            patch.setitem(RULES, name, replace(RULES[name], build=lambda call, self, **_: self))
        text = next(filter(None, map(_failure, large)))
        script = text[text.index("import torch") :]
        assert sum(f"= torch.{op}(" in script for op in ROWS) == script.count(" = ") == 1, text
        with pytest.raises(AssertionError):
            exec(script, {})
    exec(script, {})


def _failure(program):
    try:
        check(program, "export", "planted")
    except AssertionError as error:
        return str(error)
    return ""


AS_STRIDED = {
    "turned": lambda x: (x * 2).t().as_strided((3,), (2,), 1),
    "a part": lambda x: (x * 2)[1:].as_strided((2, 2), (1, 3)),
    "of a split": lambda x: (x * 2).split(2, 1)[1].as_strided((2,), (3,)),
    "of doubles": lambda x: (x.double() * 2).t()[1:].as_strided((2,), (3,), 2).float(),
    "of the input": lambda x: x[:, 1].as_strided((2, 3), (0, 2)) + 1,
    "twice": lambda x: (x + 1).as_strided((2, 3), (1, 4), 1).t().as_strided((4,), (2,), 3),
}


@pytest.mark.parametrize("name", AS_STRIDED)
def test_elements_by_strides(name):
    """The result lies as it likes; places are those in the memory that PyTorch plans."""
    module, x = _Called(AS_STRIDED[name]), torch.arange(12.0).reshape(3, 4)
    got = dgo.from_torch(torch.export.export(module, (x,))).compile()(x.numpy())
    assert torch.equal(torch.from_numpy(got), module(x))


def test_elements_from_where_a_call_tells():
    """PyTorch's graph has no number for their begin."""
    module, sizes = _Called(lambda x: x.chunk(2)[-1].as_strided([2], [1])), [{0: torch.export.Dim.AUTO}]
    with pytest.raises(dgo.UnsupportedError, match="storage_offset"):
        dgo.from_torch(torch.export.export(module, (torch.arange(8.0).reshape(4, 2),), dynamic_shapes=sizes))


COPIES = {
    "device": lambda x: x.to("cpu", torch.int32).to("cpu", torch.int32),
    "device, bool": lambda x: x.to("cpu", torch.bool),
    "no device": lambda x: x.to(device=None, copy=True),
    "format": lambda x: x.to(memory_format=torch.channels_last),
    "dtype and format": lambda x: x.to(dtype=torch.bool, memory_format=torch.channels_last, copy=True),
    "other": lambda x: x.to(torch.ones(1, dtype=torch.bool)),
    "type_as": lambda x: x.type_as(torch.ones(1, dtype=torch.bfloat16)),
    "contiguous": lambda x: x.transpose(1, 3).contiguous(memory_format=torch.channels_last).flatten(),
    "clone": lambda x: x.clone(memory_format=torch.contiguous_format).view(-1),
    "turned": lambda x: x.transpose(1, 3).clone(memory_format=torch.contiguous_format).view(-1),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("of", ["input", "input of any size", "constant"])
@pytest.mark.parametrize("name", COPIES)
def test_spellings_of_copies(name, of):
    x = torch.arange(-12.0, 12.0).reshape(1, 2, 3, 4)
    module = _Called(lambda one: (COPIES[name](x if of == "constant" else one), one + 1))
    sizes = (dict.fromkeys(range(1, x.ndim), torch.export.Dim.AUTO),) if of == "input of any size" else None
    got = dgo.from_torch(torch.export.export(module, (x,), dynamic_shapes=sizes)).compile()(x.numpy())
    for mine, theirs in zip(map(tensor_of, got), module(x), strict=True):
        assert mine.dtype is theirs.dtype and torch.equal(mine, theirs)


@pytest.mark.parametrize("of", ["weights", "transposed weights", "spectrum"])
def test_normed_weights(of):
    """Their norm is over axes that a transpose brings to the front, which a view follows."""
    layer, norm, more = {
        "weights": (torch.nn.Conv2d(4, 6, 3), torch.nn.utils.parametrizations.weight_norm, {"dim": 1}),
        "transposed weights": (
            torch.nn.ConvTranspose2d(4, 6, 3),
            torch.nn.utils.parametrizations.weight_norm,
            {"dim": 1},
        ),
        "spectrum": (torch.nn.ConvTranspose2d(4, 6, 3), torch.nn.utils.parametrizations.spectral_norm, {}),
    }[of]
    module, x = norm(layer, **more).eval(), torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        program = torch.export.export(module, (x,)).run_decompositions()
        got = dgo.from_torch(program).compile()(x.numpy())
        torch.testing.assert_close(torch.from_numpy(got), module(x), rtol=0, atol=1e-5)


class _Called(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


X = torch.tensor([[3.0, -1.0], [0.0, 2.0]])
Y = torch.arange(-40.0, 40.0).remainder(7).reshape(2, 4, 2, 5)
INFINITE = torch.tensor([-torch.inf, torch.nan, 0.5, 2.0, torch.inf])
# what random programs found: lines, inputs, parameters, the output, and what else `agree` takes
FOUND = {
    "memory that lies otherwise than PyTorch plans, of what is turned": (
        """
        v1 = torch.stack([x0, x0]).view(1, 4, 2)
        v2 = v1.permute(0, 2, 1).roll(2, 0).to(torch.ones(1)).view(4, 1, 2)
        """,
        {"x0": torch.arange(4.0).reshape(1, 4)}, {}, "v2", {},
    ),
    "no lower end": ("v1 = torch.clamp(x0, None, 1)", {"x0": INFINITE}, {}, "v1", {}),
    "no upper end": ("v1 = torch.clamp_min(x0, 1)", {"x0": INFINITE}, {}, "v1", {}),
    "between an infinite end and another": (
        "v1 = torch.lerp(x0, x1, 2)", {"x0": INFINITE, "x1": X[:, :1]}, {}, "v1", {}
    ),
    "the first of two results of sizes of a call": (
        "v1 = F.adaptive_max_pool2d(x0, [2, 1])", {"x0": Y}, {}, "v1", {"dynamic": True}
    ),
    "the first of three": (
        "v1 = F.group_norm(x0, 2, x1, x2)",
        {"x0": Y, "x1": X.flatten(), "x2": X.flatten()}, {}, "v1", {"dynamic": True, "rounding": ["v1"]},
    ),
    "a mask that hides all keys of a row": (
        "v1 = F.scaled_dot_product_attention(x0, x0, x0, x1)",
        {"x0": Y, "x1": torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])}, {}, "v1", {"rounding": ["v1"]},
    ),
    "a known one": (
        "v1 = F.scaled_dot_product_attention(x0, x0, x0, p1)",
        {"x0": Y}, {"p1": torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])}, "v1", {"rounding": ["v1"]},
    ),
    "a mask that hides some keys by a condition": (
        "v1 = F.scaled_dot_product_attention(x0, x0, x0, x1)",
        {"x0": Y, "x1": torch.tensor([[False, False], [True, False]])}, {}, "v1", {"rounding": ["v1"]},
    ),
    "windows, of which the captured call has one": (
        "v1 = F.softmax(x0, dim=0).unfold(0, 3, 1)", {"x0": torch.arange(6.0).reshape(3, 2)}, {}, "v1",
        {"rounding": ["v1"], "dynamic": True, "grown": {"x0": torch.arange(8.0).reshape(4, 2)}},
    ),
    "queries of NaN that a condition hides all keys of": (
        "v1 = F.scaled_dot_product_attention(x0, x1, x1, x2)",
        {"x0": Y / torch.where(Y == 3, 0.0, 1.0) * 0, "x1": Y, "x2": torch.tensor([[False, False], [True, False]])}, {},
        "v1", {"rounding": ["v1"]},
    ),
    "a mask that hides all keys of a row, and has NaN in another": (
        "v1 = F.scaled_dot_product_attention(x0, x0, x0, x1)",
        {"x0": Y, "x1": torch.tensor([[0.0, torch.nan], [-torch.inf, -torch.inf]])}, {}, "v1", {"rounding": ["v1"]},
    ),
    "a root of a size that a call tells": (
        "v1 = F.scaled_dot_product_attention(x0, x0, x0)", {"x0": X.half()}, {}, "v1",
        {"dynamic": True, "rounding": ["v1"]},
    ),
    "groups of columns that lie turned": (
        "v1 = F.group_norm(x0, 2, p1, p2, eps=0.5)",
        {"x0": Y[:2, :, 0, 0].mT.contiguous().mT}, {"p1": X.flatten(), "p2": X.flatten()}, "v1", {"rounding": ["v1"]},
    ),
    "groups of what is known and lies turned": (
        "v1 = F.group_norm(p0.broadcast_to([2, 2, 2]), 2, None, None, eps=0.5)",
        {}, {"p0": torch.arange(8.0).reshape(2, 2, 2).permute(1, 0, 2)}, "v1", {"rounding": ["v1"]},
    ),
    "integers that lie turned": (
        "v1 = x0.transpose(0, 1) + 1", {"x0": X.long()}, {}, "v1", {"dynamic": True}
    ),
    "known booleans that lie turned": ("v1 = torch.logical_xor(p0, p0)", {}, {"p0": X.mT}, "v1", {}),
    "slopes of channels, as many as the last axis has elements": (
        "v1 = F.prelu(x0, x1)", {"x0": X - 1 - torch.zeros(2, 2, 2), "x1": torch.tensor([2.0, 3.0])}, {}, "v1", {}
    ),
    "windows of which one reaches beyond what a call sizes": (
        "v1 = F.max_pool2d(x0, 2, ceil_mode=True, dilation=2)", {"x0": Y[..., :2]}, {}, "v1", {"dynamic": True}
    ),
    "the middle of two": ("v1 = F.interpolate(x0, size=[2, 1], mode='bilinear')", {"x0": X[None, None]}, {}, "v1", {}),
    "two layouts of the same numbers": (
        """
        v1 = x0 + 1
        v2 = v1.to(torch.float32, copy=True, memory_format=torch.channels_last)
        """,
        {"x0": X.reshape(1, 2, 1, 2)}, {}, "v1 v2", {},
    ),
    "parts of what a call sizes": (
        "v1 = (x0 + 1).tensor_split(3, 1)[0]", {"x0": torch.arange(12).reshape(2, 6)}, {}, "v1",
        {"dynamic": True, "grown": {"x0": torch.arange(18).reshape(2, 9)}},
    ),
    "a part of what a view sizes": (
        "v1 = torch.logical_xor(x0.ravel(), x0.ravel()).chunk(3, -1)[0]", {"x0": torch.ones(2, 2, 1)}, {}, "v1",
        {"dynamic": True, "grown": {"x0": torch.ones(3, 3, 1)}},
    ),
    "a norm of columns by weights that are computed": (
        "v1 = F.batch_norm(x0, p1, p2, x3, None)",
        {"x0": X, "x3": X[1] + 2}, {"p1": X[0], "p2": torch.tensor([3.0, 1.0])}, "v1", {"rounding": ["v1"]},
    ),
    "a norm of columns whose number a call tells": (
        "v1 = F.batch_norm(x0, p1, x2, None, None)",
        {"x0": X.half(), "x2": torch.tensor([3.0, 1.0]).half()}, {"p1": X[0].half()}, "v1",
        {"rounding": ["v1"], "dynamic": True},
    ),
    "a norm of channels by no weights": (
        "v1 = F.batch_norm(x0, p1, p2, None, None)",
        {"x0": X[..., None]}, {"p1": X[0], "p2": torch.tensor([3.0, 1.0])}, "v1", {"rounding": ["v1"]},
    ),
    "elements by strides of a part whose size a call tells": (
        "v1 = x0.chunk(2, 1)[-1].as_strided([2], [3], 4)", {"x0": Y.long()}, {}, "v1", {"dynamic": True}
    ),
    "exponentials of minus infinity alone": (
        "v1 = torch.logsumexp(x0, 1)",
        {"x0": torch.tensor([[-torch.inf, -torch.inf], [torch.inf, 1.0], [-torch.inf, 2.0], [torch.nan, 1.0]])},
        {}, "v1", {"rounding": ["v1"]},
    ),
    "strides that PyTorch plans otherwise for sizes of a call than for known ones": (
        """
        v1 = torch.floor_divide(x0, x1)
        v2 = torch.floor_divide(v1, x2)
        """,
        {
            "x0": torch.ones(2, 2, 2, 2, 2, dtype=torch.bool).permute(2, 0, 4, 1, 3),
            "x1": torch.tensor(1.0),
            "x2": torch.ones(2, 2, 2, 2, 2),
        },
        {}, "v1 v2", {"dynamic": True},
    ),
    "no element of one": ("v1 = torch.abs(x0)[1:]", {"x0": torch.ones(1)}, {}, "v1", {}),
}  # fmt: skip


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("way", ["export", "compile"])
@pytest.mark.parametrize("name", FOUND)
def test_found(name, way):
    lines, inputs, parameters, output, more = FOUND[name]
    agree(lines, inputs=inputs, parameters=parameters, outputs=output.split(), way=way, **more)

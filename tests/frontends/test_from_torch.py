"""Exported programs of PyTorch: their own results, over the zoo and what users have."""

import copy
import json
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytorch.changes import CHANGES  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim, export  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops.bench import zoo  # noqa: E402
from dnnl_graph_ops.bench.zoo import export as zoo_export  # noqa: E402
from dnnl_graph_ops.frontends.reading.traced import OpCall, Operand, Other  # noqa: E402
from dnnl_graph_ops.frontends.torch_export import host  # noqa: E402
from dnnl_graph_ops.graph import hooks  # noqa: E402
from dnnl_graph_ops.shapes import Meta  # noqa: E402

from . import user_models  # noqa: E402

# what rounds otherwise, in the order of a sum or in a function, at most so much of the largest result
TOLERANCE = 2e-5


def program(module, *inputs, **options):
    return export(module, inputs, **options)


def flat(results):
    return [one.numpy() for one in (results if isinstance(results, tuple | list) else (results,))]


def agree(net, module, inputs, tolerance=TOLERANCE):
    got = net(*(one.numpy() for one in inputs))
    with torch.inference_mode():
        wanted = flat(module(*inputs))
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if theirs.dtype.kind == "f":
            assert np.abs(mine - theirs).max() <= tolerance * max(np.abs(theirs).max(), 1e-3), clues(
                net, module, inputs
            )
        else:
            assert np.array_equal(mine, theirs)


def clues(net, module, inputs):
    """Describes a failure that few runs have: errors of new calls against float64, threads, and the algorithms."""
    numbers = [one.numpy() for one in inputs]
    with torch.inference_mode():
        truth = flat(
            copy.deepcopy(module).double()(*(one.double() if one.is_floating_point() else one for one in inputs))
        )
        sides = {"PyTorch": flat(module(*inputs)), "net": list(net.run(numbers).values())}
    errors = {
        side: [float(np.abs(one - true).max()) for one, true in zip(got, truth, strict=True)]
        for side, got in sides.items()
    }
    threads = {"PyTorch": torch.get_num_threads(), "net": dgo.get_num_threads()}
    return f"again: {errors}; threads: {threads}; {[part.formulation for part in net.explain().partitions]}"


ZOO = [
    pytest.param(name, marks=[pytest.mark.slow] if name == "mobilenet" else [])
    for name in zoo.ENTRIES
    if not name.endswith("_v2")
]


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo(name):
    module = zoo.build(name, small=True)
    inputs = tuple(map(torch.from_numpy, zoo_export.inputs(name, small=True)))
    net = dgo.from_torch(program(module, *inputs)).compile()
    agree(net, module, inputs)
    assert "PyTorch" not in str(net.explain())


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("name", user_models.MODELS)
def test_what_users_have(name):
    module, inputs = user_models.made(name)
    agree(dgo.from_torch(program(module, *inputs)).compile(), module, inputs)


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("name", [name for name, case in user_models.MODELS.items() if case.sizes])
def test_sizes_that_vary(name):
    module, inputs = user_models.made(name)
    sizes = user_models.MODELS[name].sizes
    dims = {called: Dim(called, min=5, max=512) for one in sizes for called in one.values()}
    shapes = tuple({axis: dims[called] for axis, called in one.items()} for one in sizes)
    net = dgo.from_torch(program(module, *inputs, dynamic_shapes=shapes)).compile()
    agree(net, module, inputs)
    for axis in {axis: None for one in sizes for axis in one}:
        inputs = tuple(
            torch.cat([one, one.narrow(axis, 0, min(3, one.shape[axis]))], axis) if axis in which else one
            for one, which in zip(inputs, sizes, strict=True)
        )
    if name != "bert":  # more places than its table has
        agree(net, module, inputs)


@pytest.mark.slow
@pytest.mark.sweep(every=6)
@pytest.mark.parametrize("name", ["unet", "hifigan", "wavenet", "edsr", "mobilenet", "vae_decoder"])
def test_the_zoo_in_any_size(name, tmp_path):
    module = zoo.build(name, small=True)
    inputs = tuple(map(torch.from_numpy, zoo_export.inputs(name, small=True)))
    shapes = tuple(dict.fromkeys(range(2, one.ndim), Dim.AUTO) for one in inputs)
    net = dgo.from_torch(program(module, *inputs, dynamic_shapes=shapes)).compile()
    assert all(value.shape[2:] == (None,) * (value.ndim - 2) for value in net.inputs)
    larger = tuple(torch.randn(*one.shape[:2], *(2 * size for size in one.shape[2:])) for one in inputs)
    agree(net, module, larger)
    net.save(tmp_path / "net")
    for each in (net, dgo.load(tmp_path / "net")):
        agree(each, module, inputs)
        agree(each, module, larger)


@pytest.mark.parametrize("name", ["transformer", "top_k", "where_erf", "gru", "swin"])
def test_nets_are_saved_and_pickled(name, tmp_path):
    module, inputs = user_models.made(name)
    net = dgo.from_torch(program(module, *inputs)).compile()
    net.save(tmp_path / "net")
    agree(dgo.load(tmp_path / "net"), module, inputs)
    agree(pickle.loads(pickle.dumps(net)), module, inputs)


OTHERS = [("dtype", "no_such"), ("dtype", "nn"), ("memory_format", "load"), ("device", "cuda"), ("Generator", "x")]


@pytest.mark.parametrize(("kind", "name"), OTHERS)
def test_arguments_of_a_file_that_are_none(kind, name):
    arguments = {"self": Operand(0), "dim": 0, "dtype": Other(kind, name)}
    step = host.TorchStep("here", (OpCall("aten.cumprod.default", arguments),), {}, 1, (Meta((2,), "f32"),))
    with pytest.raises(dgo.UnsupportedError, match=f"here: an argument that is a {kind}, {name}"):
        step([np.ones(2, np.float32)])


@pytest.mark.parametrize("shape", [(2, 3, 15, 7), (3, 15, 7)])
def test_adaptive_windows_that_overlap(shape):
    """One pooling, where windows have one length and distance; indices that nothing reads need no op."""

    class Adaptive(nn.Module):
        def forward(self, x):
            functions = nn.functional.adaptive_max_pool2d, nn.functional.adaptive_avg_pool2d
            return [function(x, sizes) for function in functions for sizes in ((2, 3), (15, 3), (1, 6))]

    module, x = Adaptive(), torch.randint(-8, 9, shape).float()
    graph = dgo.from_torch(program(module, x))
    assert not any(node.kind == "Wildcard" for node in graph.nodes)
    agree(graph.compile(), module, [x])


def test_windows_of_several_lengths():
    module = nn.AdaptiveAvgPool2d((4, 9))
    x = torch.randint(-8, 9, (1, 2, 6, 5)).float()
    agree(dgo.from_torch(program(module, x)).compile(), module, [x])


@pytest.mark.slow
def test_filled_like_data():
    class Filled(nn.Module):
        def forward(self, x):
            return torch.where(x > 0, torch.full_like(x, 2.5), torch.zeros_like(x)), torch.ones_like(x)

    module, x = Filled(), torch.randn(3, 4)
    graph = dgo.from_torch(program(module, x))
    agree(graph.compile(), module, [x])
    assert "full_like" not in [node.name for node in graph.nodes]
    open_sizes = program(module, x, dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    agree(dgo.from_torch(open_sizes).compile(), module, [torch.randn(5, 4)])


def test_small_integers_are_exact():
    module = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.MaxPool2d(2))
    for parameter in module.parameters():
        parameter.data = torch.randint(-3, 4, parameter.shape).float()
    x = torch.randint(-4, 5, (2, 3, 12, 14)).float()
    agree(dgo.from_torch(program(module, x)).compile(), module, (x,), tolerance=0)


def test_names_and_nested_arguments():
    class Nested(nn.Module):
        def forward(self, pair, other):
            a, b = pair["a"], pair["b"]
            return {"sum": a + b, "more": [a * other, None]}

    x = torch.arange(6.0).reshape(2, 3)
    exported = export(Nested(), ({"a": x, "b": x + 1},), {"other": x - 1})
    graph = dgo.from_torch(exported)
    assert [value.name for value in graph.inputs] == ["pair_a", "pair_b", "other"]
    assert list(graph.outputs) == ["add", "mul"]
    got = graph.compile().run({"pair_a": x.numpy(), "pair_b": x.numpy() + 1, "other": x.numpy() - 1})
    assert np.array_equal(got["add"], 2 * x + 1) and np.array_equal(got["mul"], x * (x - 1))


def test_a_net_takes_arguments_that_nothing_reads():
    class First(nn.Module):
        def forward(self, x, unread):
            return torch.relu(x)

    module, inputs = First(), (torch.randn(2, 3), torch.randn(4))
    agree(dgo.from_torch(program(module, *inputs)).compile(), module, inputs)


def test_parameters_are_copied_once():
    module = nn.Sequential(nn.Linear(300, 300), nn.Conv1d(4, 4, 1), nn.Linear(300, 300))
    module[2].weight = module[0].weight
    graph = dgo.from_torch(program(module, torch.ones(1, 4, 300)))
    held = [value.constant for value in graph.constants if value.shape == (300, 300)]
    assert held and all(np.shares_memory(array, held[0]) for array in held)
    assert not np.shares_memory(held[0], module[0].weight.detach().numpy())


@pytest.fixture(scope="module")
def of_integers():
    """A model with parameters of more than a few bytes, and its program of any length."""
    module = nn.Sequential(nn.Conv1d(32, 64, 3), nn.ReLU(), nn.Conv1d(64, 32, 3, padding=1)).eval()
    for parameter in module.parameters():
        parameter.data = torch.randint(-3, 4, parameter.shape).float()
    sizes = ({2: Dim("length", min=4, max=4096)},)
    return module, program(module, torch.ones(1, 32, 40), dynamic_shapes=sizes)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("again", ["sizes", "clear_caches", "pickle", "compile"])
# exported programs have weak references to parameters, which PyTorch does not swap then
@pytest.mark.parametrize("change", [name for name in CHANGES if name != "swapped"])
def test_a_net_never_changes(change, again, of_integers, amount, seed):
    """Whatever is written to the module, and whenever parameters are packed."""
    torch.manual_seed(seed)
    module, exported = of_integers
    graph = dgo.from_torch(exported)
    state = {name: each.detach().clone() for name, each in exported.state_dict.items()}
    net = graph.compile()
    for number in range(amount(3, 10, 200)):
        x = torch.randint(-2, 3, (1, 32, 40 + 7 * number if again == "sizes" else 40)).float()
        with torch.no_grad():
            wanted = torch.func.functional_call(module, state, (x,)).numpy()
        assert np.array_equal(net(x.numpy()), wanted)
        CHANGES[change](module, [torch.randint(-3, 4, each.shape).float() for each in module.parameters()])
        if again == "clear_caches":
            dgo.clear_caches()
        elif again == "pickle":
            net = pickle.loads(pickle.dumps(net))
        elif again == "compile":
            net = graph.compile()


def test_channels_last_weights():
    module = nn.Conv2d(40, 30, 3, padding=1).to(memory_format=torch.channels_last)
    x = torch.randn(1, 40, 9, 9)
    agree(dgo.from_torch(program(module, x)).compile(), module, (x,))


def test_the_same_result_twice_and_an_input_as_result():
    class Twice(nn.Module):
        def forward(self, x):
            y = x + 1
            return y, y, x

    x = torch.arange(4.0)
    got = dgo.from_torch(program(Twice(), x)).compile()(x.numpy())
    assert [list(one) for one in got] == [[1, 2, 3, 4], [1, 2, 3, 4], [0, 1, 2, 3]]


def test_ops_in_place():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y.add_(1)
            y[:, 1] = 0
            return torch.relu_(y)

    x = torch.arange(-3.0, 3.0).reshape(2, 3)
    agree(dgo.from_torch(program(InPlace(), x)).compile(), InPlace(), (x,), tolerance=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.relu_(x * 2),
        lambda x: (x * 2).add_(1).mul_(3),
        lambda x: (y := x * 2).flatten() + (y + 1).relu_().flatten() + y.add_(3).flatten(),
        lambda x: (y := x * 2, z := y.view(-1), y.add_(1), z * 1)[3],
        lambda x: (y := x * 2, z := y.add_(1), y * z)[2],
        lambda x: (y := x * 2, y.relu_(), y.sum() * y)[2],
        lambda x: (x + 0).clamp_(min=0.5),
    ],
)
def test_ops_in_place_of_all_kinds(function):
    class Applied(nn.Module):
        def forward(self, x):
            return function(x)

    x = torch.arange(-3.0, 3.0).reshape(2, 3)
    agree(dgo.from_torch(program(Applied(), x)).compile(), Applied(), (x,), tolerance=0)


def test_half_precision():
    for dtype in (torch.float16, torch.bfloat16):
        module = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 7)).to(dtype)
        x = torch.randn(1, 8, 6, 6).to(dtype)
        got = dgo.from_torch(program(module, x)).compile()(dgo.from_dlpack(x))
        assert got.dtype == dgo.from_dlpack(x).dtype
        with torch.inference_mode():
            wanted = module.float()(x.float()).numpy()
        assert np.abs(got.astype(np.float32) - wanted).max() <= 0.02 * np.abs(wanted).max()


class Wide(nn.Module):
    """Types that only PyTorch has, between ops of the package."""

    def forward(self, x):
        y = torch.relu(x).to(torch.float64)
        low, places = torch.max(y, 1)
        turned = torch.view_as_complex(x.reshape(2, 4, 2).contiguous()) * (1 + 2j)
        return torch.view_as_real(turned).flatten(1).float() * low.float()[:, None], places, y.sum(1).float()


def test_types_that_only_pytorch_has():
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    net = dgo.from_torch(program(Wide(), x)).compile()
    agree(net, Wide(), (x,))


def test_records_of_files_are_not_trusted():
    module, inputs = user_models.made("top_k")
    graph = dgo.from_torch(program(module, *inputs))
    late = next(node.late for node in graph.nodes if node.late)
    whole = json.loads(json.dumps(late.record(lambda array: 0)))
    good = whole["nodes"][0]
    traced = good["attrs"]["traced"]
    ((op, arguments),) = traced["calls"]
    deep = []
    for _ in range(500):
        deep = [deep]
    bad = [
        *({"calls": [[name, arguments]]} for name in ("aten.relu_.default", "aten.rand_like.default", "load_library")),
        *({"calls": [[name, arguments]]} for name in ("aten.from_file.default", "aten.__class__.mro", "", None)),
        *({"calls": [[op, {**arguments, "k": k}]]} for k in (deep, {"size": ["x"]}, {"operand": [7]}, {"a": 1})),
        *({"calls": calls} for calls in ([], [[op]], [[op, {}]], [[op, [1]]], "[]", {})),
        {"calls": [[op, {"self": {"earlier": [7, 7]}}], [op, arguments]]},
        {"results": [["f32", [2, 5, 1000]], ["s64", [2, 5, 3]]]}, {"results": [["f32", [1e9, 1e9]]]}, {"results": []},
    ]  # fmt: skip
    for attrs in [{}, {"arguments": "{}", "results": "[]"}, *({"traced": {**traced, **change}} for change in bad)]:
        record = {**whole, "nodes": [{**good, "attrs": attrs}]}
        with pytest.raises(dgo.Error):
            value = dgo.Graph().input("x", tuple(inputs[0].shape))
            for made in hooks.call("late", record, None, "test")((value,)):
                made.node.host([inputs[0].numpy()])
    with pytest.raises(dgo.InvalidArgumentError, match="save the net again"):
        hooks.call("late", {**record, "nodes": [{**record["nodes"][0], "attrs": {}}]}, None, "test")


class _Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return torch.rand_like(x) + x


@pytest.mark.slow
def test_all_that_cannot_be_expressed_is_said_at_once():
    with pytest.raises(dgo.UnsupportedError) as caught:
        dgo.from_torch(program(_Counting(), torch.ones(3)))
    text = str(caught.value)
    assert "'count' is written to" in text and "random" in text
    with pytest.raises(dgo.UnsupportedError, match=r"call model\.eval"):
        dgo.from_torch(program(nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3)).train(), torch.ones(2, 2, 4)))
    with pytest.raises(TypeError, match=r"torch\.export\.export"):
        dgo.from_torch(nn.Linear(2, 2))


class Attended(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v, mask=None):
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, **self.options)


@pytest.mark.parametrize("kind", ["boolean", "shared heads", "both", "causal"])
def test_attention_is_one_step(kind):
    """Also with a query that sees nothing; the Select makes a mask of numbers of a condition."""
    shared = kind in ("shared heads", "both")
    inputs = [torch.randn(2, 4, 7, 8), *(torch.randn(2, 2 if shared else 4, 7, 8) for _ in range(2))]
    if kind in ("boolean", "both"):
        mask = torch.rand(2, 1, 7, 7) < 0.6
        mask[0, 0, 3] = False
        inputs.append(mask)
    module = Attended(enable_gqa=shared, is_causal=kind == "causal")
    net = dgo.from_torch(program(module, *inputs)).compile()
    agree(net, module, inputs)
    conditions = ["Select"] if kind in ("boolean", "both") else []
    assert [step.step for step in net.explain().steps] == [*conditions, "attention"]


class Numbered(nn.Module):
    """Results beside numbers of Python."""

    def forward(self, x):
        return 3, x + 1, True, None, 2.5, x.shape[0], x.shape[1]


@pytest.mark.parametrize("shapes", [None, ({0: Dim("n", min=2, max=64)},)], ids=["sizes", "dynamic"])
def test_numbers_of_python_are_tensors_without_axes(shapes):
    net = dgo.from_torch(program(Numbered(), torch.ones(4, 3), dynamic_shapes=shapes)).compile()
    x = np.ones((4 if shapes is None else 7, 3), np.float32)
    results = net(x)
    wanted = [np.int64(3), x + 1, np.bool_(True), np.float32(2.5), np.int64(len(x)), np.int64(3)]
    assert [(one.dtype, one.shape) for one in results] == [(one.dtype, one.shape) for one in wanted]
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_results_are_refused():
    class Named(nn.Module):
        def forward(self, x):
            return "x", x + 1

    with pytest.raises(dgo.UnsupportedError, match="output 0: no tensor and no number, but 'x'"):
        dgo.from_torch(program(Named(), torch.ones(4, 3)))


def test_parameters_that_hold_other_tensors_are_refused():
    from torch.testing._internal.two_tensor import TwoTensor

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = nn.Parameter(TwoTensor(torch.ones(3), torch.ones(3)))

        def forward(self, x):
            return x + self.pair.sum()

    with pytest.raises(dgo.UnsupportedError, match="'pair': a TwoTensor, which holds other tensors"):
        dgo.from_torch(torch.export.export(Module(), (torch.ones(3),)))


def test_an_unused_string_among_the_inputs():
    class Module(nn.Module):
        def forward(self, x, mode):
            return x + 1 if mode == "more" else x

    net = dgo.from_torch(torch.export.export(Module(), (torch.ones(3), "more"))).compile()
    assert net(np.ones(3, np.float32)).tolist() == [2, 2, 2]


@pytest.mark.slow  # the guards of an export are solved for seconds
def test_sizes_that_an_export_excludes_are_told():
    """PyTorch states one position behind an upsampling of one position, by a guard on the sizes of the input."""
    auto = torch.export.Dim.AUTO
    model = nn.Sequential(nn.Conv2d(1, 1, 3, 2), nn.Upsample(scale_factor=1.5, mode="bilinear")).eval()
    program = torch.export.export(model, (torch.ones(2, 1, 4, 4),), dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    net = dgo.from_torch(program).compile()
    assert net(np.ones((3, 1, 4, 4), np.float32)).shape == (3, 1, 1, 1)
    with pytest.raises(
        dgo.ShapeError, match=r"\(2, 1, 6, 6\) for the sizes of this call, the model states \(None, 1, 1"
    ):
        net(np.ones((2, 1, 9, 9), np.float32))

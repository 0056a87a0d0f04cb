"""The six custom ops against PyTorch's own: numbers, memory formats, derivatives, complaints."""

from itertools import cycle, product

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

from .common import integers
from .op_cases import CASES, DIRECTIONS, KINDS, Case, computed_by, ours_alone

ENGINES = {"ours": True, "theirs": False}


@pytest.fixture(params=ENGINES)
def by(request):
    with computed_by(ENGINES[request.param]):
        yield request.param


def significant(t):
    """Strides without those of single elements, which say nothing."""
    return tuple(stride for size, stride in zip(t.shape, t.stride(), strict=True) if size != 1)


def expected(case, direction, operands):
    if not direction:
        return torch.ops.aten.convolution(*operands, *case.aten)
    # of the gradients in float64: PyTorch's refuse some operands
    a, b = (t.detach().double().contiguous() for t in operands[:2])
    x, w, dy = (a.new_empty(case.x), b, a) if direction == "_backward_data" else (a, b.new_empty(case.w), b)
    mask = [direction == "_backward_data", direction == "_backward_weights", False]
    return torch.ops.aten.convolution_backward(dy, x, w, None, *case.aten, mask)[mask.index(True)].to(operands[0].dtype)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_numbers_and_strides(name, direction, by):
    case = CASES[name]
    operands = case.operands(direction)
    out = case.op(direction)(*operands, *case.arguments)
    wanted = expected(case, direction, operands)
    assert torch.equal(out, wanted)
    if not direction:
        assert significant(out) == significant(wanted)
        assert out.stride() == wanted.stride() or out.numel() == max(out.shape)
    with FakeTensorMode() as mode:
        given = [mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for v in operands]
        fake = case.op(direction)(*given, *case.arguments)
    assert (fake.shape, fake.dtype) == (out.shape, out.dtype)
    assert significant(fake) == significant(out)


# float64, and tensors without a stride of 1
THEIRS = {"2d f64", "2d expanded", "2d sliced", "t 2d expanded"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - THEIRS))
def test_our_engine_takes_the_others(name):
    case = CASES[name]
    with ours_alone():
        for direction in DIRECTIONS:
            case.op(direction)(*case.operands(direction), *case.arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "direction"), zip(CASES, cycle(DIRECTIONS), strict=False))
def test_opcheck(name, direction):
    """In one direction; numbers, strides and fake tensors of all three are compared above."""
    case = CASES[name]
    with computed_by(True):
        opcheck(case.op(direction), (*case.operands(direction, requires_grad=True), *case.arguments))


@pytest.mark.slow
def test_opcheck_without_recording():
    for name, ours, direction in product(("2d last", "t 1d"), (True, False), DIRECTIONS):
        with computed_by(ours):
            opcheck(CASES[name].op(direction), (*CASES[name].operands(direction), *CASES[name].arguments))


# -- derivatives ------------------------------------------------------------------------------------------------

SMALL = {
    "1d": Case((2, 2, 4), (2, 2, 2), (2,), (1,)),
    "2d": Case((1, 2, 3, 3), (2, 1, 2, 2), padding=(1, 0), dilation=(1, 2), groups=2, x_layout="last"),
    "3d": Case((1, 1, 2, 3, 2), (2, 1, 2, 2, 1), bias=False),
    "t 1d": Case((2, 2, 2), (2, 2, 3), (2,), (1,), (1,), (1,), transposed=True),
    "t 2d": Case((1, 2, 2, 2), (2, 1, 2, 2), (2, 2), groups=2, transposed=True, x_layout="last"),
    "t 3d": Case((1, 1, 2, 1, 2), (1, 2, 2, 2, 1), (2, 1, 1), transposed=True, bias=False),
}
# a convolution is linear in each operand: on integers finite differences are exact
EXACT = {"eps": 1, "atol": 0, "rtol": 0, "nondet_tol": 0}


def differentiable(case, direction):
    operands = case.operands(direction, requires_grad=True)
    return [v for v in operands if isinstance(v, torch.Tensor)], lambda *tensors: case.op(direction)(
        *tensors, *operands[len(tensors) :], *case.arguments
    )


@pytest.mark.sweep(every=2)
@pytest.mark.filterwarnings("ignore:Input #. requires gradient and is not a double precision")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", SMALL)
def test_derivatives_by_our_engine_are_exact(name, direction):
    with ours_alone():
        tensors, op = differentiable(SMALL[name], direction)
        assert gradcheck(op, tensors, **EXACT)
        grad_output = integers(*op(*tensors).shape).requires_grad_()
        assert gradgradcheck(op, tensors, grad_output, **EXACT)


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", SMALL)
def test_derivatives_in_float64(name, direction):
    tensors, op = differentiable(SMALL[name]._replace(dtype=torch.float64), direction)
    assert gradcheck(op, tensors)
    assert gradgradcheck(op, tensors)


@pytest.mark.sweep(every=3)
@pytest.mark.filterwarnings("ignore:Input #. requires gradient and is not a double precision")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ["1d", "t 2d"])
def test_derivatives_by_pytorch_in_float32(name, direction):
    with computed_by(False):
        tensors, op = differentiable(SMALL[name], direction)
        assert gradcheck(op, tensors, **EXACT)
        assert gradgradcheck(op, tensors, integers(*op(*tensors).shape).requires_grad_(), **EXACT)


# -- schemas and complaints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_schema(kind, direction):
    op = getattr(torch.ops.dnnl_graph_ops, kind + direction).default
    assert torch.Tag.pt2_compliant_tag in op.tags
    assert not op._schema.is_mutable
    assert all(a.alias_info is None for a in (*op._schema.arguments, *op._schema.returns))


def raised(call):
    """The type of an error, or the shape of a result."""
    try:
        return tuple(call().shape)
    except Exception as error:
        return type(error)


IMAGES = (2, 4, 6, 6), (4, 4, 3, 3)
UNSOUND = {
    "stride of 0": Case(*IMAGES, (0, 1)),
    "negative stride": Case(*IMAGES, (-1, 1)),
    "negative padding": Case(*IMAGES, padding=(1, -1)),
    "dilation of 0": Case(*IMAGES, dilation=(0, 1)),
    "output_padding as large as stride": Case(*IMAGES, output_padding=(1, 0)),
    "negative output_padding": Case(*IMAGES, output_padding=(0, -1)),
    "no groups": Case(*IMAGES, groups=0),
    "groups that do not divide": Case(*IMAGES, groups=3),
    "other channels": Case((2, 5, 6, 6), (4, 4, 3, 3)),
    "a kernel too large": Case((2, 4, 2, 2), (4, 4, 5, 5)),
    "too many strides": Case(*IMAGES, (1, 1, 1)),
    "too many paddings": Case(*IMAGES, padding=(1, 1, 1)),
    "too many output_paddings": Case(*IMAGES, (2,), output_padding=(1, 1, 1)),
    "no strides": Case(*IMAGES, ()),
    "weights of fewer axes": Case((2, 4, 6, 6), (4, 4, 3)),
    "no batch": Case((4, 6, 6), (4, 4, 3, 3)),
    "four spatial axes": Case((1,) * 6, (1,) * 6),
    "no spatial axes": Case((1, 1), (1, 1)),
    "an empty batch": Case((0, 4, 6, 6), (4, 4, 3, 3)),
    "empty channels": Case((2, 0, 6, 6), (4, 0, 3, 3)),
    "no output channels": Case((2, 4, 6, 6), (0, 4, 3, 3)),
    "an empty kernel": Case((2, 4, 6, 6), (4, 4, 0, 3)),
    "empty images": Case((2, 4, 0, 6), (4, 4, 1, 3)),
    "another bias": Case(*IMAGES),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", UNSOUND)
def test_unsound_sizes_are_as_pytorch_has_them(name, transposed):
    case = UNSOUND[name]._replace(transposed=transposed)
    x, w, b = case._replace(bias=False).tensors()
    if name == "another bias":
        b = integers(7)

    def theirs(*tensors):
        return raised(lambda: torch.ops.aten.convolution(*tensors, *case.aten))

    def ours(*tensors):
        return raised(lambda: case.op()(*tensors, *case.arguments))

    assert ours(x, w, b) == theirs(x, w, b)
    meta = [t if t is None else t.to("meta") for t in (x, w, b)]
    assert ours(*meta) == theirs(*meta)
    with FakeTensorMode() as mode:
        fake = [t if t is None else mode.from_tensor(t) for t in (x, w, b)]
        assert ours(*fake) == theirs(*fake)


WRONG = {
    "grad_output of another size": ((2, 4, 5, 4), {}),
    "grad_output of other channels": ((2, 3, 4, 4), {}),
    "another batch": ((1, 4, 4, 4), {}),
    "fewer axes": ((2, 4, 4), {}),
    "input of other channels": ((2, 4, 4, 4), {"x": (2, 5, 6, 6)}),
    "a negative size": ((2, 4, 4, 4), {"x": (2, 4, -6, 6)}),
    "input of another size": ((2, 4, 4, 4), {"x": (2, 4, 7, 6)}),
    "weights of another size": ((2, 4, 4, 4), {"w": (4, 4, 3, 2)}),
    "weights of fewer axes": ((2, 4, 4, 4), {"w": (4, 4, 3)}),
    "stride of 0": ((2, 4, 4, 4), {"stride": (0, 1)}),
    "negative padding": ((2, 4, 4, 4), {"padding": (-1, 1)}),
    "too many dilations": ((2, 4, 4, 4), {"dilation": (1, 1, 1)}),
    "no groups": ((2, 4, 4, 4), {"groups": 0}),
    "groups that do not divide": ((2, 4, 4, 4), {"groups": 3}),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_sizes_of_gradients_that_do_not_fit(name, transposed, dtype):
    shape, changed = WRONG[name]
    case = Case(*IMAGES, transposed=transposed)._replace(**changed)
    if transposed and "x" not in changed and "w" not in changed and shape != (2, 4):
        # what a transposed convolution makes of 4 x 4
        case, shape = case._replace(x=(2, 4, 4, 4)), (*shape[:2], *(n + 2 for n in shape[2:]))
    dy = torch.ones(shape, dtype=dtype)
    x, w = (torch.ones([abs(n) for n in s], dtype=dtype) for s in (case.x, case.w))

    def calls(dy, x, w):
        return (
            raised(lambda: case.op("_backward_data")(dy, w, case.x, *case.arguments)),
            raised(lambda: case.op("_backward_weights")(x, dy, case.w, *case.arguments)),
        )

    # a size in words is only wrong for one of them
    wanted = {RuntimeError, case.w} if min(case.x) < 0 else {RuntimeError}
    assert set(calls(dy, x, w)) <= wanted
    with FakeTensorMode() as mode:
        assert set(calls(*map(mode.from_tensor, (dy, x, w)))) <= wanted


DTYPES = [torch.float64, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.uint8, torch.bool]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_dtypes_are_pytorchs(dtype, transposed):
    case = Case((2, 3, 5, 5), (3, 3, 3, 3), transposed=transposed)
    x, w, b = (t.to(dtype) for t in case.tensors())
    wanted = raised(lambda: case.theirs(x, w, b))
    assert raised(lambda: case.op()(x, w, b, *case.arguments)) == wanted
    if isinstance(wanted, tuple):
        assert torch.equal(case.op()(x, w, b, *case.arguments), case.theirs(x, w, b))
        with torch.inference_mode():
            assert torch.equal(case.op()(x, w, b, *case.arguments), case.theirs(x, w, b))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("transposed", [False, True])
def test_complex_derivatives(dtype, transposed):
    case = SMALL["t 2d" if transposed else "2d"]
    tensors = [(t + 1j * integers(*t.shape)).to(dtype).detach().requires_grad_() for t in case.tensors()]
    results = []
    for out in (case.op()(*tensors, *case.arguments), case.theirs(*tensors)):
        weigh = torch.arange(out.numel()).reshape(out.shape) * (1 + 2j)
        results.append(torch.autograd.grad(out, tensors, weigh.to(dtype)))
    for mine, other in zip(*results, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("mixed", range(3))
def test_mixed_dtypes(mixed):
    for case in (Case((2, 3, 5, 5), (4, 3, 3, 3)), Case((2, 3, 5, 5), (3, 4, 3, 3), transposed=True)):
        for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.complex64):
            tensors = [t.to(dtype) if i == mixed else t for i, t in enumerate(case.tensors())]
            wanted = raised(lambda case=case, t=tensors: case.theirs(*t))
            assert raised(lambda case=case, t=tensors: case.op()(*t, *case.arguments)) == wanted

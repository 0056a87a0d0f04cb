"""The custom ops under what PyTorch does to operators: transforms, autocast, hooks, modes, threads."""

import itertools
import threading

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import checkpoint

import dnnl_graph_ops.torch as dgt

from .common import integers
from .op_cases import DIRECTIONS, Case, computed_by, ours_alone

# an int for each axis: with one for all, PyTorch's own rules of vmap fail
SMALL = {
    "1d": Case((2, 2, 5), (4, 2, 2), (2,), (1,)),
    "2d": Case((2, 4, 4, 3), (2, 2, 2, 2), (1, 1), (1, 0), (1, 1), (0, 0), groups=2, x_layout="last"),
    "t 1d": Case((2, 2, 4), (2, 2, 3), (2,), (1,), (1,), (1,), transposed=True),
    "t 2d": Case((1, 4, 3, 2), (4, 1, 2, 2), (2, 2), (0, 0), (1, 1), (0, 0), groups=2, transposed=True),
}


@pytest.fixture(params=SMALL.values(), ids=SMALL)
def case(request):
    with computed_by(True):
        yield request.param


def same(ours, theirs):
    ours, theirs = (torch.utils._pytree.tree_leaves(tree) for tree in (ours, theirs))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype is other.dtype and mine.requires_grad == other.requires_grad
        assert torch.equal(mine, other)


def both(case, f, *tensors):
    """What a function of the operator gives with ours and with PyTorch's."""
    same(f(case.ours, *tensors), f(case.theirs, *tensors))


def loss(op):
    """Not linear in the result."""
    return lambda *tensors: (op(*tensors) ** 2).sum()


# -- vmap -------------------------------------------------------------------------------------------------------


def mapped(tensor, dim, size):
    return tensor if dim is None else torch.stack([integers(*tensor.shape) for _ in range(size)], dim)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_vmap_by_any_axes(case, direction, size):
    operands = case.operands(direction)
    count = 2 if direction else 3
    op = case.op(direction)
    for dims in itertools.product((None, 0, 1, -1), (None, 0, -2), (None, 0, -1)[: None if count == 3 else 1]):
        if not any(d is not None for d in dims):
            continue
        given = [mapped(t, d, size) for t, d in zip(operands[:count], dims, strict=False)]
        rest = (*operands[count:], *case.arguments)
        for out_dim in (0, -1):
            out = vmap(lambda *tensors, rest=rest: op(*tensors, *rest), dims[:count], out_dim)(*given)
            one = [
                op(*[t if d is None else t.select(d, i) for t, d in zip(given, dims, strict=False)], *rest)
                for i in range(size)
            ]
            assert torch.equal(out, torch.stack(one, out_dim)), dims


def test_vmap_of_nothing_but_the_bias(case):
    x, w, b = case.tensors()
    many = integers(3, *b.shape)
    out = vmap(case.ours, (None, None, 0))(x, w, many)
    assert torch.equal(out, torch.stack([case.ours(x, w, one) for one in many]))


def test_nested_vmap(case):
    x, w, b = case.tensors()
    xs, ws = mapped(x, 0, 2), mapped(w, 0, 3)
    out = vmap(vmap(case.ours, (None, 0, None)), (0, None, None))(xs, ws, b)
    assert torch.equal(out, torch.stack([torch.stack([case.ours(x, w, b) for w in ws]) for x in xs]))


def test_vmap_of_an_empty_batch():
    case = SMALL["1d"]
    w, b = case.tensors()[1:]
    xs = torch.empty(3, 0, *case.x[1:])
    both(case, lambda op: vmap(op, (0, None, None))(xs, w, b))
    both(case, lambda op: vmap(op, (0, 0, None))(xs, mapped(w, 0, 3), b))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_vmap_over_nothing(case, direction):
    operands = case.operands(direction)
    count, op = 2 if direction else 3, case.op(direction)
    shape = op(*operands, *case.arguments).shape
    for dims in itertools.product((None, 0), repeat=count):
        if any(d is not None for d in dims):
            given = [t if d is None else t.new_empty(0, *t.shape) for t, d in zip(operands, dims, strict=False)]
            out = vmap(lambda *tensors: op(*tensors, *operands[count:], *case.arguments), dims)(*given)
            assert out.shape == (0, *shape)


# -- derivatives by transforms ----------------------------------------------------------------------------------

TRANSFORMS = {
    "grad": lambda op, *t: grad(loss(op), (0, 1, 2))(*t),
    "grad of grad": lambda op, *t: grad(lambda *t: grad(loss(op))(*t).pow(2).sum(), (0, 1, 2))(*t),
    "vjp": lambda op, *t: vjp(op, *t)[1](torch.ones_like(op(*t))),
    "jvp": lambda op, *t: jvp(op, t, tuple(torch.ones_like(v) for v in t)),
    "jvp of one operand": lambda op, x, w, b: jvp(lambda w: op(x, w, b), (w,), (torch.ones_like(w),)),
    "jvp of grad": lambda op, *t: jvp(grad(loss(op), (0, 1, 2)), t, tuple(torch.ones_like(v) for v in t)),
    "grad of jvp": lambda op, *t: grad(lambda *t: jvp(loss(op), t, tuple(torch.ones_like(v) for v in t))[1], (0, 1, 2))(
        *t
    ),
    "jvp of jvp": lambda op, *t: jvp(
        lambda *t: jvp(op, t, tuple(torch.ones_like(v) for v in t))[1], t, tuple(2 * torch.ones_like(v) for v in t)
    ),
    "jacrev": lambda op, *t: jacrev(op, (0, 1, 2))(*t),
    "jacrev, in chunks": lambda op, *t: jacrev(op, 1, chunk_size=3)(*t),
    "jacfwd": lambda op, *t: jacfwd(op, (0, 1, 2))(*t),
    "hessian": lambda op, *t: hessian(loss(op), (1, 2))(*t),
    "reverse over reverse": lambda op, *t: jacrev(jacrev(loss(op), 1), 1)(*t),
    "forward over forward": lambda op, *t: jacfwd(jacfwd(loss(op), 1), 0)(*t),
    "vmap of grad": lambda op, x, w, b: vmap(grad(loss(op), (0, 1, 2)), (0, None, None))(
        torch.stack([x, -x, 2 * x]), w, b
    ),
    "vmap of grad, models": lambda op, x, w, b: vmap(grad(loss(op), (0, 1)), (None, 0, 0))(
        x, torch.stack([w, -w]), torch.stack([b, 2 * b])
    ),
    "gradients of samples": lambda op, x, w, b: vmap(
        grad(lambda w, b, x: loss(op)(x[None], w, b), (0, 1)), (None, None, 0)
    )(w, b, x),
    "grad of vmap": lambda op, x, w, b: grad(
        lambda w: vmap(op, (0, None, None))(torch.stack([x, -x, 2 * x]), w, b).pow(2).sum()
    )(w),
    "vmap of jvp": lambda op, x, w, b: vmap(lambda x: jvp(lambda x: op(x, w, b), (x,), (x,)))(torch.stack([x, -x])),
    "jvp of vmap": lambda op, x, w, b: jvp(
        lambda w: vmap(lambda x: op(x, w, b))(torch.stack([x, -x])), (w,), (torch.ones_like(w),)
    ),
    "functionalised": lambda op, *t: torch.func.functionalize(lambda *t: op(*t).mul_(2))(*t),
}


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(case, name):
    both(case, TRANSFORMS[name], *case.tensors())


@pytest.mark.parametrize("name", ["grad", "jvp of grad", "hessian"])
def test_transforms_inside_of_recording(case, name):
    tensors = case.tensors(requires_grad=True)
    both(case, TRANSFORMS[name], *tensors)


def test_dual_tensors(case):
    tensors = case.tensors()
    tangents = [integers(*t.shape) for t in tensors]

    def dual(op, recorded):
        with forward_ad.dual_level():
            given = [
                forward_ad.make_dual(t.detach().requires_grad_(recorded), tangent)
                for t, tangent in zip(tensors, tangents, strict=True)
            ]
            return tuple(t.detach() for t in forward_ad.unpack_dual(op(*given)))

    for recorded in (False, True):
        both(case, lambda op, recorded=recorded: dual(op, recorded))


def test_forward_over_reverse(case):
    """Tangents on what the backward pass is given."""
    tensors, tangent = case.tensors(), integers(*case.w)

    def product(op):
        x, w, b = (t.detach().requires_grad_() for t in tensors)
        with forward_ad.dual_level():
            given = forward_ad.make_dual(w, tangent)
            found = torch.autograd.grad(loss(op)(x, given, b), (x, w, b))
            return [tuple(t.detach() for t in forward_ad.unpack_dual(g)) for g in found]

    both(case, product)


def test_gradients_need_no_transform_of_theirs():
    """Transforms that go backwards, and vmap, stay with our engine."""
    for case in SMALL.values():
        x, w, b = case.tensors()
        with ours_alone():
            jacrev(jacrev(loss(case.ours), 1), 1)(x, w, b)
            vmap(grad(loss(case.ours), (0, 1, 2)), (0, None, None))(torch.stack([x, -x]), w, b)


# -- autograd's own ---------------------------------------------------------------------------------------------


def fixed(case):
    """The same integers at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return case.tensors()


def backward(op, tensors, weigh=None):
    """The result and the gradients of leaves."""
    given = [t.detach().requires_grad_() for t in tensors]
    out = op(*given)
    weigh = torch.arange(out.numel()).reshape(out.shape).remainder(7).to(out.dtype) if weigh is None else weigh(out)
    return out.detach(), *torch.autograd.grad(out, given, weigh)


WEIGHS = {
    "expanded": lambda out: torch.ones((), dtype=out.dtype).expand(out.shape),
    "channels last": lambda out: torch.ones_like(out).movedim(1, -1).contiguous().movedim(-1, 1).mul_(3),
    "sliced": lambda out: torch.arange(2.0 * out.numel()).reshape(*out.shape, 2)[..., 1].remainder(5),
    "reversed": lambda out: torch.arange(1.0 * out.numel()).reshape(out.shape[::-1]).permute(*range(out.ndim)[::-1]),
    "negated in passing": lambda out: torch._neg_view(torch.arange(1.0 * out.numel()).reshape(out.shape)),
    "conjugate's part": lambda out: (torch.arange(1.0 * out.numel()).reshape(out.shape) * 1j).conj().imag,
}


@pytest.mark.parametrize("weigh", WEIGHS)
def test_grad_outputs_of_any_layout(case, weigh):
    both(case, lambda op: backward(op, fixed(case), WEIGHS[weigh]))


@pytest.mark.parametrize("needed", [n for n in itertools.product((False, True), repeat=3) if any(n)])
def test_only_the_gradients_that_are_needed(case, needed):
    def run(op):
        given = [t.detach().requires_grad_(need) for t, need in zip(fixed(case), needed, strict=True)]
        loss(op)(*given).backward()
        return [t.grad for t in given if t.grad is not None]

    both(case, run)


def test_gradient_penalty(case):
    def run(op):
        x, w, b = (t.detach().requires_grad_() for t in fixed(case))
        found = torch.autograd.grad(loss(op)(x, w, b), x, create_graph=True)[0]
        (found**2).sum().backward()
        return w.grad, b.grad, x.grad

    both(case, run)


def test_saved_tensors_hooks(case):
    packed = []

    def run(op, hooks):
        with hooks:
            return backward(op, fixed(case))

    def shifted():
        return torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or (t + 1), lambda t: t - 1)

    both(case, lambda op: run(op, shifted()))
    assert packed.count(torch.Size(case.x)) == 2
    both(case, lambda op: run(op, torch.autograd.graph.save_on_cpu()))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(case, reentrant):
    def run(op):
        return backward(
            lambda *t: checkpoint.checkpoint(lambda *t: op(*t) ** 2, *t, use_reentrant=reentrant), fixed(case)
        )

    if reentrant:
        # refuses torch.autograd.grad
        def run(op):
            given = [t.detach().requires_grad_() for t in fixed(case)]
            checkpoint.checkpoint(lambda *t: op(*t) ** 2, *given, use_reentrant=True).sum().backward()
            return [t.grad for t in given]

    both(case, run)


def test_changed_operands_are_noticed(case):
    x, w, b = case.tensors(requires_grad=True)
    given = x.clone()
    out = case.ours(given, w, b)
    given.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_inference_mode(case):
    tensors = fixed(case)
    with torch.inference_mode():
        out = case.ours(*tensors)
        assert out.is_inference()
        made = [t.clone() for t in tensors]
        same([out, case.ours(*made)], [case.theirs(*tensors)] * 2)
    # tensors of inference cannot be saved, but computed with
    same(case.ours(*made), case.theirs(*made))


def test_an_empty_batch(case):
    x, w, b = case.tensors()
    empty = x[:0]
    both(case, lambda op: backward(op, (empty, w, b)))
    both(case, lambda op: op(empty, w, b))


@pytest.mark.sweep(every=3)
def test_traced_by_make_fx(case):
    tensors = case.tensors()
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(grad(loss(case.ours), (0, 1)), tracing_mode=mode)(*tensors)
        used = {str(node.target) for node in traced.graph.nodes}
        assert {f"dnnl_graph_ops.{case.kind}{direction}.default" for direction in DIRECTIONS} <= used
        same(traced(*tensors), grad(loss(case.theirs), (0, 1))(*tensors))


def test_meta_tensors(case):
    tensors = [t.to("meta") for t in case.tensors(requires_grad=True)]
    out = case.ours(*tensors)
    assert out.is_meta and out.shape == case.theirs(*tensors).shape
    found = torch.autograd.grad(out.sum(), tensors)
    assert [g.shape for g in found] == [t.shape for t in tensors]


@pytest.fixture
def deterministic():
    """Memory that nobody filled has NaN, too."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


FILLED = [name for name in TRANSFORMS if any(word in name for word in ("jvp", "jacfwd", "hessian", "forward"))]


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", ["backward", *FILLED])
def test_deterministic_algorithms(case, name):
    run = TRANSFORMS.get(name, lambda op, *tensors: backward(op, tensors))
    both(case, run, *fixed(case))


def test_operators_of_other_layouts(case):
    """Lazily conjugated, mkldnn's own, sparse: as PyTorch's."""
    x, w, b = (t.detach() for t in case.tensors())
    z = x + 1j * integers(*x.shape)
    given = z.conj(), w.to(z.dtype), b.to(z.dtype)
    same(case.ours(*given), case.theirs(*given))
    for convert in (torch.Tensor.to_sparse, torch.Tensor.to_mkldnn):
        outcomes = []
        for op in (case.ours, case.theirs):
            try:
                outcomes.append(op(convert(x), w, b).to_dense())
            except Exception as error:
                outcomes.append(type(error))
        assert outcomes[0] is outcomes[1] or torch.equal(*outcomes)


# -- autocast ---------------------------------------------------------------------------------------------------

AUTOCAST = {
    "bf16": lambda: [torch.autocast("cpu", torch.bfloat16)],
    "f16": lambda: [torch.autocast("cpu", torch.float16)],
    "nested": lambda: [torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", torch.float16)],
    "disabled": lambda: [torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", enabled=False)],
    "without a cache": lambda: [torch.autocast("cpu", torch.bfloat16, cache_enabled=False)],
}


def within(regions, f):
    if not regions:
        return f()
    with regions[0]:
        return within(regions[1:], f)


@pytest.mark.sweep
@pytest.mark.parametrize("dtypes", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("region", AUTOCAST)
def test_autocast(case, region, dtypes):
    tensors = [t.to(dtypes) for t in fixed(case)]

    def inside(op):
        return within(AUTOCAST[region](), lambda: backward(op, tensors))

    def forward_alone(op):
        given = [t.detach().requires_grad_() for t in tensors]
        out = within(AUTOCAST[region](), lambda: op(*given))
        return out.detach(), *torch.autograd.grad(out.sum(), given)

    def twice(op):
        def run():
            given = [t.detach().requires_grad_() for t in tensors]
            found = torch.autograd.grad(op(*given).float().sum(), given[:2], create_graph=True)
            return *found, *torch.autograd.grad(sum(g.float().sum() for g in found), given[:2])

        return [t.detach() for t in within(AUTOCAST[region](), run)]

    for run in (inside, forward_alone, twice):
        both(case, run)


def test_mixed_dtypes_under_autocast(case):
    x, w, b = fixed(case)

    def run(op):
        with torch.autocast("cpu", torch.bfloat16):
            return op(x.bfloat16(), w, b.half()), op(x, w.half(), None)

    both(case, run)


def test_a_backward_pass_inside_of_a_region_that_did_not_cast(case):
    def run(op):
        given = [t.detach().requires_grad_() for t in fixed(case)]
        out = (op(*given) ** 2).sum() * 129
        with torch.autocast("cpu", torch.bfloat16):
            found = torch.autograd.grad(out, given, create_graph=True)
            again = torch.autograd.grad(sum(g.sum() for g in found), given)
        return [t.detach() for t in (*found, *again)]

    with computed_by(False):
        both(case, run)


# -- modules ----------------------------------------------------------------------------------------------------


def of_copies(op, x, w, b):
    """By one backward pass for many grad_outputs."""
    out = op(x, w, b)
    many = torch.stack([torch.ones_like(out), torch.arange(out.numel()).reshape(out.shape).float()])
    return torch.autograd.grad(out, (x, w, b), many, is_grads_batched=True)


def of_dual_numbers(op, x, w, b):
    out = op(x, w, b)
    with forward_ad.dual_level():
        tangent = torch.arange(out.numel()).reshape(out.shape).float()
        found = torch.autograd.grad(out, (x, w, b), forward_ad.make_dual(torch.ones_like(out), tangent))
        return [tuple(t.detach() for t in forward_ad.unpack_dual(g)) for g in found]


def of_fake_tensors(op, x, w, b):
    out = op(x, w, b)
    traced = make_fx(lambda dy: torch.autograd.grad(out, (x, w, b), dy, retain_graph=True))(torch.ones_like(out))
    return [t.detach() for t in traced(torch.full_like(out, 2))]


def of_one_graph(op, x, w, b):
    out = op(x, w, b)
    many = torch.stack([torch.ones_like(out), torch.full_like(out, 3)])
    return vmap(lambda dy: torch.autograd.grad(out, (x, w, b), dy, retain_graph=True))(many)


BACKWARD = {
    "batched": of_copies,
    "vectorised": lambda op, x, w, b: torch.autograd.functional.jacobian(lambda x: op(x, w, b), x, vectorize=True),
    "dual numbers": of_dual_numbers,
    "mapped": of_one_graph,
    "traced": of_fake_tensors,
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("train", [False, True])
def test_backward_passes_that_are_transformed(case, name, train):
    """Of operators, and of optimized modules that were called as usual."""
    tensors = [t.detach().requires_grad_() for t in fixed(case)]
    both(case, BACKWARD[name], *tensors)
    x, w, b = tensors
    rows, columns = w.shape[0], w.shape[1] * case.groups
    made = getattr(nn, f"Conv{'Transpose' if case.transposed else ''}{len(case.x) - 2}d")
    channels = (rows, columns) if case.transposed else (columns, rows)
    beyond = {"output_padding": case.output_padding} if case.transposed else {}
    layer = made(
        *channels, w.shape[2:], case.stride, case.padding, dilation=case.dilation, groups=case.groups, **beyond
    )
    layer.weight, layer.bias = nn.Parameter(w.detach()), nn.Parameter(b.detach())
    ours = dgt.optimize(layer).train(train)
    for _ in range(3):
        ours(x).sum().backward()
        found = [BACKWARD[name](lambda x, *_, m=m: m(x), x, m.weight, m.bias) for m in (ours, layer)]
        same(*found)


# -- threads ----------------------------------------------------------------------------------------------------


def test_threads_call_and_go_backwards_at_once():
    cases = list(SMALL.values())
    tensors = [fixed(case) for case in cases]
    wanted = [backward(case.theirs, t) for case, t in zip(cases, tensors, strict=True)]
    failures = []
    start = threading.Barrier(4)

    def work(shift):
        try:
            start.wait(10)
            for i in range(40):
                which = (i + shift) % len(cases)
                same(backward(cases[which].ours, tensors[which]), wanted[which])
        except BaseException as error:
            failures.append(error)

    with computed_by(True):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)

"""Random programs in f16 and bf16 over many magnitudes, judged by how far eager PyTorch is from float64.

A result may be off by twice eager's largest error and a unit in the last place. As eager's error of a few elements may
be small by chance, a result beyond that is judged by eager's largest error on several tensors near the program's.

A long run, in the folder tests: python -m pytorch.sixteen_bits SEED COUNT
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import dnnl_graph_ops as dgo
from dnnl_graph_ops.torch.whole_model import backend

from .program_ways import tensor_of

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
# programs of one module: an export costs more than a program
TOGETHER = 16
# other tensors of a program that eager's error is measured on
VARIATIONS = 16
Tensors = list[torch.Tensor]


class Case(NamedTuple):
    """An expression of `t`, tensors in 16 bits and indices."""

    text: str
    tensors: Tensors

    @property
    def function(self) -> Callable[[Tensors], torch.Tensor]:
        made: Callable[[Tensors], torch.Tensor] = eval(f"lambda t: {self.text}", {"torch": torch, "F": F})
        return made


class Draw:
    """Draws numbers, shapes and tensors of a case; `t`: the tensors that were drawn."""

    def __init__(self, seed: int, case: int) -> None:
        self.rng = random.Random(f"sixteen {seed} {case}")
        self.random = torch.Generator().manual_seed(self.rng.getrandbits(40))
        self.dtype = self.rng.choice(list(DTYPES.values()))
        self.t: Tensors = []
        self.scale = 10 ** self.rng.uniform(-5, 4)
        # a mean far from zero costs the digits of a variance
        self.shift = self.rng.choice((0.0, 0.0, 0.0, 1.0, 10.0, -3.0))

    def pick(self, *items: Any) -> Any:
        return self.rng.choice(items)

    def size(self, most: int = 12) -> int:
        return self.rng.randint(1, most)

    def shape(self, rank: int) -> list[int]:
        shape = [self.size(4) for _ in range(rank - 1)]
        return [*shape, self.pick(self.size(), self.size(40), self.size(400))]

    def add(self, shape: Any, scale: float | None = None, shift: float | None = None) -> str:
        """Returns the name of a new tensor of normal numbers; None: of the case's magnitude."""
        scale, shift = self.scale if scale is None else scale, self.shift if shift is None else shift
        drawn = (torch.randn(shape, generator=self.random, dtype=torch.float64) + shift) * scale
        most = torch.finfo(self.dtype).max
        return self.keep(drawn.clamp(-most, most).to(self.dtype))

    def keep(self, tensor: torch.Tensor) -> str:
        self.t.append(tensor)
        return f"t[{len(self.t) - 1}]"

    def labels(self, shape: Any, classes: int) -> str:
        return self.keep(torch.randint(classes, tuple(shape), generator=self.random))

    def dims(self, rank: int) -> str:
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank))
        return str(self.pick(tuple(chosen), (chosen[0],), (-1,)))

    def number(self) -> float:
        return float(f"{self.pick(1, -1) * 10 ** self.rng.uniform(-6, 6):.3g}")


def _reduction(d: Draw) -> str:
    rank = d.pick(1, 2, 3, 4)
    x, dims, keep = d.add(d.shape(rank)), d.dims(rank), d.pick(True, False)
    kind = d.pick("mean", "sum", "var", "std", "logsumexp", "amax", "var_mean", "std_mean", "vector_norm", "cumsum",
                  "norm", "nansum", "logcumsumexp")  # fmt: skip
    if kind in ("var", "std", "var_mean", "std_mean"):
        end = d.pick("[0]", "[1]") if kind.endswith("mean") else ""
        return f"torch.{kind}({x}, dim={dims}, correction={d.pick(0, 1)}, keepdim={keep}){end}"
    if kind in ("cumsum", "logcumsumexp"):
        return f"torch.{kind}({x}, dim={d.rng.randrange(rank)})"
    if kind == "vector_norm":
        return f"torch.linalg.vector_norm({x}, {d.pick(1, 2, 3, 'torch.inf')}, dim={dims}, keepdim={keep})"
    if kind == "norm":
        return f"{x}.norm({d.pick(1, 2)}, dim={dims}, keepdim={keep})"
    return f"torch.{kind}({x}, dim={dims}, keepdim={keep})"


def _softmax(d: Draw) -> str:
    rank = d.pick(1, 2, 3)
    shape = d.shape(rank)
    x, dim = d.add(shape), d.rng.randrange(rank)
    return d.pick(
        f"torch.softmax({x}, {dim})", f"torch.log_softmax({x}, {dim})", f"F.softmin({x}, {dim})",
        f"torch.softmax({x} * {d.number()}, {dim})", f"F.normalize({x}, p={d.pick(1, 2)}, dim={dim})",
        f"torch.softmax({x} / {d.pick(0.1, 8, 11.3)}, {dim})",
    )  # fmt: skip


def _similarity(d: Draw) -> str:
    shape = d.shape(d.pick(1, 2, 3))
    a, b = d.add(shape), d.add(shape)
    return d.pick(f"F.cosine_similarity({a}, {b}, dim=-1)", f"F.pairwise_distance({a}, {b}, p={d.pick(1, 2)})")


def _norm(d: Draw) -> str:
    kind = d.pick("layer", "group", "instance", "rms", "rms", "batch", "local", "batch rows")
    near, eps = 10 ** d.rng.uniform(-1, 1), d.pick(1e-5, 1e-6, 1e-3)
    if kind in ("layer", "rms"):
        shape = d.shape(d.pick(2, 3))
        axes = shape[-d.pick(1, 1, 2) :]
        x = d.add(shape)
        w, b = (d.pick("None", d.add(axes, near, 0.0)) for _ in range(2))
        return f"F.{kind}_norm({x}, {axes}, {w}, {f'{b}, ' if kind == 'layer' else ''}eps={eps})"
    channels = d.pick(2, 4, 6)
    shape = [d.size(3), channels, *(d.size(9) for _ in range(d.pick(1, 2)))]
    if kind == "batch rows":
        shape = shape[:2]
    x = d.add(shape)
    if kind == "local":
        return f"F.local_response_norm({x}, {d.pick(1, 2, 3)}, k={d.pick(1.0, 2.0)})"
    w, b = d.add([channels], near, 0.0), d.add([channels], near, 0.0)
    if kind.startswith("batch"):
        mean, var = d.add([channels]), d.keep((d.t[0].double().square().mean() + 1e-3).expand(channels).to(d.dtype))
        return f"F.batch_norm({x}, {mean}, {var}, {w}, {b}, eps={eps})"
    if kind == "group":
        return f"F.group_norm({x}, {d.pick(1, 2)}, {w}, {b}, eps={eps})"
    return f"F.instance_norm(torch.cat([{x}, {x} * 2], -1), weight={w}, bias={b}, eps={eps})"


def _loss(d: Draw) -> str:
    shape, how = d.shape(2), d.pick("mean", "sum", "none")
    x, more = d.add(shape), f"reduction='{how}'"
    kind = d.pick("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "kl_div", "poisson_nll_loss",
                  "binary_cross_entropy_with_logits", "soft_margin_loss", "triplet_margin_loss", "nll_loss",
                  "multilabel_soft_margin_loss", "margin_ranking_loss", "multi_margin_loss")  # fmt: skip
    if kind in ("cross_entropy", "nll_loss", "multi_margin_loss"):
        scores = f"torch.log_softmax({x}, 1)" if kind == "nll_loss" else x
        smooth = f", label_smoothing={d.pick(0.0, 0.1)}" if kind == "cross_entropy" else ""
        return f"F.{kind}({scores}, {d.labels(shape[:1], shape[1])}{smooth}, {more})"
    if kind == "kl_div":
        # of rounded shares that are nearly equal, eager's roundings cancel
        return f"F.kl_div({x}, {d.add(shape)}.abs(), {more})"
    if kind in ("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"):
        return f"F.{kind}({x}, {d.keep(torch.rand(shape, generator=d.random).to(d.dtype))}, {more})"
    if kind == "poisson_nll_loss":
        return f"F.poisson_nll_loss({x}, {d.add(shape)}.abs(), log_input={d.pick(True, False)}, {more})"
    if kind in ("soft_margin_loss", "margin_ranking_loss"):
        signs = d.keep((torch.randint(2, tuple(shape), generator=d.random) * 2 - 1).to(d.dtype))
        return (
            f"F.{kind}({x}, {signs}, {more})" if kind[0] == "s" else f"F.{kind}({x}, {d.add(shape)}, {signs}, {more})"
        )
    if kind == "triplet_margin_loss":
        return f"F.triplet_margin_loss({x}, {d.add(shape)}, {d.add(shape)}, {more})"
    return f"F.{kind}({x}, {d.add(shape)}, {more})"


def _attention(d: Draw) -> str:
    lead = [d.size(2), d.pick(1, 2, 4)]
    rows, keys, depth = d.size(20), d.size(40), d.pick(4, 8, 33, 64)
    # scores up to some hundred and, of f16, beyond its range
    q = d.add([*lead, rows, depth], d.pick(1.0, 3.0, 30.0, 10 ** d.rng.uniform(-3, 2.5)), 0.0)
    k = d.add([*lead, keys, depth], d.pick(1.0, 3.0), 0.0)
    v = d.add([*lead, keys, depth], 10 ** d.rng.uniform(-3, 3))
    scale = d.pick("None", 0.125, 1.0)
    if d.rng.random() < 0.15:
        return f"torch.softmax({q} @ {k}.mT / {depth**0.5:.4f}, -1) @ {v}"
    mask = d.pick("None", "None", "causal", "bool", "add")
    if mask == "causal":
        return f"F.scaled_dot_product_attention({q}, {k}, {v}, is_causal=True, scale={scale})"
    if mask == "bool":
        mask = d.keep((torch.rand([rows, keys], generator=d.random) < 0.7).index_fill(1, torch.tensor([0]), True))
    elif mask == "add":
        mask = d.add([rows, keys], d.pick(1.0, 10.0), 0.0)
    return f"F.scaled_dot_product_attention({q}, {k}, {v}, attn_mask={mask}, scale={scale})"


def _activation(d: Draw) -> str:
    x = d.add(d.shape(d.pick(1, 2, 3)))
    beta = d.pick(0.5, 1, 2, 20)
    return d.pick(
        f"F.silu({x})", f"F.gelu({x})", f"F.gelu({x}, approximate='tanh')", f"F.mish({x})", f"F.elu({x})",
        f"F.softplus({x}, beta={beta})", f"F.celu({x}, alpha={d.pick(0.1, 1.0, 3.0)})", f"F.selu({x})",
        f"F.elu({x}, alpha={d.pick(0.1, 3.0)})", f"F.hardswish({x})", f"F.hardsigmoid({x})", f"F.softsign({x})",
        f"F.logsigmoid({x})", f"F.glu(torch.cat([{x}, {x}.flip(-1)], -1))", f"F.relu6({x})",
        f"F.softshrink({x})", f"F.hardshrink({x})", f"F.leaky_relu({x}, {d.pick(0.01, 1e-5)})", f"torch.sigmoid({x})",
        f"torch.tanh({x})", f"torch.exp({x})", f"torch.expm1({x})", f"torch.log1p({x}.abs())", f"torch.erf({x})",
        f"F.threshold({x}, 0.1, 20)",
    )  # fmt: skip


def _arithmetic(d: Draw) -> str:
    shape = d.shape(d.pick(1, 2, 3))
    x, c = d.add(shape), d.number()
    y = d.add(d.pick(shape, shape[-1:]), d.pick(d.scale, 1.0, abs(d.number())), 0.0)
    return d.pick(
        f"{x} * {c}", f"{x} / {c}", f"{x} + {c}", f"{c} - {x}", f"{c} / ({x}.abs() + 1)", f"torch.rsqrt({x}.abs())",
        f"torch.addcmul({x}, {y}, {d.add(shape[-1:])}, value={c})", f"torch.lerp({x}, {y}, {d.rng.random():.3f})",
        f"torch.addcdiv({x}, {y}, {y}.abs() + 1, value={c})", f"{x} ** {d.pick(2, 3, 4)}",
        f"{x}.abs() ** {d.pick(0.5, -0.5, 1.5, -1)}",
        f"torch.sqrt({x}.abs())", f"torch.log({x}.abs())", f"torch.square({x})", f"torch.hypot({x}, {y})",
        f"{x} * {y}", f"{x} / ({y}.abs() + 0.5)", f"{x} - {y}", f"torch.add({x}, {y}, alpha={c})",
        f"torch.reciprocal({x})", f"torch.logaddexp({x}, {y})", f"torch.clamp({x}, {-abs(c)}, {abs(c)})",
        f"({x} - {x}.mean(-1, keepdim=True)) / ({x}.std(-1, keepdim=True, correction=0) + 1e-2)",
        f"{x} / ({x}.abs().sum(-1, keepdim=True) + 1e-2)",
    )  # fmt: skip


def _product(d: Draw) -> str:
    n, rows, depth, columns = d.size(3), d.size(9), d.pick(4, 16, 100), d.size(12)
    a, b = d.add([n, rows, depth]), d.add([n, depth, columns], 1.0, 0.0)
    c, alpha = d.add([n, rows, columns]), d.pick(1.0, 1e-3, 0.125, 100.0)
    w, bias = d.add([columns, depth], 0.1, 0.0), d.add([columns])
    return d.pick(
        f"torch.baddbmm({c}, {a}, {b}, beta={d.pick(0, 1, 0.5)}, alpha={alpha})", f"F.linear({a}, {w}, {bias})",
        f"torch.softmax(torch.baddbmm({c}, {a}, {b}, beta=0, alpha={alpha}), -1)", f"{a} @ {b}",
        f"torch.addmm({c}[0], {a}[0], {b}[0], beta={d.pick(1, 0.5)}, alpha={alpha})",
        f"torch.einsum('nij,njk->nik', {a}, {b})",
    )  # fmt: skip


def _pool(d: Draw) -> str:
    x = d.add([d.size(2), d.size(4), d.pick(6, 12, 20), d.pick(6, 12, 33)])
    return d.pick(
        f"F.avg_pool2d({x}, {d.pick(2, 3, 5)})", f"F.adaptive_avg_pool2d({x}, {d.pick(1, 2)})", f"F.max_pool2d({x}, 2)",
        f"F.lp_pool2d({x}, 2, {d.pick(2, 3)})", f"F.interpolate({x}, scale_factor=2, mode='bilinear')",
        f"F.interpolate({x}, scale_factor={d.pick(1.5, 2)}, mode='nearest')", f"F.avg_pool1d({x}[:, 0], 3, padding=1)",
    )  # fmt: skip


KINDS: dict[str, Callable[[Draw], str]] = {
    "reduction": _reduction, "softmax": _softmax, "similarity": _similarity, "norm": _norm, "loss": _loss,
    "attention": _attention, "activation": _activation, "arithmetic": _arithmetic, "product": _product, "pool": _pool,
}  # fmt: skip
FINISHES = ("{}", "{}", "{}", "{}", "{}", "F.relu({})", "{} * 0.5", "{} + 1", "torch.tanh({})")


def drawn(seed: int, case: int) -> Case:
    d = Draw(seed, case)
    text = d.pick(*KINDS.values())(d)
    return Case(d.pick(*FINISHES).format(text), d.t)


# ---- judging ---------------------------------------------------------------------------------------------------------


def unit(number: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The unit in the last place of a type at each number in float64."""
    limits = torch.finfo(dtype)
    return limits.eps * 2 ** torch.floor(torch.log2(number.abs().clamp(limits.smallest_normal, limits.max)))


def errors(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Eager's result, the result in float64, and eager's errors; 0 where a result is no number of the type."""
    eager = case.function(case.tensors)
    exact = case.function([one.double() if one.is_floating_point() else one for one in case.tensors])
    fits = eager.isfinite() & exact.isfinite()
    return eager, exact, torch.where(fits, (eager.double() - exact).abs(), 0.0)


def near(case: Case, number: int) -> Case:
    """The case on tensors that differ by a few units in the last place."""
    random = torch.Generator().manual_seed(number)
    tensors = []
    for one in case.tensors:
        if one.is_floating_point():
            factor = 1 + 4 * torch.finfo(one.dtype).eps * torch.randn(one.shape, generator=random, dtype=torch.float64)
            one = (one.double() * factor).to(one.dtype)
        tensors.append(one)
    return Case(case.text, tensors)


def wrong(case: Case, result: torch.Tensor) -> str:
    """Why a result is too far from float64; "" if it is not."""
    eager, exact, error = errors(case)
    if (result.shape, result.dtype) != (eager.shape, eager.dtype):
        return f"{result.dtype} {tuple(result.shape)} for {eager.dtype} {tuple(eager.shape)}"
    # beyond the range of the type, and where eager gives no number, anything that the type rounds to is right
    fits = eager.isfinite() & exact.isfinite()
    off = torch.where(fits, (result.double() - exact).abs(), 0.0).nan_to_num(nan=torch.inf)
    least = torch.where(fits, unit(exact, eager.dtype), 0.0)
    largest = float(error.max())
    if not bool((off <= 2 * largest + least).all()):
        largest = max(largest, *(float(errors(near(case, i))[2].max()) for i in range(VARIATIONS)))
    allowed = 2 * largest + least
    if bool((off <= allowed).all()):
        return ""
    worst = int((off - allowed).argmax())
    numbers = (float(one.flatten()[worst]) for one in (result, eager, exact))
    text = "gives {:.6g}, eager {:.6g}, float64 {:.6g}".format(*numbers)
    return f"{text}; error {float(off.flatten()[worst]):.3g}, eager's largest {largest:.3g}"


class Together(nn.Module):
    """The results of several cases, whose tensors are arguments."""

    def __init__(self, cases: list[Case]) -> None:
        super().__init__()
        self.functions = [case.function for case in cases]
        self.counts = [len(case.tensors) for case in cases]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest, results = list(tensors), []
        for function, count in zip(self.functions, self.counts, strict=True):
            results.append(function(rest[:count]))
            rest = rest[count:]
        return tuple(results)


def exported(module: nn.Module, tensors: tuple[torch.Tensor, ...]) -> Tensors:
    net = dgo.from_torch(torch.export.export(module, tensors)).compile()
    results = net(*(one for one, name in zip(tensors, net.input_names, strict=True) if name))
    return [tensor_of(one) for one in (results if isinstance(results, tuple) else (results,))]


def compiled(module: nn.Module, tensors: tuple[torch.Tensor, ...]) -> Tensors:
    """The results of nets, however fast PyTorch is."""
    torch._dynamo.reset()
    with torch.no_grad(), mock.patch.object(backend._Entry, "_tried", lambda entry, args: True):
        return list(torch.compile(module, backend=backend.dnnl_graph_ops, dynamic=False)(*tensors))


WAYS = {"export": exported, "compile": compiled}


def failures(cases: dict[int, Case], way: str) -> dict[int, str]:
    """What is wrong with the results of cases, by number; those that eager refuses are left out."""
    cases = {number: case for number, case in cases.items() if _runs(case)}
    if not cases:
        return {}
    module, tensors = Together(list(cases.values())).eval(), tuple(t for case in cases.values() for t in case.tensors)
    try:
        results = WAYS[way](module, tensors)
    except Exception as error:
        if len(cases) > 1:
            return {i: text for number in cases for i, text in failures({number: cases[number]}, way).items()}
        ((number, case),) = cases.items()
        return {number: f"{case.text}: {type(error).__name__}: {str(error)[:300]}"}
    found = {}
    for (number, case), result in zip(cases.items(), results, strict=True):
        if text := wrong(case, result):
            shapes = ", ".join(f"{one.dtype}{list(one.shape)}" for one in case.tensors)
            found[number] = f"{case.text} of {shapes}: {text}"
    return found


def _runs(case: Case) -> bool:
    try:
        case.function(case.tensors)
    except (RuntimeError, NotImplementedError, ValueError, IndexError):
        return False
    return True


def check(seed: int, numbers: range, way: str) -> None:
    found = failures({number: drawn(seed, number) for number in numbers}, way)
    again = (f"{text}\ncheck({seed}, range({i}, {i + 1}), {way!r})" for i, text in found.items())
    assert not found, "\n".join(again)


def main(seed: int, count: int, first: int = 0) -> None:
    outcomes: Counter[str] = Counter()
    for start in range(first, first + count, TOGETHER):
        cases = {number: drawn(seed, number) for number in range(start, min(start + TOGETHER, first + count))}
        for way in WAYS:
            found = failures(cases, way)
            outcomes[f"{way} failed"] += len(found)
            outcomes[f"{way} all"] += len(cases)
            for number, text in found.items():
                print(f"{way} {seed} {number}: {text}", flush=True)
        print(start, end=" ", file=sys.stderr, flush=True)
    print(dict(outcomes), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

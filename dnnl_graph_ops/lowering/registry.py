"""The table of equal formulations: what each solves, when it may be used, what it costs, how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from . import cost, nearest
from .env import Env
from .forms import (
    convolution,
    deconvolution,
    depthwise,
    filtering,
    mirrored,
    narrow,
    overlap,
    phases,
    products,
    stem,
    tails,
    term_by_term,
)
from .forms.phases import Folding
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem, channels_apart, is_channels_last
from .program import Program, View
from .tail import native, views

# the library's op in each family of forms that has one, by direction
_OPS: dict[tuple[str, str], str] = {
    (cost.DECONVOLUTION, FORWARD): "ConvTranspose",
    (cost.DECONVOLUTION, BACKWARD_DATA): "ConvTransposeBackwardData",
    (cost.DECONVOLUTION, BACKWARD_WEIGHTS): "ConvTransposeBackwardWeights",
    (cost.CONVOLUTION, BACKWARD_DATA): "Convolution",
    (cost.CONVOLUTION, BACKWARD_WEIGHTS): "ConvolutionBackwardWeights",
    (cost.PHASES, FORWARD): "Convolution",
    (cost.PHASES, BACKWARD_WEIGHTS): "ConvolutionBackwardWeights",
    (cost.PRODUCT, FORWARD): "MatMul",
    **{(cost.COLUMNS, direction): "MatMul" for direction in (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS)},
}
# the others add it apart
_FUSES_BIAS = frozenset(
    {
        (cost.DECONVOLUTION, FORWARD),
        (cost.PHASES, FORWARD),
        (cost.PRODUCT, FORWARD),
        (cost.CONVOLUTION, BACKWARD_DATA),
        (cost.COLUMNS, BACKWARD_DATA),
    }
)


FEW_RESULTS = 8  # channels

Fuses = Callable[[Problem, Env], bool]


def _known_good(problem: Problem, env: Env) -> bool:
    """Post-ops that the library applies itself, and not by a reference kernel.

    Seen in oneDNN 3.2: with two operands of dst's size, or one that is not added, channels-first convolutions do.
    """
    if not native(problem.tail, env):
        return False
    whole = [op.kind for op in problem.tail if any(_spans(o) for o in op.operands if isinstance(o, View))]
    return env.engine.memory is not None or _all_channels_last(problem) or whole in ([], ["Add"])


def _spans(operand: View) -> bool:
    """Whether an operand of post-ops has more than one position."""
    return operand.ndim > 2 and prod(operand.shape[2:]) > 1


def _all_channels_last(problem: Problem) -> bool:
    operands = (view for view in views(problem.tail) if _spans(view))
    return all(is_channels_last(view) for view in (problem.src, problem.dst, *operands))


def _ops(key: tuple[str, str], problem: Problem) -> list[str]:
    op = _OPS.get(key)
    if op is None:
        return []
    return [op, f"{op} with bias"] if problem.bias is not None and key in _FUSES_BIAS else [op]


def _every(problem: Problem) -> bool:
    return True


@dataclass(frozen=True)
class Formulation:
    """One way to compute a direction of the family.

    `applies` is true only where `build` is exact up to rounding; `counts` is its work, which the constants of its
    `family` turn into seconds. `converts` says that it reads and writes bf16 and f16 data itself while it computes
    in f32. `adds_bias` and `fuses` say what of a bias and post-ops `build` takes; `lower` appends the rest. One that
    `mirrors` solves a forward problem as backward data, or the other way round.
    """

    name: str
    direction: str
    family: str
    applies: Callable[[Problem, Env], bool]
    counts: cost.Counting
    build: Callable[[Program, Problem, Env], None]
    converts: Callable[[Problem, Env], bool] = lambda problem, env: False
    adds_bias: Callable[[Problem], bool] = _every
    fuses: Fuses = _known_good
    mirrors: bool = False
    # what explain() adds to the name
    remark: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Its constants and its op of the library: by family and direction."""
        return self.family, mirrored.OTHER[self.direction] if self.mirrors else self.direction

    def ops(self, problem: Problem) -> list[str]:
        """What the library computes for it, as `runtime.cpu.Reference` names it; nothing for own code."""
        return _ops(self.key, problem if self.adds_bias(problem) else problem.with_views(bias=None))

    def compute_dtype(self, problem: Problem, env: Env) -> str:
        """What it computes in: f32 where the library has no kernels of the dtype, or reference kernels only."""
        return "f32" if self.converts(problem, env) else env.compute_dtype(problem.dtype, *self.ops(problem))

    def by_reference(self, problem: Problem, env: Env) -> bool:
        """Whether the library has nothing but a reference kernel for it, though it has kernels of the dtype."""
        ops = self.ops(problem)
        if not ops or self.converts(problem, env):
            return False
        return env.compute_dtype(problem.dtype, *ops) != env.compute_dtype(problem.dtype)

    def seconds(self, problem: Problem, env: Env, factor: float = 1.0) -> float:
        """The estimate of one run, with what it leaves to a step of its own. `factor` corrects all but functions."""
        counts = self.counts(problem, env)
        finishes = self.finishes(problem, env)
        if not finishes:
            counts = cost.rest(counts, problem, self.plain_dtype(problem, env))
        by = self._computing_functions(problem) if finishes else cost.BY_OWN_CODE
        return factor * cost.seconds(counts, self.key, problem, env) + cost.functions(problem, env, by)

    def _computing_functions(self, problem: Problem) -> int:
        """Who computes functions that `build` takes."""
        ops = self.ops(problem)
        if not ops:
            return cost.BY_OWN_CODE
        return cost.BY_PRODUCTS if "MatMul" in ops else cost.BY_CONVOLUTIONS

    def finishes(self, problem: Problem, env: Env) -> bool:
        """Whether `build` takes all of the problem's bias and post-ops."""
        return (problem.bias is None or self.adds_bias(problem)) and (not problem.tail or self.fuses(problem, env))

    def plain_dtype(self, problem: Problem, env: Env) -> str:
        """Of results that a bias or post-ops apart read: not rounded where the form need not round."""
        return "f32" if self.converts(problem, env) else problem.dtype


def _always(problem: Problem, env: Env) -> bool:
    return True


def _no_post_ops(problem: Problem, env: Env) -> bool:
    return not problem.tail


def _without_operands(problem: Problem, env: Env) -> bool:
    return native(problem.tail, env) and not views(problem.tail)


def _undilated(problem: Problem, env: Env) -> bool:
    return all(d == 1 for d in problem.geometry.dilations)


def _filters(results: int) -> Callable[[Problem, Env], bool]:
    """Whether minimal filtering with these tiles is allowed and differs from that with smaller ones."""

    def applies(problem: Problem, env: Env) -> bool:
        if env.algorithm == "direct":
            return False
        if results >= filtering.FAST and not (env.algorithm == "fast" and filtering.rounds_little(problem)):
            return False
        tile = filtering.filtering_tile(problem, results)
        smaller = (filtering.filtering_tile(problem, n) for n in filtering.TILES if n < results)
        known = (filtering.direct_tile(problem), *smaller)
        return tile not in known and filtering.taken(problem, tile)

    return applies


def _any_dtype(problem: Problem, env: Env) -> bool:
    return True


def _one_dtype(problem: Problem, env: Env) -> bool:
    """Of kernels that write what they read: a result that post-ops read is not rounded."""
    return not problem.tail


def _kernel(
    name: str,
    direction: str,
    family: str,
    applies: Callable[[Problem, Env], bool],
    counts: cost.Counting,
    build: Callable[[Program, Problem, Env], None],
    converts: Callable[[Problem, Env], bool] = _any_dtype,
    fuses: Fuses = _no_post_ops,
) -> Formulation:
    """Own code, which takes a bias."""
    return Formulation(name, direction, family, applies, counts, build, converts, fuses=fuses)


def _own(direction: str, results: int | None = None) -> Formulation:
    """Own products in the direct form, or by minimal filtering with tiles of so many results."""

    def tile(problem: Problem) -> tuple[int, ...]:
        return filtering.direct_tile(problem) if results is None else filtering.filtering_tile(problem, results)

    form = _kernel(
        "own direct" if results is None else f"minimal filtering {results}",
        direction,
        cost.OWN if results is None else cost.FILTERING,
        (lambda p, e: filtering.taken(p, filtering.direct_tile(p))) if results is None else _filters(results),
        lambda p, e: cost.own(p, e, tile(p)),
        lambda program, p, e: filtering.build(program, p, tile(p), e),
        fuses=tails.expressed,
    )
    return replace(form, remark=f"error up to {filtering.ERROR} x direct" if (results or 0) >= filtering.FAST else "")


def _narrow(direction: str) -> Formulation:
    """Own products of bf16 in the direct form."""
    return _kernel(
        "own narrow",
        direction,
        cost.NARROW,
        lambda p, e: p.dtype == "bf16" and narrow.applies(p),
        cost.narrow,
        narrow.build,
        fuses=tails.expressed,
    )


def _depthwise(direction: str) -> Formulation:
    return _kernel(
        "own depthwise",
        direction,
        cost.DEPTHWISE,
        lambda p, e: depthwise.applies(p),
        cost.depthwise,
        lambda program, p, e: depthwise.build(program, p),
        _one_dtype,
        depthwise.fuses,
    )


def _stem(direction: str, build: Callable[[Program, Problem], None]) -> Formulation:
    return _kernel(
        "own stem",
        direction,
        cost.STEM,
        lambda p, e: stem.applies(p),
        cost.stem,
        lambda program, p, e: build(program, p),
        fuses=stem.fuses,
    )


def _groups(direction: str) -> Formulation:
    return _kernel(
        "own groups",
        direction,
        cost.GROUPS,
        lambda p, e: depthwise.applies_to_groups(p),
        cost.groups,
        lambda program, p, e: depthwise.build_groups(program, p),
        _one_dtype,
        depthwise.groups_fuse,
    )


def _library(
    family: str,
    direction: str,
    applies: Callable[[Problem, Env], bool],
    build: Callable[[Program, Problem], None],
    counts: cost.Counting = cost.literal,
    adds_bias: Callable[[Problem], bool] = _every,
    fuses: Fuses = _known_good,
) -> Formulation:
    return Formulation(
        family,
        direction,
        family,
        applies,
        counts,
        lambda program, p, e: build(program, p),
        adds_bias=adds_bias,
        fuses=fuses,
    )


def _aside(direction: str, build: Callable[[Program, Problem], None]) -> Formulation:
    return Formulation(
        "convolution, channels last",
        direction,
        cost.CONVOLUTION,
        lambda p, e: e.engine.memory is None and channels_apart(p),
        cost.aside,
        lambda program, p, e: build(program, p),
    )


def _multiplies(
    family: str,
    direction: str,
    applies: Callable[[Problem, Env], bool],
    build: Callable[[Program, Problem, products.Multiply], None],
    counts: cost.Counting,
    name: str = "",
    f32_only: bool = False,
    adds_bias: Callable[[Problem], bool] = _every,
    fuses: Callable[[Problem, Env, bool], bool] = lambda problem, env, own: not problem.tail,
    own_pays: Callable[[Problem, Env], bool] = lambda problem, env: False,
) -> Formulation:
    """A form around one product: of the library where it has one in the dtype, else own, which reads any dtype.

    `f32_only`: the steps around the library's product know no other dtype. `fuses` is told whether it is own.
    `own_pays`: own products are faster.
    """

    def own(problem: Problem, env: Env) -> bool:
        if own_pays(problem, env):
            return True
        ops = _ops((family, direction), problem)
        lacking = problem.dtype != "f32" and (f32_only or env.compute_dtype(problem.dtype, *ops) == "f32")
        return lacking or not ops

    return Formulation(
        name or family,
        direction,
        family,
        applies,
        counts,
        lambda program, p, e: build(program, p, products.by_own_code if own(p, e) else products.by_library),
        converts=own,
        adds_bias=adds_bias,
        fuses=lambda p, e: fuses(p, e, own(p, e)),
    )


# how dst's columns are taken apart: name, folding
FOLDINGS: tuple[tuple[str, Folding], ...] = (
    ("phases", Folding(fold_last=False, fold_others=False)),
    ("row phases", Folding(fold_last=True, fold_others=False)),
    ("row phases by 2", Folding(fold_last=True, fold_others=False, multiple=2)),
    ("row phases by 4", Folding(fold_last=True, fold_others=False, multiple=4)),
    ("depth to space", Folding(fold_last=True, fold_others=True)),
)


def _phases(name: str, direction: str, folding: Folding) -> Formulation:
    build = phases.forward if direction == FORWARD else phases.backward_weights
    return Formulation(
        name,
        direction,
        cost.PHASES,
        lambda p, e: phases.applies(p, folding),
        lambda p, e: cost.phases(p, e, folding),
        lambda program, p, e: build(program, p, folding),
        # an operand would need the boxes' views too
        fuses=_without_operands,
    )


def _mirrored(form: Formulation, pays: Callable[[Problem], bool]) -> Formulation:
    """A form of the other direction, where that `pays`."""

    def build(program: Program, problem: Problem, env: Env) -> None:
        turned = mirrored.mirrored(problem)
        form.build(program, turned.with_views(weights=mirrored.turned_round(program, turned.weights)), env)

    def applies(problem: Problem, env: Env) -> bool:
        return mirrored.applies(problem) and pays(problem) and form.applies(mirrored.mirrored(problem), env)

    return replace(
        form,
        name=f"mirrored {form.name}",
        direction=mirrored.OTHER[form.direction],
        applies=applies,
        counts=lambda p, e: cost.mirrored(form.counts(mirrored.mirrored(p), e), p),
        build=build,
        converts=lambda p, e: form.converts(mirrored.mirrored(p), e),
        fuses=lambda p, e: form.fuses(mirrored.mirrored(p), e),
        mirrors=True,
    )


# of backward data, and useful forward too
_CONVOLUTION = _library(cost.CONVOLUTION, BACKWARD_DATA, _always, convolution.backward_data, cost.convolution)
_ASIDE = _aside(BACKWARD_DATA, convolution.backward_data_aside)
_STEM = _stem(BACKWARD_DATA, stem.backward_data)
# forward, and useful for backward data too
_OVERLAP = _kernel(
    "own overlap-add",
    FORWARD,
    cost.OVERLAP,
    overlap.overlaps,
    cost.overlap,
    lambda program, p, e: overlap.build(program, p, e.threads),
    fuses=tails.expressed,
)


def _beyond_phases(problem: Problem) -> bool:
    """What phases do not solve."""
    g = problem.geometry
    return g.groups > 1 or any(d != 1 for d in g.dilations)


def _gives_few_channels(problem: Problem) -> bool:
    """Results that fill a small part of a vector, of many products: taps beside each other fill it."""
    g = problem.geometry
    return g.in_channels <= FEW_RESULTS and prod(g.kernel) > 1


FORMULATIONS: tuple[Formulation, ...] = (
    _library(
        cost.DECONVOLUTION,
        FORWARD,
        _always,
        deconvolution.forward,
        adds_bias=deconvolution.finishes,
        fuses=lambda p, e: deconvolution.finishes(p) and _known_good(p, e),
    ),
    _library(
        cost.DECONVOLUTION,
        BACKWARD_DATA,
        _undilated,
        deconvolution.backward_data,
        cost.deconvolution,
        adds_bias=lambda p: False,
        fuses=_no_post_ops,
    ),
    _CONVOLUTION,
    _library(cost.DECONVOLUTION, BACKWARD_WEIGHTS, _always, deconvolution.backward_weights, cost.deconvolution),
    _library(cost.CONVOLUTION, BACKWARD_WEIGHTS, _always, convolution.backward_weights, cost.convolution),
    _ASIDE,
    _aside(BACKWARD_WEIGHTS, convolution.backward_weights_aside),
    *(_mirrored(form, _beyond_phases) for form in (_CONVOLUTION, _ASIDE)),
    _mirrored(_STEM, mirrored.applies),
    *(_phases(name, FORWARD, folding) for name, folding in FOLDINGS),
    *(_phases(name, BACKWARD_WEIGHTS, folding) for name, folding in FOLDINGS if folding.multiple == 1),
    _multiplies(cost.PRODUCT, FORWARD, products.apart, products.forward, cost.product, fuses=products.forward_fuses),
    _multiplies(
        cost.COLUMNS,
        FORWARD,
        products.summed,
        products.forward_summed,
        cost.columns,
        f32_only=True,
        fuses=lambda p, e, own: products.summed_fuses(p, e),
    ),
    *(
        _multiplies(family, BACKWARD_DATA, applies, products.backward_data, counts, fuses=products.backward_data_fuses)
        for family, applies, counts in (
            (cost.COLUMNS, products.single, cost.columns),
            (cost.ROWS, products.whole_rows, cost.rows),
        )
    ),
    _multiplies(cost.COLUMNS, BACKWARD_WEIGHTS, products.single, products.backward_weights, cost.columns),
    *(
        _multiplies(
            family,
            direction,
            products.of_images,
            build,
            counts,
            "columns of images",
            f32_only=True,
            adds_bias=lambda p: p.direction == FORWARD,
            own_pays=products.is_thin,
        )
        for family, direction, build, counts in (
            (cost.COLUMNS, FORWARD, products.forward_images, cost.columns_of_images),
            (cost.COLUMNS, BACKWARD_DATA, products.backward_data_images, cost.columns_of_images),
            (cost.ROWS, BACKWARD_WEIGHTS, products.backward_weights_images, cost.rows_of_images),
        )
    ),
    _OVERLAP,
    _mirrored(_OVERLAP, _gives_few_channels),
    _STEM,
    _stem(BACKWARD_WEIGHTS, stem.backward_weights),
    *map(_depthwise, (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS)),
    *map(_groups, (FORWARD, BACKWARD_DATA)),
    *(
        _own(direction, results)
        for direction in (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS)
        for results in (None, *filtering.TILES)
    ),
    *map(_narrow, (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS)),
)


REMARKS = {form.name: form.remark for form in FORMULATIONS if form.remark}

# the definition, where every form that applies would spread what is not finite; never chosen for finite values
TERM_BY_TERM = {
    direction: Formulation(
        "term by term",
        direction,
        cost.OWN,
        _always,
        cost.literal,
        lambda program, p, e: term_by_term.build(program, p),
        converts=_any_dtype,
    )
    for direction in (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS)
}

# what the library computes alone; the others have steps that work in memory of the host
_ANYWHERE = frozenset({cost.DECONVOLUTION, cost.CONVOLUTION})


Ranked = list[tuple[Formulation, float]]  # formulations with seconds, best first


def candidates(problem: Problem, env: Env) -> Ranked:
    """The formulations that may be used with their estimates in seconds, cheapest first."""
    seconds = estimates(problem, env)
    return sorted(((form, seconds(form)) for form in usable(problem, env)), key=lambda item: item[1])


def estimates(problem: Problem, env: Env) -> Callable[[Formulation], float]:
    """Seconds of a run by a form: its counts times fitted constants, corrected by layers near the problem."""
    factors = nearest.factors(problem, env)
    return lambda form: form.seconds(problem, env, factors.get(form.name, 1.0))


def usable(problem: Problem, env: Env) -> list[Formulation]:
    """The formulations that may be used where the data is."""
    return [f for f in applicable(problem, env) if f.family in _ANYWHERE or env.engine.memory is None]


def applicable(problem: Problem, env: Env) -> list[Formulation]:
    """Those that apply; what would be left to a reference kernel only if nothing else does, and then in f32."""
    found = [f for f in FORMULATIONS if f.direction == problem.direction and f.applies(problem, env)]
    return [f for f in found if not f.by_reference(problem, env)] or found

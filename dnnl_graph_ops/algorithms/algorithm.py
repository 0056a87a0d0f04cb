"""The record of one algorithm: when it may be used, what it costs, what it spreads of Inf and NaN, how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..lowering import cost, fits
from ..lowering.env import Env
from ..lowering.problem import READ, Problem
from ..lowering.program import Program

Condition = Callable[[Problem, Env], bool]
Build = Callable[[Program, Problem, Env], None]

# operands whose Inf or NaN reaches results that the definition keeps apart from it
NOTHING: frozenset[str] = frozenset()
SRC, WEIGHTS, DST = (frozenset({name}) for name in ("src", "weights", "dst"))


def always(problem: Problem, env: Env | None = None) -> bool:
    """Whatever the problem."""
    return True


def never(problem: Problem, env: Env | None = None) -> bool:
    """For no problem."""
    return False


def without_post_ops(problem: Problem, env: Env) -> bool:
    """Where no post-ops follow."""
    return not problem.tail


# eq=False: a row is itself alone, and costs little as a key
@dataclass(frozen=True, eq=False)
class Algorithm:
    """One way to compute a direction of a convolution.

    `applies` is true only where `build` is exact up to rounding; `counts` is its work, which the prices of its
    `family` turn into seconds. `converts`: it reads and writes bf16 and f16 data itself while it computes in f32.
    `adds_bias` and `fuses`: `build` takes a bias, and the post-ops; `lower` appends the rest.
    """

    name: str
    direction: str
    family: str
    applies: Condition
    counts: cost.Counting
    build: Build
    # operands whose Inf or NaN reaches results that the definition keeps apart from it
    spreads: frozenset[str]
    converts: Condition = never
    adds_bias: Callable[[Problem], bool] = always
    fuses: Condition = without_post_ops
    # the library's op that computes it, and whether that op adds the bias; own kernels have none
    op: str = ""
    op_adds_bias: bool = False
    # the library's op on the tensors as they are
    literal: bool = False
    # on devices too: no step works in memory of the host
    anywhere: bool = False
    # results depend on a few rows of what is read, in steps that are kernels alone
    tiles_rows: bool = False
    # fewer products than the definition has
    filters: bool = False
    # it rounds so much that algorithm="fast" alone allows it
    fast: bool = False
    # the same bits at every run of the same operands on as many threads
    deterministic: bool = True
    # what explain() adds to the name
    remark: str = ""
    # seconds on one thread for each of the first `cost.Counts`, where `fits` has none for the family
    prices: fits.Prices | None = None
    # the algorithm of the other direction that computes it, with taps in reverse
    flips: Algorithm | None = None

    @property
    def key(self) -> fits.Key:
        """The family and direction that it is priced by."""
        return self.family, (self.flips or self).direction

    @property
    def convolves(self) -> bool:
        """Whether the library computes it as a convolution."""
        return self.op not in ("", "MatMul")

    def ops(self, problem: Problem) -> list[str]:
        """The library's ops that compute it, as `runtime.cpu.Reference` names them; none for own code."""
        if not self.op:
            return []
        biased = self.op_adds_bias and problem.bias is not None and self.adds_bias(problem)
        return [self.op, f"{self.op} with bias"] if biased else [self.op]

    def compute_dtype(self, problem: Problem, env: Env) -> str:
        """The dtype that it computes in: f32 where the library has no kernels of the problem's, or reference ones."""
        return "f32" if self.converts(problem, env) else env.compute_dtype(problem.dtype, *self.ops(problem))

    def by_reference(self, problem: Problem, env: Env) -> bool:
        """Whether the library has nothing but a reference kernel for it, though it has kernels of the dtype."""
        ops = self.ops(problem)
        if not ops or self.converts(problem, env):
            return False
        return env.compute_dtype(problem.dtype, *ops) != env.compute_dtype(problem.dtype)

    def seconds(self, problem: Problem, env: Env, factor: float = 1.0) -> float:
        """The estimate of one run, with a step for what `build` leaves; `factor` corrects all but functions."""
        counts = self.counts(problem, env)
        finishes = self.finishes(problem, env)
        if not finishes:
            counts = cost.rest(counts, problem, self.plain_dtype(problem, env))
        by = cost.BY_OWN_CODE
        if finishes and self.op:
            by = cost.BY_CONVOLUTIONS if self.convolves else cost.BY_PRODUCTS
        prices = self.prices or cost.prices(self.key, problem, env)
        return factor * cost.estimate(counts, prices, env.threads) + cost.functions(problem, env, by)

    def finishes(self, problem: Problem, env: Env) -> bool:
        """Whether `build` takes all of the problem's bias and post-ops."""
        return (problem.bias is None or self.adds_bias(problem)) and (not problem.tail or self.fuses(problem, env))

    def plain_dtype(self, problem: Problem, env: Env) -> str:
        """The dtype of results that a bias or post-ops apart read: not rounded where `build` need not round."""
        return "f32" if self.converts(problem, env) else problem.dtype

    def error(self, problem: Problem, env: Env) -> frozenset[str]:
        """How results differ from sums of the definition beyond the order of terms, as `AlgorithmInfo.error` has it."""
        rounds = problem.dtype == "f32" and env.fpmath_mode != "strict" and bool(self.ops(problem))
        facts = {"filtered": self.filters, "fast": self.fast, "narrow": rounds and not self.converts(problem, env)}
        return frozenset(name for name, holds in facts.items() if holds)

    def spread_by(self, problem: Problem, env: Env) -> frozenset[str]:
        """The operands whose Inf or NaN it spreads here; the library's convolutions pad narrow ones in other ways."""
        narrow = env.compute_dtype(problem.dtype) != "f32" or env.fpmath_mode != "strict"
        return frozenset(READ[self.direction]) if narrow and self.convolves else self.spreads

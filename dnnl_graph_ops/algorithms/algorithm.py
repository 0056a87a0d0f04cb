"""Defines the record of an algorithm: when it applies, its cost, which operands' Inf or NaN it spreads, its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from ..convolution.problem import READ, ConvProblem, is_channels_last
from ..cost import fits, integers
from ..cost import model as cost
from ..ir.env import Env
from ..once import answered, once
from ..onednn import reference, workarounds
from ..program.epilogue import refusals, views
from ..program.program import Program
from ..runtime import cpu, rates

Condition = Callable[[ConvProblem, Env], bool]
Build = Callable[[Program, ConvProblem, Env], None]

# values of Algorithm.spreads
NOTHING: frozenset[str] = frozenset()
Y, W, X = (frozenset({name}) for name in ("y", "w", "x"))


def always(problem: ConvProblem, env: Env | None = None) -> bool:
    """Returns True for every problem: the condition that always holds."""
    return True


def never(problem: ConvProblem, env: Env | None = None) -> bool:
    """Returns False for every problem: the condition that never holds."""
    return False


def without_post_ops(problem: ConvProblem, env: Env) -> bool:
    """Whether no post-ops follow the convolution."""
    return not problem.epilogue


def expressed(problem: ConvProblem, env: Env) -> bool:
    """Whether a kernel that writes channels-last results can apply the problem's post-ops."""
    return problem.takes_epilogue


def refused(problem: ConvProblem, env: Env, head: str) -> dict[str, str]:
    """Returns the names of the post-ops that the library must not compute after its op `head`, and why."""
    return refusals(problem.epilogue, env, head, problem.dtype)


def by_library(problem: ConvProblem, env: Env, head: str) -> bool:
    """Whether the library's op `head` can apply the post-ops itself, well and by no reference kernel.

    Seen in oneDNN 3.2: channels-first convolutions fall back where two post-ops have an operand of x's size, or where
    one has that is no Add.
    """
    if refused(problem, env, head):
        return False
    # operands with more than one spatial position
    spread = [(op, v) for op in problem.epilogue for v in views((op,)) if v.ndim > 2 and prod(v.shape[2:]) > 1]
    if not env.engine.on_host or not spread or (len(spread) == 1 and spread[0][0].kind == "Add"):
        return True
    return all(map(is_channels_last, (problem.y, problem.x, *[view for _, view in spread])))


def by_library_without_operands(problem: ConvProblem, env: Env, head: str) -> bool:
    """Whether the library's op `head` can apply the post-ops, none of which has an operand besides the result.

    An algorithm needs this where its op sees x with other axes, e.g. as a matrix (N * positions, C).
    """
    return not views(problem.epilogue) and not refused(problem, env, head)


# eq=False: algorithms are compared and hashed by identity, so that they are cheap keys
@dataclass(frozen=True, eq=False)
class Algorithm:
    """Describes one way to compute a direction of a convolution: its conditions, its cost and its steps.

    `applies`: whether `build` computes the problem, exact up to rounding. `counts`: the amount of work by kind, which
    the cost constants of `family` turn into seconds. `converts`: whether `build` reads and writes bf16 and f16 itself
    and computes in f32. `adds_bias` and `fuses`: whether `build` adds the bias, and applies the post-ops; `lower`
    appends steps for the conversions, the bias and the post-ops that `build` does not compute.
    """

    name: str
    direction: str
    family: str
    applies: Condition
    counts: cost.Counting
    build: Build
    # operands of which an Inf or NaN may reach results that do not depend on that element: 0 of padding * Inf is NaN
    spreads: frozenset[str]
    converts: Condition = never
    adds_bias: Callable[[ConvProblem], bool] = always
    fuses: Condition = without_post_ops
    # of algorithms on 8-bit integers: whether `build` adds the residual that the problem has
    adds: Callable[[ConvProblem], bool] = never
    # kind of the library's op that does the work, and whether this op adds the bias; empty for builtin kernels
    op: str = ""
    op_adds_bias: bool = False
    # whether the library gets such an op of the problem wrong in tiles
    misread: Callable[[ConvProblem], bool] = workarounds.is_misread
    # the dtype that builtin kernels multiply in, "s8" of all algorithms on 8-bit integers
    multiplies: str = "f32"
    # the library's op runs on y and x in the layouts that they have; preferred with tune="off"
    literal: bool = False
    # runs on devices too, because no step works in host memory
    anywhere: bool = False
    # `tile_rows` may compute a few rows at a time: all steps are builtin kernels, and a row depends on a few rows read
    tiles_rows: bool = False
    # Winograd (minimal filtering): multiplies less often than the definition
    filters: bool = False
    # it rounds so much that algorithm="fast" alone allows it; of_precision: or the precision of f32 layers
    fast: bool = False
    of_precision: bool = False
    # the same bits at every run of the same operands on as many threads
    deterministic: bool = True
    # note that explain() prints below the name
    remark: str = ""
    # seconds on one thread for each of the first `cost.Counts`; None: `fits` has constants of the family
    prices: fits.Prices | None = None
    # of algorithms on 8-bit integers: the key of their prices in `fits.of_integers`
    row: Callable[[ConvProblem], fits.Key] | None = None
    # the algorithm of the other direction that this one runs on flipped weights
    flips: Algorithm | None = None

    @property
    def key(self) -> fits.Key:
        """Returns the (family, direction) of the cost constants; flipped algorithms have those of the original."""
        return self.family, (self.flips or self).direction

    @once
    def on_integers(self) -> bool:
        """Whether the algorithm computes quantized layers on their integers; others do on copies in f32."""
        return self.multiplies == "s8"

    def seen(self, problem: ConvProblem) -> ConvProblem:
        """Returns the problem as the algorithm computes it: a quantized one in floats unless `on_integers`."""
        return problem if self.on_integers else problem.floats

    def takes(self, problem: ConvProblem, env: Env) -> bool:
        """Whether the algorithm computes the problem, a quantized one maybe on copies in f32."""
        if self.on_integers and problem.quantization is None:
            return False
        return self.applies(self.seen(problem), env)

    def work(self, problem: ConvProblem, env: Env) -> cost.Counts:
        """Returns the counts of the problem as `seen`, without conversions."""
        return self.counts(self.seen(problem), env)

    @property
    def convolves(self) -> bool:
        """Whether a convolution op of the library does the work, rather than a MatMul or a builtin kernel."""
        return self.op not in ("", "MatMul")

    def unit(self, problem: ConvProblem, env: Env) -> str:
        """Returns the unit of `runtime.rates` that multiplies: builtin kernels, or the library's ops of a dtype."""
        if not self.op or self.on_integers or self.converts(problem, env):
            return rates.builtin(self.multiplies)
        return f"{'convolution' if self.convolves else self.op} {env.compute_dtype(problem.dtype)}"

    @property
    def is_fitted(self) -> bool:
        """Whether `fits` has constants of the family."""
        return self.prices is None and self.row is None

    def ops(self, problem: ConvProblem) -> list[str]:
        """Returns the library's ops of the algorithm, as `runtime.cpu.Reference` names them; [] for builtin kernels."""
        if not self.op:
            return []
        biased = self.op_adds_bias and problem.bias is not None and self.adds_bias(problem)
        return [self.op, f"{self.op} with bias"] if biased else [self.op]

    def compute_dtype(self, problem: ConvProblem, env: Env) -> str:
        """Returns the dtype that the algorithm computes in: the problem's, or f32.

        f32 is used where the algorithm converts data itself, and where the library has no kernels of the problem's
        dtype, or reference kernels only.
        """
        problem = self.seen(problem)
        if self.converts(problem, env) or self._seen(problem, env):
            return "f32"
        return env.compute_dtype(problem.dtype, *self.ops(problem))

    def by_reference(self, problem: ConvProblem, env: Env) -> bool:
        """Whether the library has no right and fast kernel for the algorithm's op: it computes in f32 then.

        It has only a reference kernel, by the table or as seen before, or one that computes the problem wrong.
        """
        ops = self.ops(problem)
        if not ops or self.converts(problem, env):
            return False
        if env.compute_dtype(problem.dtype, *ops) != env.compute_dtype(problem.dtype):
            return True
        return self._seen(problem, env)

    def choice(self, problem: ConvProblem) -> str:
        """Returns the key of the algorithm for a problem, as steps of the library have it; "" for builtin kernels."""
        return reference.key_of_problem(self.name, problem) if self.op and problem.dtype in cpu.HALVES else ""

    def _seen(self, problem: ConvProblem, env: Env) -> bool:
        """Whether a reference kernel of the library has run the algorithm for such a problem, or results are wrong."""
        if self.convolves and env.has_tiles and problem.dtype in cpu.HALVES and self.misread(problem):
            return True
        return bool(env.by_reference) and self.choice(problem) in env.by_reference

    def seconds(self, problem: ConvProblem, env: Env, factor: float = 1.0) -> float:
        """Returns the estimated seconds of one run, separate steps for the bias and post-ops included.

        `factor` multiplies the estimate except for the time of functions among the post-ops, such as Tanh.
        """
        if problem.quantization is not None and not self.on_integers:
            return self.seconds(problem.floats, env, factor) + integers.conversions(problem, env)
        finishes = self.finishes(problem, env)
        by_library = bool(self.op) and not self.converts(problem, env)
        # without calls of `answered`, which would take as long as the rest
        key = self, env.token, factor, finishes, by_library
        spent: float | None = problem.answers.get(key)
        if spent is None:
            spent = problem.answers[key] = self._spent(problem, env, factor, finishes, by_library)
        if not problem.functions:
            return spent
        by = cost.BY_OWN_CODE
        if finishes and self.op and not self.on_integers:
            # with AVX-512 the library's products apply functions as its convolutions do
            by = cost.BY_CONVOLUTIONS if self.convolves or env.lanes > 8 else cost.BY_PRODUCTS
        return spent + cost.functions(problem, env, by)

    def _spent(self, problem: ConvProblem, env: Env, factor: float, finishes: bool, by_library: bool) -> float:
        """Returns `seconds` without the time of functions, equal for layers that differ in bias and post-ops alone.

        `finishes`: whether there are no separate steps. `by_library`: whether an op of the library does the work.
        """
        counts = answered(problem.answers, (self, env.token), lambda: self.counts(problem, env))
        if not finishes:
            counts = cost.rest(counts, problem, self.plain_dtype(problem, env))
        slower = 1.0
        if self.row is not None:
            prices = integers.prices(self.row(problem), problem, env)
        elif self.prices is not None:
            prices = self.prices
        else:
            key = self, problem.dtype, by_library
            prices, slower, turned = answered(env.answers, key, lambda: self._fitted(problem, env))
            factor *= turned
        spent = factor * cost.estimate(counts, prices, env.threads, slower)
        return cost.by_library(spent, env.threads) if by_library else spent

    def _fitted(self, problem: ConvProblem, env: Env) -> tuple[fits.Prices, float, float]:
        """Returns the fitted prices, and the factors from these to the unit that multiplies and to the direction."""
        dtype, unit = env.compute_dtype(problem.dtype), self.unit(problem, env)
        prices = fits.find(env.isa, env.release, dtype)[self.key]
        return prices, cost.correction(unit, dtype, env), cost.turned(self.key, self.direction, dtype, env)

    def finishes(self, problem: ConvProblem, env: Env) -> bool:
        """Whether `build` adds the problem's bias, if there is any, and applies all of its post-ops."""
        return (problem.bias is None or self.adds_bias(problem)) and (not problem.epilogue or self.fuses(problem, env))

    def plain_dtype(self, problem: ConvProblem, env: Env) -> str:
        """Returns the dtype of the result that separate steps for the bias and post-ops read.

        The dtype is f32 where `build` can write f32 whatever it reads, so that results are rounded once, at the end.
        """
        return "f32" if self.converts(problem, env) else problem.dtype

    def error(self, problem: ConvProblem, env: Env) -> frozenset[str]:
        """How results differ from sums of the definition beyond the order of terms, as `AlgorithmInfo.error` has it."""
        problem = self.seen(problem)
        rounds = problem.dtype == "f32" and env.fpmath_mode != "strict" and bool(self.ops(problem))
        fast = self.fast and not (self.of_precision and problem.narrowed)
        facts = {
            "filtered": self.filters and not self.on_integers,
            "fast": fast,
            "narrow": rounds and not self.converts(problem, env),
        }
        return frozenset(name for name, holds in facts.items() if holds)

    def spread_by(self, problem: ConvProblem, env: Env) -> frozenset[str]:
        """Returns the operands of which an Inf or NaN may spread to results that do not depend on that element.

        Beyond `spreads`, the library's convolutions may spread all operands where they compute in bf16 or f16 or with
        reduced precision, because they pad such data in other ways. Integers have no Inf or NaN.
        """
        if problem.quantization is not None:
            return NOTHING
        narrow = env.compute_dtype(problem.dtype) != "f32" or env.fpmath_mode != "strict"
        return frozenset(READ[self.direction]) if narrow and self.convolves else self.spreads

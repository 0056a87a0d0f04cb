"""Lists all algorithms, and ranks those that apply to a problem by estimated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from operator import itemgetter

from ..convolution.problem import ConvProblem
from ..cost import fits, model, nearest
from ..cost import integers as cost
from ..errors import InvalidArgumentError
from ..ir.env import Env
from ..once import answered
from . import (
    bf16,
    col2im,
    convolution,
    deconvolution,
    depthwise,
    few_channels,
    filtering,
    im2col,
    im2col_images,
    integer_depthwise,
    integers,
    joined_groups,
    naive,
    partition,
    product,
    subpixel,
)
from .algorithm import Algorithm

# of two algorithms with the same estimate, the first is taken
ALGORITHMS: tuple[Algorithm, ...] = (
    *deconvolution.ALGORITHMS,
    *convolution.ALGORITHMS,
    *joined_groups.ALGORITHMS,
    few_channels.FLIPPED,
    *subpixel.ALGORITHMS,
    *product.ALGORITHMS,
    *im2col.ALGORITHMS,
    *im2col_images.ALGORITHMS,
    *col2im.ALGORITHMS,
    *few_channels.ALGORITHMS,
    *depthwise.ALGORITHMS,
    *filtering.ALGORITHMS,
    *bf16.ALGORITHMS,
    *partition.ALGORITHMS,
    *integers.ALGORITHMS,
    *integer_depthwise.ALGORITHMS,
)
# by direction: the naive algorithm, which runs only where all others would spread an Inf or NaN
NAIVE = {algorithm.direction: algorithm for algorithm in naive.ALGORITHMS}

# an algorithm that takes so many times as long as another one comes first by no rule of `choice`
_BEYOND = 1.5
Ranked = list[tuple[Algorithm, float]]  # algorithms with seconds, best first


def register(algorithm: Algorithm) -> None:
    """Appends an algorithm to the table: nets that are compiled afterwards may use it.

    Raises:
        InvalidArgumentError: the table has an algorithm of this name and direction; or `algorithm.prices` is None,
            and `fits` has no cost constants of its family and direction.
    """
    global ALGORITHMS
    if any((a.name, a.direction) == (algorithm.name, algorithm.direction) for a in (*ALGORITHMS, *naive.ALGORITHMS)):
        raise InvalidArgumentError(f"an algorithm {algorithm.name!r} of {algorithm.direction} is in the table already")
    if algorithm.is_fitted and algorithm.key not in {a.key for a in ALGORITHMS if a.is_fitted}:
        raise InvalidArgumentError(f"{algorithm.name!r} needs prices: nothing was fitted for {algorithm.family!r}")
    ALGORITHMS = (*ALGORITHMS, algorithm)


def unregister(algorithm: Algorithm) -> None:
    """Removes an algorithm from the table: nets that are compiled afterwards do not use it."""
    global ALGORITHMS
    ALGORITHMS = tuple(a for a in ALGORITHMS if a is not algorithm)


def named(name: str, direction: str) -> Algorithm | None:
    """Returns the algorithm of this name and direction; None if the table has none."""
    return _by_name(ALGORITHMS).get((name, direction))


@lru_cache(4)
def _by_name(algorithms: Sequence[Algorithm]) -> Mapping[tuple[str, str], Algorithm]:
    return {(a.name, a.direction): a for a in algorithms}


def names(direction: str) -> list[str]:
    """The names of all algorithms for a direction."""
    return [a.name for a in (*ALGORITHMS, NAIVE[direction]) if a.direction == direction]


def remark(name: str) -> str:
    """Returns the note that explain() prints below algorithms of this name; empty for most."""
    return next((a.remark for a in ALGORITHMS if a.name == name), "")


def filters(text: str) -> bool:
    """Whether a text names an algorithm that multiplies less often than the definition."""
    return any(a.filters and a.name in text for a in ALGORITHMS)


def candidates(problem: ConvProblem, env: Env, every: bool = False) -> Ranked:
    """Returns the usable algorithms with estimated seconds, cheapest first: the `worthwhile` ones, or `every` one."""
    seconds = estimates(problem, env)
    weighed = usable(problem, env) if every else worthwhile(problem, env, seconds)
    return sorted([(a, seconds(a)) for a in weighed], key=itemgetter(1))


def worthwhile(problem: ConvProblem, env: Env, seconds: Callable[[Algorithm], float]) -> list[Algorithm]:
    """Returns the usable algorithms without those that have no chance by estimate, which are not even estimated.

    These are algorithms in floats for a layer of integers, where the conversions alone take longer than the best
    algorithm on integers. `seconds`: see `estimates`.
    """
    if problem.quantization is None or env.tune == "measure":
        return usable(problem, env)
    on_integers = usable(problem, env, True)
    if on_integers and cost.conversions(problem, env) > _BEYOND * min(map(seconds, on_integers)):
        return on_integers
    return usable(problem, env)


def estimates(problem: ConvProblem, env: Env) -> Callable[[Algorithm], float]:
    """Returns a function that estimates the seconds of one run of an algorithm on the problem.

    The estimate is counts times cost constants, multiplied by a factor from recorded times of similar layers. It is the
    one in f32, with conversions, of an algorithm that a reference kernel would run otherwise.
    """

    floats = problem.floats

    def of(env: Env) -> Callable[[Algorithm], float]:
        factors: Mapping[str, float] | None = None

        def seconds(algorithm: Algorithm) -> float:
            nonlocal factors
            # layers of integers are not among the recorded ones
            if algorithm.on_integers:
                return algorithm.seconds(problem, env)
            if factors is None:
                factors = nearest.factors(floats, env)
            return algorithm.seconds(problem, env, factors.get(algorithm.name, 1.0))

        return seconds

    natively = of(env)
    if problem.quantization is not None:
        # some algorithms are estimated to tell whether others are worthwhile
        natively = cache(natively)
    dtype = env.compute_dtype(floats.dtype)
    if dtype == "f32":
        return natively
    widely = cache(partial(of, env.widened))
    # estimates of two dtypes compare at one pace
    own, f32 = (fits.pace(env.isa, env.release, name, problem.direction) for name in (dtype, "f32"))
    return lambda a: widely()(a) * own / f32 if a.by_reference(problem, env) else natively(a)


def clock(problem: ConvProblem, env: Env) -> float:
    """Returns the factor from estimates to seconds on this CPU; prices of integers are in products of f32."""
    if not env.engine.on_host:
        return 1.0
    key = problem.direction, env.compute_dtype(problem.floats.dtype)
    return answered(env.answers, (clock, *key), lambda: model.clock(*key, env))


def usable(problem: ConvProblem, env: Env, on_integers: bool = False) -> list[Algorithm]:
    """Returns the algorithms that apply to a problem and can run on the engine: on devices, without steps on the host.

    An algorithm for whose op the library has only a reference kernel computes in f32. `on_integers`: only algorithms
    that compute on integers.
    """
    applying = _applying(problem, env, on_integers)
    return applying if env.engine.on_host else [a for a in applying if a.anywhere]


def applicable(problem: ConvProblem, env: Env) -> list[Algorithm]:
    """Returns the algorithms that apply to the problem, in its dtype where the library has fast kernels of it.

    An algorithm for whose op the library has only a reference kernel is left out, unless there is no other algorithm.
    """
    applying = _applying(problem, env)
    return [a for a in applying if not a.by_reference(problem, env)] or applying


def _applying(problem: ConvProblem, env: Env, on_integers: bool = False) -> list[Algorithm]:
    if problem.quantization is None and on_integers:
        return []
    asked = _asked(ALGORITHMS, problem.direction, problem.quantization is not None, not on_integers)
    if problem.quantization is not None:
        return [a for a in asked if a.takes(problem, env)]
    # `takes` in a fraction of the time, once for layers that differ in the bias and in post-ops alone
    of, applying = problem.answers.get((_applying, env.token), (None, []))
    if of is not asked:
        applying = [a for a in asked if a.applies(problem, env)]
        problem.answers[_applying, env.token] = asked, applying
    return applying


@lru_cache(64)
def _asked(algorithms: Sequence[Algorithm], direction: str, quantized: bool, in_floats: bool) -> Sequence[Algorithm]:
    """Returns the algorithms of a direction that compute quantized layers on integers, those in floats, or both."""
    return [a for a in algorithms if a.direction == direction and (quantized if a.on_integers else in_floats)]

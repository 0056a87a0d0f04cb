"""With algorithm="direct", what an Inf or NaN does not touch stays as it is: forms that spread one get finite operands.

A form spreads one where it multiplies padding or absent taps by zeros. A constant operand is looked at now, a variable
one by a scan at every call.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from .. import dtypes
from .._core import kernels
from ..graph.constants import Constant
from ..runtime import threads
from . import cost
from .env import Env
from .problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Problem
from .program import Buffer, Program, View, data_of
from .registry import FORMULATIONS, TERM_BY_TERM, Formulation, Ranked, candidates

_NOTHING: frozenset[str] = frozenset()
_SRC, _WEIGHTS, _DST = (frozenset({name}) for name in ("src", "weights", "dst"))

# direction, form: the operands whose Inf or NaN reaches results that the definition keeps apart from it
SPREADS: dict[tuple[str, str], frozenset[str]] = {
    (FORWARD, cost.DECONVOLUTION): _NOTHING,
    (FORWARD, "mirrored convolution"): _WEIGHTS,
    (FORWARD, "mirrored convolution, channels last"): _WEIGHTS,
    (FORWARD, "mirrored own stem"): _WEIGHTS,
    (FORWARD, cost.PHASES): _WEIGHTS,
    (FORWARD, "row phases"): _SRC | _WEIGHTS,
    (FORWARD, "row phases by 2"): _SRC | _WEIGHTS,
    (FORWARD, "row phases by 4"): _SRC | _WEIGHTS,
    (FORWARD, "depth to space"): _SRC | _WEIGHTS,
    (FORWARD, cost.PRODUCT): _NOTHING,
    (FORWARD, cost.COLUMNS): _NOTHING,
    (FORWARD, "columns of images"): _NOTHING,
    (FORWARD, "own overlap-add"): _NOTHING,
    (FORWARD, "own depthwise"): _NOTHING,
    (FORWARD, "own groups"): _NOTHING,
    (FORWARD, "own direct"): _SRC | _WEIGHTS,
    (FORWARD, "own narrow"): _SRC | _WEIGHTS,
    (FORWARD, "minimal filtering 2"): _SRC | _WEIGHTS,
    (FORWARD, "minimal filtering 3"): _SRC | _WEIGHTS,
    (FORWARD, "minimal filtering 4"): _SRC | _WEIGHTS,
    (BACKWARD_DATA, cost.DECONVOLUTION): _WEIGHTS,
    (BACKWARD_DATA, cost.CONVOLUTION): _WEIGHTS,
    (BACKWARD_DATA, "convolution, channels last"): _WEIGHTS,
    (BACKWARD_DATA, cost.COLUMNS): _WEIGHTS,
    (BACKWARD_DATA, cost.ROWS): _WEIGHTS,
    (BACKWARD_DATA, "columns of images"): _WEIGHTS,
    (BACKWARD_DATA, "mirrored own overlap-add"): _NOTHING,
    (BACKWARD_DATA, "own stem"): _WEIGHTS,
    (BACKWARD_DATA, "own depthwise"): _NOTHING,
    (BACKWARD_DATA, "own groups"): _NOTHING,
    (BACKWARD_DATA, "own direct"): _WEIGHTS,
    (BACKWARD_DATA, "own narrow"): _WEIGHTS,
    (BACKWARD_DATA, "minimal filtering 2"): _DST | _WEIGHTS,
    (BACKWARD_DATA, "minimal filtering 3"): _DST | _WEIGHTS,
    (BACKWARD_DATA, "minimal filtering 4"): _DST | _WEIGHTS,
    (BACKWARD_WEIGHTS, cost.DECONVOLUTION): _SRC,
    (BACKWARD_WEIGHTS, cost.CONVOLUTION): _SRC,
    (BACKWARD_WEIGHTS, "convolution, channels last"): _SRC,
    (BACKWARD_WEIGHTS, cost.PHASES): _DST,
    (BACKWARD_WEIGHTS, "row phases"): _SRC | _DST,
    (BACKWARD_WEIGHTS, "depth to space"): _SRC | _DST,
    (BACKWARD_WEIGHTS, cost.COLUMNS): _SRC,
    (BACKWARD_WEIGHTS, "columns of images"): _SRC,
    (BACKWARD_WEIGHTS, "own stem"): _SRC,
    (BACKWARD_WEIGHTS, "own depthwise"): _NOTHING,
    (BACKWARD_WEIGHTS, "own direct"): _SRC,
    (BACKWARD_WEIGHTS, "own narrow"): _SRC,
    (BACKWARD_WEIGHTS, "minimal filtering 2"): _SRC | _DST,
    (BACKWARD_WEIGHTS, "minimal filtering 3"): _SRC | _DST,
    (BACKWARD_WEIGHTS, "minimal filtering 4"): _SRC | _DST,
    **{(direction, form.name): _NOTHING for direction, form in TERM_BY_TERM.items()},
}

# the library's convolutions pad narrow operands in other ways: in bf16 and f16 they spread what is in either
_NARROW_TOO = frozenset({cost.DECONVOLUTION, cost.CONVOLUTION, cost.PHASES})
_READ = {FORWARD: _SRC | _WEIGHTS, BACKWARD_DATA: _DST | _WEIGHTS, BACKWARD_WEIGHTS: _SRC | _DST}

_TERM = 1e-9  # seconds of a product in NumPy, roughly


def rules(env: Env) -> bool:
    """Whether the rule holds: on a device the library's own forms are all there is."""
    return env.algorithm == "direct" and env.engine.memory is None


def obeying(found: Ranked, problem: Problem, env: Env) -> Ranked:
    """The candidates without those that would spread what is in a constant, the scans of the others charged."""
    if not rules(env):
        return found
    kept = []
    for form, seconds in found:
        doubted = _doubted(form, problem, env)
        if all(not view.is_constant for view in doubted):
            kept.append((form, seconds + (cost.scan(doubted, env.threads) if doubted else 0.0)))
    return sorted(kept, key=lambda item: item[1]) or [(TERM_BY_TERM[problem.direction], problem.macs * _TERM)]


def takes_literal(problem: Problem, env: Env) -> bool:
    """Whether the library's op may run as it is given, whatever the operands hold."""
    (literal,) = (f for f in FORMULATIONS if (f.direction, f.name) == (problem.direction, cost.DECONVOLUTION))
    return not rules(env) or not spread_by(literal, problem, env)


def guarded(form: Formulation, problem: Problem, env: Env) -> list[View]:
    """What must be scanned before the form may run."""
    return _doubted(form, problem, env) if rules(env) else []


def clean_form(problem: Problem, env: Env) -> Formulation:
    """The cheapest form that spreads nothing of this problem's operands, whatever they hold."""
    clean = (form for form, _ in candidates(problem, env) if not _doubted(form, problem, env))
    return next(clean, TERM_BY_TERM[problem.direction])


def scan(program: Program, views: list[View]) -> View:
    """Append a step that tells whether there is any Inf or NaN in the views; its answer."""
    flag = program.scratch((1,), "s32")
    recipe = ("scan", *((view.shape, view.dtype, view.strides) for view in views))
    program.kernel(_kernel(views), views, [flag], "scan for Inf and NaN", recipe=recipe)
    return flag


def spread_by(form: Formulation, problem: Problem, env: Env) -> frozenset[str]:
    """The operands whose Inf or NaN the form spreads here."""
    narrow = env.compute_dtype(problem.dtype) != "f32" or env.fpmath_mode != "strict"
    if narrow and form.family in _NARROW_TOO:
        return _READ[form.direction]
    return SPREADS[form.direction, form.name]


def _doubted(form: Formulation, problem: Problem, env: Env) -> list[View]:
    """Operands whose Inf or NaN the form would spread and which may have some; constants are known."""
    views = [getattr(problem, name) for name in sorted(spread_by(form, problem, env))]
    return [view for view in views if not view.is_constant or not _finite(view, env.threads)]


def _kernel(views: list[View]) -> kernels.Kernel:
    return kernels.scan([(list(view.shape), dtypes.CODES[view.dtype], list(view.strides)) for view in views])


# by offset, shape and strides; several forms and plans ask for the same constant, which never changes
_LOOKED_AT: WeakKeyDictionary[Buffer | Constant, dict[tuple[object, ...], bool]] = WeakKeyDictionary()


def _finite(constant: View, count: int) -> bool:
    known = _LOOKED_AT.setdefault(constant.buffer.held or constant.buffer, {})
    place = (constant.offset, constant.shape, constant.strides)
    if place not in known:
        known[place] = _look(constant, count)
    return known[place]


def _look(constant: View, count: int) -> bool:
    flag = np.zeros(1, np.int32)
    with threads.using(count):
        _kernel([constant]).run(data_of(constant.buffer).ctypes.data + constant.byte_offset, flag)
    constant.buffer.let_go()
    return not flag[0]

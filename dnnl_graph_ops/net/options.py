"""Checks the options of `Graph.compile`, and builds the net."""

from __future__ import annotations

from typing import Any, get_args

from .. import dtypes
from ..backends.partitions import POLICIES
from ..compile import selection
from ..compile.specialise import Options
from ..errors import InvalidArgumentError
from ..graph import Graph
from ..graph.choices import Tune
from ..ir.env import ALGORITHMS, default_algorithm
from ..passes.mixed_precision import AUTO, PRECISIONS
from ..runtime import threads as pool
from ..runtime.engines import Engine, default_engine
from ..schema.arguments import one_of
from .auto_precision import checked_bound, within
from .net import Net, made

TUNES: tuple[Tune, ...] = get_args(Tune)


def compile_graph(graph: Graph, outputs: Any, *, samples: Any, max_error: Any, **given: Any) -> Net:
    """Implements `Graph.compile`, which passes every option."""
    options = checked_options(graph.engine or default_engine(), **given, samples=samples, max_error=max_error)
    if options.precision == AUTO:
        return within(lambda chosen: made(graph, outputs, chosen), options, samples, checked_bound(max_error))
    return made(graph, outputs, options)


def checked_options(
    engine: Engine,
    policy: Any,
    tune: Any,
    algorithm: Any,
    precision: Any,
    samples: Any = None,
    max_error: Any = None,
    algorithms: Any = None,
    threads: Any = None,
) -> Options:
    """Returns the options of Graph.compile by their canonical names; raises if one is wrong, or excludes another."""
    options = Options(
        choice(policy, "policy", POLICIES),
        choice(tune, "tune", TUNES),
        choice(default_algorithm() if algorithm is None else algorithm, "algorithm", ALGORITHMS),
        "f32" if precision is None else _precision(precision),
        algorithms=selection.checked(algorithms),
        threads=None if threads is None else pool.startable(threads, "Graph.compile: 'threads'"),
    )
    if options.algorithms and options.tune == "off":
        raise InvalidArgumentError(
            "Graph.compile: 'algorithms' selects for tune='heuristic' or 'measure'; tune='off' runs the "
            "literal ops, leave one of them out"
        )
    if precision is not None and (options.tune == "off" or options.policy != "fusion" or not engine.on_host):
        raise InvalidArgumentError(
            f"Graph.compile: 'precision' chooses dtypes of ops on the CPU with policy='fusion' and tune='heuristic' or "
            f"'measure', got {options.policy!r} and {options.tune!r} on {engine!r}; leave it out, or build the graph "
            f"in {options.precision}"
        )
    if options.precision == AUTO:
        checked_bound(max_error)
    else:
        for name, value in (("samples", samples), ("max_error", max_error)):
            if value is not None:
                raise InvalidArgumentError(f"Graph.compile: {name!r} goes with precision='auto', got {precision!r}")
    return options


_INT8 = "; int8 needs scales from samples: dgo.quantize.calibrate(net, samples).compile()"
# advice that the message adds for these unsupported precisions
_INSTEAD = {"f32": "; leave it out, f32 ops are computed in f32 then", **dict.fromkeys(("s8", "u8", "int8"), _INT8)}


def _precision(value: Any) -> str:
    """Returns a precision by its canonical name."""
    allowed = (*PRECISIONS, AUTO)
    if not isinstance(value, str):
        return choice(value, "precision", allowed)
    word = dtypes.usual(value).lower()
    if word not in allowed:
        text = f"Graph.compile: 'precision' must be one of {', '.join(allowed)}, got {value!r}"
        raise InvalidArgumentError(text + _INSTEAD.get(word, ""))
    return word


def choice(value: Any, name: str, allowed: Any) -> str:
    """Returns the value of the option `name` of Graph.compile in lower case."""
    return one_of(value, f"Graph.compile: '{name}'", tuple(allowed))

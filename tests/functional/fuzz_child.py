"""Malformed calls over both convolution families, in a process of its own.

`python -m functional.fuzz_child SEED START STOP`

Prints the number of each call before it runs, and one line for each call that raised something else than
the family's errors and TypeError.
"""

import faulthandler
import inspect
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from reference import conv_transpose as ct
from reference.data import integers
from reference.rounding import DTYPES

import dnnl_graph_ops as dgo

from . import malformed
from .problems import Problem, draw

SECONDS_PER_CALL = 60
ADDRESS_SPACE = 24 << 30
NUMERIC = ("strides", "pads_begin", "pads_end", "dilations", "output_padding", "groups")
TEXT = ("auto_pad", "data_format", "weights_format", "filter_format")
SHAPE = ("weights_shape", "filter_shape", "src_shape")

Call = tuple[Callable[..., Any], list[Any], dict[str, Any]]


class Data:
    """Valid arrays and keyword arguments of a small problem."""

    def __init__(self, rng: np.random.Generator, problem: Problem):
        self.problem = p = problem
        made = [integers(rng, s).astype(DTYPES[p.dtype]) for s in (p.src, p.weights, (p.dst[1],), p.dst)]
        self.src, self.diff = (ct.from_channels_first(made[i], p.data_format) for i in (0, 3))
        self.weights, self.bias = ct.from_iox(made[1], p.weights_format), made[2]
        self.keywords = {
            "data_format": p.data_format,
            "weights_format": p.weights_format,
            **p.attributes,
        }
        # the ordinary convolution that takes diff to src with the same weights
        exchanged = p.weights_format.translate(str.maketrans("IO", "OI"))
        without = {name: value for name, value in self.keywords.items() if name != "output_padding"}
        self.ordinary = {**without, "weights_format": exchanged}


def one_shot(data: Data) -> list[Call]:
    k, o = data.keywords, data.ordinary
    filters = {name: value for name, value in k.items() if name != "weights_format"}
    only_data = {"data_format": k["data_format"]}
    return [
        (dgo.conv_transpose, [data.src, data.weights, data.bias], {**k, "out": np.empty_like(data.diff)}),
        (dgo.conv_transpose, [data.src, data.weights], {**k, "engine": None}),
        (dgo.conv_transpose_backward_data, [data.diff, data.weights], {**k, "src_shape": data.src.shape}),
        (dgo.conv_transpose_backward_data, [data.diff, data.weights], {**k, "out": np.empty_like(data.src)}),
        (dgo.conv_transpose_backward_weights, [data.src, data.diff, data.weights.shape], {**k, "out": None}),
        (
            dgo.conv_transpose_backward_weights,
            [data.src, data.diff],
            {**k, "out": np.empty_like(data.weights)},
        ),
        (
            dgo.conv_transpose_backprop_filters,
            [data.src, data.diff],
            {**filters, "filter_shape": data.weights.shape, "filter_format": "XIO"},
        ),
        (dgo.conv_transpose_backward_bias, [data.diff], {**only_data, "out": np.empty_like(data.bias)}),
        (dgo.conv_transpose_output_shape, [data.src.shape, data.weights.shape], dict(k)),
        (dgo.convert_weights, [data.weights, data.problem.weights_format, "XOI"], {"groups": 1}),
        (dgo.convolution, [data.diff, data.weights], {**o, "out": np.empty_like(data.src)}),
        (dgo.convolution_backward_data, [data.src, data.weights], {**o, "src_shape": data.diff.shape}),
        (dgo.convolution_backward_data, [data.src, data.weights], {**o, "output_padding": 0}),
        (dgo.convolution_backward_weights, [data.diff, data.src, data.weights.shape], {**o, "out": None}),
        (dgo.convolution_backward_weights, [data.diff, data.src], dict(o)),
        (dgo.convolution_backward_bias, [data.diff], dict(only_data)),
        (dgo.convolution_output_shape, [data.diff.shape, data.weights.shape], dict(o)),
        (dgo.convert_weights, [data.weights, o["weights_format"], "OIX"], {"groups": 1, "op": "convolution"}),
    ]


def _as_graph(builder: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """A function that declares the arrays, builds the op, compiles it and calls the net."""

    def run(*arrays: Any, out: Any = None, **keywords: Any) -> Any:
        graph = dgo.Graph()
        held = [a for a in arrays if a is not None]
        values = [
            graph.input(name, getattr(a, "shape", a), getattr(a, "dtype", "f32"))
            for name, a in zip(names, held, strict=False)
        ]
        net = graph.compile(builder(*values, **keywords))
        return net(*held, out=out)

    run.__name__ = f"graph of {builder.__name__}"
    return run


def graphs(data: Data) -> list[Call]:
    k, o = data.keywords, data.ordinary
    forward = _as_graph(dgo.ops.conv_transpose, ["src", "weights", "bias"])
    return [
        (forward, [data.src, data.weights, data.bias], {**k, "name": "up"}),
        (forward, [data.src, data.weights], {**k, "out": np.empty_like(data.diff)}),
        (
            _as_graph(dgo.ops.conv_transpose_backward_data, ["diff_dst", "weights"]),
            [data.diff, data.weights],
            {**k, "src_shape": data.src.shape},
        ),
        (
            _as_graph(dgo.ops.conv_transpose_backward_weights, ["src", "diff_dst"]),
            [data.src, data.diff],
            {**k, "weights_shape": data.weights.shape},
        ),
        (_as_graph(dgo.ops.convolution, ["src", "weights"]), [data.diff, data.weights], {**o, "name": "down"}),
        (
            _as_graph(dgo.ops.convolution_backward_data, ["diff_dst", "weights"]),
            [data.src, data.weights],
            {**o, "src_shape": data.diff.shape},
        ),
        (
            _as_graph(dgo.ops.convolution_backward_weights, ["src", "diff_dst"]),
            [data.diff, data.src],
            {**o, "weights_shape": data.weights.shape},
        ),
    ]


def _declared(shape: Any, dtype: Any, strides: Any, name: Any) -> Any:
    return dgo.Graph().input(name, shape, dtype=dtype, strides=strides)


def _compiled(data: Data) -> Callable[..., Any]:
    def run(foreign: bool, fed: dict[str, Any], **options: Any) -> Any:
        graph, other = dgo.Graph(), dgo.Graph()
        src = graph.input("src", data.src.shape, data.problem.dtype)
        weights = (other if foreign else graph).constant(data.weights)
        value = dgo.ops.relu(dgo.ops.conv_transpose(src, weights, **data.keywords))
        if options.get("outputs") == "value":
            options["outputs"] = value
        return graph.compile(**options)(**fed)

    return run


def objects(rng: np.random.Generator, data: Data) -> list[Call]:
    """Declarations, compile options, feeds and engines."""
    options = {
        "outputs": rng.choice(["value", "nothing", ""]),
        "policy": rng.choice(["fusion", "debug", "best", ""]),
        "tune": rng.choice(["off", "heuristic", "always"]),
        "algorithm": rng.choice(["auto", "direct", "fast", "exact"]),
    }
    fed = [
        {"src": data.src},
        {},
        {"src": data.src, "extra": data.src},
        {"dst": data.src},
        {"src": None},
        {"src": data.src[:0]},
        {"src": data.src, "out": data.src},
        {"src": data.src, "out": (data.diff, data.diff)},
    ]
    chosen = {name: str(value) for name, value in options.items()}
    run = _compiled(data)
    return [
        (_declared, [data.src.shape, data.problem.dtype, None, "src"], {}),
        (_declared, [data.src.shape, "f64", data.src.shape, ""], {}),
        (run, [bool(rng.random() < 0.2), fed[rng.integers(len(fed))]], {**chosen, "outputs": "value"}),
        (run, [False, fed[rng.integers(len(fed))]], chosen),
        (dgo.engine, ["cpu"], {"index": 0, "runtime": None}),
        (dgo.engine, ["gpu"], {"index": 7, "runtime": "none such"}),
        (dgo.set_num_threads, [-1], {}),
    ]


def _pick(rng: np.random.Generator, choices: list[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _made(rng: np.random.Generator, choices: list[Callable[[], Any]], old: np.ndarray) -> Any:
    """One of the replacements, or the old array where an earlier mutation left nothing to convert."""
    try:
        return _pick(rng, choices)()
    except (IndexError, TypeError, ValueError):
        return old


def mutate(rng: np.random.Generator, call: Call) -> Call:
    """The call with one argument replaced, dropped, added or doubled."""
    function, given, keywords = call
    given, keywords = list(given), dict(keywords)
    kind = rng.random()
    if kind < 0.06 and given:
        del given[int(rng.integers(len(given)))]
    elif kind < 0.1:
        given.insert(int(rng.integers(len(given) + 1)), _pick(rng, malformed.numbers()))
    elif kind < 0.13:
        keywords[_pick(rng, ["stride", "padding", "", "\ud800", "weights", "out ", "self"])] = 1
    elif kind < 0.5 and given:
        place = int(rng.integers(len(given)))
        old = given[place]
        if isinstance(old, np.ndarray):
            given[place] = _made(rng, malformed.arrays(old), old)
        else:
            given[place] = _pick(rng, malformed.shapes() if isinstance(old, tuple) else malformed.texts())
    elif keywords:
        name = _pick(rng, list(keywords))
        if name == "out" and isinstance(keywords[name], np.ndarray):
            held = [a for a in given if isinstance(a, np.ndarray)] or [keywords[name]]
            keywords[name] = _made(rng, malformed.outputs(keywords[name], held), keywords[name])
        elif name in SHAPE:
            keywords[name] = _pick(rng, malformed.shapes())
        else:
            keywords[name] = _pick(rng, malformed.numbers() if name in NUMERIC else malformed.texts())
    return function, given, keywords


def make(seed: int, number: int) -> Call:
    """Call `number`: a valid one with one to three mutations."""
    rng = np.random.default_rng([seed, number, 2])
    data = Data(rng, draw(seed, int(rng.integers(1 << 30))))
    source = rng.random()
    calls = one_shot(data) if source < 0.6 else graphs(data) if source < 0.85 else objects(rng, data)
    call = _pick(rng, calls)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        call = mutate(rng, call)
    return call


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{value.dtype}:strides{value.strides}"
    return ascii(value)[:120]


def describe(call: Call) -> str:
    function, given, keywords = call
    parts = [_short(v) for v in given] + [f"{k!a}={_short(v)}" for k, v in keywords.items()]
    return f"{function.__name__}({', '.join(parts)})"


def main(seed: int, start: int, stop: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    faulthandler.enable()
    failures, raised = 0, 0
    for number in range(start, stop):
        function, given, keywords = call = make(seed, number)
        print(f"call {number}: {describe(call)}", flush=True)
        faulthandler.dump_traceback_later(SECONDS_PER_CALL, exit=True)
        try:
            function(*given, **keywords)
        except (dgo.Error, TypeError):
            raised += 1
        except Exception as error:
            failures += 1
            where = inspect.trace()[-1]
            print(f"FAILURE call {number}: {type(error).__name__}: {error} at {where.filename}:{where.lineno}")
        finally:
            faulthandler.cancel_dump_traceback_later()
    print(f"DONE {stop - start} calls, {raised} refused, {failures} failures", flush=True)
    return failures


if __name__ == "__main__":
    raise SystemExit(bool(main(*map(int, sys.argv[1:4]))))

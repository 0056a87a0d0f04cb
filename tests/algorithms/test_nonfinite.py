"""What one Inf or NaN reaches: the table of forms, algorithm="direct" against the terms, algorithm="auto"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from concurrently import in_threads
from reference import conv_transpose as truth

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops
from dnnl_graph_ops.algorithms import lower, nonfinite, table
from dnnl_graph_ops.algorithms.algorithm import Algorithm
from dnnl_graph_ops.compile.plan import Plan, assemble
from dnnl_graph_ops.convolution.nodes import CONV_KINDS, make_problem
from dnnl_graph_ops.convolution.problem import DGRAD, READ
from dnnl_graph_ops.ir.env import ALGORITHM_VARIABLE, Env
from dnnl_graph_ops.program.program import Place, Program

from .test_algorithms import KINDS, draw, external

Array = np.ndarray[Any, Any]
Map = Callable[[Array, Array], Array]

IN_FLOATS = [form for form in table.ALGORITHMS if not form.on_integers]
EVERY = [*sorted(IN_FLOATS, key=lambda form: list(READ).index(form.direction)), *table.NAIVE.values()]
# by their construction; to be seen in a few of a thousand problems
RARE = {(DGRAD, "depth to space", "w"), (DGRAD, "row phases by 4", "w")}
# the tensors of a problem as the page names them, which tells all as a ConvTranspose
ON_PAGE = {"x": "dst", "y": "src", "w": "weights"}
SPECIAL = (np.inf, -np.inf, np.nan)
PAGE = Path(__file__).parents[2] / "docs" / "nonfinite.md"


class Case(NamedTuple):
    """One layer in one direction: attributes as a node has them, its operands' and its result's shapes, what it is."""

    kind: str
    attrs: dict[str, Any]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...]
    map: Map

    @property
    def direction(self) -> str:
        return CONV_KINDS[self.kind].direction

    def of(self, first: Array, second: Array) -> Array:
        """The definition where all is finite."""
        return self.map(first, second)


def case_of(kind: str, problem: dict[str, Any]) -> Case:
    attrs, x, w, y = (problem[name] for name in ("attrs", "x", "w", "y"))
    if kind == "ConvTranspose":
        return Case(kind, attrs, (x, w), y, lambda a, b: truth.forward(a, b, **attrs))
    if kind == "ConvTransposeBackwardData":
        made = {**attrs, "src_shape": x}
        return Case(kind, made, (y, w), x, lambda a, b: truth.backward_data(a, b, src_spatial=problem["size"], **attrs))
    return Case(kind, attrs, (x, y), w, lambda a, b: truth.backward_weights(a, b, problem["kernel"], **attrs))


def cases(rng: np.random.Generator, count: int) -> Iterator[tuple[str, dict[str, Any], Case]]:
    """So many random problems in each direction."""
    for number in range(count):
        problem = draw(rng)
        if problem is None:
            continue
        for kind in KINDS:
            print(f"case {number}: {kind} {problem}")
            yield kind, problem, case_of(kind, problem)


def by_terms(case: Case, first: Array, second: Array) -> Array:
    """The definition naive: what is not finite is counted by where its terms go, so padding is no term."""

    def parts(array: Array) -> dict[str, Array]:
        wide = array.astype(np.float64)
        finite = np.isfinite(wide)
        kinds = {
            "up": wide == np.inf,
            "down": wide == -np.inf,
            "nan": np.isnan(wide),
            "zero": wide == 0,
            "more": finite & (wide > 0),
            "less": finite & (wide < 0),
        }
        return {"value": np.where(finite, wide, 0), **{name: mask.astype(np.float64) for name, mask in kinds.items()}}

    a, b = parts(first), parts(second)
    up = case.of(a["up"], b["more"] + b["up"]) + case.of(a["down"], b["less"] + b["down"])
    up += case.of(a["more"], b["up"]) + case.of(a["less"], b["down"])
    down = case.of(a["up"], b["less"] + b["down"]) + case.of(a["down"], b["more"] + b["up"])
    down += case.of(a["less"], b["up"]) + case.of(a["more"], b["down"])
    nan = case.of(a["nan"], np.ones_like(b["value"])) + case.of(np.ones_like(a["value"]), b["nan"])
    nan += case.of(a["up"] + a["down"], b["zero"]) + case.of(a["zero"], b["up"] + b["down"])
    result = case.of(a["value"], b["value"])
    result[up > 0] = np.inf
    result[down > 0] = -np.inf
    result[(nan > 0) | ((up > 0) & (down > 0))] = np.nan
    return result


def arrays_of(case: Case, rng: np.random.Generator) -> list[Array]:
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in case.shapes]


def spoil(array: Array, rng: np.random.Generator, count: int = 1) -> None:
    """Put Inf or NaN into so many places."""
    for _ in range(count):
        array[tuple(int(rng.integers(n)) for n in array.shape)] = rng.choice(SPECIAL)


def plan_of(case: Case, form: Algorithm, arrays: list[Array], result: Array, env: Env) -> Plan | None:
    """The form as a plan, if it applies."""
    views = [external(Place.INPUT, array, i) for i, array in enumerate(arrays)]
    output = external(Place.OUTPUT, result, 0)
    problem = make_problem(case.kind, case.attrs, views, output)
    if not form.applies(problem, env):
        return None
    program = Program()
    lower.build(program, problem, form, env)
    return assemble(program, views, [output], env.engine, fpmath_mode=env.fpmath_mode)


def forms_of(case: Case) -> list[Algorithm]:
    return [form for form in EVERY if form.direction == case.direction]


def cpu_env(algorithm: str = "auto", fpmath: str = "strict") -> Env:
    return Env(dgo.engine("cpu"), dgo.get_num_threads(), algorithm=algorithm, fpmath_mode=fpmath)


def test_forms_spread_operands_alone() -> None:
    for form in EVERY:
        assert form.spreads <= set(READ[form.direction])


@pytest.mark.slow
def test_forms_spread_what_the_table_says_and_lose_nothing(seed: int, full: bool, amount: Callable[..., int]) -> None:
    """One Inf or NaN reaches all that it touches, in every form, and nothing else where the table says so."""
    rng = np.random.default_rng([seed, 22])
    env = cpu_env("fast")
    seen = set()
    for _, _, case in cases(rng, amount(20, 50, 400)):
        for which, operand in enumerate(READ[case.direction]):
            arrays = arrays_of(case, rng)
            plain = case.of(*arrays)
            place = tuple(int(rng.integers(n)) for n in arrays[which].shape)
            mark, ones = np.zeros(case.shapes[which]), np.ones(case.shapes[1 - which])
            mark[place] = 1
            touched = case.of(*((ones, mark) if which else (mark, ones))) != 0
            arrays[which][place] = rng.choice(SPECIAL)
            for form in forms_of(case):
                result = np.zeros(case.result, np.float32)
                plan = plan_of(case, form, arrays, result, env)
                if plan is None:
                    continue
                plan.executor.run(arrays, [result])
                assert not np.isfinite(result[touched]).any(), f"{form.name} lost what is not finite in {operand}"
                # forms with a remark round small integers
                if not (np.abs(result - plain)[~touched] <= (0.1 if form.remark else 0)).all():
                    seen.add((form.direction, form.name, operand))
    listed = {(form.direction, form.name, operand) for form in EVERY for operand in form.spreads}
    assert seen <= listed
    if full:
        assert listed - RARE <= seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "fpmath"), [("f32", "strict"), ("f32", "bf16"), ("bf16", "strict"), ("f16", "strict")]
)
def test_guarded_forms_keep_to_the_terms(dtype: str, fpmath: str, seed: int, amount: Callable[..., int]) -> None:
    """Every form that "direct" may choose, on operands of which none, one or both hold Inf and NaN."""
    rng = np.random.default_rng([seed, 23])
    env = cpu_env("direct", fpmath)
    for _, _, case in cases(rng, amount(6, 10, 60)):
        arrays = [array.astype(dtypes.numpy_dtype(dtype)) for array in arrays_of(case, rng)]
        spoilt = [array.copy() for array in arrays]
        for array in spoilt:
            spoil(array, rng, int(rng.integers(0, 3)))
        result = np.zeros(case.result, arrays[0].dtype)
        views = [external(Place.INPUT, array, i) for i, array in enumerate(arrays)]
        problem = make_problem(case.kind, case.attrs, views, external(Place.OUTPUT, result, 0))
        for form, _ in nonfinite.obeying(table.candidates(problem, env), problem, env):
            plan = plan_of(case, form, arrays, result, env)
            assert plan is not None
            for given in (arrays, spoilt, arrays):
                plan.executor.run(given, [result])
                want = by_terms(case, *given).astype(result.dtype)
                np.testing.assert_array_equal(
                    result.astype(np.float32), want.astype(np.float32), err_msg=f"{form.name} {dtype} {fpmath}"
                )


def with_gaps(array: Array, rng: np.random.Generator) -> Array:
    """The same values, now and then with odd strides and Inf between them."""
    if rng.random() < 0.5:
        return array
    axis = int(rng.integers(array.ndim))
    room = np.full([n * (2 if a == axis else 1) + (a == array.ndim - 1) for a, n in enumerate(array.shape)], np.inf)
    inner = tuple(slice(0, n * 2, 2) if a == axis else slice(0, n) for a, n in enumerate(array.shape))
    room = room.astype(array.dtype)
    room[inner] = array
    return room[inner]


OPS = {
    "ConvTranspose": ops.conv_transpose,
    "ConvTransposeBackwardData": ops.conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": ops.conv_transpose_backward_weights,
}
CALLS = {
    "ConvTranspose": dgo.conv_transpose,
    "ConvTransposeBackwardData": dgo.conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": dgo.conv_transpose_backward_weights,
}


def keywords(case: Case, problem: dict[str, Any]) -> dict[str, Any]:
    made = dict(case.attrs)
    if case.kind == "ConvTransposeBackwardWeights":
        made["weights_shape"] = problem["w"]
    return made


def test_nets_and_calls_keep_to_the_terms(
    seed: int, amount: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen by themselves: operands that vary, constant ones, and one-shot calls, in any format and stride."""
    rng = np.random.default_rng([seed, 24])
    monkeypatch.setenv(ALGORITHM_VARIABLE, "direct")
    for kind, problem, case in cases(rng, amount(10, 25, 80)):
        arrays = [with_gaps(array, rng) for array in arrays_of(case, rng)]
        for array in arrays:
            spoil(array, rng, int(rng.integers(0, 3)))
        want = by_terms(case, *arrays).astype(np.float32)
        made = keywords(case, problem)
        np.testing.assert_array_equal(CALLS[kind](*arrays, **made), want)
        baked = bool(rng.integers(2))
        graph = dgo.Graph()
        first = graph.input("first", arrays[0].shape, "f32")
        second = graph.constant(arrays[1]) if baked else graph.input("second", arrays[1].shape, "f32")
        net = graph.compile(
            OPS[kind](first, second, **made), tune=str(rng.choice(["heuristic", "off"])), algorithm="direct"
        )
        np.testing.assert_array_equal(net(arrays[0]) if baked else net(*arrays), want)


ATTRS: dict[str, Any] = {"strides": [2, 2], "weights_format": "IOX"}


def layer() -> tuple[Array, Array]:
    """diff_dst and weights: no form of gradients of data leaves Inf of dense weights where it is."""
    return np.ones((2, 17, 17, 16), np.float32), np.ones((16, 16, 3, 3), np.float32)


def exact(dy: Array, w: Array) -> Array:
    """What the terms of that layer make."""
    case = Case(KINDS[1], ATTRS, (dy.shape, w.shape), (), lambda a, b: truth.backward_data(a, b, **ATTRS))
    return by_terms(case, dy, w).astype(np.float32)


def net_of(dy: Array, w: Array, baked: bool, **options: Any) -> dgo.Net:
    graph = dgo.Graph()
    x = graph.input("dy", dy.shape, "f32")
    weights = graph.constant(w) if baked else graph.input("w", w.shape, "f32")
    y = ops.conv_transpose_backward_data(x, weights, **ATTRS)
    return graph.compile(y, algorithm="direct", **options)


@pytest.mark.choice
def test_the_scan_is_seen_and_a_constant_needs_none() -> None:
    dy, w = layer()
    text = ", ".join(step.step for step in net_of(dy, w, baked=False).explain().steps)
    assert "scan for Inf and NaN" in text and "(all finite)" in text and "(not all finite)" in text
    finite = net_of(dy, w, baked=True).explain()
    w[0, 0, 0, 0] = np.inf
    spoilt = net_of(dy, w, baked=True).explain()
    assert spoilt.partitions[0].formulation == "naive" != finite.partitions[0].formulation
    assert "finite" not in f"{finite}{spoilt}".replace("Inf and", "")


def test_both_branches_in_threads() -> None:
    """Calls with and without Inf, at once and in turn, on one plan."""
    dy, w = layer()
    net = net_of(dy, w, baked=False)
    spoilt = w.copy()
    spoilt[3, 4, 0, 2] = np.inf
    want = [exact(dy, given) for given in (w, spoilt)]
    assert np.isinf(want[1]).any() and np.isfinite(want[1]).any()

    def some(index: int) -> None:
        for turn in range(40):
            which = (index + turn) % 2
            np.testing.assert_array_equal(net(dy, (w, spoilt)[which]), want[which])

    in_threads(4, some)


def test_layers_behind_each_other(seed: int) -> None:
    """Both branches write one intermediate result, which the next layer scans."""
    rng = np.random.default_rng([seed, 26])
    sizes: dict[str, Any] = {"strides": [2, 2], "weights_format": "IOX", "groups": 2}
    x = rng.integers(-3, 4, (2, 6, 6, 8)).astype(np.float32)
    weights = [rng.integers(-3, 4, (8, 4, 3, 3)).astype(np.float32) for _ in range(3)]
    maps: list[Map] = [
        lambda a, b: truth.forward(a, b, **sizes),
        lambda a, b: truth.backward_data(a, b, **sizes),
        lambda a, b: truth.forward(a, b, **sizes),
    ]
    graph = dgo.Graph()
    y = graph.input("x", x.shape, "f32")
    inputs = [graph.input(f"w{i}", w.shape, "f32") for i, w in enumerate(weights)]
    for make, w in zip((ops.conv_transpose, ops.conv_transpose_backward_data, ops.conv_transpose), inputs, strict=True):
        y = make(y, w, **sizes)
    net = graph.compile(y, algorithm="direct")
    for place in (None, 0, 1, 2, 3):
        given = [array.copy() for array in (x, *weights)]
        if place is not None:
            spoil(given[place], rng)
        want = given[0]
        for w, one in zip(given[1:], maps, strict=True):
            want = by_terms(Case("", {}, (want.shape, w.shape), (), one), want, w)
        np.testing.assert_array_equal(net(*given), want.astype(np.float32))


def test_views_of_all_kinds_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALGORITHM_VARIABLE, "direct")
    dy, w = layer()
    w[3, 4, 0, 2] = np.inf
    for given in (np.broadcast_to(w[3:4], w.shape), w.transpose(1, 0, 3, 2), np.repeat(w, 2, 1)[:, ::2]):
        np.testing.assert_array_equal(dgo.conv_transpose_backward_data(dy, given, **ATTRS), exact(dy, given))


def test_measured_choices_keep_to_the_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dy, w = layer()
    dy[0, 0, 0, 0] = w[3, 2, 1, 1] = np.nan
    for baked in (False, True):
        net = net_of(dy, w, baked, tune="measure")
        np.testing.assert_array_equal(net(dy) if baked else net(dy, w), exact(dy, w))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm, bound", [("auto", 1e37), ("fast", 5e36)])
def test_automatic_choices_stay_finite_below_the_bound(
    seed: int, amount: Callable[..., int], algorithm: str, bound: float
) -> None:
    """Terms times the largest values of both operands below it: no form overflows on the way, whatever the signs."""
    rng = np.random.default_rng([seed, 25])
    env = cpu_env(algorithm)
    for _, problem, case in cases(rng, amount(10, 25, 80)):
        ones = [np.ones(shape) for shape in case.shapes]
        terms = max(case.of(*ones).max(), np.prod(problem["kernel"]) * max(problem["x"][-1], problem["x"][1]))
        large = 10.0 ** rng.uniform(0, 36.5)
        for first in (large, 0.9 * bound / terms / large):
            second = 0.9 * bound / terms / first
            if max(first, second) > bound:
                continue
            arrays = [
                (value * rng.choice([-1, 1], shape)).astype(np.float32)
                for value, shape in zip((first, second), case.shapes, strict=True)
            ]
            for form in forms_of(case):
                result = np.full(case.result, np.nan, np.float32)
                plan = plan_of(case, form, arrays, result, env)
                if plan is not None:
                    plan.executor.run(arrays, [result])
                    assert np.isfinite(result).all(), form.name


def page_table() -> str:
    """The table of docs/nonfinite.md."""
    rows = ['| direction | algorithm | spreads what is in | with `"direct"` |', "|---|---|---|---|"]
    for form in EVERY:
        operands, direction = sorted(ON_PAGE[name] for name in form.spreads), form.direction
        if form in table.NAIVE.values():
            use = "where no other algorithm is left"
        elif form.filters:
            use = "never"
        else:
            use = "on finite " + " and ".join(operands) if operands else "always"
        rows.append(f"| {direction} | {form.name} | {', '.join(operands) or 'nothing'} | {use} |")
    return "\n".join(rows)


def test_the_page_has_the_table() -> None:
    assert page_table() in PAGE.read_text("utf-8")

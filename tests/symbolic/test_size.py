"""Sizes of a trace: a formula of what a trace computed gives, for other dims, what integers give."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core
from dnnl_graph_ops._core import Formula
from dnnl_graph_ops.strides import dense_strides, is_row_major
from dnnl_graph_ops.symbolic import Size, cached, formula, gcd, greatest, kernels, least, total, tracing

MOST = 4
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // (b or 1),
    lambda a, b: a % (b or 1),
    lambda a, b: divmod(a, b or 1)[0],
    max,
    min,
    greatest,
    least,
    lambda a, b: gcd(abs(a), abs(b)),
    lambda a, b: a if a < b else b - 1,
    lambda a, b: a if a == b else b,
    lambda a, b: 1 if a else b,
    lambda a, b: len(range(min(abs(int(a)), 9))) + b,
    lambda a, b: -a if a >= b else a + (a != b),
    lambda a, b: sum([a, b, a]),
    lambda a, b: total([a, 3, -b, b, a]),
    lambda a, b: {a: 1}.get(b, 2) if a == b else a,
    lambda a, b: b // 3 - -a // 2,
    lambda a, b: (5 - a) * 7 + 11 // (abs(b) + 1),
)


def computed(rng: Random, dims: list[Any]) -> list[Any]:
    """Results of operations that the generator draws, on the dims and on each other."""
    values: list[Any] = [*dims, rng.randint(-3, 9), rng.randint(1, 64)]
    for _ in range(rng.randint(1, 12)):
        values.append(rng.choice(BINARY)(rng.choice(values), rng.choice(values)))
    return values[len(dims) :]


@pytest.mark.cases(100, 1000, 100_000, each=100)
def test_a_formula_gives_what_integers_give(start, seed):
    held = 0
    for number in range(start, start + 100):
        where = f"--seed={seed}, case {number}"
        rng = Random(f"{seed} {number}")
        dims = [rng.randint(1, 40) for _ in range(rng.randint(1, 3))]
        with tracing() as trace:
            sizes = [trace.dim(n, max(n // MOST, 1), n * MOST) for n in dims]
            values = computed(Random(f"{seed} {number} again"), sizes)
            by_dims = formula(trace, sizes, trace.conditions, values)
        assert by_dims(dims) == computed(Random(f"{seed} {number} again"), dims), where
        for _ in range(10):
            others = [rng.randint(max(n // MOST, 1), n * MOST) for n in dims]
            result = by_dims(others)
            if result is not None:
                held += 1
                assert result == computed(Random(f"{seed} {number} again"), others), (where, others)
    assert held > 100


def test_strides_and_their_order_hold_for_all_dims():
    with tracing() as trace:
        n, m = trace.dim(5, 2, 20), trace.dim(7, 2, 28)
        shape = (n, 16, m)
        strides = dense_strides(shape)
        assert is_row_major(shape, strides) and strides == (16 * m, m, 1)
        assert sorted(strides) == [1, m, 16 * m]
        assert trace.conditions == []
        assert gcd(48, 32, 16 * m, 32 * n * m) == 16 and gcd(m, m * n) is m
        assert trace.conditions == []


def test_the_remainder_of_a_quotient_is_known():
    with tracing() as trace:
        n = trace.dim(131, 32, 524)
        left = n + 1 - 2 * ((n + 1) // 2)
        assert greatest(left, 0) is left and greatest(-left, 0) == 0
        assert (8 * n + 16) // 8 == n + 2 and (8 * n + 3) // 8 == n
        assert trace.conditions == []


def test_taking_an_int_is_a_condition():
    places = np.arange(10)
    takes: tuple[Callable[[Any], Any], ...] = (
        range, np.zeros, places.take, float, lambda n: [0] * n, lambda n: n * 0.5, lambda n: n & (n - 1), lambda n: 2**n
    )  # fmt: skip
    for take in takes:
        with tracing() as trace:
            n = trace.dim(6, 1, 24)
            take(n)
            assert len(trace.conditions) == 1, take
            by_dims = formula(trace, [n], trace.conditions, n)
        assert (by_dims([6]), by_dims([7])) == (6, None)


def test_a_native_call_is_evaluated_again():
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        copy = kernels.copy((n, 2), 3, (2, 1), 3, (2, 1))
        assert copy.arity == 2
        by_dims = formula(trace, [n], trace.conditions, (copy, n * 2))
    kernel, size = by_dims([9])
    assert isinstance(kernel, _core.kernels.Kernel) and size == 18
    source, target = np.arange(18, dtype=np.float32).reshape(9, 2), np.zeros((9, 2), np.float32)
    kernel.run(source, target)
    np.testing.assert_array_equal(source, target)


def test_traces_do_not_mix():
    @cached(8)
    def twice(n: int) -> int:
        return 2 * n

    assert twice(6) == 12
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        assert isinstance(twice(n), Size) and trace.conditions == []
    assert type(twice(6)) is int
    with tracing() as other:
        m = other.dim(6, 1, 24)
        assert m == n and len(other.conditions) == 1


def test_conditions_apart_are_asked_again():
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        with trace.apart() as first:
            assert n > 3
        with trace.apart() as second:
            assert n > 3
        assert trace.conditions == [] and len(first) == len(second) == 1
        assert n > 3
        with trace.apart() as third:
            assert n > 3
        assert len(trace.conditions) == 1 and third == []


def test_what_sizes_allow_is_used_where_the_plan_may_exploit_it():
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        assert trace.allows(lambda: n > 0) and not trace.allows(lambda: n > 7)
        assert trace.exploited == []
        assert trace.allows(lambda: n > 3)
        assert len(trace.exploited) == 1 and trace.conditions == []
        trace.exploits = False
        assert trace.allows(lambda: n > 0) and not trace.allows(lambda: n > 4)
        assert len(trace.exploited) == 1 and trace.conditions == []


def test_open_ends_of_slices_are_beyond_quotients_of_unknown_bounds():
    """The difference would have more than 64 bits, which a formula refuses for the sizes of the trace itself."""
    with tracing() as trace:
        n, m = trace.dim(6, 1, 24), trace.dim(2, 1, 8)
        quotient = (n - 8) // m
        assert quotient < 2**63 and quotient <= 2**63 and quotient == -1
        call = formula(trace, [n, m], trace.conditions, quotient)
        assert call([6, 2]) == -1


def test_sizes_have_at_most_128_bits():
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        assert n * (1 << 100) < 1 << 126 and -n * (1 << 100) == -6 << 100
        refused: tuple[Callable[[], Any], ...] = (
            lambda: n * (1 << 126), lambda: n * n * (1 << 124), lambda: n < 1 << 128, lambda: n + -(1 << 200)
        )  # fmt: skip
        for compute in refused:
            with pytest.raises(OverflowError):
                compute()


def test_a_size_beside_what_is_no_integer():
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        assert n != "6" and n is not None and n != None and n != (6,)  # noqa: E711
        assert trace.conditions == []
        with pytest.raises(TypeError, match="unsupported operand"):
            n + "a"
        with pytest.raises(TypeError, match="not supported between"):
            _ = n < "a"
        for divide in (lambda: n // 0, lambda: n % 0, lambda: divmod(n, n - 6), lambda: 5 // (n - 6)):
            with pytest.raises(ZeroDivisionError):
                divide()
        with pytest.raises(TypeError, match="cannot create"):
            type(n)()
        assert (str(n), f"{n:03}", hash(n), +n is n, bool(n), n.bit_length()) == ("6", "006", hash(6), True, True, 3)


OPS = Formula.ops()
KEPT = [OPS["SUM"], 1, 7, 0, OPS["KEEP"]]


def test_a_program_computes_on_a_stack():
    code = [*KEPT, OPS["SUM"], 2, 3, 2, 0, 1, -1, 0, OPS["CONSTANT"], 1, OPS["QUOTIENT"], OPS["CONSTANT"], 0]
    program = Formula(1, [*code, OPS["TUPLE"], 2, OPS["VALUE"], 1, OPS["LIST"], 2], ((1, 2), 2))
    assert program([5]) == [((3 * 5 * 7 - 1) // 2, (1, 2)), 7]
    assert program([-5]) == [((-3 * 5 * 7 - 1) // 2, (1, 2)), 7]
    assert program([1 << 62]) is None
    with pytest.raises(dgo.InvalidArgumentError, match="takes 1 dims, got 2"):
        program([1, 2])


@pytest.mark.parametrize("end", [(1 << 63) - 1, 1 << 63, 3 << 62, -(1 << 63) - 1])
def test_coefficients_of_more_than_64_bits(end):
    """As the conditions of a slice without an end have."""
    with tracing() as trace:
        n, m = trace.dim(6, 1, 24), trace.dim(1 << 62, 1, 1 << 62)
        by_dims = formula(trace, [n, m], trace.conditions, (end - n - m * (1 if end > 0 else -2), end))
    for dims in ((6, 1 << 62), (24, 1 << 62)):
        result = end - dims[0] - dims[1] * (1 if end > 0 else -2)
        assert by_dims(dims) == ((result, end) if -(1 << 63) <= result < 1 << 63 else None)


def test_no_coefficient_makes_an_endless_program():
    with tracing() as trace:
        n = trace.dim(6, 1, 24)
        with pytest.raises(OverflowError, match="coefficient"):
            formula(trace, [n], trace.conditions, n * (1 << 100))


def test_no_program_computes_beyond_64_bits_or_by_0():
    square = Formula(1, [OPS["SUM"], 1, 1, 2, 0, 0], ())
    assert square([1 << 31]) == 1 << 62 and square([1 << 32]) is None
    quotient = Formula(2, [OPS["VALUE"], 0, OPS["VALUE"], 1, OPS["QUOTIENT"]], ())
    assert quotient([7, -2]) == -4 and quotient([7, 0]) is None and quotient([-(1 << 63), -1]) is None


@pytest.mark.parametrize(
    ("code", "constants", "says"),
    [
        ([], (), "returns 0 results"),
        ([OPS["VALUE"], 0] * 2, (), "returns 2 results"),
        ([OPS["VALUE"]], (), "ends within"),
        ([OPS["VALUE"], 1], (), "no value 1"),
        ([OPS["VALUE"], -1], (), "no value -1"),
        ([OPS["CONSTANT"], 0], (), "no constant 0"),
        ([OPS["KEEP"]], (), "takes more from its stack"),
        ([OPS["TUPLE"], 1], (), "no count 1"),
        ([OPS["SUM"], 1 << 40], (), "no count"),
        ([OPS["VALUE"], 0, OPS["ATTRIBUTE"], 0], (5,), "constant of another type"),
        ([OPS["CALL"], 0, 0, 1], (len, ("a",)), "names more arguments"),
        ([OPS["VALUE"], 0, OPS["CALL"], 0, 1, 1], (len, 3), "constant of another type"),
        ([OPS["VALUE"], 0, OPS["BELOW"], 2], (), "no answer 2"),
        ([99], (), "unknown instruction"),
    ],
)
def test_code_that_is_no_program_is_refused(code, constants, says):
    with pytest.raises(dgo.InvalidArgumentError, match=says):
        Formula(1, code, constants)


def test_drawn_code_is_refused_or_runs(seed):
    """No code reads beyond the stack, its values or its constants, whatever its numbers are."""
    rng, ran = Random(seed), 0
    for number in range(3000):
        code = []
        for _ in range(rng.randint(1, 6)):
            code += [rng.choice([*OPS.values()]), *(rng.randint(-1, 3) for _ in range(rng.randint(0, 3)))]
        try:
            program = Formula(2, code, ("real", (), (1, 2), max))
        except dgo.InvalidArgumentError:
            continue
        print(f"--seed={seed}, case {number}: {code}")
        with suppress(dgo.InvalidArgumentError, TypeError, AttributeError, IndexError):
            program([3, 4])
        ran += 1
    assert ran > 10

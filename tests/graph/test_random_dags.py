"""Random graphs against the NumPy evaluation of each op.

Every eighth case runs by default, every fourth with --all, all of them with --random=full. One case again:
pytest tests/graph/test_random_dags.py --seed=SEED --case=NUMBER. A failure prints the smallest graph that fails.
"""

import numpy as np
import pytest
from reference.data import strided, unwritten
from reference.graph import evaluate_built
from reference.rounding import wide
from shrinking import Part, script, shrunk

from .dags import MOST_OPS, draw

EXACT = 2e-4  # of the largest value: up to 40 roundings, some of them magnified
ROUNDED = 0.15  # where f32 may be computed in bf16


def chosen_outputs(dag):
    """Some of the last values, some from the middle, now and then an input as it is."""
    made = [v for v in dag.data if v.node is not None]
    last = made[-dag.integer(1, 3) :]
    middle = [made[dag.integer(0, len(made) - 1)] for _ in range(dag.integer(0, 3))]
    passed = [dag.graph.inputs[0]] if dag.rng.random() < 0.2 else []
    passed += dag.graph.constants[:1] if dag.rng.random() < 0.2 else []
    return {f"out{i}": v for i, v in enumerate([*last, *middle, *passed])}


def laid_out(rng, array):
    """The array, or its values in another order in memory."""
    if rng.random() < 0.6 or array.ndim < 1:
        return array
    if array.ndim == 1:
        return np.repeat(array, 2)[::2]
    return strided(array, [int(a) for a in rng.permutation(array.ndim)], int(rng.integers(0, 3)))


@pytest.mark.numbers(320, every=(8, 4, 1))
def test_random_dag(seed, number):
    print(f"pytest tests/graph/test_random_dags.py --seed={seed} --case={number}")
    fpmath = ("strict", "strict", "strict", "bf16", "any")[number % 5]
    dag = draw(seed, number, fpmath_mode=fpmath)
    rng, outputs = dag.rng, chosen_outputs(dag)
    assert len(dag.graph.nodes) <= MOST_OPS
    options = {"policy": ("fusion", "fusion", "debug")[number % 3], "tune": ("heuristic", "off")[number % 2]}
    largest = EXACT if fpmath == "strict" else ROUNDED
    net = dag.graph.compile(outputs, **options)
    inputs = {name: laid_out(rng, dag.data[v]) for name, v in zip(net.input_names, net.inputs, strict=True)}
    given = {
        name: laid_out(rng, unwritten(value.shape, value.dtype))
        for name, value in outputs.items()
        if rng.random() < 0.3 and value.dtype == "f32"
    }
    for _ in range(2):
        results = net.run(inputs, out=given)
        for name, value in outputs.items():
            assert name not in given or results[name] is given[name]
            if not close(results[name], dag.data[value], largest):
                part = Part(dag.graph, {v: dag.data[v] for v in dag.graph.inputs}, list(outputs.values()))
                pytest.fail(
                    f"{name} is wrong; so is\n{script(shrunk(part, lambda one: is_wrong(one, largest, options)))}"
                )


def close(result, exact, largest):
    limit = largest * max(np.abs(wide(exact)).max(initial=0), 1)
    return np.allclose(wide(result), wide(exact), rtol=0, atol=limit)


def is_wrong(part, largest, options):
    expected = evaluate_built(part.graph, part.arrays)
    net = part.graph.compile({f"out{i}": value for i, value in enumerate(part.outputs)}, **options)
    results = net.run({v.name: array for v, array in part.arrays.items() if v.name in net.input_names})
    pairs = zip(results.values(), part.outputs, strict=True)
    return not all(close(result, expected[value], largest) for result, value in pairs)


def test_partitions_come_in_a_fixed_order(seed):
    first, second = (draw(seed, 7).graph for _ in range(2))
    kinds = [[p.kinds for p in g.compile(g.nodes[-1].outputs[0], tune="off").partitions] for g in (first, second)]
    assert kinds[0] == kinds[1]

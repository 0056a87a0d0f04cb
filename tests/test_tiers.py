"""What the default tier keeps of a sweep."""

from itertools import combinations, product

import pytest
from tiers import covering

AXES = {"kind": range(5), "layout": range(2), "type": range(3), "size": range(4)}
CASES = {values: dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())}


@pytest.mark.parametrize(("strength", "most"), [(1, 5), (2, 24), (4, 120)])
def test_every_combination_is_covered(strength, most):
    selection = covering(CASES, strength)
    for axes in combinations(AXES, strength):
        combined = {tuple(CASES[case][axis] for axis in axes) for case in selection}
        assert combined == set(product(*(AXES[axis] for axis in axes)))
    assert len(selection) == len(set(selection)) <= most


def test_only_combinations_that_there_are():
    cases = {"a": {"x": 0, "y": 0}, "b": {"x": 0, "y": 1}, "c": {"x": 1, "y": 1}}
    assert covering(cases) == ["a", "b", "c"]
    assert covering(cases, 1) == ["a", "c"]

"""Does `compare` see what changed, and only that?"""

from __future__ import annotations

import pytest

from dnnl_graph_ops.bench import comparison
from dnnl_graph_ops.errors import InvalidArgumentError

from . import synthetic


def test_two_runs_of_the_same_are_the_same():
    result = comparison.compare_documents(synthetic.document(seed=1), synthetic.document(seed=2))
    assert result.exit_status == 0
    assert {row.verdict for row in result.rows} == {"same"}
    assert result.verdict == "same"
    assert "no change" in comparison.text(result)


@pytest.mark.parametrize("count", [1, 3, 12])
def test_an_injected_delay_of_a_fifth_is_found(count):
    old, new = synthetic.document(count, seed=1), synthetic.document(count, seed=2, slower=1.2)
    result = comparison.compare_documents(old, new)
    assert result.exit_status == 1
    assert result.verdict == "slower"
    assert len(result.slower) == count
    assert result.factor == pytest.approx(1.2, rel=0.02)
    assert comparison.compare_documents(new, old).exit_status == 0
    assert len(comparison.compare_documents(new, old).faster) == count


def test_one_slower_row_among_many_is_found():
    result = comparison.compare_documents(synthetic.document(seed=1), synthetic.document(seed=2, slower=1.25, only=7))
    assert [row.key for row in result.slower] == [synthetic.row(7).key]
    assert result.verdict == "same"
    assert result.exit_status == 1


def test_a_slower_day_of_the_machine_is_no_change_but_by_time_it_is():
    old, new = synthetic.document(seed=1), synthetic.document(seed=2, speed=1.6)
    assert comparison.compare_documents(old, new).exit_status == 0
    assert comparison.compare_documents(old, new, measure="time").exit_status == 1


def test_small_changes_do_not_count():
    result = comparison.compare_documents(synthetic.document(seed=1), synthetic.document(seed=2, slower=1.06))
    assert result.exit_status == 0
    strict = comparison.compare_documents(
        synthetic.document(seed=1), synthetic.document(seed=2, slower=1.06), threshold=0.03
    )
    assert strict.exit_status == 1


def test_contended_rows_are_unclear():
    new = synthetic.document(3, seed=2, slower=1.3, only=1)
    new.rows[1].flags.append("contended")
    result = comparison.compare_documents(synthetic.document(3, seed=1), new)
    assert [row.verdict for row in result.rows] == ["same", "unclear", "same"]
    assert result.exit_status == 0


def test_few_rows_whose_own_tests_do_not_agree_are_undecided():
    new = synthetic.document(3, seed=2, slower=1.3)
    for row in new.rows:
        row.flags.append("contended")
    result = comparison.compare_documents(synthetic.document(3, seed=1), new)
    assert {row.verdict for row in result.rows} == {"unclear"}
    assert result.verdict == "undecided" and result.exit_status == 4
    assert "\nundecided: geometric mean 1.3" in comparison.text(result)


def test_rows_of_one_side_are_listed_and_none_in_common_is_an_error():
    old, new = synthetic.document(4), synthetic.document(6)
    assert len(comparison.compare_documents(old, new).only_new) == 2
    new.rows = new.rows[4:]
    with pytest.raises(InvalidArgumentError, match="no measured row in common"):
        comparison.compare_documents(old, new)


def test_without_common_peers_times_are_compared():
    old, new = synthetic.document(3), synthetic.document(3)
    for row in new.rows:
        row.ratios = []
    assert comparison.compare_documents(old, new).measure == "time"
    with pytest.raises(InvalidArgumentError, match="use measure 'time'"):
        comparison.compare_documents(old, new, measure="ratio")

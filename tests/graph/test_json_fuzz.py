"""At least 2,000 broken graph files: no crash, no hang, only the package's errors.

One file again: python -m graph.mutations SEED NUMBER NUMBER+1, in the folder tests.
"""

import pytest
from children import check_faulty_cases

EACH = 500


@pytest.mark.cases(2000, 8000, EACH)
def test_broken_files(seed, start):
    check_faulty_cases("graph.mutations", seed, start, start + EACH)

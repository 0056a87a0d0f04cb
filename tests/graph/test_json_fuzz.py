"""At least 2,000 broken graph files: no crash, no hang, only the package's errors.

One file again: python -m graph.mutations SEED NUMBER NUMBER+1, in the folder tests.
"""

import pytest
from children import check_faulty_cases

EACH = 500


@pytest.mark.child
@pytest.mark.cases(500, 2000, 8000, each=EACH)
def test_broken_files(seed, start):
    check_faulty_cases("graph.mutations", seed, start, start + EACH)

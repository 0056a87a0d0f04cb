"""At least 2,000 malformed calls over the family: no crash, no hang, only the family's errors and TypeError.

One call again: python -m functional.fuzz_child SEED NUMBER NUMBER+1, in the folder tests.
"""

import pytest
from children import check_faulty_cases

EACH = 500


@pytest.mark.child
@pytest.mark.cases(500, 2000, 10_000, each=EACH)
def test_malformed_calls(seed, start):
    check_faulty_cases("functional.fuzz_child", seed, start, start + EACH)

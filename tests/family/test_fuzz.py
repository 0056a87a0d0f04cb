"""At least 2,000 malformed calls over the family: no crash, no hang, only the family's errors and TypeError.

One call again: python -m family.fuzz_child SEED NUMBER NUMBER+1, in the folder tests.
"""

from children import check_faulty_cases, starts

CALLS, CALLS_ALL, PER_PROCESS = 2000, 10000, 500


def pytest_generate_tests(metafunc):
    if "start" in metafunc.fixturenames:
        metafunc.parametrize("start", starts(metafunc.config, CALLS, CALLS_ALL, PER_PROCESS))


def test_malformed_calls(seed, start):
    check_faulty_cases("family.fuzz_child", seed, start, start + PER_PROCESS)

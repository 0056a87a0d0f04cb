"""At least 2,000 broken graph files: no crash, no hang, only the package's errors.

One file again: python -m graph.mutations SEED NUMBER NUMBER+1, in the folder tests.
"""

from children import check_faulty_cases, starts

FILES, FILES_ALL, PER_PROCESS = 2000, 8000, 500


def pytest_generate_tests(metafunc):
    if "start" in metafunc.fixturenames:
        metafunc.parametrize("start", starts(metafunc.config, FILES, FILES_ALL, PER_PROCESS))


def test_broken_files(seed, start):
    check_faulty_cases("graph.mutations", seed, start, start + PER_PROCESS)

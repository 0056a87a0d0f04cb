"""At least a thousand broken ONNX models: no crash, no hang, little memory, only the package's errors.

One model again: python -m interop.onnx_mutations SEED NUMBER NUMBER+1, in the folder tests.
"""

import pytest
from children import check_faulty_cases, starts

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

MODELS, MODELS_ALL, PER_PROCESS = 1000, 20_000, 500


def pytest_generate_tests(metafunc):
    if "start" in metafunc.fixturenames:
        metafunc.parametrize("start", starts(metafunc.config, MODELS, MODELS_ALL, PER_PROCESS))


def test_broken_models(seed, start):
    check_faulty_cases("interop.onnx_mutations", seed, start, start + PER_PROCESS)

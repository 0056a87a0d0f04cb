"""At least a thousand broken ONNX models: no crash, no hang, little memory, only the package's errors.

One model again: python -m frontends.onnx_mutations SEED NUMBER NUMBER+1, in the folder tests.
"""

import pytest
from children import check_faulty_cases

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

EACH = 500


@pytest.mark.child
@pytest.mark.cases(500, 1000, 20_000, each=EACH)
def test_broken_models(seed, start):
    check_faulty_cases("frontends.onnx_mutations", seed, start, start + EACH)

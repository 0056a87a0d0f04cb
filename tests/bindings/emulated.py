"""The sets of bf16 and int8 products that stand for those of other CPUs, which not every build has."""

import pytest

from dnnl_graph_ops import errors
from dnnl_graph_ops._core import kernels

from .kernel_cases import code

LACKING = "needs the emulated sets, which this build lacks: build with -C cmake.define.DGO_TEST_SETS=ON"


def built() -> bool:
    """Whether this build has the emulated sets."""
    try:
        kernels.int8_layout(16, code("u8"), "emulatedint8")
    except errors.RuntimeUnavailableError:
        return False
    return True


needs_emulated_sets = pytest.mark.skipif(not built(), reason=LACKING)


def emulated(*values: object) -> object:
    """A parameter of a test that needs the emulated sets, whose plain code takes its time."""
    return pytest.param(*values, marks=[needs_emulated_sets, pytest.mark.slow])

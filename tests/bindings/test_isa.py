"""Which instruction set the own kernels use, and how to force one."""

import pytest
from children import child
from family.test_isa import cpu_flags

NEEDED = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
PROGRAM = """
from dnnl_graph_ops import _core, errors
try:
    print(_core.kernels.isa())
except errors.Error as error:
    print(type(error).__name__, error)
"""


def isa(forced: str = "", limit: str = "", older_limit: str = "") -> str:
    """The instruction set of a process of its own, or its error."""
    variables = {"DNNL_GRAPH_OPS_ISA": forced, "ONEDNN_MAX_CPU_ISA": limit, "DNNL_MAX_CPU_ISA": older_limit}
    done = child("-c", PROGRAM, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_widest_is_the_default():
    # other CPUs run it where the build emulates it
    wide = cpu_flags() >= NEEDED or isa("avx512") == "avx512"
    assert isa() == ("avx512" if wide else "avx2")


@pytest.mark.parametrize("limit", ["AVX2", "avx2_vnni"])
def test_the_librarys_limit_holds_here_too(limit):
    assert isa(limit=limit) == "avx2"
    assert isa(older_limit=limit) == "avx2"
    assert isa(limit="DEFAULT", older_limit=limit) == isa()


def test_the_narrow_one_can_be_forced():
    assert isa("avx2") == "avx2"


def test_the_wide_one_can_be_forced_where_it_runs():
    forced = isa("avx512", limit="AVX2")
    if isa() == "avx512":
        assert forced == "avx512"
    else:
        assert forced.startswith("RuntimeUnavailableError DNNL_GRAPH_OPS_ISA is 'avx512', but this CPU")


def test_an_unknown_name_is_refused():
    assert isa("sse2").startswith("InvalidArgumentError DNNL_GRAPH_OPS_ISA is 'sse2', which is no instruction set")

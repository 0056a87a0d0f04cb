"""Prints the environments, one a line, in which kernels of other instruction sets run than without them.

Sets that this CPU lacks are among them where the build emulates them.
"""

import os
import subprocess
import sys

ENVIRONMENTS = (
    "ONEDNN_MAX_CPU_ISA=AVX2",
    "ONEDNN_MAX_CPU_ISA=AVX512_CORE",
    "DNNL_GRAPH_OPS_ISA=avx512",
    "DNNL_GRAPH_OPS_NARROW=none",
    "DNNL_GRAPH_OPS_NARROW=emulated",
)
PROGRAM = """
import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.runtime import cpu
print(cpu.isa(dgo.engine("cpu")), kernels.isa(), kernels.bf16_isa()[0], kernels.int8_isa()[0])
"""


def sets(*assignments: str) -> str:
    """The instruction sets of the library and of builtin kernels; empty where one is not at hand."""
    environment = os.environ | dict(one.split("=") for one in assignments)
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True).stdout


if __name__ == "__main__":
    here = {sets(), ""}
    for assignment in ENVIRONMENTS:
        if (there := sets(assignment)) not in here:
            here.add(there)
            print(assignment)

"""The graph of cpu_getting_started.py on a GPU's engine and stream as the library makes them.

The C++ file runs on builds of oneDNN with the OpenCL GPU runtime. No package installs one: the build of the extra
`sycl` takes SYCL objects for graphs. Its engine runs the same graph here.
"""

from __future__ import annotations

import sys

from cpu_getting_started import case
from graph_example_utils import run
from sycl_getting_started import open_device

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import graph, ocl_interop, stream


def main() -> int:
    e, runtime = open_device()
    try:
        ocl_interop.make_allocator(runtime=runtime)
    except dgo.UnsupportedError as error:
        print(f"no OpenCL objects: {error}")
    return 0 if run(case(), graph(e.get_kind(), runtime=runtime), e, stream(e)) else 1


if __name__ == "__main__":
    sys.exit(main())

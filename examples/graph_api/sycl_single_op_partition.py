"""The product of cpu_single_op_partition.py on a SYCL device, with the objects of sycl_getting_started.py."""

from __future__ import annotations

import sys

from cpu_single_op_partition import matmul, run
from sycl_getting_started import objects_of_the_user, open_device

from dnnl_graph_ops.graph_api import partition, stream


def main() -> int:
    device, runtime = open_device()
    sizes: list[int] = []
    e, astream = objects_of_the_user(device, sizes) if runtime else (device, stream(device))
    right = run(partition(matmul(), e.get_kind(), runtime=runtime), e, astream)
    print(f"  the library took memory of the user {len(sizes)} times")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

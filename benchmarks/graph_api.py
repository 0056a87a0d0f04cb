"""What `compiled_partition.execute` costs from Python beyond a loop in C over the same library: microseconds a call.

    python benchmarks/graph_api.py [ROUNDS]

Needs a C compiler (`cc`). Both loops run an op on 16 floats, in turns of 2,000 calls; one thread, as waking others for
so little would hide the difference.
"""

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from turns import in_turns

import dnnl_graph_ops as dgo
from dnnl_graph_ops import graph_api

CALLS = 2000
# the C API as the loop calls it, by handles that Python hands over
SOURCE = """
#include <stddef.h>
typedef int (*execute_t)(const void*, void*, size_t, const void**, size_t, const void**);
void loop(execute_t execute, const void* compiled, void* stream, size_t inputs, const void** in, size_t outputs,
          const void** out, int calls) {
    for (int i = 0; i < calls; ++i) execute(compiled, stream, inputs, in, outputs, out);
}
"""


class Twin:
    """The same op by ctypes alone: an engine, a stream and tensors of its own."""

    def __init__(self, library: str, loop: ctypes.CDLL, kind: int, inputs: int) -> None:
        self.c = ctypes.CDLL(library)
        self.loop = loop.loop
        self.loop.restype = None
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check("engine_create", ctypes.byref(self.engine), 1, ctypes.c_size_t(0))
        self.check("stream_create", ctypes.byref(self.stream), self.engine, 1)
        dims = (ctypes.c_int64 * 12)(16)
        # of a size that every version's struct fits into
        self.tensors = [ctypes.create_string_buffer(512) for _ in range(inputs + 1)]
        for i, tensor in enumerate(self.tensors):
            self.check("graph_logical_tensor_init_with_dims", tensor, ctypes.c_size_t(i), 3, 1, dims, 2, 1)
        op, partition, self.compiled = (ctypes.c_void_p() for _ in range(3))
        self.check("graph_op_create", ctypes.byref(op), ctypes.c_size_t(0), kind, b"op")
        for tensor in self.tensors[:-1]:
            self.check("graph_op_add_input", op, tensor)
        self.check("graph_op_add_output", op, self.tensors[-1])
        self.check("graph_partition_create_with_op", ctypes.byref(partition), op, 1)
        self.check("graph_compiled_partition_create", ctypes.byref(self.compiled), partition)
        pointers = (ctypes.c_void_p * (inputs + 1))(*(ctypes.addressof(tensor) for tensor in self.tensors))
        result = ctypes.cast(ctypes.addressof(pointers) + 8 * inputs, ctypes.POINTER(ctypes.c_void_p))
        sizes = ctypes.c_size_t(inputs), ctypes.c_size_t(1)
        self.check(
            "graph_partition_compile", partition, self.compiled, sizes[0], pointers, sizes[1], result, self.engine
        )
        self.arrays = [np.ones(16, np.float32) for _ in self.tensors]
        self.bound = (ctypes.c_void_p * (inputs + 1))()
        for i, (tensor, array) in enumerate(zip(self.tensors, self.arrays, strict=True)):
            where = ctypes.cast(ctypes.addressof(self.bound) + 8 * i, ctypes.POINTER(ctypes.c_void_p))
            self.check("graph_tensor_create", where, tensor, self.engine, ctypes.c_void_p(array.ctypes.data))
        self.inputs = inputs

    def check(self, name: str, *arguments: object) -> None:
        status = getattr(self.c, f"dnnl_{name}")(*arguments)
        if status:
            raise RuntimeError(f"dnnl_{name}: status {status}")

    def run(self) -> None:
        """CALLS calls."""
        result = ctypes.c_void_p(ctypes.addressof(self.bound) + 8 * self.inputs)
        execute = self.c.dnnl_graph_compiled_partition_execute
        sizes = ctypes.c_size_t(self.inputs), ctypes.c_size_t(1)
        self.loop(execute, self.compiled, self.stream, sizes[0], self.bound, sizes[1], result, CALLS)


def ours(kind: int, inputs: int):
    """The op by graph_api: a function of CALLS calls."""
    f32, strided = graph_api.logical_tensor.f32, graph_api.logical_tensor.strided
    tensors = [graph_api.logical_tensor(i, f32, [16], strided) for i in range(inputs + 1)]
    op = graph_api.op(0, kind, tensors[:-1], tensors[-1:])
    e = graph_api.engine(graph_api.engine.cpu)
    s = graph_api.stream(e)
    compiled = graph_api.partition(op, graph_api.engine.cpu).compile(tensors[:-1], tensors[-1:], e)
    bound = [graph_api.tensor(lt, e, np.ones(16, np.float32)) for lt in tensors]
    ins, outs = bound[:-1], bound[-1:]

    def run() -> None:
        execute = compiled.execute
        for _ in range(CALLS):
            execute(s, ins, outs)

    return run


def main(rounds: int = 100) -> None:
    library = dgo.engine().runtime.path
    print("| op | tensors | loop in C, us | from Python, us | beyond, us |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(SOURCE, "utf-8")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
        loop = ctypes.CDLL(str(built))
        for name, inputs in (("ReLU", 1), ("Add", 2)):
            kind = graph_api.op.kind[name]
            runs = {"c": Twin(library, loop, kind, inputs).run, "python": ours(kind, inputs)}
            times = in_turns(runs, dict.fromkeys(runs, 1), range(rounds), time.perf_counter)
            here, there = (1e6 * statistics.median(side) / CALLS for side in times.values())
            beyond = 1e6 * statistics.median(b - a for a, b in zip(*times.values(), strict=True)) / CALLS
            print(f"| {name} | {inputs + 1} | {here:.2f} | {there:.2f} | {beyond:.2f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

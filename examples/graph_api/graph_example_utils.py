"""Functions that the examples share: a graph's partitions are compiled, run, held against NumPy and timed."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops.graph_api import (
    allocator,
    compiled_partition,
    engine,
    graph,
    logical_tensor,
    make_engine_with_allocator,
    op,
    partition,
    stream,
    sycl_interop,
    tensor,
)

Array = np.ndarray[Any, Any]
Step = tuple[compiled_partition, list[tensor], list[tensor]]
# computes a partition that the library does not: adds the tensors that the partition writes
ByHand = Callable[[partition, dict[int, tensor]], None]

TYPES = {
    logical_tensor.f32: np.dtype(np.float32),
    logical_tensor.bf16: np.dtype(ml_dtypes.bfloat16),
    logical_tensor.f16: np.dtype(np.float16),
}
# shares of the largest value: some steps of each type, as intermediate results round
TOLERANCES = {logical_tensor.f32: 2.0**-17, logical_tensor.bf16: 2.0**-6, logical_tensor.f16: 2.0**-8}
RUNS = 5
_NONE: Mapping[Any, ByHand] = MappingProxyType({})


class Case(NamedTuple):
    """A graph, and what it is held against."""

    ops: Sequence[op]
    inputs: Mapping[logical_tensor, Array]  # with their sizes, which `ops` need not have
    output: int  # the id of the tensor
    expected: Array
    tolerance: float = 0  # a share of the largest value
    partitions: int = 0  # how many there must be; 0: any number


def options(text: str | None, **sizes: int) -> argparse.Namespace:
    """The command line: sizes by their order, each with a default, and the library."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, size in sizes.items():
        parser.add_argument(name, type=int, nargs="?", default=size, help="a size")
    parser.add_argument("--runtime", help="the library: omp (bundled), sycl, or the path of a libdnnl.so.3")
    return parser.parse_args()


def open_engine(runtime: dgo.Runtime | str | None) -> engine:
    """A CPU engine that takes memory by an allocator, where functions of the user could stand."""
    library = dgo.engine("cpu", runtime=runtime).runtime
    print(f"oneDNN {library.version} ({library.name})")
    make = sycl_interop.make_allocator if library.cpu_runtime == "sycl" else allocator
    return make_engine_with_allocator(engine.kind.cpu, 0, make(runtime=library))


def partitions_of(g: graph, ops: Sequence[op], policy: Any = partition.policy.fusion) -> list[partition]:
    """Add ops to a graph, finalize it, and print the partitions that the library cuts it into."""
    for o in ops:
        g.add_op(o)
    g.finalize()
    partitions = g.get_partitions(policy)
    names = {o.get_id(): o.get_name() for o in ops}
    print(f"  {len(ops)} ops, {len(partitions)} partition{'s' if len(partitions) > 1 else ''}:")
    for p in partitions:
        print(f"    {' + '.join(names[i] for i in p.get_ops())}{'' if p.is_supported() else ' (not supported)'}")
    return partitions


def layouts_of_choice(partitions: Sequence[partition]) -> set[int]:
    """The ids of tensors whose layout the library may choose: supported partitions write and read them."""
    readers = defaultdict(list)
    for p in partitions:
        for port in p.get_input_ports():
            readers[port.get_id()].append(p.is_supported())
    written = {port.get_id() for p in partitions if p.is_supported() for port in p.get_output_ports()}
    return {number for number in written if number in readers and all(readers[number])}


def in_place(compiled: compiled_partition, partitions: Sequence[partition], written: set[int]) -> dict[int, int]:
    """By the ids of outputs: inputs that a partition wrote and no other one reads, whose memory the output may take."""
    reads = [port.get_id() for p in partitions for port in p.get_input_ports()]
    return {b: a for a, b in compiled.get_inplace_ports() if a in written and reads.count(a) == 1}


def prepare(
    partitions: Sequence[partition], tensors: dict[int, tensor], e: engine, by_hand: Mapping[int, ByHand] = _NONE
) -> list[Step]:
    """Compile partitions in their order and bind their tensors.

    Args:
        partitions: of one graph.
        tensors: by id; those that the graph reads are there, those that partitions write are added.
        e: where they run.
        by_hand: by the id of an op: computes it where the library does not.
    """
    free, written, steps = layouts_of_choice(partitions), set[int](), []
    for p in partitions:
        function = None if p.is_supported() else by_hand.get(p.get_ops()[0])
        if function:
            function(p, tensors)
            continue
        inputs = [tensors[port.get_id()] for port in p.get_input_ports()]
        results = []
        for port in p.get_output_ports():
            layout = logical_tensor.any if port.get_id() in free else logical_tensor.strided
            results.append(logical_tensor(port.get_id(), port.get_data_type(), layout))
        compiled = p.compile([t.get_logical_tensor() for t in inputs], results, e)
        sources = in_place(compiled, partitions, written)
        outputs = []
        for lt in (compiled.query_logical_tensor(result.get_id()) for result in results):
            source = sources.get(lt.get_id())
            memory = () if source is None else (tensors[source].get_data_handle(),)
            outputs.append(tensor(lt, e, *memory))
            opaque = lt.get_layout_type() == logical_tensor.opaque
            place = "" if source is None else f", in the memory of tensor {source}"
            print(
                f"    tensor {lt.get_id()}: {lt.get_data_type().name} {lt.get_dims()}, "
                f"{'opaque' if opaque else f'strides {lt.get_strides()}'}{place}"
            )
        steps.append((compiled, inputs, outputs))
        tensors.update((t.get_logical_tensor().get_id(), t) for t in outputs)
        written.update(t.get_logical_tensor().get_id() for t in outputs)
    return steps


def execute(steps: Sequence[Step], astream: stream) -> None:
    for compiled, inputs, outputs in steps:
        compiled.execute(astream, inputs, outputs)
    astream.wait()


def milliseconds(steps: Sequence[Step], astream: stream) -> float:
    """The median of some runs."""
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        execute(steps, astream)
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) * 1e3


def judged(steps: Sequence[Step], astream: stream, output: tensor, expected: Array, tolerance: float = 0) -> bool:
    """Run steps, and print how far their output is from an array, as a share of its largest value, and the time."""
    execute(steps, astream)
    result = output.to_numpy().astype(np.float64)
    worst = float(np.abs(result - expected).max() / np.abs(expected).max())
    right = result.shape == expected.shape and worst <= tolerance
    print(f"  {'right' if right else 'WRONG'}: {worst:.1e} beside NumPy, {tolerance:.1e} allowed")
    print(f"  {milliseconds(steps, astream):.2f} ms, the median of {RUNS} runs")
    return right


def run(
    case: Case,
    g: graph,
    e: engine,
    astream: stream,
    by_hand: Mapping[Any, ByHand] = _NONE,
    policy: Any = partition.policy.fusion,
) -> bool:
    """Whether the graph of a case has its partitions and writes its numbers; `by_hand` by the kinds of ops."""
    partitions = partitions_of(g, case.ops, policy)
    tensors = {lt.get_id(): tensor(lt, e).from_numpy(array) for lt, array in case.inputs.items()}
    functions = {o.get_id(): by_hand[o.get_kind()] for o in case.ops if o.get_kind() in by_hand}
    steps = prepare(partitions, tensors, e, functions)
    right = judged(steps, astream, tensors[case.output], case.expected, case.tolerance)
    return right and case.partitions in (0, len(partitions))


def each_type(
    make: Callable[[Any], Case],
    runtime: dgo.Runtime | str | None,
    by_hand: Mapping[Any, ByHand] = _NONE,
    policy: Any = partition.policy.fusion,
    mode: tuple[Any, bool] | None = None,
) -> int:
    """Run a case in f32, bf16 and f16, as far as the library computes them here; the status of the process."""
    e = open_engine(runtime)
    astream, verdicts = stream(e), []
    for dt in TYPES:
        print(f"[{dt.name}]")
        g = graph(engine.kind.cpu, runtime=runtime)
        if mode:
            g.set_fpmath_mode(*mode)
        try:
            verdicts.append(run(make(dt), g, e, astream, by_hand, policy))
        except dgo.UnsupportedError as error:
            print(f"  not computed here: {error}")
    return 0 if verdicts and all(verdicts) else 1

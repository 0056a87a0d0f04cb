"""Sessions of calls of graph_api, right ones and wrong ones in one, for a fuzzer: the process must live.

A session knows the objects that its calls gave, and hands them to later ones in any order and of any state.
"""

import copy
import pickle
from collections import Counter
from random import Random
from threading import Thread
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, graph_api, schema
from dnnl_graph_ops.graph_api import (
    allocator,
    engine,
    fpmath_mode,
    graph,
    logical_tensor,
    make_engine_with_allocator,
    op,
    partition,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache,
    status,
    stream,
    tensor,
)

from .random_graphs import random_graph

LT = logical_tensor
EDGES = (-(2**63), -(2**31), -7, -2, -1, 0, 13, 127, 2**15, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64)
SIZES = (1, 2, 3, 4, 4, 4, 5, 8)
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-5, 1e38, float("inf"), float("nan"), 1e300)
TEXTS = ("", "none", "SAME_UPPER", "VALID", "NCX", "NXC", "XIO", "OIX", "a\0b", "\udc80", "x" * 5000)
ALLOWED = (dgo.Error, TypeError, MemoryError)


class Session:
    """`run` makes some calls; `calls` and `refused` count them."""

    def __init__(self, seed: int, runtime: str = "omp") -> None:
        self.random = Random(seed)
        self.runtime = runtime
        self.calls: Counter[str] = Counter()
        self.refused = 0
        self.engine = engine(engine.cpu, 0, runtime=runtime)
        self.pool: dict[type, list[Any]] = {engine: [self.engine], stream: [stream(self.engine)]}

    # -- what calls are given --

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def known(self, kind: type) -> Any:
        """An object of a class that the session has, or of another one."""
        items = self.pool.get(kind)
        return self.random.choice(items) if items and not self.chance(0.03) else self.anything()

    def anything(self) -> Any:
        pick = self.random.choice
        objects = [item for items in self.pool.values() for item in items]
        plain = (None, True, 1.5, "x", b"x", [], {}, (), object, engine, LT.f32, op.Add, status.success, LT.strided)
        return pick((pick(EDGES), pick(plain), pick(objects), [pick(objects)] * 2))

    def number(self) -> Any:
        return self.random.choice(SIZES) if self.chance(0.93) else self.random.choice(EDGES)

    def sizes(self, rank: int | None = None) -> list[Any]:
        rank = self.random.choice((0, 1, 2, 3, 3, 4, 4, 5, 13)) if rank is None else rank
        return [self.number() for _ in range(rank)]

    def lt(self, tid: Any = None, shape: Any = None, dtype: Any = None) -> Any:
        tid = self.random.randrange(6) if tid is None else tid
        dtype = self.random.choice(list(LT.data_type)) if dtype is None or self.chance(0.02) else dtype
        shape = self.sizes() if shape is None or self.chance(0.05) else list(shape)
        form = self.random.random()
        layout: Any = LT.strided
        if form < 0.08:
            layout = LT.any
        elif form < 0.2:
            layout = self.strides(shape)
        elif form < 0.22:
            layout = self.random.choice((5, LT.undef if hasattr(LT, "undef") else LT.lt_undef, LT.opaque, None))
        if self.chance(0.03):
            shape = self.random.choice((len(shape), -1, self.anything()))
        use = self.random.choice(list(LT.property_type)[:3]) if self.chance(0.5) else LT.variable
        return self.call(logical_tensor, tid, dtype, shape, layout, use)

    def strides(self, shape: Any) -> list[Any]:
        strides, step = [0] * len(shape), 1
        order = list(range(len(shape)))
        self.random.shuffle(order)
        for axis in order:
            strides[axis] = step
            step *= max(shape[axis], 1) + self.random.choice((0, 0, 1))
        if strides and self.chance(0.2):
            strides[self.random.randrange(len(strides))] = self.random.choice((0, 1, *EDGES))
        return strides

    # -- calls --

    def call(self, function: Any, *arguments: Any, **keywords: Any) -> Any:
        """The result, which later calls may be given; None if it was refused."""
        self.calls[getattr(function, "__qualname__", repr(function))] += 1
        try:
            result = function(*arguments, **keywords)
        except ALLOWED:
            self.refused += 1
            return None
        for item in result if isinstance(result, list) else [result]:
            if type(item).__module__.startswith(graph_api.__name__) and not isinstance(item, int):
                items = self.pool.setdefault(type(item), [])
                items.append(item)
                del items[:-8]
        return result

    def run(self, steps: int = 4) -> None:
        actions = (self.of_a_file, self.of_one_op, self.of_one_op, self.of_one_op, self.of_a_seed_op, self.in_any_order)
        for _ in range(steps):
            self.random.choice(actions)()

    def of_a_file(self) -> None:
        """A random graph with some changes, from its file to results."""
        document = random_graph(self.random.randrange(1 << 30), 0)
        document["graph"] = document["graph"][:4]
        if document["graph"] and self.chance(0.6):
            self.spoil(document)
        g = self.call(graph.from_json, document, self.runtime)
        if g is None:
            return
        if self.chance(0.1):
            self.call(g.to_json)
        self.call(g.finalize)
        for part in self.call(g.get_partitions, self.random.choice((partition.fusion, partition.debug))) or ():
            self.compiled(part)

    def spoil(self, document: dict[str, Any]) -> None:
        o = self.random.choice(document["graph"])
        t = self.random.choice(o["inputs"] + o["outputs"])
        change = self.random.randrange(6)
        if change == 0:
            t["shape"] = t["stride"] = self.sizes()
        elif change == 1:
            t["dtype"] = self.random.choice(("f32", "bf16", "s8", "u8", "f16", "s32", "undef", "f64"))
        elif change == 2 and o["attrs"]:
            entry = self.random.choice(list(o["attrs"].values()))
            entry["value"] = [self.number()] * self.random.randrange(4) if "[]" in entry["type"] else self.number()
        elif change == 3:
            o["attrs"].pop(next(iter(o["attrs"]), ""), None)
        elif change == 4:
            t["id"] = self.random.choice(document["graph"])["outputs"][0]["id"]
        else:
            o["kind"] = self.random.choice(list(op.kind.__members__))

    def of_one_op(self) -> None:
        """An op of any kind with attributes of the right types, its inputs of shapes that often fit."""
        kind = self.random.choice(list(op.kind.__members__))
        spec = schema.OPS[op.kind[kind].name]
        o = self.call(op, self.random.randrange(4), op.kind[kind], "fuzzed")
        if o is None:
            return
        rank = self.random.choice((1, 2, 3, 4, 4, 5))
        shape = self.sizes(rank)
        for i, slot in enumerate(spec.inputs[: self.random.choice((1, 2, 2, 3, 5))]):
            self.add(o.add_input, self.lt(i, self.beside(shape), self.dtype(slot)))
        for i, slot in enumerate(spec.outputs[: self.random.choice((1, 1, 1, 3))]):
            self.add(o.add_output, self.lt(10 + i, shape if self.chance(0.5) else None, self.dtype(slot)))
        for name, attr in spec.attrs.items():
            if attr.required or self.chance(0.4):
                self.call(o.set_attr, op.attr[name], self.value(attr, rank))
        self.alone(o)

    def beside(self, shape: list[Any]) -> list[Any]:
        """The shape, or one that broadcasts, or another one."""
        pick = self.random.random()
        if pick < 0.6:
            return shape
        if pick < 0.8:
            return [n if self.chance(0.5) else 1 for n in shape]
        return self.sizes(self.random.choice((1, len(shape))))

    def dtype(self, slot: Any) -> Any:
        names = [name for name in slot.dtypes if name in dtypes.CODES] or ["f32"]
        return LT.f32 if "f32" in names and self.chance(0.7) else LT.data_type[self.random.choice(names)]

    def add(self, method: Any, t: Any) -> None:
        if t is not None:
            self.call(method, t)

    def value(self, attr: Any, rank: int) -> Any:
        if self.chance(0.03):
            return self.anything()
        if attr.type == "string":
            return self.random.choice(tuple(attr.allowed or ("",)) if self.chance(0.9) else TEXTS)
        if attr.type == "bool":
            return self.chance(0.5)
        if attr.type == "f32":
            return self.random.choice(FLOATS)
        if attr.type == "s64":
            return (
                self.random.choice((0, 1, -1, 2, *EDGES)) if self.chance(0.3) else self.random.randrange(-1, rank + 1)
            )
        length = self.random.choice((max(rank - 2, 1), rank, 1, 2, self.random.randrange(14)))
        if attr.type == "f32[]":
            return [self.random.choice(FLOATS[1:6]) for _ in range(length)]
        return [self.random.choice((0, 1, 1, 1, 2, 3)) if self.chance(0.9) else self.number() for _ in range(length)]

    def of_a_seed_op(self) -> None:
        """The three convolutions with values that mostly fit."""
        kind = self.random.choice([k for k in op.kind.__members__ if k.startswith("Conv")])
        rank, channels, groups = (
            self.random.choice((1, 2, 2, 3)),
            self.random.choice((2, 4)),
            self.random.choice((1, 2)),
        )
        kernel = [self.random.choice((1, 2, 3)) for _ in range(rank)]
        spatial = [self.random.choice((2, 4, 5)) for _ in range(rank)]
        o = self.call(op, 0, op.kind[kind], "fuzzed")
        data, weights = [2, *spatial, channels], [*kernel, channels // groups, channels]
        second = weights if "Weights" not in kind and "Filters" not in kind else [2, *spatial, channels]
        dtype = self.random.choice((LT.f32, LT.f32, LT.bf16, LT.f16))
        for i, shape in enumerate((data, second)):
            self.add(o.add_input, self.lt(i, shape, dtype))
        self.add(o.add_output, self.lt(9, self.random.choice((data, weights)), dtype))
        for name, choices in (("strides", (1, 1, 2, 3)), ("pads_begin", (0, 0, 1, 4)), ("pads_end", (0, 0, 1)),
                              ("dilations", (1, 1, 1, 2)), ("output_padding", (0, 1)), ("weights_shape", (1, 2, 3)),
                              ("dst_shape", (2, 4))):  # fmt: skip
            if name in schema.OPS[op.kind[kind].name].attrs:
                self.call(o.set_attr, op.attr[name], [self.random.choice(choices) for _ in range(rank)])
        self.call(o.set_attr, op.groups, groups)
        if self.chance(0.3):
            self.call(o.set_attr, op.auto_pad, self.random.choice(TEXTS))
        self.alone(o)

    def alone(self, o: Any) -> None:
        """An op as a partition, or in a graph with what else there is."""
        if self.chance(0.5):
            part = self.call(partition, o, engine.cpu, runtime=self.runtime)
            if part is not None:
                self.compiled(part)
            return
        g = self.call(graph, engine.cpu, self.random.choice(list(fpmath_mode)), runtime=self.runtime)
        self.call(g.add_op, o, self.chance(0.5))
        if self.chance(0.3):
            self.call(g.add_op, self.known(op), self.chance(0.5))
        self.call(g.finalize)
        for part in self.call(g.get_partitions, self.random.choice((1, 2))) or ():
            self.compiled(part)

    def compiled(self, part: Any) -> None:
        """Compiled for its ports with sizes filled in, or for other things."""
        inputs, outputs = self.call(part.get_input_ports), self.call(part.get_output_ports)
        if self.chance(0.05):
            self.call(part.is_supported)
        sides = [[self.port(t, written) for t in side] for written, side in enumerate((inputs, outputs))]
        sides = [[t for t in side if t is not None] for side in sides]
        for side in sides:
            if self.chance(0.05):
                self.random.shuffle(side)
            if self.chance(0.03):
                side.append(self.known(logical_tensor))
            if side and self.chance(0.03):
                side.pop()
        cp = self.call(part.compile, *sides, self.engine if self.chance(0.97) else self.known(engine))
        if cp is not None:
            for _ in range(self.random.choice((1, 1, 2))):
                self.execute(cp, sides)

    def port(self, t: Any, written: int) -> Any:
        if self.chance(0.04):
            return self.lt(t.get_id(), None, t.get_data_type())
        try:
            dims = t.get_dims()
        except dgo.Error:
            dims = None
        if written and self.chance(0.4):
            form = self.random.choice(((LT.strided,), (LT.any,), (-1, LT.strided), (LT.any,)))
            return self.call(logical_tensor, t.get_id(), t.get_data_type(), *form)
        if dims is None:
            return self.lt(t.get_id(), None, t.get_data_type())
        dims = [self.random.choice(SIZES) if n < 0 else n for n in dims]
        known = t.get_layout_type() == LT.strided and -1 not in t.get_dims()
        layout = t.get_strides() if known else LT.strided
        return self.call(logical_tensor, t.get_id(), t.get_data_type(), dims, layout, t.get_property_type())

    def execute(self, cp: Any, sides: Any) -> None:
        tensors = [[self.memory(cp, t) for t in side] for side in sides]
        tensors = [[t for t in side if t is not None] for side in tensors]
        for side in tensors:
            if side and self.chance(0.04):
                side[self.random.randrange(len(side))] = self.known(tensor)
            if side and self.chance(0.02):
                side.pop()
        s = self.known(stream) if self.chance(0.1) else self.pool[stream][0]
        scratchpad = () if self.chance(0.95) else (self.known(tensor),)
        if self.chance(0.1):
            thread = Thread(target=self.call, args=(cp.execute, s, *tensors, *scratchpad))
            thread.start()
            thread.join()
        else:
            self.call(cp.execute, s, *tensors, *scratchpad)
        if self.chance(0.1):
            self.call(cp.get_inplace_ports)
            self.call(cp.query_logical_tensor, self.random.choice((0, 1, 9, 10)))

    def memory(self, cp: Any, t: Any) -> Any:
        told = self.call(cp.query_logical_tensor, t.get_id())
        if told is None:
            return None
        if told.get_mem_size(self.runtime) > 1 << 24:
            return None
        made = self.call(tensor, told, self.engine)
        if made is not None and self.chance(0.7):
            try:
                made.to_numpy()[...] = self.random.choice((0, 1, 2))
            except ALLOWED:
                self.refused += 1
        return made

    def in_any_order(self) -> None:
        """Calls that need no thought, on whatever there is."""
        known, anything, pick = self.known, self.anything, self.random.choice
        array = np.zeros([min(abs(n), 9) for n in self.sizes(2)], pick(("f4", "i1", "f8", "i4")))
        todo = (
            lambda: self.call(graph, anything(), runtime=self.runtime),
            lambda: self.call(engine, pick((engine.cpu, anything())), pick((0, 1))),
            lambda: self.call(stream, known(engine), pick((1, 2, anything()))),
            lambda: self.call(make_engine_with_allocator, engine.cpu, 0, known(allocator)),
            lambda: self.call(allocator),
            lambda: self.call(tensor, self.lt(), known(engine), array),
            lambda: self.call(tensor.from_numpy, array, self.number(), known(engine)),
            lambda: self.call(tensor.from_numpy, array[::-1].T, 0),
            lambda: self.call(tensor.make_scalar_tensor, self.lt(), anything(), self.runtime),
            lambda: self.on(tensor, ("to_numpy",), known(logical_tensor)),
            lambda: self.on(tensor, ("from_numpy", "set_data_handle"), array),
            lambda: self.on(tensor, ("get_data_handle", "get_logical_tensor", "get_engine", "to_numpy", "__repr__")),
            lambda: self.on(graph, ("finalize", "is_finalized", "get_partitions", "get_fpmath_mode", "to_json")),
            lambda: self.on(graph, ("add_op",), known(op)),
            lambda: self.on(graph, ("get_partitions", "set_fpmath_mode"), anything()),
            lambda: self.on(op, ("add_input", "add_output"), known(logical_tensor)),
            lambda: self.on(op, ("add_inputs", "add_outputs"), [known(logical_tensor)]),
            lambda: self.on(op, ("set_attr",), pick(list(op.attr)), anything()),
            lambda: self.on(logical_tensor, ("get_dims", "get_strides", "get_mem_size", "get_layout_id", "__reduce__")),
            lambda: self.on(logical_tensor, ("is_equal", "__eq__"), known(logical_tensor)),
            lambda: self.on(partition, ("get_ops", "get_id", "is_supported", "get_input_ports", "get_engine_kind")),
            lambda: self.on(partition, ("compile",), [known(logical_tensor)], [known(logical_tensor)], known(engine)),
            lambda: self.on(graph_api.compiled_partition, ("query_logical_tensor",), anything()),
            lambda: self.on(graph_api.compiled_partition, ("execute",), known(stream), *[[known(tensor)]] * 2),
            lambda: self.on(stream, ("wait", "get_engine")),
            lambda: self.call(partition, known(op), pick((1, 2, anything())), runtime=self.runtime),
            lambda: self.call(pickle.loads, pickle.dumps(pick(self.pool.get(op) or [relu()]))),
            lambda: self.call(copy.deepcopy, known(logical_tensor)),
            lambda: self.call(set_compiled_partition_cache_capacity, pick((0, 0, 3)), self.runtime),
            lambda: self.call(set_constant_tensor_cache, self.chance(0.5), self.runtime),
            lambda: self.pool.pop(pick((op, graph, partition, tensor, logical_tensor)), None),
        )  # fmt: skip
        for _ in range(pick((2, 6))):
            pick(todo)()

    def on(self, kind: type, methods: tuple[str, ...], *arguments: Any) -> None:
        items = self.pool.get(kind)
        if items:
            self.call(getattr(self.random.choice(items), self.random.choice(methods)), *arguments)


def relu() -> op:
    return op(0, op.ReLU, [LT(0, LT.f32, [4], LT.strided)], [LT(1, LT.f32, [4], LT.strided)])

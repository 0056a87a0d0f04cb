"""Watches the border of the extension: which kernels and partitions are made, of what, and which plans run them.

Only `_core` is watched, since the Python above it may be another one in each version.
"""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .described import Descriptions, arguments, signature

Plan = dict[str, Any]


class Border:
    """`plans`: every executor that was finalized, in order, as its slots and steps."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.described = Descriptions()

    def watch(self, core: ModuleType) -> None:
        self._watch_kernels(core.kernels)
        self._watch_library(core)
        self._watch_executor(core)

    # -- kernels ----------------------------------------------------------------------------------------------

    def _watch_kernels(self, kernels: ModuleType) -> None:
        members = {name: item for name, item in vars(kernels).items() if not name.startswith("_")}
        classes = tuple(item for item in members.values() if isinstance(item, type))
        for name, item in members.items():
            if isinstance(item, type):
                self._watch_methods(item, classes)
                if item.__text_signature__:
                    setattr(kernels, name, _Constructor(item, self._describing(item, name, classes)))
                else:
                    self._watch_init(item)
            elif callable(item):
                setattr(kernels, name, self._describing(item, name, classes))

    def _watch_init(self, cls: type) -> None:
        start, names = cls.__init__, list(signature(cls.__init__).items())[1:]

        @functools.wraps(start)
        def init(instance: Any, *args: Any, **kwargs: Any) -> None:
            start(instance, *args, **kwargs)
            given = self.described.plain(arguments(dict(names), args, kwargs))
            self.described[instance] = {cls.__name__: given}

        cls.__init__ = init

    def _watch_methods(self, cls: type, classes: tuple[type, ...]) -> None:
        for name, item in list(vars(cls).items()):
            if not name.startswith("_") and callable(item) and not isinstance(item, (type, staticmethod)):
                setattr(cls, name, self._describing(getattr(cls, name), name, classes))

    def _describing(self, function: Callable[..., Any], name: str, classes: tuple[type, ...]) -> Callable[..., Any]:
        """`function`, whose results of `classes`, or in a tuple, are described by its arguments."""
        names = signature(function)

        @functools.wraps(function, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            for item in result if isinstance(result, tuple) else (result,):
                if isinstance(item, classes):
                    self.described[item] = {name: self.described.plain(arguments(names, args, kwargs))}
            return result

        return call

    # -- ops and partitions of the library --------------------------------------------------------------------

    def _watch_library(self, core: ModuleType) -> None:
        described, graphs = self.described, Descriptions()

        def new_op(op: Any, library: Any, id: int, kind: int, name: str) -> None:
            described[op] = {"op": core.OpKind(kind).name, "name": name, "attrs": {}, "inputs": [], "outputs": []}

        def add_tensor(side: str) -> Callable[..., None]:
            return lambda op, tensor: described.get(op)[side].append(_tensor(tensor))

        def set_attr(op: Any, code: int, type: str, value: Any) -> None:
            described.get(op)["attrs"][core.OpAttr(code).name] = described.plain(value)

        def new_graph(graph: Any, *args: Any, **kwargs: Any) -> None:
            graphs[graph] = {}

        def add_op(graph: Any, op: Any) -> None:
            graphs.get(graph)[op.id] = described.get(op)

        _after(core.Op, "__init__", new_op)
        _after(core.Op, "add_input", add_tensor("inputs"))
        _after(core.Op, "add_output", add_tensor("outputs"))
        _after(core.Op, "set_attr", set_attr)
        _after(core.Graph, "__init__", new_graph)
        _after(core.Graph, "add_op", add_op)
        partitions, create = core.Graph.partitions, core.Partition.create_with_op
        compiled = core.Partition.compile

        def of_graph(graph: Any) -> Any:
            result = partitions(graph)
            for partition in result:
                described[partition] = [graphs.get(graph)[id] for id in partition.op_ids]
            return result

        def of_op(op: Any, *args: Any, **kwargs: Any) -> Any:
            partition = create(op, *args, **kwargs)
            described[partition] = [described.get(op)]
            return partition

        def compile(partition: Any, inputs: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
            result = compiled(partition, inputs, outputs, *args, **kwargs)
            sides = {"inputs": [_tensor(t) for t in inputs], "outputs": [_tensor(t) for t in result.outputs]}
            described[result] = _numbered({"ops": described.get(partition), **sides})
            return result

        core.Graph.partitions = of_graph
        core.Partition.create_with_op = staticmethod(of_op)
        core.Partition.compile = compile

    # -- plans ------------------------------------------------------------------------------------------------

    def _watch_executor(self, core: ModuleType) -> None:
        plans, cls, plain = Descriptions(), core.Executor, self.described.plain

        def new(executor: Any, *args: Any, **kwargs: Any) -> None:
            plans[executor] = {"slots": {}, "steps": []}

        def slot(kind: str, describe: Callable[..., str]) -> None:
            add = getattr(cls, f"add_{kind}")

            def added(executor: Any, *args: Any, **kwargs: Any) -> int:
                number = add(executor, *args, **kwargs)
                slots = plans.get(executor)["slots"]
                alike = sum(text.startswith(kind) for text in slots.values())
                slots[number] = f"{kind} {alike}: {describe(*args, **kwargs)}"
                return number

            setattr(cls, f"add_{kind}", added)

        def step(kind: str, describe: Callable[..., dict[str, Any]]) -> None:
            def note(executor: Any, *args: Any, **kwargs: Any) -> None:
                plan = plans.get(executor)
                plan["steps"].append({"step": kind, **describe(plan["slots"], *args, **kwargs)})

            _after(cls, f"add_{kind}", note)

        def array(dtype: int, shape: Any, strides: Any) -> str:
            return f"{core.DataType(dtype).name} {list(shape)} strides {list(strides)}"

        def refs(slots: dict[int, str], given: Any) -> list[str]:
            return [f"{slots[number]} + {offset}" for number, offset in given]

        def kernel(slots: Any, kernel: Any, operands: Any, label: str = "", nbytes: Any = ()) -> dict[str, Any]:
            return {"label": label, "made by": plain(kernel), "operands": refs(slots, operands)}

        def partition(slots: Any, compiled: Any, inputs: Any, outputs: Any, label: str = "") -> dict[str, Any]:
            sides = {"inputs": refs(slots, inputs), "outputs": refs(slots, outputs)}
            return {"label": label, "partition": plain(compiled), **sides}

        def callback(slots: Any, function: Any, views: Any, label: str = "") -> dict[str, Any]:
            operands = [f"{refs(slots, [view[:2]])[0]} as {array(*view[2:])}" for view in views]
            return {"label": label, "operands": operands}

        def only_if(executor: Any, flag: tuple[int, int], wanted: bool) -> None:
            plan = plans.get(executor)
            plan["steps"][-1]["only if"] = [*refs(plan["slots"], [flag]), bool(wanted)]

        def finalized(executor: Any, release_gil: bool, threads: int = 0) -> None:
            plan = plans.get(executor)
            arrays = [text for text in plan["slots"].values() if text.startswith(("input", "output"))]
            self.plans.append({"threads": threads, "arrays": arrays, "steps": plan["steps"]})

        _after(cls, "__init__", new)
        slot("input", array)
        slot("output", array)
        slot("constant", lambda array, shared=False: f"{array.dtype} {list(array.shape)}")
        slot("scratch", lambda offset, nbytes: f"{nbytes} bytes at {offset}")
        step("kernel", kernel)
        step("partition", partition)
        step("callback", callback)
        _after(cls, "only_if", only_if)
        _after(cls, "finalize", finalized)


class _Constructor:
    """A class that is made by `call`: what makes its instances is no method that could be exchanged."""

    def __init__(self, cls: type, call: Callable[..., Any]) -> None:
        self._cls, self.__call = cls, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cls, name)


def _after(cls: type, name: str, note: Callable[..., None]) -> None:
    """`note` gets the arguments of every call of a method that returned."""
    method = getattr(cls, name)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        note(*args, **kwargs)
        return result

    setattr(cls, name, call)


def _tensor(tensor: Any) -> list[Any]:
    """Its id first, then dtype, dims, strides and how it is laid out."""
    dims, strides = (None if sizes is None else list(sizes) for sizes in (tensor.dims, tensor.strides))
    return [tensor.id, tensor.dtype.name, dims, strides, tensor.layout_type.name, tensor.property.name]


def _numbered(partition: dict[str, Any]) -> dict[str, Any]:
    """Ids of tensors count from 0 within a partition: those of the library go on from net to net."""
    numbers: dict[int, int] = {}

    def renumbered(tensors: list[list[Any]]) -> list[list[Any]]:
        return [[numbers.setdefault(tensor[0], len(numbers)), *tensor[1:]] for tensor in tensors]

    sides = {side: renumbered(partition[side]) for side in ("inputs", "outputs")}
    ops = [{**op, **{side: renumbered(op[side]) for side in ("inputs", "outputs")}} for op in partition["ops"]]
    return {"ops": ops, **sides}

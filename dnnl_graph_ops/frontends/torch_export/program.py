"""Converts traced programs of PyTorch to nodes, one for each op that a result depends on."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ... import dtypes
from ...errors import UnsupportedError
from ..reading.node import OnnxNode
from ..reading.traced import DOMAIN, Earlier, OpCall, Operand, Other, Size, Traced
from .host import stated
from .planned import base_of, order_of
from .sizes import SIZES, size_op


def dims_of(shape: Sequence[Any]) -> tuple[int | None, ...]:
    """Returns sizes, None for dynamic ones."""
    return tuple(dim if isinstance(dim, int) else _fixed(dim) for dim in shape)


def _fixed(dim: Any) -> int | None:
    found = dim.node.maybe_as_int()
    return None if found is None else int(found)


class Behind(UnsupportedError):
    """Raised for a node that reads an unsupported one."""


class Reader:
    """Reads nodes of PyTorch's graphs. `names`: the names of given and of read tensors by node.

    `instead`: ops that replace some nodes' ops.
    """

    def __init__(self, names: Mapping[Any, str], instead: Mapping[Any, Any]) -> None:
        self.names = dict(names)
        self.instead = instead
        # calls with results of dtypes that the package lacks, which become part of their readers
        self.inner: set[Any] = set()

    def node(self, fx: Any) -> OnnxNode | None:
        """Returns a node; None for a getitem, which is a name, and for a call that is part of its readers.

        Raises:
            UnsupportedError: a call of another function than ops on tensors and sizes.
        """
        is_part = fx.target is operator.getitem and isinstance(fx.args[1], int)
        if is_part and fx.args[0] not in self.inner:
            self.names[fx] = part(self.name(fx.args[0]), fx.args[1])
            return None
        series, where = _Series(self), f"torch node {fx.name!r} ({fx.target})"
        if (op := size_op(fx.target)) is not None:
            # numbers are operands of size ops
            numbers = {str(i): series.encoded(item, Operand) for i, item in enumerate(fx.args)}
            self.names[fx] = fx.name
            return _made(fx.name, [OpCall(op, numbers)], series.inputs, [fx.name])
        if not is_part and (fx.op != "call_function" or not hasattr(fx.target, "_schema")):
            raise UnsupportedError(f"{where}: no op on tensors")
        results = _results(fx, where)
        is_lacking = any(dtype not in dtypes.CODES for dtype, _ in results)
        if is_lacking and (is_part or any(user.op != "output" for user in fx.users)):
            self.inner.add(fx)
            return None
        if is_part:
            # one result of a call with several, which no op here takes
            series.calls.append(OpCall("aten.alias.default", {"self": series.placed(fx)}))
        elif str(fx.target) == "aten.as_strided.default":
            series.append_strided(fx, where)
        else:
            series.append(fx)
        self.names[fx] = fx.name
        return _made(fx.name, series.calls, series.inputs, _outputs(fx), results)

    def name(self, fx: Any) -> str:
        """Returns the name of a node's tensor or number.

        Raises:
            Behind: the node is unsupported.
        """
        if fx not in self.names:
            raise Behind(f"torch node {fx.name!r} is not there")
        return self.names[fx]


class _Series:
    """Collects the calls of one node, and the tensors that they read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.inputs: list[str] = []
        self.calls: list[OpCall] = []
        # positions of calls whose results are no nodes
        self._places: dict[Any, int] = {}

    def append(self, fx: Any) -> None:
        """Appends an op and its arguments, after the calls that only it reads."""
        target = self._reader.instead.get(fx, fx.target)
        arguments = {}
        for i, argument in enumerate(target._schema.arguments):
            given = fx.args[i] if i < len(fx.args) else fx.kwargs.get(argument.name, argument.default_value)
            encoded = self.encoded(given)
            if encoded is None and given is not None and not str(argument.type).startswith("Optional"):
                # the op has no default for it
                encoded = _other(given)
            arguments[argument.name] = encoded
        self.calls.append(OpCall(str(target), arguments))

    def append_strided(self, fx: Any, where: str) -> None:
        """Appends as_strided: elements by their positions in memory, which gets PyTorch's planned layout.

        Raises:
            UnsupportedError: the memory is not one dense tensor, or the offset is dynamic.
        """
        given, size, stride, *rest = fx.args
        offset = rest[0] if rest else fx.kwargs.get("storage_offset")
        if offset is None:
            (offset,) = dims_of([given.meta["val"].storage_offset()])
        if offset is None:
            raise UnsupportedError(f"{where}: begins where sizes of a call tell; give storage_offset")
        base, _ = base_of(given, may_vary=True)
        order = order_of(base.meta["val"])
        if order is None:
            raise UnsupportedError(f"{where}: the memory that it reads has gaps")
        read = self.encoded(base)
        more: dict[str, dict[str, Any]] = {
            "aten.permute.default": {"dims": order},
            "aten.clone.default": {"memory_format": Other("memory_format", "contiguous_format")},
            str(fx.target): {"size": size, "stride": stride, "storage_offset": offset},
        }
        for op, arguments in more.items():
            self.calls.append(OpCall(op, {"self": read} | {name: self.encoded(one) for name, one in arguments.items()}))
            read = Earlier(len(self.calls) - 1, 0)

    def placed(self, fx: Any) -> Earlier:
        """Returns a placeholder for a result that is no node."""
        whole, number = (fx.args[0], fx.args[1]) if fx.target is operator.getitem else (fx, 0)
        if whole not in self._places:
            self.append(whole)
            self._places[whole] = len(self.calls) - 1
        return Earlier(self._places[whole], number)

    def encoded(self, value: Any, number: type[Operand | Size] = Size) -> Any:
        """Returns an argument for records; `number` stands for a computed number."""
        if value is None or isinstance(value, bool | int | float | str | complex | Other):
            return value
        if isinstance(value, list | tuple):
            return [self.encoded(item, number) for item in value]
        import torch
        from torch.fx import Node

        if isinstance(value, Node) and value in self._reader.inner:
            if number is Operand:
                raise UnsupportedError(
                    f"torch node {value.name!r} ({value.target}): the size of a tensor that no op here computes"
                )
            return self.placed(value)
        if isinstance(value, Node):
            name = self._reader.name(value)
            if name not in self.inputs:
                self.inputs.append(name)
            return (Operand if _is_tensor(value) else number)(self.inputs.index(name))
        if isinstance(value, torch.SymInt) and _fixed(value) is not None:
            return _fixed(value)
        is_cpu = isinstance(value, torch.device) and value.type == "cpu"
        return None if is_cpu or isinstance(value, torch.layout | torch.memory_format) else _other(value)


def _other(value: Any) -> Other:
    return Other(type(value).__name__, str(value).removeprefix("torch."))


def _made(
    name: str, calls: Sequence[OpCall], inputs: Sequence[str], outputs: Sequence[str], results: Sequence[Any] = ()
) -> OnnxNode:
    """Returns a node of several calls, named for the last one."""
    attrs = {"traced": Traced(tuple(calls), tuple(results))}
    return OnnxNode(name, calls[-1].op, DOMAIN, "", 0, tuple(inputs), tuple(outputs), attrs, "torch")


def _outputs(fx: Any) -> tuple[str, ...]:
    """Returns the names of the results up to the last that is read, "" for results that are not read."""
    if not isinstance(fx.meta["val"], tuple | list):
        return (fx.name,)
    read = {user.args[1] for user in fx.users if user.target is operator.getitem and user.users}
    return tuple(part(fx.name, i) if i in read else "" for i in range(max(read, default=-1) + 1))


def out_of_place(graph: Any) -> dict[Any, Any]:
    """Returns out-of-place ops for in-place ops whose operand nothing else reads afterwards."""
    place = {fx: i for i, fx in enumerate(graph.nodes)}
    found: dict[Any, Any] = {}
    for fx in place:
        schema = getattr(fx.target, "_schema", None)
        if schema is None or not schema.is_mutable or not schema.name.endswith("_") or not fx.args:
            continue
        written_to = fx.args[0]
        is_last = all(place[one] < place[fx] and _is_new(one) for one in written_to.users if one is not fx)
        op = _functional(schema) if is_last and (written_to in found or _is_new(written_to)) else None
        if op is not None and fx.meta["val"].is_floating_point():
            found[fx] = op
    return found


def _is_new(fx: Any) -> bool:
    """Whether all results of a call are new tensors, and no argument is written to."""
    schema = getattr(fx.target, "_schema", None)
    return schema is not None and all(one.alias_info is None for one in (*schema.returns, *schema.arguments))


def _functional(schema: Any) -> Any:
    """Returns the out-of-place op of an in-place op."""
    import torch

    namespace, name = schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    return getattr(packet, schema.overload_name or "default", None)


def flat_outputs(graph: Any) -> list[Any]:
    """Returns the output nodes of a graph of PyTorch; outputs may be None."""
    (output,) = (fx for fx in graph.nodes if fx.op == "output")
    (given,) = output.args
    return list(given) if isinstance(given, tuple | list) else [given]


def of_size(name: str, tensor: str, axis: int) -> OnnxNode:
    """Returns a node that computes the size of an axis."""
    return _made(name, [OpCall(f"{SIZES}sym_size.int", {"self": Operand(0), "dim": axis})], [tensor], [name])


def part(name: str, number: int) -> str:
    return f"{name}.{number}"


def _is_tensor(fx: Any) -> bool:
    import torch

    return isinstance(fx.meta.get("val"), torch.Tensor)


def _results(fx: Any, where: str) -> list[tuple[str, tuple[int | None, ...]]]:
    """Returns dtype and shape of each result.

    Raises:
        UnsupportedError: no tensors, or data-dependent sizes.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    value = fx.meta["val"]
    found: list[tuple[str, tuple[int | None, ...]]] = []
    for one in value if isinstance(value, tuple | list) else (value,):
        if one is None:
            found.append(("", ()))
            continue
        if not isinstance(one, torch.Tensor):
            raise UnsupportedError(f"{where}: gives a number that depends on data")
        if one.layout is not torch.strided:
            raise UnsupportedError(f"{where}: gives a tensor of layout {one.layout}")
        if free_unbacked_symbols(one):
            raise UnsupportedError(f"{where}: the shape of its result depends on data")
        found.append((stated(one.dtype), dims_of(one.shape)))
    return found


def read(outputs: Sequence[Any]) -> list[Any]:
    """Returns the nodes that some nodes depend on, in topological order."""
    order: list[Any] = []
    seen: set[Any] = set()
    stack = [(fx, False) for fx in reversed(outputs)]
    while stack:
        fx, done = stack.pop()
        if done:
            order.append(fx)
        elif fx not in seen:
            seen.add(fx)
            stack.append((fx, True))
            stack.extend((one, False) for one in reversed(fx.all_input_nodes))
    return order

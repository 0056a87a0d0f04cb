"""What PyTorch traced, as nodes: one for each op that a result depends on."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import dtypes
from ...errors import UnsupportedError
from ..reading.node import OnnxNode
from .call import DOMAIN, written
from .host import stated
from .planned import base_of, order_of
from .sizes import SIZES


def _sizes() -> dict[Any, str]:
    """Functions of symbolic ints, by their names here."""
    import torch

    return {
        operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.neg: "neg", operator.mod: "mod",
        operator.floordiv: "floordiv", operator.truediv: "truediv", operator.pow: "pow", torch.sym_max: "sym_max",
        torch.sym_min: "sym_min", torch.sym_float: "sym_float", torch.sym_int: "sym_int", math.floor: "floor",
        math.ceil: "ceil", math.trunc: "trunc", torch.ops.aten.sym_size.int: "sym_size",
    }  # fmt: skip


def dims_of(shape: Sequence[Any]) -> tuple[int | None, ...]:
    """None for sizes that are not fixed."""
    return tuple(dim if isinstance(dim, int) else _fixed(dim) for dim in shape)


def _fixed(dim: Any) -> int | None:
    found = dim.node.maybe_as_int()
    return None if found is None else int(found)


class Behind(UnsupportedError):
    """A node reads what cannot be expressed itself."""


class Reader:
    """Nodes of PyTorch's graphs. `names`: what a node's tensor is called, of those that are given and those read.

    `instead`: ops to take in place of some nodes' own.
    """

    def __init__(self, names: Mapping[Any, str], instead: Mapping[Any, Any]) -> None:
        self.names = dict(names)
        self._instead = instead
        self._functions = _sizes()
        # calls with results of types that the package lacks: part of those that read them
        self._inner: set[Any] = set()

    def node(self, fx: Any) -> OnnxNode | None:
        """One of them; None for the part of a result, which is a name for it, and what is part of those that read it.

        Raises:
            UnsupportedError: a call of something else than ops on tensors and sizes.
        """
        if fx.target is operator.getitem and isinstance(fx.args[1], int):
            if fx.args[0] not in self._inner:
                if fx.args[0] not in self.names:
                    raise Behind(f"torch node {fx.args[0].name!r} is not there")
                self.names[fx] = part(self.names[fx.args[0]], fx.args[1])
                return None
            self._inner.add(fx)
            return None if stated(fx.meta["val"].dtype) not in dtypes.CODES else self._own_part(fx)
        where = f"torch node {fx.name!r}"
        inputs: list[str] = []
        found = self._functions.get(fx.target)
        if found is not None:
            # numbers are operands there
            arguments = {str(i): self._encoded(item, inputs, "in") for i, item in enumerate(fx.args)}
            self.names[fx] = fx.name
            return OnnxNode(
                fx.name, SIZES + found, DOMAIN, "", 0, tuple(inputs), (fx.name,),
                {"arguments": written(arguments), "results": "[]"}, "torch",
            )  # fmt: skip
        schema = getattr(fx.target, "_schema", None)
        if fx.op != "call_function" or schema is None:
            raise UnsupportedError(f"{where} ({fx.target}): no op on tensors")
        if any(dtype not in dtypes.CODES for dtype, _ in _results(fx, where)) and any(
            user.op != "output" for user in fx.users
        ):
            self._inner.add(fx)
            return None
        before: list[Any] = []
        by_strides = str(fx.target) == "aten.as_strided.default"
        link = self._by_strides(fx, where, inputs, before) if by_strides else self._link(fx, inputs, before, {})
        self.names[fx] = fx.name
        attrs = {"arguments": written(link[1]), "results": written(_results(fx, where))}
        if before:
            attrs["before"] = written(before)
        return OnnxNode(fx.name, link[0], DOMAIN, "", 0, tuple(inputs), self._outputs(fx), attrs, "torch")

    def _own_part(self, fx: Any) -> OnnxNode:
        """A result of a call that has others besides, which no op here takes."""
        inputs: list[str] = []
        before: list[Any] = []
        arguments = {"self": self._encoded(fx, inputs, "size", self._placed(inputs, before, {}))}
        self._inner.discard(fx)
        self.names[fx] = fx.name
        attrs = {"arguments": written(arguments), "results": written(_results(fx, "")), "before": written(before)}
        return OnnxNode(fx.name, "aten.alias.default", DOMAIN, "", 0, tuple(inputs), (fx.name,), attrs, "torch")

    def _by_strides(self, fx: Any, where: str, inputs: list[str], before: list[Any]) -> list[Any]:
        """Elements by their places in memory, which is made as PyTorch plans it.

        Raises:
            UnsupportedError: what lies there is not one tensor without gaps, or its begin varies.
        """
        given, size, stride, *rest = fx.args
        offset = rest[0] if rest else fx.kwargs.get("storage_offset")
        if offset is None:
            (offset,) = dims_of([given.meta["val"].storage_offset()])
        if offset is None:
            raise UnsupportedError(f"{where} ({fx.target}): begins where sizes of a call tell; give storage_offset")
        base, _ = base_of(given, may_vary=True)
        order = order_of(base.meta["val"])
        if order is None:
            raise UnsupportedError(f"{where} ({fx.target}): PyTorch plans what it reads with gaps")
        read = self._encoded(base, inputs, "size", self._placed(inputs, before, {}))
        before.append(["aten.permute.default", {"self": read, "dims": list(order)}])
        memory = {"self": {"before": [len(before) - 1, 0]}, "memory_format": {"memory_format": "contiguous_format"}}
        before.append(["aten.clone.default", memory])
        places = {"size": size, "stride": stride, "storage_offset": offset}
        arguments = {name: self._encoded(value, inputs, "size") for name, value in places.items()}
        return [str(fx.target), {"self": {"before": [len(before) - 1, 0]}, **arguments}]

    def _placed(self, inputs: list[str], before: list[Any], places: dict[Any, int]) -> Callable[[Any], dict[str, Any]]:
        """Puts ops whose results are no nodes before the one that reads them, and says where."""

        def placed(one: Any) -> dict[str, Any]:
            whole, number = (one.args[0], one.args[1]) if one.target is operator.getitem else (one, 0)
            if whole not in places:
                link = self._link(whole, inputs, before, places)
                places[whole] = len(before)
                before.append(link)
            return {"before": [places[whole], number]}

        return placed

    def _link(self, fx: Any, inputs: list[str], before: list[Any], places: dict[Any, int]) -> list[Any]:
        """An op's name and arguments; those whose results these are, and that are no nodes, go `before`."""

        placed = self._placed(inputs, before, places)
        arguments = {}
        target = self._instead.get(fx, fx.target)
        for i, argument in enumerate(target._schema.arguments):
            given = fx.args[i] if i < len(fx.args) else fx.kwargs.get(argument.name, argument.default_value)
            encoded = self._encoded(given, inputs, "size", placed)
            if encoded is None and given is not None and not str(argument.type).startswith("Optional"):
                # an op that has no default takes it
                encoded = {type(given).__name__: str(given).removeprefix("torch.")}
            arguments[argument.name] = encoded
        return [str(target), arguments]

    def _encoded(
        self, value: Any, inputs: list[str], size: str, placed: Callable[[Any], dict[str, Any]] | None = None
    ) -> Any:
        """A value as JSON has it: tensors and sizes as numbers of inputs, what JSON lacks as its kind and name."""
        import torch
        from torch.fx import Node

        if isinstance(value, list | tuple):
            return [self._encoded(item, inputs, size, placed) for item in value]
        if isinstance(value, Node) and value in self._inner and placed is not None:
            return placed(value)
        if isinstance(value, Node):
            if value in self._inner:
                raise UnsupportedError(f"torch node {value.name!r} ({value.target}): sizes of what no op here takes")
            if value not in self.names:
                raise Behind(f"torch node {value.name!r} is not there")
            name = self.names[value]
            if name not in inputs:
                inputs.append(name)
            return {"in" if _is_tensor(value) else size: inputs.index(name)}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.SymInt) and _fixed(value) is not None:
            return _fixed(value)
        if isinstance(value, torch.device) and value.type == "cpu":
            return None
        if isinstance(value, torch.layout | torch.memory_format):
            return None
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        return {type(value).__name__: str(value)}

    def _outputs(self, fx: Any) -> tuple[str, ...]:
        """Names of the results up to the last that is read, none for those before it that are not."""
        if not isinstance(fx.meta["val"], tuple | list):
            return (fx.name,)
        read = {user.args[1] for user in fx.users if user.target is operator.getitem and user.users}
        return tuple(part(fx.name, i) if i in read else "" for i in range(max(read, default=-1) + 1))


def out_of_place(nodes: Sequence[Any]) -> dict[Any, Any]:
    """For ops that write to what nobody else reads from then on: those that give the same as a result of their own."""
    place = {fx: i for i, fx in enumerate(nodes)}
    found: dict[Any, Any] = {}
    for fx in nodes:
        schema = getattr(fx.target, "_schema", None)
        if schema is None or not schema.is_mutable or not schema.name.endswith("_") or not fx.args:
            continue
        written_to = fx.args[0]
        made = getattr(written_to.target, "_schema", None)
        if made is None or (written_to not in found and not _is_new(made)):
            continue
        others = [user for user in written_to.users if user is not fx]
        seen = all(place[one] < place[fx] and _is_new(getattr(one.target, "_schema", None)) for one in others)
        op = _functional(schema)
        if seen and op is not None and fx.meta["val"].is_floating_point():
            found[fx] = op
    return found


def _is_new(schema: Any) -> bool:
    """Whether all results are tensors of their own, and no argument is written to."""
    return schema is not None and all(one.alias_info is None for one in (*schema.returns, *schema.arguments))


def _functional(schema: Any) -> Any:
    """The op that an op in place is of."""
    import torch

    namespace, name = schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    return getattr(packet, schema.overload_name or "default", None)


def flat_outputs(graph: Any) -> list[Any]:
    """The nodes that a graph of PyTorch gives, None where it gives that."""
    (output,) = (fx for fx in graph.nodes if fx.op == "output")
    (given,) = output.args
    return list(given) if isinstance(given, tuple | list) else [given]


def is_size(fx: Any) -> bool:
    """Whether a node computes a number of sizes."""
    return fx.target in _sizes()


def of_size(name: str, tensor: str, axis: int) -> OnnxNode:
    """The size of an axis as a node."""
    arguments = written({"self": {"in": 0}, "dim": axis})
    return OnnxNode(
        name, f"{SIZES}sym_size", DOMAIN, "", 0, (tensor,), (name,), {"arguments": arguments, "results": "[]"}, "torch"
    )


def part(name: str, number: int) -> str:
    return f"{name}.{number}"


def _is_tensor(fx: Any) -> bool:
    import torch

    return isinstance(fx.meta.get("val"), torch.Tensor)


def _results(fx: Any, where: str) -> list[Any]:
    """dtype and shape of each result.

    Raises:
        UnsupportedError: no tensors, or of sizes that depend on data.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    value = fx.meta["val"]
    found = []
    for one in value if isinstance(value, tuple | list) else (value,):
        if one is not None and not isinstance(one, torch.Tensor):
            raise UnsupportedError(f"{where} ({fx.target}): gives a number that depends on data")
        if one is not None and one.layout is not torch.strided:
            raise UnsupportedError(f"{where} ({fx.target}): gives a tensor of layout {one.layout}")
        if one is not None and free_unbacked_symbols(one):
            raise UnsupportedError(f"{where} ({fx.target}): the shape of its result depends on data")
        found.append(["", []] if one is None else [stated(one.dtype), dims_of(one.shape)])
    return found


def read(outputs: Sequence[Any]) -> list[Any]:
    """The nodes that some depend on, those that need nothing else first."""
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

"""Partitions and compiled partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from threading import Lock
from typing import Any

from .._core import CompiledPartition, Engine, LogicalTensor, Partition
from ..errors import Error, InvalidArgumentError, UnsupportedError
from ..runtime import Runtime
from ..words import counted
from . import settings
from .arguments import identifier, instance, instances, runtime_of
from .engines import engine, kind_name, stream
from .enumerators import PartitionNames, data_type, engine_kind, layout_type, property_type
from .fitting import fitted, refusal
from .logical_tensors import changed, logical_tensor, told
from .ops import checked, native, op, refused
from .tensors import tensor
from .unit_axes import dense_unit_axes


class partition(PartitionNames):
    """Ops that oneDNN runs together: `graph.get_partitions` returns partitions; a partition may have one op.

    Args:
        o: an op.
        kind: `engine.kind` of the engine that the partition will be compiled for.
        runtime: the library: a Runtime, its name, or the path of a libdnnl.so.3; None: the default of the kind.

    Raises:
        InvalidArgumentError: the op does not fit the op table. UnsupportedError: it needs a later version.
        TypeError: arguments of other types.

    C++: dnnl::graph::partition (dnnl_graph_partition_create_with_op).
    """

    __slots__ = ("_compiled_for", "_native", "_ops", "_runtime")

    def __init__(self, o: op, kind: engine_kind, *, runtime: Runtime | str | None = None) -> None:
        copy = instance(op, o, "partition: 'o'")._copy()
        name = kind_name(kind, "partition: 'kind'")
        chosen = runtime_of(runtime, "partition", name)
        checked(copy, chosen.version_info)
        single = native(copy, chosen)
        try:
            made = Partition.create_with_op(single, engine_kind[name])
        except InvalidArgumentError:
            raise refused(copy, chosen) from None
        self._set(made, chosen, {copy._id: copy})

    def _set(self, native: Partition, runtime: Runtime, ops: Mapping[int, op]) -> None:
        self._native, self._runtime = native, runtime
        self._ops = [ops[number] for number in native.op_ids]
        self._compiled_for: Engine | None = None

    @classmethod
    def _of(cls, native: Partition, runtime: Runtime, ops: Mapping[int, op]) -> partition:
        made = cls.__new__(cls)
        made._set(native, runtime, ops)
        return made

    def get_id(self) -> int:
        """The partition's id, unique in the process. C++: get_id (dnnl_graph_partition_get_id)."""
        return self._native.id

    def get_ops_num(self) -> int:
        """The number of ops. C++: get_ops_num (dnnl_graph_partition_get_op_num)."""
        return len(self._ops)

    def get_ops(self) -> list[int]:
        """The ids of the ops. C++: get_ops (dnnl_graph_partition_get_ops)."""
        return self._native.op_ids

    def is_supported(self) -> bool:
        """Whether oneDNN computes the partition correctly.

        False also where oneDNN's kernel is known to be wrong for these attributes; `compile` says why.
        C++: is_supported (dnnl_graph_partition_is_supported).
        """
        return self._native.is_supported and not any(map(refusal, self._ops))

    def get_input_ports(self) -> list[logical_tensor]:
        """The input tensors, each once, while oneDNN lists a tensor once for every op that reads it.

        C++: get_input_ports (dnnl_graph_partition_get_input_ports).
        """
        ports = {port.id: port for port in self._native.input_ports}
        return [logical_tensor._of(port) for port in ports.values()]

    def get_output_ports(self) -> list[logical_tensor]:
        """The output tensors. C++: get_output_ports (dnnl_graph_partition_get_output_ports)."""
        return [logical_tensor._of(port) for port in self._native.output_ports]

    def get_engine_kind(self) -> engine_kind:
        """An `engine.kind`. C++: get_engine_kind (dnnl_graph_partition_get_engine_kind)."""
        return engine_kind(self._native.engine_kind)

    def compile(
        self, inputs: Sequence[logical_tensor], outputs: Sequence[logical_tensor], e: engine
    ) -> compiled_partition:
        """Compile the partition for shapes and layouts.

        Args:
            inputs: a list or tuple with one logical tensor for each input port, in any order: sizes known, layout
                strided, or an opaque layout that another compiled partition returned.
            outputs: the same for the output ports; sizes may be unknown, and with layout any oneDNN chooses the layout,
                see `compiled_partition.query_logical_tensor`. Known sizes must agree with the ops.
            e: an engine of the partition's kind and library.

        Returns:
            A compiled partition, which any thread can execute with tensors in the order of these lists. Constant
            inputs are variables to oneDNN, unless `set_constant_tensor_cache(True)` was called before.

        Raises:
            InvalidArgumentError: ports that are missing, unknown or listed twice, layouts that are not allowed,
            attributes that contradict each other, an engine of another kind or library. ShapeError: sizes that
            disagree. UnsupportedError: oneDNN has no kernel here, or a kernel that is known to be wrong.
            TypeError: arguments of other types.

        The GIL is released. C++: compile (dnnl_graph_partition_compile).
        """
        given = instances(logical_tensor, inputs, "partition.compile: 'inputs'")
        wanted = instances(logical_tensor, outputs, "partition.compile: 'outputs'")
        instance(engine, e, "partition.compile: 'e'")
        self._check("inputs", given, self._native.input_ports)
        self._check("outputs", wanted, self._native.output_ports)
        for o in self._ops:
            if reason := refusal(o):
                raise UnsupportedError(f"partition.compile: {o._where}: {reason}")
        natives = [t._native for t in given]
        results = [t._native for t in wanted]
        if self._native.is_supported:
            # else the native call reports that no kernel exists
            results = fitted(self._ops, given, wanted, self._runtime)
        constants = [i for i, t in enumerate(given) if t.get_property_type() == property_type.constant]
        cached = bool(constants) and settings.get_constant_tensor_cache(self._runtime)
        if not cached:
            # without oneDNN's cache of constants, constants are variables
            as_variable = partial(changed, property=property_type.variable)
            natives = [as_variable(item) if i in constants else item for i, item in enumerate(natives)]
        self._claim(e)
        backward = any("Back" in o._kind for o in self._ops)
        alone = settings.constants_anew(self._runtime, e.get_kind()) if cached else nullcontext()
        try:
            read, written = (list(map(dense_unit_axes, side)) for side in (natives, results))
            with alone:
                made = self._native.compile(read, written, e._native, backward)
        except Error:
            settings.drop_compiled(self._runtime)
            raise
        return compiled_partition(made, e, tuple(constants) if cached else ())

    def _check(self, side: str, tensors: Sequence[logical_tensor], ports: Sequence[LogicalTensor]) -> None:
        """Raises for tensors that are listed twice or of another type than the port, and for layouts oneDNN lacks."""
        types = {port.id: port.dtype for port in ports}
        ids = [t.get_id() for t in tensors]
        for t in tensors:
            number, where = t.get_id(), f"partition.compile: '{side}'"
            if ids.count(number) > 1:
                raise InvalidArgumentError(
                    f"{where} names tensor {number} twice; name it once for all ops that read it"
                )
            if types.get(number, t.get_data_type()) != t.get_data_type():
                raise InvalidArgumentError(f"{where}: {t!r}: the ops have {data_type(types[number]).name} there")
            if t.get_layout_type() == layout_type.undef:
                raise InvalidArgumentError(f"{where}: {t!r} needs a layout: strided, or any for the library's choice")
            t._check_layout(self._runtime.path, "partition.compile")

    def _claim(self, e: engine) -> None:
        """Raises if the partition was compiled for another engine and oneDNN's cache, which confuses the two, is on."""
        first = self._compiled_for or e._native
        if first is not e._native and settings.get_compiled_partition_cache_capacity(self._runtime):
            raise InvalidArgumentError(
                "partition.compile: the partition was compiled for another engine, and the library's cache of compiled "
                "partitions cannot tell them apart; call set_compiled_partition_cache_capacity(0)"
            )
        self._compiled_for = first

    def __repr__(self) -> str:
        kinds = ", ".join(o._kind for o in self._ops)
        return f"<partition {self.get_id()} of {kinds}{'' if self.is_supported() else ', not supported'}>"


class compiled_partition:
    """A partition compiled for shapes and layouts on one engine, by `partition.compile`.

    C++: dnnl::graph::compiled_partition.
    """

    __slots__ = ("_addresses", "_constants", "_engine", "_execute", "_first", "_kept", "_native", "_on_device")

    def __init__(self, native: Any = None, e: Any = None, constants: tuple[int, ...] = ()) -> None:
        if not isinstance(native, CompiledPartition):
            raise TypeError("compiled_partition: partition.compile makes it")
        self._native = native
        self._engine = e
        self._constants = constants
        self._execute = native.execute
        self._addresses: tuple[int, ...] | None = None
        # memory of the constants, kept alive so that no other constants get its address
        self._kept: list[Any] = []
        self._first = Lock()
        self._on_device = e._native.on_device

    def query_logical_tensor(self, tid: int) -> logical_tensor:
        """An input or output with the sizes and the layout that oneDNN chose.

        Raises:
            InvalidArgumentError: the partition has no tensor of this id. C++: query_logical_tensor.
        """
        number = identifier(tid, "compiled_partition.query_logical_tensor: 'tid'")
        found = next((t for t in (*self._native.outputs, *self._native.inputs) if t.id == number), None)
        if found is None:
            raise InvalidArgumentError(f"compiled_partition.query_logical_tensor: it has no tensor {number}")
        return told(found, self._engine._runtime.path)

    def get_inplace_ports(self) -> list[tuple[int, int]]:
        """Pairs (id of an input, id of an output) that may share memory. C++: get_inplace_ports."""
        return list(self._native.inplace_ports)

    def get_scratchpad_logical_tensor(self) -> logical_tensor | None:
        """The description of the scratchpad for `execute`; None where oneDNN allocates it (before 3.13) or needs none.

        C: dnnl_graph_compiled_partition_get_scratchpad_logical_tensor.
        """
        found = self._native.scratchpad
        return None if found is None else logical_tensor._of(found)

    def execute(
        self,
        astream: stream,
        inputs: Sequence[tensor],
        outputs: Sequence[tensor],
        scratchpad: tensor | None = None,
    ) -> None:
        """Run the compiled partition: synchronously on a CPU; on a device, results are complete after `stream.wait()`.

        Args:
            astream: a stream of the engine that the partition was compiled for.
            inputs: a list or tuple of tensors in the order of the lists for `partition.compile`.
            outputs: the same for the outputs. `get_inplace_ports` says which may use an input's memory.
            scratchpad: memory described by `get_scratchpad_logical_tensor`, which no other execution may use
                meanwhile; None: oneDNN allocates it.

        Raises:
            InvalidArgumentError: tensors of other ids, shapes, layouts or engines, read-only or shared memory of an
            output, another address of a constant that oneDNN keeps. TypeError: no tensors. Error: oneDNN failed.

        The GIL is released; on a device, tensors are kept alive until `stream.wait()`.
        C++: execute (dnnl_graph_compiled_partition_execute, _execute_v2).
        """
        more = () if scratchpad is None else (scratchpad,)
        if self._constants:
            self._execute_with_constants(astream, inputs, outputs, *more)
        else:
            self._execute(astream, inputs, outputs, *more)
        if self._on_device:
            astream._pending.append((self, *inputs, *outputs, scratchpad))

    def _execute_with_constants(self, astream: stream, inputs: Sequence[tensor], *others: Any) -> None:
        """Executes; the first execution runs alone, since oneDNN packs the constants then."""
        addresses = self._check_constants(inputs)
        if self._addresses is None:
            with self._first:
                self._check_constants(inputs)
                self._execute(astream, inputs, *others)
                self._kept = [inputs[i]._memory for i in self._constants]
                self._addresses = addresses
        else:
            self._execute(astream, inputs, *others)

    def _check_constants(self, inputs: Sequence[tensor]) -> tuple[int, ...]:
        """Returns the addresses of the constants; raises if oneDNN has packed constants of other addresses."""
        tensors = instances(tensor, inputs, "execute: the inputs")
        if len(tensors) <= max(self._constants):
            raise InvalidArgumentError(
                f"execute: got {counted(len(tensors), 'input')}, the partition was compiled with "
                f"{len(self._native.inputs)}"
            )
        addresses = tuple(tensors[i].get_data_handle() for i in self._constants)
        for i, first, now in zip(self._constants, self._addresses or addresses, addresses, strict=True):
            if first != now:
                raise InvalidArgumentError(
                    f"execute: input {i} is a constant that the library keeps packed, and is at another address "
                    "than at the first execution; compile the partition again, or call "
                    "set_constant_tensor_cache(False) before it is compiled"
                )
        return addresses

    def __repr__(self) -> str:
        shapes = (", ".join(str(t.id) for t in some) for some in (self._native.inputs, self._native.outputs))
        return f"<compiled_partition {' -> '.join(shapes)} on {self._engine!r}>"

"""Graphs of the Graph API, and their partitions."""

from __future__ import annotations

import math
from typing import Any

from .._core import Graph
from ..errors import Error, InvalidArgumentError, ShapeError, UnsupportedError
from ..graph import json_format
from ..runtime import Runtime
from ..runtime.defects import Edges, crashes_matcher
from ..words import counted
from .arguments import boolean, instance, member, runtime_of
from .engines import kind_name
from .enumerators import GraphNames, engine_kind, fpmath_modes, partition_policy, status
from .logical_tensors import logical_tensor
from .ops import checked, native, of_record, op, record, refused
from .partitions import partition

# the C API's status for each exception of the package
_STATUSES = (
    (ShapeError, status.invalid_shape),
    (InvalidArgumentError, status.invalid_graph_op),
    (UnsupportedError, status.unimplemented),
    (Error, status.runtime_error),
)


class graph(GraphNames):
    """A graph of ops of one engine kind.

    Args:
        kind: `engine.kind` of the engines that the partitions will be compiled for.
        fpmath_mode: `graph.fpmath_mode`: the narrower types that oneDNN may compute f32 ops with.
        runtime: the library: a Runtime, its name, or the path of a libdnnl.so.3; None: the default of the kind.

    Raises:
        RuntimeUnavailableError: no such library here. TypeError: arguments of other types.

    C++: dnnl::graph::graph (dnnl_graph_graph_create, _create_with_fpmath_mode).
    """

    __slots__ = ("_made", "_mode", "_native", "_ops", "_runtime", "_tensors")

    def __init__(
        self,
        kind: engine_kind,
        fpmath_mode: fpmath_modes = fpmath_modes.strict,
        *,
        runtime: Runtime | str | None = None,
    ) -> None:
        name = kind_name(kind, "graph: 'kind'")
        self._mode: tuple[fpmath_modes, bool] = member(fpmath_modes, fpmath_mode, "graph: 'fpmath_mode'"), False
        self._runtime = runtime_of(runtime, "graph", name)
        self._native = Graph(self._runtime._library, engine_kind[name], self._mode[0])
        self._ops: dict[int, op] = {}
        self._tensors: dict[int, logical_tensor] = {}
        self._made: dict[int, op] = {}

    def add_op(self, o: op, allow_exception: bool = True) -> status:
        """Add a copy of an op.

        Args:
            o: the op, with an id that is new to the graph. Its attributes, tensors and data types are checked against
                the op's page; a logical tensor must equal the graph's logical tensor of the same id.
            allow_exception: whether to raise; False: the returned status tells the error.

        Returns:
            `status.success`, or the status of the fault.

        Raises:
            InvalidArgumentError: the op does not fit the table, its id is taken, the graph is finalized.
            UnsupportedError: the op, or an attribute of it, needs a later version of the library. TypeError: no op.

        C++: add_op (dnnl_graph_add_op).
        """
        instance(op, o, "graph.add_op: 'o'")
        raises = boolean(allow_exception, "graph.add_op: 'allow_exception'")
        try:
            self._add(o._copy())
        except Error as error:
            if raises:
                raise
            return next(code for kind, code in _STATUSES if isinstance(error, kind))
        return status.success

    def _add(self, o: op) -> None:
        checked(o, self._runtime.version_info)
        other = self._ops.get(o._id)
        if other is not None:
            raise InvalidArgumentError(f"{o._where}: the id is that of {other._where}; give each op another id")
        for t in (*o._inputs, *o._outputs):
            first = self._tensors.get(t.get_id(), t)
            if first != t:
                raise InvalidArgumentError(f"{o._where}: tensor {t.get_id()} is {t!r} here and {first!r} elsewhere")
        for t in o._outputs:
            if t.get_id() in self._made:
                raise InvalidArgumentError(
                    f"{o._where}: tensor {t.get_id()} is made by {self._made[t.get_id()]._where} already"
                )
        made = native(o, self._runtime)
        try:
            self._native.add_op(made)
        except InvalidArgumentError:
            if self.is_finalized():
                raise
            raise refused(o, self._runtime) from None
        self._ops[o._id] = o
        self._tensors.update((t.get_id(), t) for t in (*o._inputs, *o._outputs))
        self._made.update((t.get_id(), o) for t in o._outputs)

    def finalize(self) -> None:
        """Finalize the graph: no more ops can be added.

        Raises:
            InvalidArgumentError: the ops form a cycle. C++: finalize (dnnl_graph_graph_finalize).
        """
        json_format.ordered([record(o) for o in self._ops.values()], "graph.finalize")
        self._native.finalize()

    def is_finalized(self) -> bool:
        """Whether `finalize` was called. C++: is_finalized (dnnl_graph_graph_is_finalized)."""
        return self._native.is_finalized

    def get_partitions(self, policy: partition_policy = partition_policy.fusion) -> list[partition]:
        """Divide the graph into partitions, in topological order.

        Args:
            policy: `partition.policy`: fusion, or debug (each op is a partition).

        Returns:
            Partitions of one or more ops; ops that oneDNN lacks are partitions that are not supported.

        Raises:
            InvalidArgumentError: the graph is not finalized. UnsupportedError: oneDNN would end the process.
            TypeError: no policy.

        C++: get_partitions (dnnl_graph_graph_filter, _get_partition_num, _get_partitions).
        """
        chosen = member(partition_policy, policy, "graph.get_partitions: 'policy'")
        if not self.is_finalized():
            raise InvalidArgumentError("graph.get_partitions: the graph is not finalized; call finalize first")
        if chosen is partition_policy.fusion:
            self._check_matcher()
        self._native.filter(chosen)
        return [partition._of(one, self._runtime, self._ops) for one in self._native.partitions()]

    def _check_matcher(self) -> None:
        """Raises for graphs that crash oneDNN's pattern matcher."""
        ops = list(self._ops.values())
        edges = [Edges(o._kind, *([t.get_id() for t in ts] for ts in (o._inputs, o._outputs))) for o in ops]
        for i in crashes_matcher(edges, self._runtime.version_info):
            raise UnsupportedError(
                f"graph.get_partitions: {ops[i]._where}: oneDNN {self._runtime.version} ends the process where "
                "Dequantize makes the src of a Convolution and no op its weights; take partition.debug, or dequantize "
                "the weights as well"
            )

    def set_fpmath_mode(self, mode: fpmath_modes, apply_to_int: bool = False) -> None:
        """Set the narrower types that oneDNN may compute f32 ops with.

        Args:
            mode: `fpmath_mode`.
            apply_to_int: whether integer ops may be computed in floating point, too.

        Raises:
            UnsupportedError: before oneDNN 3.7; pass the mode to `graph(kind, mode)` there.
            InvalidArgumentError: the graph is finalized. TypeError: arguments of other types.

        C++: set_fpmath_mode (dnnl_graph_graph_set_fpmath_mode).
        """
        chosen = member(fpmath_modes, mode, "graph.set_fpmath_mode: 'mode'")
        of_int = boolean(apply_to_int, "graph.set_fpmath_mode: 'apply_to_int'")
        if self.is_finalized():
            raise InvalidArgumentError("graph.set_fpmath_mode: the graph is finalized")
        self._native.set_fpmath_mode(chosen, of_int)
        self._mode = chosen, of_int

    def get_fpmath_mode(self) -> tuple[fpmath_modes, bool]:
        """The `fpmath_mode`, and whether it holds for integer ops. C++: get_fpmath_mode."""
        return self._mode

    def set_deterministic(self, flag: bool) -> None:
        """Set whether executions must be reproducible: equal inputs give equal bits every time.

        Raises:
            UnsupportedError: before oneDNN 3.14. InvalidArgumentError: the graph is finalized. TypeError: no bool.

        C: dnnl_graph_graph_set_deterministic.
        """
        wanted = boolean(flag, "graph.set_deterministic: 'flag'")
        if self.is_finalized():
            raise InvalidArgumentError("graph.set_deterministic: the graph is finalized")
        self._native.set_deterministic(wanted)

    def get_deterministic(self) -> bool:
        """Whether executions must be reproducible: equal inputs give equal bits every time.

        Raises:
            UnsupportedError: before oneDNN 3.14.

        C: dnnl_graph_graph_get_deterministic.
        """
        return self._native.get_deterministic()

    def to_json(self) -> str:
        """The graph in benchdnn's format, which `benchdnn --graph --case=FILE` and `graph.from_json` read.

        Raises:
            InvalidArgumentError: an attribute is infinite, which JSON cannot express.
        """
        header = {
            "version": self._runtime.version,
            "engine_kind": engine_kind(self._native.engine_kind).name,
            "fpmath_mode": self._mode[0].name,
            "fpmath_mode_apply_to_int": "true" if self._mode[1] else "false",
        }
        for o in self._ops.values():
            for name, value in o._attrs.items():
                if math.inf in (values := value if isinstance(value, tuple) else (value,)) or -math.inf in values:
                    raise InvalidArgumentError(
                        f"graph.to_json: {o._where}: attribute {name!r} is infinite, and JSON has no such number; give "
                        "the largest one of float32, 3.4028234663852886e38, or its negative"
                    )
        ops = tuple(record(o) for o in self._ops.values())
        read = dict.fromkeys(t.id for o in ops for t in o.inputs)
        made = dict.fromkeys(t.id for o in ops for t in o.outputs)
        inputs = tuple(i for i in read if i not in made)
        outputs = tuple(i for i in made if i not in read)
        return json_format.Document(header, inputs, outputs, ops).text()

    @staticmethod
    def from_json(source: Any, runtime: Runtime | str | None = None) -> graph:
        """A graph from benchdnn's format, not finalized.

        Args:
            source: a path, JSON text, or a dict; `ONEDNN_GRAPH_DUMP=graph` writes such files.
            runtime: see `graph`.

        Raises:
            InvalidArgumentError: another format, or ops that do not fit the op table. UnsupportedError: ops that need a
            later version of oneDNN. FileNotFoundError: a path without a file. TypeError: another type of source.
        """
        document = json_format.read(source)
        kind = engine_kind[document.header.get("engine_kind", "cpu")]
        mode = fpmath_modes.__members__.get(document.fpmath_mode)
        if mode is None:
            raise InvalidArgumentError(f"graph.from_json: there is no fpmath_mode {document.fpmath_mode[:60]!r}")
        made = graph(kind, mode, runtime=runtime)
        if document.header.get("fpmath_mode_apply_to_int") == "true":
            made.set_fpmath_mode(mode, True)
        for item in document.ops:
            made.add_op(of_record(item))
        return made

    def __repr__(self) -> str:
        state = "finalized" if self.is_finalized() else "open"
        kind = engine_kind(self._native.engine_kind).name
        return f"<graph of {counted(len(self._ops), 'op')}, {kind}, {state}, runtime={self._runtime.name!r}>"

"""The logical graph as the user built it; independent of oneDNN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args, overload

import numpy as np

from .. import dtypes, words
from ..errors import InvalidArgumentError, ShapeError
from ..progress import Progress, check, telling
from ..runtime.arrays import as_array
from ..runtime.engines import Engine
from ..schema import BUILDERS
from ..schema.arguments import elsewhere, keywords_told, no_member, one_of, show
from ..shapes import Meta, check_sizes
from ..shapes.attributes import integer
from ..words import counted
from . import hooks, reclaim
from .algorithm_info import Selection
from .choices import Algorithm, FpmathMode, Policy, Precision, Tune
from .constants import Constant, kept
from .value import Dims, Late, Node, Value

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..net.net import Net
    from .choices import CompileOptions

    Array = np.ndarray[Any, Any]

FPMATH_MODES: tuple[FpmathMode, ...] = get_args(FpmathMode)
# ops of a graph that a notebook draws
_MOST_DRAWN = 200


class Graph:
    """A graph of oneDNN Graph ops on symbolic values.

    Args:
        engine: the engine that runs the graph (`dgo.engine(...)`); None: the default CPU engine.
        fpmath_mode: the dtype that f32 arithmetic may be computed in: strict (f32), bf16, f16, tf32 or any.
        name: shown in messages and drawings.

    Attributes:
        nodes, inputs, constants: the ops in the order in which they were built, and the Values of inputs and constants.
        outputs: {name: Value} of an imported graph; empty for others.

    Raises:
        InvalidArgumentError: an unknown fpmath_mode.
    """

    @keywords_told
    def __init__(
        self, engine: Engine | None = None, *, fpmath_mode: FpmathMode = "strict", name: str | None = None
    ) -> None:
        if engine is not None and not isinstance(engine, Engine):
            raise TypeError(f"Graph: 'engine' must come from dgo.engine(...), got {show(engine)}")
        self.engine = engine
        self.fpmath_mode: FpmathMode = one_of(fpmath_mode, "Graph: 'fpmath_mode'", FPMATH_MODES)
        self.name = _name(name, "graph") if name is not None else "graph"
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []
        self.constants: list[Value] = []
        # declared outputs of an imported graph by name
        self.outputs: dict[str, Value] = {}
        # an imported graph's nets take all inputs, also those that no op reads
        self._keeps_inputs = False
        # the file of an imported graph
        self._source: Any = None
        self._names: set[str] = set()
        self._promised: set[str] = set()
        self._counts: dict[str, int] = {}
        self._next_id = 0

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __repr__(self) -> str:
        inputs, constants, nodes = len(self.inputs), len(self.constants), len(self.nodes)
        return (
            f"Graph({self.name!r}, {counted(inputs, 'input')}, {counted(constants, 'constant')}, "
            f"{counted(nodes, 'op')})"
        )

    def __str__(self) -> str:
        return hooks.call("to_text", self)

    def _repr_svg_(self) -> str | None:
        """Returns the graph drawn as SVG for a notebook; None for graphs too large to read, which are printed."""
        return hooks.call("to_svg", self) if len(self.nodes) <= _MOST_DRAWN else None

    # not for type checkers: they would take any name for one of the graph
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_member(self, name, f"; {words.BUILDERS}" if words.OPS.get(name, name) in BUILDERS else "")

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            raise TypeError(f"{self!r} is no function{elsewhere('Graph', 'run')}")

    # -- building ---------------------------------------------------------------------------------------------

    @keywords_told
    def input(
        self,
        name: str,
        shape: Sequence[int | None],
        dtype: Any = "f32",
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Add an input: a tensor that is passed at the call.

        Args:
            name: unique in this graph.
            shape: sizes; None for a dynamic dim, whose size is known at the call only.
            dtype: a canonical name ("f32", "bf16", ...) or a NumPy dtype.
            strides: in elements; None: row-major. Arrays of other strides are accepted: the first call with them
                compiles another plan.

        Returns:
            The Value, an operand for builders of `dgo.ops`; a call passes its array by position or as `name=array`.

        Raises:
            InvalidArgumentError: a name that is taken, a dtype that oneDNN lacks.
            ShapeError: sizes or strides below 0. TypeError: wrong Python types.
        """
        where = f"Graph.input {name!r}"
        dims = _shape(shape, where)
        value = self._value(dims, dtypes.canonical(dtype, where), self._claim(_name(name, where), where))
        if strides is not None:
            value.strides = _strides(strides, dims, where)
        self.inputs.append(value)
        return value

    def constant(self, array: Any, name: str | None = None) -> Value:
        """Add a constant: a tensor whose elements never change, such as weights, which nets pack once.

        The graph copies `array`, so that later changes of it have no effect; memory that can never change, such as
        `np.frombuffer` of bytes, is not copied.

        Args:
            array: a NumPy array, or an object with `__dlpack__` on the CPU, of any shape and strides.
            name: unique in this graph; None: generated.

        Raises:
            InvalidArgumentError: a name that is taken, a dtype that oneDNN lacks. TypeError: no array.
        """
        where = "Graph.constant" + (f" {name!r}" if name is not None else "")
        if isinstance(array, Value):
            raise TypeError(f"{where}: needs an array, got a Value")
        data, filed = kept(as_array(array, where))
        dtype = dtypes.canonical(data.dtype, where)
        data.flags.writeable = False
        if not filed:
            reclaim.account(data, self)
        unique = self._claim(_name(name, where), where) if name is not None else self._fresh("constant")
        return self._hold(Constant(data), dtype, unique)

    def _keep(self, constant: Constant, name: str | None = None) -> Value:
        """Adds a constant without a copy of its elements, which may be computed when they are needed.

        A taken `name` is replaced by another. Raises InvalidArgumentError for a dtype that oneDNN lacks.
        """
        free = name is not None and name not in self._names
        unique = self._claim(str(name), "") if free else self._fresh("constant")
        return self._hold(constant, dtypes.canonical(constant.dtype), unique)

    def _hold(self, constant: Constant, dtype: str, name: str) -> Value:
        value = self._value(constant.shape, dtype, name)
        value._held = constant
        self.constants.append(value)
        return value

    def _add_node(
        self,
        kind: str,
        label: str,
        inputs: Sequence[Value],
        attrs: Mapping[str, Any],
        metas: Iterable[Meta],
        slots: Sequence[str],
        name: str | None = None,
        default_name: str | None = None,
        late: Late | None = None,
    ) -> tuple[Value, ...]:
        """Appends an op whose attributes and shapes were checked by a builder of `ops`.

        Args:
            kind, inputs, attrs: the op; `metas` are shape and dtype of each output, `slots` their names.
            label: the op's name in messages.
            name: unique in this graph; None: `default_name` if it is free, else generated.
            late: see Node.

        Returns:
            The outputs. A single output has the op's name, several are named `op.slot`.

        Raises:
            InvalidArgumentError: a name that is taken, a Value of another graph.
        """
        where = label
        for value in inputs:
            self._check_owner(value, where)
        if name is not None:
            node_name = self._claim(_name(name, where), where)
        elif default_name is not None and default_name not in self._names:
            node_name = self._claim(default_name, where)
        else:
            node_name = self._fresh(default_name or label)
        node = Node(len(self.nodes), kind, node_name, tuple(inputs), attrs)
        node.late = late
        outputs = []
        for meta, slot in zip(metas, slots, strict=True):
            alone = len(slots) == 1
            unique = node_name if alone else self._claim(f"{node_name}.{slot}", where)
            value = self._value(meta.shape, meta.dtype, unique)
            value.node = node
            outputs.append(value)
        node.outputs = tuple(outputs)
        self.nodes.append(node)
        return node.outputs

    def _check_owner(self, value: Value, where: str) -> None:
        """Raises InvalidArgumentError if `value` belongs to another graph; `where` names the op in the message."""
        if value.graph is not self:
            alike = ", two objects of one name" if value.graph.name == self.name else ""
            raise InvalidArgumentError(
                f"{where}: value {value.name!r} of shape {value.shape} belongs to another graph ({value.graph!r}, not "
                f"{self!r}{alike}); pass it in with Graph.input"
            )

    def _promise(self, names: Iterable[str]) -> None:
        """Reserves names for later additions under these names, so that none of them is generated."""
        self._promised.update(names)

    def _reserve(self, name: str) -> None:
        """Excludes a name from later additions."""
        self._names.add(name)

    def _value(self, shape: Dims, dtype: str, name: str) -> Value:
        value = Value(self, self._next_id, tuple(shape), dtype, name)
        self._next_id += 1
        return value

    def _claim(self, name: str, where: str) -> str:
        if name in self._names:
            raise InvalidArgumentError(
                f"{where}: the name {name!r} is used twice in graph {self.name!r}; use another name"
            )
        self._names.add(name)
        return name

    def _fresh(self, stem: str) -> str:
        while True:
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            name = f"{stem}_{count}"
            if name not in self._names and name not in self._promised:
                self._names.add(name)
                return name

    # -- methods that reach upwards ---------------------------------------------------------------------------

    if TYPE_CHECKING:

        @overload
        def compile(self, outputs: Value, **options: Unpack[CompileOptions]) -> Net[Array]: ...

        @overload
        def compile(
            self, outputs: tuple[Value, Value, Unpack[tuple[Value, ...]]], **options: Unpack[CompileOptions]
        ) -> Net[tuple[Array, ...]]: ...

        # a list may have one output, whose net returns no tuple
        @overload
        def compile(
            self,
            outputs: Sequence[Value] | Mapping[str, Value] | None = None,
            **options: Unpack[CompileOptions],
        ) -> Net[Any]: ...

    @keywords_told
    def compile(
        self,
        outputs: Value | Sequence[Value] | Mapping[str, Value] | None = None,
        *,
        policy: Policy = "fusion",
        tune: Tune = "heuristic",
        algorithm: Algorithm | None = None,
        precision: Precision | None = None,
        samples: Iterable[Any] | None = None,
        max_error: float | None = None,
        algorithms: Mapping[str, Selection] | None = None,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> Net[Any]:
        """Compile the graph into a net, which can be called with arrays.

        Args:
            outputs: a Value, a sequence of Values, or {name: Value}; None: the outputs of an imported graph.
            policy: "fusion" fuses ops into partitions; "debug" compiles each op as one partition.
            tune: how algorithms and backends are chosen: "heuristic" by the cost model, "measure" by timing them
                (autotuning), "off" not at all: oneDNN runs the ops as they are, where it computes them correctly.
                "measure" takes up to 2 seconds for an op and 20 for the graph, the most expensive ops first; the
                other ops are chosen by the cost model.
            algorithm: the set of convolution algorithms to choose from. "direct": none with fewer multiplications than
                direct sums. "auto": also Winograd (minimal filtering) of small tiles, which is exact on small
                integers. "fast": also large tiles, with up to 8 times the error of direct sums. With "direct" an Inf
                or NaN reaches only the results of ConvTranspose and its gradients that it is a term of; with "auto"
                it may spread to neighbouring results.
            precision: mixed precision for f32 graphs. "bf16" or "f16" converts operands of products to this dtype and
                sums in f32, where the estimated time is less; the ops that read the results stay in this dtype, and
                each rounds once. Softmax, reductions, powers and statistics of norms stay in f32, and so do inputs
                and outputs. A graph's fpmath_mode other than "strict" takes precedence. None: all dtypes as
                declared. "auto": the dtype of the two that saves more time, or f32 where the CPU multiplies neither
                or the error would exceed `max_error`; ops that cause the largest errors return to f32 first.
                `net.precision_report` and `explain()` show the choice.
            samples: for precision="auto", operands for calls of the net: arrays, tuples of arrays, or
                {input name: array}.
            max_error: for precision="auto", the bound of the error at each output over the samples, relative to the
                output's largest absolute value in f32; None: 0.01.
            algorithms: {op name: selection} for convolutions, their gradients and MatMul. A selection is the name of
                an algorithm from `net.algorithms(op)`, or a predicate that takes an `AlgorithmInfo` and returns
                whether the algorithm may be used; the best allowed algorithm runs. `algorithm` bounds the selection.
                With dynamic dims a selection that allows no algorithm is an error at the call. Saved and pickled nets
                hold a predicate as the name of the algorithm that it chose in the plan used last.
            progress: for tune="measure", called with the number of measured ops, the number of all ops and a text;
                None: a bar on a terminal. With dynamic dims ops are measured at the first call with new sizes.
            threads: the number of threads of the net's calls; None: the number of `set_num_threads` at each call. A
                `dgo.Pool` has a number for all calls that it runs.

        Returns:
            A `Net`: `net(x)`, `net(src=x)`, `net(x, out=buffer)`, `net.run({"src": x})`.

        Raises:
            InvalidArgumentError: no outputs, a Value of another graph, an unknown choice; precision="auto" without
                samples, or with samples that do not fit the inputs; an op or algorithm that does not exist or is not
                allowed.
            UnsupportedError: the loaded library cannot run an op, and no builtin kernel computes it.
        """
        check(progress, "Graph.compile")
        with telling(progress):
            net: Net[Any] = hooks.call(
                "compile",
                self,
                outputs,
                policy=policy,
                tune=tune,
                algorithm=algorithm,
                precision=precision,
                samples=samples,
                max_error=max_error,
                algorithms=algorithms,
                threads=threads,
            )
        return net

    @classmethod
    def from_json(cls, source: Any, engine: Engine | None = None) -> Graph:
        """Read a graph in benchdnn's JSON format from a path, a text or a dict; tensors are named by their ids.

        Outputs get the strides that the file states; strides of intermediate tensors are kept for `to_json` only.

        Args:
            source: a path, the text of a file, or a dict.
            engine: the engine that runs the graph; None: the default CPU engine.

        Raises:
            InvalidArgumentError, ShapeError: another format, unknown op kinds, cycles, tensors that disagree.
            FileNotFoundError: no such path. TypeError: `source` is of another type.
        """
        return hooks.call("from_json", source, engine)

    def to_json(self) -> str:
        """The graph in benchdnn's JSON format."""
        return hooks.call("to_json", self)

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return hooks.call("to_dot", self)


def _name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where}: a name must be a string, got {type(name).__name__}")
    if not name or "\0" in name:
        raise InvalidArgumentError(f"{where}: a name must not be empty or hold a NUL character, got {name!r}")
    return name


def _shape(shape: object, where: str) -> Dims:
    if isinstance(shape, str | bytes | Mapping) or not hasattr(shape, "__iter__"):
        raise TypeError(f"{where}: 'shape' must be a sequence of ints (or None), got {type(shape).__name__}")
    given = tuple(shape)
    unknown = next((item for item in given if isinstance(item, str) or (isinstance(item, int) and item == -1)), None)
    if unknown is not None:
        raise ShapeError(f"{where}: 'shape' has a size {unknown!r}; a size that is known at the call only is None")
    dims = tuple(None if item is None else integer(item, "shape", where) for item in given)
    check_sizes(dims, where, "'shape'")
    return dims


def _strides(strides: object, dims: Dims, where: str) -> tuple[int, ...]:
    if isinstance(strides, str | bytes | Mapping) or not hasattr(strides, "__iter__"):
        raise TypeError(f"{where}: 'strides' must be a sequence of ints, got {type(strides).__name__}")
    values = tuple(integer(item, "strides", where) for item in strides)
    if len(values) != len(dims):
        raise ShapeError(
            f"{where}: 'strides' has {counted(len(values), 'value')}, 'shape' has {len(dims)}; they must be equal"
        )
    if any(value < 0 for value in values):
        raise InvalidArgumentError(f"{where}: 'strides' must not be negative, got {values}; pass a copy of the array")
    return values

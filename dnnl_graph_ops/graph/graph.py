"""The logical graph: what the user asked for, as data. Nothing here knows the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, get_args, overload

import numpy as np

from .. import dtypes, words
from ..errors import InvalidArgumentError, ShapeError
from ..progress import Progress, check, telling
from ..runtime.arrays import as_array
from ..runtime.engines import Engine
from ..schema import BUILDERS
from ..schema.arguments import keywords_told, no_member, one_of, show, suggest
from ..shapes import Attributes, Meta, check_sizes
from ..shapes.attributes import integer
from . import hooks, reclaim
from .algorithm_info import Selection
from .choices import Algorithm, FpmathMode, Policy, Precision, Tune
from .constants import Constant, in_file, never_changes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..compile.net import Net
    from .choices import CompileOptions

    Array = np.ndarray[Any, Any]

Dims = tuple[int | None, ...]

FPMATH_MODES: tuple[FpmathMode, ...] = get_args(FpmathMode)


def _binary(builder: str) -> tuple[Callable[[Value, Any], Value], Callable[[Value, Any], Value]]:
    """An operator of values, and the one for a value on the right."""

    def operator(self: Value, other: Any) -> Value:
        return hooks.call("binary", builder, self, other)

    def reflected(self: Value, other: Any) -> Value:
        return hooks.call("binary", builder, other, self)

    return operator, reflected


class Value:
    """A tensor of a graph: a graph input, a constant, or the output of an op.

    Attributes:
        shape: sizes, with None for a dim that is known at the call only.
        dtype: a canonical name such as "f32".
        strides: in elements, of a graph input that states them; else None.
        name: unique in the graph.
        graph: the graph that it is a tensor of.
        node: the op that it is an output of; of inputs and constants None.
    """

    __slots__ = ("__weakref__", "_held", "_id", "dtype", "graph", "name", "node", "shape", "strides")

    # NumPy must not take `array + value` apart element by element
    __array_ufunc__ = None

    def __init__(self, graph: Graph, id: int, shape: Dims, dtype: str, name: str) -> None:
        self.graph = graph
        self._id = id
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.node: Node | None = None
        # of a constant its elements
        self._held: Constant | None = None
        self.strides: tuple[int, ...] | None = None

    @property
    def constant(self) -> np.ndarray[Any, Any] | None:
        """The elements of a constant, of other values None; `is_constant` asks without reading a file again."""
        return None if self._held is None else self._held.array

    @constant.setter
    def constant(self, array: np.ndarray[Any, Any]) -> None:
        self._held = Constant(array)

    @property
    def is_constant(self) -> bool:
        """Whether its elements are in the graph; asks without reading a file again."""
        return self._held is not None

    @property
    def _meta(self) -> Meta:
        """Shape and dtype."""
        return Meta(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Value({self.name!r}, shape={self.shape}, dtype={self.dtype!r})"

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __matmul__, __rmatmul__ = _binary("matmul")
    # a <= b is b >= a; == stays identity, as values are keys of dictionaries
    __ge__, __le__ = _binary("greater_equal")

    def __neg__(self) -> Value:
        return self * -1

    def __abs__(self) -> Value:
        return hooks.call("unary", "abs", self)

    def __pow__(self, exponent: float) -> Value:
        if not isinstance(exponent, int | float | np.number):
            return NotImplemented
        return hooks.call("unary", "pow", self, beta=float(exponent))

    def __getitem__(self, key: Any) -> Value:
        """Part of a tensor, by ints, slices, None and `...` as of an array."""
        return hooks.call("item", self, key)

    # without it Python would index until an error ends the loop
    __iter__: ClassVar[None] = None

    def reshape(self, *shape: Any) -> Value:
        """The same elements in another shape, `reshape(2, -1)` or `reshape((2, -1))`; one size may be -1."""
        return hooks.call("reshape", self, *shape)

    @property
    def T(self) -> Value:
        """The tensor with its axes in reverse."""
        return hooks.call("transposed", self)

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self!r} is not known before the graph runs; see dgo.ops.select")

    # not for type checkers, which refuse these themselves
    if not TYPE_CHECKING:

        def __gt__(self, other: Any) -> bool:
            raise TypeError(f"no op computes '>' or '<' of {self!r}; use >= and <=, dgo.ops.greater_equal")

        __lt__ = __gt__

        def __getattr__(self, name: str) -> Any:
            # a pickle asks before anything is there
            if name.startswith("_") or name in Value.__slots__:
                raise AttributeError(name)
            meant = words.OPS.get(name, name)
            hint = (
                f"; use dgo.ops.{meant}" if meant in BUILDERS else suggest(name, ("shape", "dtype", "reshape", "graph"))
            )
            raise AttributeError(f"the Value {self.name!r} has no attribute {name!r}{hint}")


class Late(Protocol):
    """Makes the outputs of a node of its inputs, once their sizes are known."""

    def __call__(self, values: Sequence[Value], /) -> Sequence[Value]: ...

    def record(self, keep: Callable[[np.ndarray[Any, Any]], int], /) -> dict[str, Any]:
        """What it is made of, as JSON can hold it; the hook "late" reads it. `keep` numbers what lies beside that."""


class Host(Protocol):
    """Computes the outputs of a node from the arrays of its inputs.

    `key` is all that the results depend on besides these; `title` the op in words, `by` what computes it. `own`
    appends own code that does the same to a program, on dense views of what is read and written, where there is such.
    """

    @property
    def own(self) -> Callable[[Any, Sequence[Any], Sequence[Any]], None] | None: ...

    @property
    def key(self) -> bytes: ...

    @property
    def title(self) -> str: ...

    @property
    def by(self) -> str: ...

    def __call__(self, arrays: Sequence[np.ndarray[Any, Any]], /) -> Sequence[np.ndarray[Any, Any]]: ...


class Node:
    """One logical op: its kind (CamelCase, as in the op pages), checked attributes, inputs and outputs.

    Attributes:
        absorbed: ops whose work it took over when a net was compiled.
        folded: whether factors or sums of other ops became part of its constants then.
        late: of a Wildcard that stands for ops which depend on sizes: makes its outputs of its inputs with known sizes.
        host: of a Wildcard that `late` made: computes it.
    """

    __slots__ = ("absorbed", "attrs", "folded", "host", "id", "inputs", "kind", "late", "name", "outputs")

    def __init__(self, id: int, kind: str, name: str, inputs: tuple[Value, ...], attrs: Mapping[str, Any]) -> None:
        self.id = id
        self.kind = kind
        self.name = name
        self.inputs = inputs
        self.attrs = attrs if isinstance(attrs, Attributes) else dict(attrs)
        self.outputs: tuple[Value, ...] = ()
        self.absorbed: tuple[Node, ...] = ()
        self.folded = False
        self.late: Late | None = None
        self.host: Host | None = None

    def __repr__(self) -> str:
        return f"Node({self.kind}, {self.name!r})"


class Graph:
    """A graph of oneDNN Graph ops on symbolic values.

    Args:
        engine: where it runs (`dgo.engine(...)`); None: the default CPU engine.
        fpmath_mode: what f32 arithmetic may be computed in: strict, bf16, f16, tf32 or any.
        name: shown in messages and drawings.

    Attributes:
        nodes, inputs, constants: the ops in the order in which they were built, and the Values that no op computes.
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
        # the declared outputs of an imported graph, by name
        self.outputs: dict[str, Value] = {}
        # of an imported graph: its nets take all of its inputs, also those that no op reads
        self._keeps_inputs = False
        # the file that the graph was read from
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
        return f"Graph({self.name!r}, {inputs} inputs, {constants} constants, {nodes} ops)"

    def __str__(self) -> str:
        return hooks.call("to_text", self)

    # not for type checkers: they would take any name for one of the graph
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_member(self, name)

    # -- building ---------------------------------------------------------------------------------------------

    @keywords_told
    def input(
        self,
        name: str,
        shape: Sequence[int | None],
        dtype: Any = "f32",
        strides: Sequence[int] | None = None,
    ) -> Value:
        """A tensor that is passed at the call.

        Args:
            name: unique in this graph.
            shape: sizes; None for one that is known at the call only.
            dtype: a canonical name ("f32", "bf16", ...) or a NumPy dtype.
            strides: in elements; None: row-major. An array with other strides compiles a variant at its first call.

        Returns:
            The Value, which builders of `dgo.ops` take; a call passes its array by position or as `name=array`.

        Raises:
            InvalidArgumentError: a name that is taken, a dtype that oneDNN has not.
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
        """A tensor whose elements never change. A private copy is made, except of what can never change, such as
        `np.frombuffer` of bytes: later changes of `array` have no effect.

        Args:
            array: a NumPy array, or what has `__dlpack__` on the CPU, of any shape and strides.
            name: unique in this graph; None: made up.

        Raises:
            InvalidArgumentError: a name that is taken, a dtype that oneDNN has not. TypeError: no array.
        """
        where = "Graph.constant" + (f" {name!r}" if name is not None else "")
        if isinstance(array, Value):
            raise TypeError(f"{where}: needs an array, got a Value")
        given = as_array(array, where)
        data = given.view() if never_changes(given) else np.array(given, order="C", copy=True)
        dtype = dtypes.canonical(data.dtype, where)
        data.flags.writeable = False
        if not in_file(data):
            reclaim.account(data, self)
        unique = self._claim(_name(name, where), where) if name is not None else self._fresh("constant")
        return self._hold(Constant(data), dtype, unique)

    def _keep(self, constant: Constant, name: str | None = None) -> Value:
        """A constant whose elements somebody else keeps, or makes when they are needed.

        If `name` is taken, it gets another. Raises InvalidArgumentError for a dtype that oneDNN has not.
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
        """Append an op whose attributes and shapes have been checked (builders in `ops` do that).

        Args:
            kind, inputs, attrs: the op; `metas` are shape and dtype of each output, `slots` their names.
            label: how messages name the op.
            name: unique in this graph; None: `default_name` if it is free, else made up.
            late: see Node.

        Returns:
            The outputs. An only one is named as the op, several `op.slot`.

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
        """Keep names for what is added under them: none is made up for something else."""
        self._promised.update(names)

    def _reserve(self, name: str) -> None:
        """Keep a name from being given to what is added later."""
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
    ) -> Net[Any]:
        """Compile into a callable net.

        Args:
            outputs: a Value, a sequence of Values, or {name: Value}; None: the outputs of an imported graph.
            policy: "fusion" lets ops run as one partition; "debug" keeps one op a partition.
            tune: "heuristic" chooses equal, faster formulations by rule, "measure" by timing them, "off" runs the
                literal ops where they are correct. "measure" takes up to 2 seconds for an op and 20 for the graph, the
                heaviest first; what these do not reach keeps its estimate.
            algorithm: "direct" takes no form with fewer multiplications than the definition; "auto" may take those that
                are exact on small integers, "fast" any of them, with an error up to 8 times that of direct sums.
                With "direct" an Inf or NaN reaches only the results of ConvTranspose and its gradients that it is a
                term of; with "auto" it may spread to others near them.
            precision: "bf16" or "f16" lets f32 ops multiply such operands, with sums in f32, where that is faster by
                estimate; what hangs on them is kept in that type, rounded once an op. Softmax, reductions, powers and
                statistics of norms stay in f32, and so does the type of inputs and outputs. An op of a graph with
                another fpmath_mode than "strict" obeys that. None: everything as declared. "auto": whichever of both
                gains more, or f32 where the CPU multiplies neither or the error would exceed `max_error`; ops that
                cost most are put back to f32 first. `net.precision_report` and `explain()` say what was chosen.
            samples: for "auto", what the net is called with: arrays, tuples of arrays, or {input name: array}.
            max_error: for "auto", the largest error at any output over the samples, as a part of the largest absolute
                value there in f32; None: 0.01.
            algorithms: {op name: selection} for convolutions, their gradients and MatMul: the name of an algorithm as
                `net.algorithms(op)` lists it, or a predicate that takes an `AlgorithmInfo` and says whether that one
                may be used; the best of those that are left runs. `algorithm` says which there are to select from.
                With unknown dims a selection that nothing meets is an error at the call. Nets are saved and pickled
                with names: in the place of a predicate, of the algorithm that it chose in the plan used last.
            progress: for "measure", called with the number of ops measured, the number of all and a text; None: a bar
                on a terminal. With unknown dims ops are measured at the first call with a size, which is told as well.

        Returns:
            A `Net`: `net(x)`, `net(src=x)`, `net(x, out=buffer)`, `net.run({"src": x})`.

        Raises:
            InvalidArgumentError: no outputs, a Value of another graph, an unknown choice; "auto" without samples, or
                with such as the net does not take; an op or an algorithm that is not there, or may not be used.
            UnsupportedError: the loaded library cannot run an op and no equal form is known.
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
            )
        return net

    @classmethod
    def from_json(cls, source: Any, engine: Engine | None = None) -> Graph:
        """Read a graph in benchdnn's JSON format from a path, text or dict; tensors are named by their id.

        Results have the strides that the file states; strides of tensors between ops are kept for `to_json` only.

        Args:
            source: a path, the text of a file, or a dict.
            engine: where it will run; None: the default CPU engine.

        Raises:
            InvalidArgumentError, ShapeError: not this format, unknown kinds, cycles, tensors that disagree.
            FileNotFoundError: no such path. TypeError: another kind of source.
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
        raise ShapeError(f"{where}: 'strides' has {len(values)} values, 'shape' has {len(dims)}; they must be equal")
    if any(value < 0 for value in values):
        raise InvalidArgumentError(f"{where}: 'strides' must not be negative, got {values}; pass a copy of the array")
    return values

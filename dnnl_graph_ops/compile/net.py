"""A compiled graph: one executor per combination of shapes and strides, made when it is first seen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from .. import dtypes
from .._core import Executor, NetBase, PlanCache
from ..backends import onednn
from ..backends.backend import FusionGroup
from ..backends.table import group
from ..drawing import net_to_dot, net_to_svg
from ..errors import Error, InvalidArgumentError
from ..graph import AlgorithmInfo, Graph, Node, Value, hooks
from ..ir import reachable
from ..lowering.env import Env
from ..lowering.rewrites import listening
from ..passes.pipeline import watching
from ..runtime import arrays
from ..runtime import threads as pool
from ..runtime.device_array import DeviceArray
from ..runtime.dlpack import Array
from ..runtime.engines import Engine, default_engine
from ..runtime.locks import Builds
from ..strides import dense_strides, is_row_major
from . import selection
from .explain import Benchmark, Explanation, StepTime, explain, rewrites_of
from .pickled import MadeBy, made_here
from .plan import Plan
from .profile import profile
from .report import PrecisionReport
from .specialise import Ints, Layout, Options, PartitionInfo, Specialised, known_values, specialise

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np

    from .objects import GraphObjects

_MOST_SHAPES = 1024


class Net(NetBase):
    """A compiled graph. Made by `Graph.compile`.

    `net(x)`, `net(src=x)` and `net(x, out=buffer)` return one array, or a tuple in the order of the outputs;
    `net.run({"src": x})` returns {output name: array}. Inputs and outputs may be strided views; each new combination
    of shapes and strides is compiled at its first call and kept while all plans together take no more than
    `set_cache_limit` says; the one used last always is.

    Raises:
        TypeError: missing or unknown arguments, things that are not arrays.
        ShapeError, InvalidArgumentError: arrays that do not fit the graph.
    """

    #: what `precision="auto"` chose, and what that costs; of nets that were loaded from files None
    precision_report: PrecisionReport | None = None

    def __init__(self, graph: Graph, outputs: Mapping[str, Value], engine: Engine, options: Options) -> None:
        nodes, leaves = reachable(list(outputs.values()))
        selection.check_ops(options.algorithms, nodes)
        needed = set(leaves)
        self.inputs = tuple(value for value in graph.inputs if graph.keeps_inputs or value in needed)
        self._strides = tuple(_result_strides(name, value) for name, value in outputs.items())
        row_major = all(strides is None for strides in self._strides)
        super().__init__([value.name for value in self.inputs], len(outputs), PlanCache(), row_major)
        self.graph = graph
        self.outputs = dict(outputs)
        self.engine = engine
        self.options = options
        self._nodes = tuple(nodes)
        self._constants = tuple(value for value in leaves if value.is_constant)
        # shapes of results by those of inputs; and what the newest of them were inferred from, until it is compiled
        self._shapes: dict[tuple[Ints, ...], list[Ints]] = {}
        self._inferred: dict[tuple[Ints, ...], dict[Value, Value]] = {}
        # what plans to come may find packed
        self.holds: Sequence[Array] = ()
        self._builds = Builds()
        if all(None not in value.shape for value in self.inputs):
            ins = [self._declared(value) for value in self.inputs]
            self._specialise(ins, self._results(self._out_shapes([layout[0] for layout in ins])))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs in positional order."""
        return tuple(value.name for value in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs in the order in which they are returned."""
        return tuple(self.outputs)

    def __repr__(self) -> str:
        return f"Net({self.graph.name!r}, inputs={list(self.input_names)}, outputs={list(self.output_names)})"

    def __reduce__(self) -> tuple[Any, ...]:
        outputs = {name: value.id for name, value in self.outputs.items()}
        return _restore, (made_here(), self.graph, outputs, self.engine, self.named_options()), *self._state()

    def _state(self) -> tuple[dict[str, Any], ...]:
        """What a pickle has beside what the net is made of."""
        return () if self.precision_report is None else ({"precision_report": self.precision_report},)

    # -- calling ----------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run on arrays by name.

        Args:
            inputs: {name of an input: array}, of the declared shapes and dtypes, with any strides.
            out: {name of an output: array to write it to}, for some or all outputs; they must not overlap the inputs.

        Returns:
            {name of an output: array}.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call.
        """
        if not isinstance(inputs, Mapping):
            raise TypeError(f"{self!r}.run: needs a mapping of names to arrays, got {type(inputs).__name__}")
        if out is not None and not isinstance(out, Mapping):
            raise TypeError(f"{self!r}.run: 'out' must be a mapping of names to arrays, got {type(out).__name__}")
        results = self._call(self._by_name((), dict(inputs)), self._outs(out))
        return dict(zip(self.outputs, results, strict=True))

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Like a call, but returns at once; `.result()` of what it returns waits for the results.

        Submissions to nets of one engine run in the order in which they are made. The arrays are kept alive until
        then and must not be changed meanwhile. Raises nothing itself: what a call would raise, `.result()` raises.
        """
        from .submit import submit

        return submit(self.engine, self, args, kwargs)

    def _slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls that the native fast path has not seen before, or that are wrong."""
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None) if "out" not in self.input_names else None
        results = self._call(self._by_name(args, kwargs), self._outs(out))
        return results[0] if len(results) == 1 else tuple(results)

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = self.input_names
        if len(args) > len(names):
            raise TypeError(f"{self!r}: takes {len(names)} arrays ({', '.join(names)}), got {len(args)}")
        given = dict(zip(names, args, strict=False))
        known = frozenset(names)
        for name, value in kwargs.items():
            if name not in known:
                raise TypeError(f"{self!r}: has no input {name!r}; its inputs are {', '.join(names)}")
            if name in given:
                raise TypeError(f"{self!r}: input {name!r} was given twice")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise TypeError(f"{self!r}: missing the inputs {', '.join(missing)}")
        return [given[name] for name in names]

    def _outs(self, out: Any) -> list[Any]:
        names = self.output_names
        if out is None:
            return [None] * len(names)
        if isinstance(out, Mapping):
            for name in out:
                if name not in names:
                    raise TypeError(f"{self!r}: 'out' names {name!r}; the outputs are {', '.join(names)}")
            return [out.get(name) for name in names]
        items = list(out) if isinstance(out, tuple | list) else [out]
        if len(items) != len(names):
            raise TypeError(f"{self!r}: 'out' has {len(items)} arrays, the net has {len(names)} outputs")
        return items

    def _call(self, given: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        ins, results, executor = self.prepare(given, outs)
        executor.run(ins, results)
        return [result if item is None else item for result, item in zip(results, outs, strict=True)]

    def prepare(self, given: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any], Executor]:
        """Checked arrays, arrays for the results (new where `outs` has None), and the plan for them.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: `given` or `outs` do not fit the graph.
        """
        ins = self._operands(given)
        label = repr(self)
        layouts = [
            (array.shape, arrays.element_strides(array, f"{label}: input {name!r}"))
            for name, array in zip(self.input_names, ins, strict=True)
        ]
        shapes = self._out_shapes([layout[0] for layout in layouts])
        checked: list[Any] = []
        for (name, value), item, shape in zip(self.outputs.items(), outs, shapes, strict=True):
            where = f"{label}: 'out'" + (f" for {name!r}" if len(self.outputs) > 1 else "")
            target = None if item is None else arrays.as_operand(item, self.engine, where)
            if target is not None:
                arrays.check_out(target, shape, value.dtype, where)
            checked.append(target)
        written = [("out", array) for array in checked if array is not None]
        if written:
            arrays.check_apart(written, list(zip(self.input_names, ins, strict=True)), label)
        out_layouts = self._results(shapes, checked)
        executor = self._specialise(layouts, out_layouts)
        # what comes from the engine's memory stays there
        home = self.engine if any(isinstance(array, DeviceArray) for array in ins) else None
        results = [
            arrays.empty(shape, value.dtype, None if out_layouts is None else out_layouts[i][1], home)
            if array is None
            else array
            for i, (array, shape, value) in enumerate(zip(checked, shapes, self.outputs.values(), strict=True))
        ]
        return ins, results, executor

    def _operands(self, given: Sequence[Any]) -> list[Any]:
        found = []
        label = repr(self)
        for value, item in zip(self.inputs, given, strict=True):
            where = f"{label}: input {value.name!r}"
            array = arrays.as_operand(item, self.engine, where)
            arrays.check_dtype(array, value.dtype, where)
            arrays.check_shape(array, value.shape, where)
            found.append(array)
        return found

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Refuse what `run` would, and compute nothing.

        Args:
            inputs: as `run` takes them.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: it does not.
        """
        self._operands(self._by_name((), dict(inputs)))

    def _results(self, shapes: Sequence[tuple[int, ...]], given: Sequence[Any] | None = None) -> list[Layout] | None:
        """How the results lie: as the given arrays, else as a graph file says; None if all are new and row-major."""
        strides = [
            arrays.element_strides(array, "out") if array is not None else stated
            for array, stated in zip(given or [None] * len(shapes), self._strides, strict=True)
        ]
        if all(item is None for item in strides):
            return None
        return [
            (shape, dense_strides(shape) if item is None else item) for shape, item in zip(shapes, strides, strict=True)
        ]

    # -- plans ------------------------------------------------------------------------------------------------

    def _declared(self, value: Value) -> Layout:
        shape = tuple(int(n) for n in value.shape)  # type: ignore[arg-type]
        return shape, value.strides or dense_strides(shape)

    def _out_shapes(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        if all(tuple(shape) == value.shape for shape, value in zip(shapes, self.inputs, strict=True)):
            return [tuple(map(int, value.shape)) for value in self.outputs.values()]  # type: ignore[arg-type]
        key = tuple(shapes)
        found = self._shapes.get(key)
        if found is None:
            values = self._infer(shapes)
            found = [values[value].shape for value in self.outputs.values()]  # type: ignore[misc]
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key], self._inferred = found, {key: values}
        return found

    def _infer(self, shapes: Sequence[tuple[int, ...]]) -> dict[Value, Value]:
        """The values of the graph with every dim known, as copies."""
        known: dict[Value, tuple[int, ...]] = dict(zip(self.inputs, shapes, strict=True))
        known.update({value: value.shape for value in self._constants})  # type: ignore[misc]
        return known_values(self._nodes, known)

    def _specialise(self, ins: Sequence[Layout], outs: Sequence[Layout] | None) -> Executor:
        key = _described(self.inputs, ins), None if outs is None else _described(self.outputs.values(), outs)
        return self._builds.once(lambda: self._plans.find(*key), lambda: self._made(ins, outs).plan.executor)

    def _made(self, ins: Sequence[Layout], outs: Sequence[Layout] | None) -> Specialised:
        """A new plan, which is kept unless plans were dropped meanwhile: it may be wrong for the threads of others."""
        start = self._plans.start()
        made = self._build([layout[0] for layout in ins], ins, outs)
        self._plans.add(made.plan.executor, made, start)
        return made

    def _build(
        self, shapes: Sequence[tuple[int, ...]], ins: Sequence[Layout], outs: Sequence[Layout] | None
    ) -> Specialised:
        # whoever takes them changes them
        values = self._inferred.pop(tuple(shapes), None) or self._infer(shapes)
        if any(node.late for node in self._nodes):
            nodes, _ = reachable([values[value] for value in self.outputs.values()])
        else:
            nodes = [node for node in (values[n.outputs[0]].node for n in self._nodes) if node is not None]
        return specialise(
            nodes,
            [(values[value], layout) for value, layout in zip(self.inputs, ins, strict=True)],
            [values[value] for value in self._constants],
            [(values[v], None if outs is None else outs[i]) for i, v in enumerate(self.outputs.values())],
            self.env(),
            options=self.options,
            name=self.graph.name,
        )

    def env(self) -> Env:
        """What lowering may depend on."""
        return Env(
            self.engine,
            pool.get_num_threads(),
            self.options.tune,
            self.options.algorithm,
            self.graph.fpmath_mode,
            any(None in value.shape for value in self.inputs),
        )

    def clear_plans(self) -> None:
        """Drop every plan; each is built anew when it is needed."""
        self._plans.clear()

    def plan_count(self) -> int:
        """How many plans it has now, one for each combination of shapes and strides that was called."""
        return self._plans.info()["size"]

    # -- files --------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
        """The ops and the constants that its outputs depend on."""
        return self._nodes, self._constants

    def constants_read(self) -> list[np.ndarray[Any, Any]]:
        """By the plans that it has now."""
        return [array for executor in self._plans.executors() for array in executor.constants]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the net to a file for `dgo.load`: ops, options, constants and what its plans have packed of them.

        A net of unknown dims has plans once it was called: call it with a usual size first. A predicate of
        `compile(algorithms=...)` is saved as the name of the algorithm that it chose in the plan used last. All of it
        is in the one file, what came from an ONNX file too. What was at `path` is replaced when all is written; nets
        loaded from that go on with it.

        Raises:
            InvalidArgumentError: a predicate has chosen nothing yet.
            UnsupportedError: a Wildcard, a device's engine that belongs to a queue of this process, or too many ops.
            OSError: the file cannot be written.

        Warns:
            UserWarning: it has constants, but no plan.
        """
        hooks.call("save", self, path)

    # -- looking inside ---------------------------------------------------------------------------------------

    def latest(self) -> Specialised | None:
        """The plan that ran last, or was made since."""
        executor = self._plans.latest()
        return None if executor is None else self._whole(executor)

    def _whole(self, executor: Executor) -> Specialised:
        """What there is to say of a plan. Only the one made last has that; another is made once more, and kept so."""

        return self._builds.once(lambda: self._plans.payload(executor), lambda: self._made(*self._layouts(executor)))

    def _layouts(self, executor: Executor) -> tuple[list[Layout], list[Layout] | None]:
        """How a plan's inputs and outputs lie; None: all outputs are row-major."""
        ins, outs = ([_stated(*layout) for layout in some] for some in (executor.inputs, executor.outputs))
        return ins, None if all(is_row_major(*layout) for layout in outs) else outs

    def narrow(self) -> Mapping[str, float]:
        """Names of the products that the plan used last computes in a narrow type, and the seconds that each gains."""
        latest = self.latest()
        return {} if latest is None else latest.narrow

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        """What was given to the library, in order; with tune="off" these are the literal ops.

        Before the first call of a net with unknown dims: the groups of ops that will be compiled together.
        """
        latest = self.latest()
        if latest is None or self.options.tune == "off":
            env = self.env()
            groups = group(list(self._nodes), list(self.outputs.values()), env, self.options.policy)
            return tuple(_describe_group(item, env) for item in groups)
        return latest.partitions

    def benchmark(self, *args: Any, repeat: int = 100, **kwargs: Any) -> Benchmark:
        """Time the native loop alone on these arrays: `.median`, `.minimum`, `.times` in seconds per execution.

        `repeat` executions are timed, from 1 to 10,000,000.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call; another `repeat`.
        """
        self._check_repeat(repeat)
        ins, outs, executor = self.prepare(self._by_name(args, kwargs), [None] * len(self.outputs))
        return Benchmark(tuple(executor.benchmark(ins, outs, repeat)))

    def profile(self, *args: Any, repeat: int = 20, **kwargs: Any) -> list[StepTime]:
        """Median time of each step of the plan on these arrays; str() of the list is a table, the longest first.

        A step is named with the ops and kinds of its partition, its share of the whole, and what it reaches of this
        machine's peak: of multiplications for convolutions and matrix products, of memory's rate for all else. Both
        peaks are measured at the first call, which takes a fraction of a second. Each step is timed `repeat` times.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call; `repeat` out of range.
        """
        self._check_repeat(repeat)
        ins, outs, executor = self.prepare(self._by_name(args, kwargs), [None] * len(self.outputs))
        return profile(self._whole(executor), self.engine, ins, outs, repeat)

    def _check_repeat(self, repeat: Any) -> None:
        if isinstance(repeat, bool) or not isinstance(repeat, int):
            raise TypeError(f"{self!r}: 'repeat' must be an int, got {type(repeat).__name__}")
        if not 1 <= repeat <= 10**7:
            raise InvalidArgumentError(f"{self!r}: 'repeat' must be from 1 to 10000000, got {repeat}")

    def explain(self, *, rewrites: bool = False, passes: bool = False) -> Explanation:
        """What runs and why, of the plan made or used last; str() is a table, `.to_dict()` the data.

        The first time, each partition is compiled and run apart, on ones: the net itself stays as it is.

        Args:
            rewrites: tell as well which rewrites of the graph fired, and which condition kept others from it; the plan
                is made once more for that.
            passes: tell the graph after each pass over it, and its groups and steps after each stage, likewise.

        Raises:
            InvalidArgumentError: the net has unknown dims and was never called, or its plans were dropped since.
        """
        said = self._with_choice(explain(self._planned("to explain"), self.engine, self.options))
        if not rewrites and not passes:
            return said
        executor = self._plans.latest()
        assert executor is not None
        ins, outs = self._layouts(executor)
        with listening() as reports, watching() as graphs:
            self._build([shape for shape, _ in ins], ins, outs)
        return replace(said, rewrites=rewrites_of(reports) if rewrites else (), passes=tuple(graphs) if passes else ())

    def _with_choice(self, said: Explanation) -> Explanation:
        report = self.precision_report
        return said if report is None else replace(said, chosen=report.summary)

    def algorithms(self, op: str) -> tuple[AlgorithmInfo, ...]:
        """Every algorithm that may compute a convolution, best first, in the plan made or used last.

        Args:
            op: the name of a convolution, a transposed one, a gradient of these, or a MatMul that runs as one.

        Returns:
            For each its name, seconds, workspace in bytes, errors and determinism, as `AlgorithmInfo` tells them; those
            that tune="measure" has timed come first. None where the op has nothing to compute.

        Raises:
            InvalidArgumentError: no op has the name, or it has one algorithm alone; the net has unknown dims and was
                never called, or its plans were dropped since.
            TypeError: `op` is no string.
        """
        where = f"{self!r}.algorithms"
        selection.convolution(op, self._nodes, where)
        plan = self._planned("whose algorithms there are")
        return selection.listed(op, plan.built.decisions, plan.narrow, plan.built.env, where)

    def named_options(self) -> Options:
        """The options with names of algorithms in the place of predicates: of those that these chose in the last plan.

        Raises:
            InvalidArgumentError: a predicate has chosen nothing yet.
        """
        if all(isinstance(wanted, str) for _, wanted in self.options.algorithms):
            return self.options
        decisions = self._planned("that predicates have chosen in").built.decisions
        return replace(self.options, algorithms=selection.named(self.options.algorithms, decisions, repr(self)))

    def _planned(self, wanted: str) -> Specialised:
        """The plan that ran last, or was made since.

        Raises:
            InvalidArgumentError: there is none.
        """
        latest = self.latest()
        if latest is None:
            raise InvalidArgumentError(f"{self!r}: has no plan; call it once, then there is one {wanted}")
        return latest

    def graph_api(self) -> GraphObjects:
        """What the library was given, as objects of `dnnl_graph_ops.graph_api`: copies, which share nothing with it.

        Returns:
            `.graph`: the plan used last, steps of own code as Wildcard ops named for what computes them;
            `.compiled_partitions`: those of all plans that the net has now, compiled once more.

        Raises:
            InvalidArgumentError: the net has unknown dims and was never called, or its plans were dropped since.
        """
        from .objects import objects  # only who asks needs the module

        last, others = self._plans_told()
        if not last:
            raise InvalidArgumentError(f"{self!r}: has no plan; call it once, then there is one to show")
        return objects(last, others, self.engine, self.graph.fpmath_mode)

    def _plans_told(self) -> tuple[list[Plan], list[Plan]]:
        """The plan used last, and all others."""
        latest = self._plans.latest()
        others = [self._whole(one).plan for one in self._plans.executors() if one is not latest]
        return [] if latest is None else [self._whole(latest).plan], others

    def to_dot(self) -> str:
        """The graph in Graphviz's language, coloured by partition."""
        return net_to_dot(self)

    def to_svg(self, path: Any = None) -> str:
        """The graph as SVG text, coloured by partition; written to `path` if given. Raises OSError as writing does."""
        return net_to_svg(self, path)


def _described(values: Iterable[Value], layouts: Sequence[Layout]) -> list[tuple[int, Ints, Ints]]:
    """Data type, shape and strides of arrays, as plans are looked up by."""
    return [(dtypes.CODES[value.dtype], *layout) for value, layout in zip(values, layouts, strict=True)]


def _stated(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """A layout as a plan has it, with strides for axes of one element as well."""
    dense = dense_strides(shape)
    if is_row_major(shape, strides):
        return tuple(shape), dense
    return tuple(shape), tuple(d if n == 1 else s for n, s, d in zip(shape, strides, dense, strict=True))


def _result_strides(name: str, value: Value) -> tuple[int, ...] | None:
    """Strides of a new array for a result; None: row-major."""
    if value.strides is None or None in value.shape:
        return None
    shape: tuple[int, ...] = value.shape  # type: ignore[assignment]
    if is_row_major(shape, value.strides):
        return None
    if not arrays.overlaps_itself(shape, value.strides):
        return value.strides
    if value.node is None:
        # a broadcast input that is returned as well
        return None
    raise InvalidArgumentError(
        f"Graph.compile: output {name!r} of shape {shape} has the strides {value.strides}, so that several of its "
        f"elements share memory; give it strides of distinct elements"
    )


def _describe_group(item: FusionGroup, env: Env) -> PartitionInfo:
    made = {value for node in item.nodes for value in node.outputs}
    read = {value for node in item.nodes for value in node.inputs}
    return PartitionInfo(
        tuple(node.name for node in item.nodes),
        tuple(node.kind for node in item.nodes),
        all(onednn.runs(node, env) for node in item.nodes),
        tuple(dict.fromkeys(v.name for node in item.nodes for v in node.inputs if v not in made)),
        tuple(v.name for node in item.nodes for v in node.outputs if v not in read or item.nodes[-1] is node),
    )


@singledispatch
def made(graph: Graph, outputs: Any, options: Options) -> Net:
    """The net of a graph, of whatever kind that is."""
    return Net(graph, _outputs(graph, outputs), graph.engine or default_engine(), options)


def _outputs(graph: Graph, outputs: Any) -> dict[str, Value]:
    if outputs is None:
        outputs = graph.outputs
    if isinstance(outputs, Value):
        found = {outputs.name: outputs}
    elif isinstance(outputs, Mapping):
        found = dict(outputs)
    elif isinstance(outputs, tuple | list):
        found = {}
        for value in outputs:
            name = value.name if isinstance(value, Value) else repr(value)
            if name in found:
                raise InvalidArgumentError(f"Graph.compile: output {name!r} is listed twice")
            found[name] = value
    else:
        raise TypeError(
            f"Graph.compile: 'outputs' must be a Value, a sequence of them, or {{name: Value}}, got "
            f"{type(outputs).__name__}"
        )
    if not found:
        raise InvalidArgumentError("Graph.compile: needs at least one output, g.compile(y) or g.compile([y, z])")
    for name, value in found.items():
        if not isinstance(name, str):
            raise TypeError(f"Graph.compile: names of outputs must be strings, got {type(name).__name__}")
        if not isinstance(value, Value):
            raise TypeError(f"Graph.compile: output {name!r} must be a Value, got {type(value).__name__}")
        graph.owns(value, "Graph.compile")
    return found


def _restore(made_by: MadeBy, graph: Graph, outputs: Mapping[str, int], engine: Engine, options: Options) -> Net:
    """Compile a pickled graph anew: plans are never in a pickle.

    Raises:
        InvalidArgumentError: a state that does not hold together, or that another version made and this cannot build.
    """
    try:
        by_id = {value.id: value for value in (*graph.inputs, *graph.constants)}
        by_id.update({value.id: value for node in graph.nodes for value in node.outputs})
        return Net(graph, {name: by_id[i] for name, i in outputs.items()}, engine, options)
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, Error) and made_by == made_here():
            raise
        raise InvalidArgumentError(
            f"a net that dnnl_graph_ops {made_by.version} pickled cannot be rebuilt by {made_here().version}: {error!r}"
        ) from error

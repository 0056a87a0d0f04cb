"""Defines Net, a compiled graph: its calls and its file, and what its plans say of themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from .. import words
from .._core import Executor
from ..backends import onednn
from ..backends.backend import FusionGroup
from ..backends.table import group
from ..compile import selection
from ..compile.plan import Plan
from ..compile.specialise import Options, PartitionInfo, Specialised
from ..compile.template import Templates
from ..drawing import net_to_dot, net_to_svg
from ..errors import InvalidArgumentError
from ..graph import AlgorithmInfo, Graph, Node, Value, hooks
from ..ir.env import Env
from ..ir.rewrites import listening
from ..ir.stages import watching
from ..progress import Progress
from ..reports.explain import Benchmark, Explanation, explain, rewrites_of
from ..reports.precision import PrecisionReport
from ..reports.profile import Profile, profile
from ..reports.tables import html
from ..runtime import arrays, deadline
from ..runtime import threads as pool
from ..runtime.device_array import DeviceArray
from ..runtime.engines import default_engine
from ..schema.arguments import no_member
from ..words import counted
from .outputs import named_outputs
from .planned import PlannedNet

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import TypeVar

    from ..reports.graph_api import GraphObjects
    from ..streaming.stream import Stream

    # what a call returns: an array, or a tuple of them
    Result = TypeVar("Result", default=Any, covariant=True)
else:
    from typing import TypeVar

    Result = TypeVar("Result")


class Net(PlannedNet, Generic[Result]):
    """A compiled graph, which can be called with arrays; `Graph.compile` returns it.

    `net(x)`, `net(src=x)` and `net(x, out=buffer)` return one array, or a tuple of arrays in the order of the outputs;
    `net.run({"src": x})` returns {output name: array}. Inputs and outputs may be strided views. Each new combination of
    shapes and strides gets a plan at its first call: sizes that differ much from earlier sizes are compiled, similar
    sizes are evaluated from a plan that is a function of sizes. A plan is kept while all plans together take no more
    memory than `set_cache_limit` allows; the plan used last is always kept.

    Attributes:
        graph, engine: the graph that was compiled, and the engine that runs it.
        inputs, outputs: Values of the graph: the inputs in positional order, and {name: output}.

    Raises:
        TypeError: an input is missing or unknown, or an argument is not an array.
        ShapeError, InvalidArgumentError: an array does not fit the graph.
    """

    if TYPE_CHECKING:

        def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Result: ...

    else:

        def __getattr__(self, name: str) -> Any:
            raise no_member(self, name)

    #: the choice of `precision="auto"` and its errors; None with another precision, and for nets loaded from files
    precision_report: PrecisionReport | None = None

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

    def _repr_html_(self) -> str:
        """Returns the inputs and outputs as a table for a notebook."""
        rows: list[tuple[str, ...]] = [("", "name", "dtype", "shape")]
        for role, values in (("input", {value.name: value for value in self.inputs}), ("output", self.outputs)):
            rows += [(role, name, value.dtype, str(value.shape).replace("None", "?")) for name, value in values.items()]
        return html(rows, title=f"Net {self.graph.name}")

    def __reduce__(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = hooks.call("pickled", self)
        return found

    def _state(self) -> tuple[dict[str, Any], ...]:
        return () if self.precision_report is None else ({"precision_report": self.precision_report},)

    # -- calling ----------------------------------------------------------------------------------------------

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Runs the net on arrays by name.

        Args:
            inputs: {name of an input: array}, of the declared shapes and dtypes, with any strides.
            out: {name of an output: array to write it to}, for some or all outputs; they must not overlap the inputs.
            timeout: the seconds that the call may take, compilation of a plan for new sizes included; None: any time.

        Returns:
            The results in a dictionary by output name.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call of the net.
            Timeout: the time was over before the last step. The call ends after the step, or the stage of compilation,
                that runs then; arrays in `out` are unfinished, and nothing of an unfinished plan is kept. The net is
                ready for the next call.
        """
        if timeout is not None:
            with deadline.after(deadline.checked(timeout, f"{self!r}.run")):
                return self.run(inputs, out)
        if not isinstance(inputs, Mapping):
            raise TypeError(
                f"{self!r}.run: needs a mapping of names to arrays, got {type(inputs).__name__}; all outputs are "
                f"returned, net.run({{{self.input_names[0] if self.inputs else 'name'!r}: array}})"
            )
        if out is not None and not isinstance(out, Mapping):
            raise TypeError(f"{self!r}.run: 'out' must be a mapping of names to arrays, got {type(out).__name__}")
        given, outs = self._by_name((), dict(inputs)), self._outs(out)
        results: Any
        if out is not None and ("out" in self.input_names or not all(type(item) is np.ndarray for item in outs)):
            results = self._call(given, outs)
        else:
            # the native fast path, to which a single result is no tuple
            single = len(outs) == 1
            results = self(*given) if out is None else self(*given, out=outs[0] if single else tuple(outs))
            results = (results,) if single else results
        return dict(zip(self.outputs, results, strict=True))

    def prepare(self, sizes: Iterable[Any], *, progress: Progress | None = None) -> int:
        """Compiles the plans of sizes in advance, so that calls with these sizes find their plan; computes no results.

        Args:
            sizes: a list of sizes. A size is {input name: shape}, where inputs of known shape may be left out; or a
                tuple with a shape for each input, in order; or, for a net of one input, a shape. A dim of a shape is an
                int, or a range that stands for each of its sizes; several ranges stand for all combinations. At most
                1024 sizes at a time.
            progress: called with the number of sizes done, the number of all sizes, and a text; None: a bar on a
                terminal.

        Returns:
            The number of plans that were compiled: 0 if there were plans for all sizes.

            The plans are for row-major arrays, or of the strides that `Graph.input` declared, and for the number of
            threads set now. They count in the limit of `set_cache_limit`. Other threads may call the net meanwhile;
            a call with a size that is being compiled waits for its plan. A net of stages (an ONNX model with sizes
            that depend on data) compiles the stages whose sizes follow from those of the inputs.

        Raises:
            TypeError: `sizes` is no list of sizes, or a dim no number. ShapeError: a shape does not fit its input, or
                the ops; plans of the sizes before stay.
            InvalidArgumentError: an input that the net lacks, or whose unknown dims are not stated; too many sizes.

        Warns:
            UserWarning: the limit of all plans dropped plans again, and the rest was not compiled; stages were left
                out.
        """
        from .prepare import prepare  # imported here, as few nets need the module

        return prepare(f"{self!r}.prepare", self.inputs, self._parts_at, sizes, progress)

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queues a call of the net and returns a future at once; `.result()` of the future waits for the results.

        Calls that are submitted to nets of one engine run one at a time, in the order of submission, so that a later
        call may read what an earlier one writes: on a CPU that overlaps with Python's work, not with other calls. A
        server, whose calls should run in parallel, submits to a `dgo.Pool`. The queue has no bound; `cancel` of a
        future works until its call begins. The arrays are kept alive until the call has run, and must not be changed
        until then. An error that the call raises is raised by `.result()`, not by `submit`.
        """
        from .submit import submit

        return submit(self.engine, self, args, kwargs)

    def stream(self, axis: int = -1, *, chunk: int, fixed: Mapping[str, Any] | None = None) -> Stream:
        """Opens a stream: the net on inputs that come piece by piece along an axis of unknown size.

        `push` of the stream takes the next samples and returns what became known, `flush` the rest. All results
        together are those of one call with the whole inputs: the same numbers for small integers, and up to rounding
        for others; and the same in each bit for every way to cut the inputs.

        Args:
            axis: the axis of the inputs along which they come; its size must be unknown (None), and inputs of known
                size at this axis do not run along it. Other axes may be unknown as well, such as the batch.
            chunk: the samples of the inputs that are computed at a time. It is rounded up to a multiple of
                `Stream.period`.
            fixed: {input name: array} of the inputs that do not run along the axis, such as a speaker's embedding.

        Returns:
            A `Stream`. Its steps are compiled now if the sizes of other axes are known, else by the first `push`; they
            are shared by all streams of the net.

        Raises:
            UnsupportedError: an op cannot run in chunks, such as a norm or attention over the axis, or a recurrence
                that begins at the end; the message names the op and where it stands.
            InvalidArgumentError: no input has an unknown size at the axis; a chunk below 1; arrays in `fixed` that do
                not fit. TypeError: wrong Python types, `fixed` lacks an input or has one too many.
        """
        stream: Stream = hooks.call("stream", self, axis, chunk, fixed)
        return stream

    def _slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a call that the native fast path does not handle: of new shapes or strides, or with wrong arguments."""
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None) if "out" not in self.input_names else None
        results = self._call(self._by_name(args, kwargs), self._outs(out))
        return results[0] if len(results) == 1 else tuple(results)

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any], where: str = "") -> list[Any]:
        names = self.input_names
        if len(args) > len(names):
            raise TypeError(
                f"{self!r}: takes {len(names)} array{'s' * (len(names) != 1)} ({', '.join(names)}), got {len(args)}"
            )
        given = dict(zip(names, args, strict=False))
        known = frozenset(names)
        for name, value in kwargs.items():
            if name not in known:
                meant = words.CALLS.get(name)
                hint = f"; {meant!r} is meant?" if meant else ""
                raise TypeError(
                    f"{where or repr(self)}: has no input {name!r}; its inputs are {', '.join(names)}{hint}"
                )
            if name in given:
                raise TypeError(f"{self!r}: input {name!r} was given twice")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            shapes = ", ".join(f"{v.name} {v.dtype} {v.shape}" for v in self.inputs if v.name in missing)
            raise TypeError(f"{where or repr(self)}: missing the inputs {', '.join(missing)}; pass arrays for {shapes}")
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
            raise TypeError(
                f"{self!r}: 'out' has {counted(len(items), 'array')}, the net has {counted(len(names), 'output')}"
            )
        return items

    def _call(self, given: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        ins, results, executor = self._resolved(given, outs)
        executor.run(ins, results)
        return [result if item is None else item for result, item in zip(results, outs, strict=True)]

    def _resolved(self, given: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any], Executor]:
        """Returns the checked inputs, the arrays for the results (new ones where `outs` has None), and their executor.

        `given`: an array for each input. `outs`: for each output an array to write the result to, or None. Raises
        TypeError, ShapeError or InvalidArgumentError if they do not fit the graph.
        """
        ins = self._operands(given)
        label = repr(self)
        layouts = [
            (array.shape, arrays.element_strides(array, f"{label}: input {name!r}"))
            for name, array in zip(self.input_names, ins, strict=True)
        ]
        # a new plan infers the shapes of results, which are looked up then
        new = self._row_major and all(item is None for item in outs)
        executor = self._specialise(layouts, None) if new else None
        shapes = self._out_shapes([layout[0] for layout in layouts])
        results: list[Any] = []
        for (name, value), item, shape in zip(self.outputs.items(), outs, shapes, strict=True):
            where = f"{label}: 'out'" + (f" for {name!r}" if len(self.outputs) > 1 else "")
            results.append(None if item is None else arrays.as_operand(item, self.engine, where))
            if item is not None:
                arrays.check_out(results[-1], shape, value.dtype, where)
        written = [("out", array) for array in results if array is not None]
        if written:
            arrays.check_apart(written, list(zip(self.input_names, ins, strict=True)), label)
        out_layouts = self._results(shapes, results)
        if executor is None:
            executor = self._specialise(layouts, out_layouts)
        # results are in the engine's memory if an input is
        home = self.engine if any(isinstance(array, DeviceArray) for array in ins) else None
        for i, (shape, value) in enumerate(zip(shapes, self.outputs.values(), strict=True)):
            if results[i] is None:
                results[i] = arrays.empty(shape, value.dtype, out_layouts[i][1] if out_layouts else None, home)
        return ins, results, executor

    def _operands(self, given: Sequence[Any], where: str = "") -> list[Any]:
        operands = []
        label = where or repr(self)
        for value, item in zip(self.inputs, given, strict=True):
            where = f"{label}: input {value.name!r}"
            operands.append(arrays.as_operand(item, self.engine, where))
            arrays.check_dtype(operands[-1], value.dtype, where)
            arrays.check_shape(operands[-1], value.shape, where)
        return operands

    def _check(self, inputs: Mapping[str, Any], where: str) -> None:
        """Checks that each input is an array of the declared dtype and shape, and computes nothing.

        Args:
            inputs: {name of an input: array}, as `run` takes them.
            where: begins the messages.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: an input is missing, unknown or no such array.
        """
        self._operands(self._by_name((), dict(inputs), where), where)

    # -- plans -------------------------------------------------------------------------------------------------

    @property
    def _nets(self) -> tuple[Net, ...]:
        """Returns the nets of single graphs that this one runs."""
        return (self,)

    def clear_plans(self) -> None:
        """Drops all plans; a later call builds the plan that it needs again."""
        for net in self._nets:
            net._plans.clear()
            net._templates, net._streams = Templates(), {}

    def plan_count(self) -> int:
        """Returns how many plans the net has now: one for each combination of shapes and strides, unless dropped."""
        return sum(net._plans.info()["size"] for net in self._nets)

    # -- files --------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
        """Returns the ops and the constants that the outputs depend on."""
        return self._nodes, self._constants

    def _constants_read(self) -> list[np.ndarray[Any, Any]]:
        """Returns the constant arrays, packed weights included, that the current plans read."""
        executors = (executor for net in self._nets for executor in net._plans.executors())
        return [array for executor in executors for array in executor.constants]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the net to a file for `dgo.load`: ops, options, constants and the weights that its plans have packed.

        A net of unknown dims has no plan, and so no packed weights, before its first call: first `prepare` a usual
        size, or call the net. After several sizes the file also has the sizes that plans of other sizes follow from, as
        far as the net has them. The loaded net then compiles its first size for other sizes as well, so that from the
        second size on a new size takes as long as in this process. A predicate of `compile(algorithms=...)` is saved as
        the name of the algorithm that it chose in the plan used last. The file contains all data, also
        constants of an ONNX file. An existing file at `path` is replaced when the new file is complete; nets that were
        loaded from the old file keep its data.

        Raises:
            InvalidArgumentError: a predicate has chosen no algorithm yet; the path of a device, pipe or socket, or with
                the end of another kind of file, such as .onnx.
            UnsupportedError: the net has a Wildcard or too many ops, or its engine belongs to a SYCL queue of this
                process.
            OSError: the file cannot be written.

        Warns:
            UserWarning: the net has constants, but no plan that has packed them.
        """
        hooks.call("save", self, path)

    # -- looking inside ---------------------------------------------------------------------------------------

    def _narrow(self) -> Mapping[str, float]:
        """Returns {name: estimated seconds saved} of the products that the plan used last computes in a narrow type."""
        plans = filter(None, (net._latest() for net in self._nets))
        return {name: gain for plan in plans for name, gain in plan.narrow.items()}

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        """Returns the partitions that the library runs in the plan used last, in order.

        Groups of ops that builtin kernels compute are not included; `explain().groups` has all groups.
        Before the first call of a net with unknown dims, and with tune="off", returns the groups of ops that are
        compiled together.
        """
        return tuple(part for net in self._nets for part in net._own_partitions())

    def _own_partitions(self) -> tuple[PartitionInfo, ...]:
        latest = self._latest()
        if latest is None or self._options.tune == "off":
            with pool.of_net(self._options.threads):
                env = self._env()
            groups = group(list(self._nodes), list(self.outputs.values()), env, self._options.policy)
            return tuple(_describe_group(item, env) for item in groups)
        return latest.partitions

    def benchmark(self, *args: Any, repeat: int = 100, **kwargs: Any) -> Benchmark:
        """Times executions of the plan on these arrays, in native code alone, without the Python call around it.

        `repeat` executions are timed, from 1 to 10,000,000. The result has `.median`, `.minimum` and `.times`, in
        seconds per execution.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call of the net, or if `repeat` is out of range.
        """
        ins, outs, executor = self._prepared(args, kwargs, repeat)
        return Benchmark(tuple(executor.benchmark(ins, outs, repeat)))

    def profile(self, *args: Any, repeat: int = 20, **kwargs: Any) -> Profile:
        """Times each step of the plan on these arrays; str() of the returned list is a table, the longest time first.

        `.save("trace.json")` of the list writes a trace for Perfetto.

        Each `StepTime` has the step's median seconds of `repeat` runs, the ops and kinds of its fusion group, its
        algorithm and operands, its share of the whole time, and its fraction of this machine's peak: of multiply-adds
        in its dtype for convolutions and matrix products, of memory bandwidth for other steps. The peaks are measured
        at the first call, which takes a fraction of a second; `.busy` marks peaks that other processes disturbed.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call of the net, or if `repeat` is out of range.
        """
        ins, outs, executor = self._prepared(args, kwargs, repeat)
        return profile(self._whole(executor), self.engine, ins, outs, repeat)

    def _prepared(self, args: Any, kwargs: Any, repeat: Any) -> tuple[list[Any], list[Any], Executor]:
        self._check_repeat(repeat)
        return self._resolved(self._by_name(args, kwargs), [None] * len(self.outputs))

    def _check_repeat(self, repeat: Any) -> None:
        if isinstance(repeat, bool) or not isinstance(repeat, int):
            raise TypeError(f"{self!r}: 'repeat' must be an int, got {type(repeat).__name__}")
        if not 1 <= repeat <= 10**7:
            raise InvalidArgumentError(f"{self!r}: 'repeat' must be from 1 to 10000000, got {repeat}")

    def explain(self, *, rewrites: bool = False, passes: bool = False) -> Explanation:
        """Explains the plan built or used last: its fusion groups, algorithms, implementations, operands and memory.

        str() of the result is a table, `.to_dict()` returns the data. At the first call for a plan, a copy of each
        partition is compiled and run on ones, to learn its implementations; the net itself does not change.

        Args:
            rewrites: whether to list the rewrites of the graph that fired, and those that were declined, with the
                condition that did not hold; the plan is built once more to learn them.
            passes: whether to list the graph after each pass, and its groups and steps after each later stage; the
                plan is built once more as well.

        Raises:
            InvalidArgumentError: the net has unknown dims and was never called, or its plans were dropped since.
        """
        said = self._with_choice(explain(self._planned("to explain"), self.engine, self._options))
        if not rewrites and not passes:
            return said
        executor = self._plans.latest()
        assert executor is not None
        with listening() as reports, watching() as graphs, pool.of_calls(self._plans.threads(executor) or None):
            self._build(*self._layouts(executor))
        return replace(said, rewrites=rewrites_of(reports) if rewrites else (), passes=tuple(graphs) if passes else ())

    def _with_choice(self, said: Explanation) -> Explanation:
        report = self.precision_report
        return said if report is None else replace(said, chosen=report.summary)

    def algorithms(self, op: str) -> tuple[AlgorithmInfo, ...]:
        """Returns the algorithms that may compute an op in the plan built or used last, best first.

        Args:
            op: the name of a convolution, a transposed convolution, a gradient of these, or a MatMul that runs as a
                convolution.

        Returns:
            An `AlgorithmInfo` for each algorithm: its name, seconds, workspace in bytes, errors and determinism.
            Algorithms that tune="measure" has timed come first. An empty tuple if the op has nothing to compute.

        Raises:
            InvalidArgumentError: no op has the name, or the op has no choice of algorithms; the net has unknown dims
                and was never called, or its plans were dropped since.
            TypeError: `op` is no string.
        """
        where = f"{self!r}.algorithms"
        selection.convolution(op, [node for net in self._nets for node in net._nodes], where)
        net = next(net for net in self._nets if any(node.name == op for node in net._nodes))
        plan = net._planned("whose algorithms there are")
        return selection.listed(op, plan.lowering.decisions, plan.narrow, plan.lowering.env, where)

    def _named_options(self) -> Options:
        """Returns the options, with each predicate replaced by the name of its choice in the plan used last."""
        if all(isinstance(wanted, str) for _, wanted in self._options.algorithms):
            return self._options
        decisions = self._planned("that predicates have chosen in").lowering.decisions
        return replace(self._options, algorithms=selection.named(self._options.algorithms, decisions, repr(self)))

    def _planned(self, wanted: str) -> Specialised:
        """Returns the plan that ran last, or was built since, or raises; `wanted`: its purpose, for the message."""
        latest = self._latest()
        if latest is None:
            raise self._has_no_plan(wanted)
        return latest

    def _has_no_plan(self, wanted: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self!r}: has no plan; call it once, then there is one {wanted}")

    def graph_api(self) -> GraphObjects:
        """Returns the library's view of the net as objects of `dnnl_graph_ops.graph_api`, which are copies.

        Returns:
            `.graph`: the plan used last; a step of builtin code is a Wildcard op, named for the kernel or function that
            computes it. `.compiled_partitions`: the partitions of all plans that the net has now, compiled once more.

        Raises:
            InvalidArgumentError: the net has unknown dims and was never called, or its plans were dropped since.
        """
        from ..reports.graph_api import objects  # imported here, as few nets need the module

        last, others = self._plans_told()
        if not last:
            raise self._has_no_plan("to show")
        return objects(last, others, self.engine, self.graph.fpmath_mode)

    def _plans_told(self) -> tuple[list[Plan], list[Plan]]:
        """Returns the plan that each net used last, and all other plans."""
        plans = [[net._whole(one).plan for one in net._plans.executors()] for net in self._nets]
        return [plan for some in plans for plan in some[:1]], [plan for some in plans for plan in some[1:]]

    def to_dot(self) -> str:
        """Returns the graph in Graphviz's DOT language, coloured by partition."""
        return net_to_dot(self)

    def to_svg(self, path: Any = None) -> str:
        """Returns the graph as SVG text, coloured by partition, and writes it to `path` if given. Raises OSError."""
        return net_to_svg(self, path)


def _describe_group(item: FusionGroup, env: Env) -> PartitionInfo:
    nodes, made = item.nodes, set(item.outputs)
    read = {value for node in nodes for value in node.inputs}
    return PartitionInfo(
        tuple(node.name for node in nodes),
        tuple(node.kind for node in nodes),
        all(onednn.runs(node, env) for node in nodes),
        tuple(dict.fromkeys(v.name for node in nodes for v in node.inputs if v not in made)),
        tuple(v.name for node in nodes for v in node.outputs if v not in read or nodes[-1] is node),
    )


@singledispatch
def made(graph: Graph, outputs: Any, options: Options) -> Net:
    """Builds the net of a graph; other types of graph register their own function, for other types of net."""
    return Net(graph, named_outputs(graph, outputs), graph.engine or default_engine(), options)

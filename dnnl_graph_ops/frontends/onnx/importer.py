"""Builds graphs from an ONNX model, node by node; one error lists all unsupported nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import dtypes
from ...errors import Error, InvalidArgumentError, UnsupportedError
from ...graph import Graph, Value
from ...net.sizes import UNKNOWN
from ...runtime import garbage
from ...runtime.engines import Engine
from ...words import counted
from ..reading.budget import Budget
from ..reading.deferred import constant_of
from ..reading.faults import FAULTS, fault, quietly, refusal
from ..reading.input_shapes import InputShapes
from ..reading.node import Array, Body, OnnxNode, Tensor, tensor_of, tensors_of
from ..reading.records import Kept
from ..reading.section import Lent, Section
from ..reading.stages import SEQUENCE, Part, StagedGraph
from ..reading.submodel import SubModel
from ..reading.types import DTYPES, TYPES
from . import contributed, hosts
from .build import built
from .contributed import is_contributed
from .control import control
from .functions import fresh_names, names_of, spliced
from .hosts import HostNode
from .invariants import without_invariants
from .model import Model, of_record, read
from .static_sequences import Replacement, replaced, written
from .survey import Fate, Survey, fate_of
from .unroll import trip_count, unrolled


def from_onnx(model_or_path: Any, engine: Engine | None = None, *, shapes: InputShapes | None = None) -> Graph:
    """Import an ONNX model as a graph: `from_onnx("m.onnx").compile()(x)`.

    Args:
        model_or_path: a path, the file's content as bytes, or an `onnx.ModelProto`.
        engine: the engine that runs the graph; None: the default CPU engine.
        shapes: {input name: shape} fixes unknown dims: {"x": (1, 80, None)}; None leaves a dim as it is, a string names
            it. {"batch": 1} fixes all unknown dims of a name. Names of dims have no other meaning.

    Returns:
        A Graph whose inputs are the model's inputs without initializer, in order, and whose `outputs` are the model's
        outputs. Data stays channels first (NCX).

        Dynamic shapes: symbolic dims of the model are dynamic dims of the graph. Nodes that depend on sizes are built
        at the first call with each shape.

        Memory: for a model from a path without dynamic dims, a net keeps large initializers only in packed order.
        The file stays open, and initializers are read again when they are needed (by another `compile`, for other
        strides, by `pickle`), which is an error if the file was changed. Deleting the file, or renaming another file
        to its name, has no effect.

        Staged graphs: the model is divided into several graphs at nodes whose shapes depend on data (NonZero, a
        Reshape to computed sizes), at dtypes that the package lacks (float64, strings) and at nodes with subgraphs
        (If, Loop, Scan). The net runs these nodes on arrays between its graphs. `Net.explain` lists them.

    Raises:
        RuntimeUnavailableError: the package `onnx` is missing, which the extra `onnx` installs.
        UnsupportedError: lists all unsupported nodes and attribute values, which not even onnx's reference
            implementation computes, but not the nodes after them; or folding constants takes more than 256 MiB and
            four times the model's size, or more than 1 GiB of tensors are filled with single numbers.
        InvalidArgumentError: no ONNX model, cycles, functions that call themselves, missing tensors, wrong types; no
            input or unknown dim of a name in `shapes`.
        ShapeError: impossible shapes; a shape that contradicts the model's.

    Source: the ONNX operator specifications, from opset 7 on.
    """
    with garbage.paused():
        model = read(model_or_path, shapes)
        if not model.outputs:
            raise InvalidArgumentError("from_onnx: the model declares no outputs")
        return graph_of(model, engine)


def graph_of(model: Model, engine: Engine | None) -> Graph:
    """Returns the graph of a model, with all inputs."""
    return surveyed(model, engine)[1]()


def surveyed(model: Model, engine: Engine | None) -> tuple[Survey, Callable[[], Graph]]:
    """Returns the fates of a model's nodes, and what builds its graph with all inputs.

    Raises:
        InvalidArgumentError, ShapeError: as `from_onnx`; so does the function, and UnsupportedError.
    """
    builder = _builder(model, engine)

    def build() -> Graph:
        graph = builder.graph()
        graph._keeps_inputs = True
        return graph

    return builder.survey(), build


def graph_of_record(record: Any, kept: Kept, engine: Engine | None, where: str) -> Graph:
    """Returns the graph of a model in the file of a net."""
    return graph_of(of_record(record, kept, where), engine)


def survey(model_or_path: Any) -> Survey:
    """Report which backend would run each node of an ONNX model, and which operators are unsupported.

    Args:
        model_or_path: as for `from_onnx`; also a model that `from_onnx` refuses.

    Raises:
        RuntimeUnavailableError, InvalidArgumentError, ShapeError: as `from_onnx`.
    """
    return _builder(read(model_or_path), None).survey()


def _builder(model: Model, engine: Engine | None) -> _Builder:
    builder = _Builder(model, engine)
    with quietly():
        for node in model.nodes:
            builder.add(node)
    return builder


class _Builder:
    """The parts of a model that have been built.

    The nodes before part k run at time 2k - 1, the part's graph at time 2k. A node is placed at the earliest time at
    which its inputs exist.
    """

    def __init__(self, model: Model, engine: Engine | None) -> None:
        self.model, self.engine, self.budget = model, engine, Budget(0, model.budget)
        self.problems = list(model.problems)
        self.parts: list[Part] = []
        # for each part, the tensors known in its graph, by name
        self.known: list[dict[str, Tensor]] = []
        self.tensors = tensors_of(model.arrays)
        # the time at which each tensor exists; tensors known before have none
        self.times: dict[str, int] = {}
        self.inputs: list[Value] = []
        self.rest: list[OnnxNode] = []
        self.is_cut = False
        self._renames: Callable[[str], str] | None = None
        # for each node of the model, in order, its operator and its fate
        self.fates: list[tuple[str, Fate]] = []
        self._part(0)
        for name, info in zip(model.inputs, model.infos, strict=True):
            self._input(name, info)

    def _part(self, number: int) -> Part:
        while len(self.parts) <= number:
            self.parts.append(Part(Graph(self.engine, name=self.model.name.replace("\0", "?"))))
            self.known.append({})
        return self.parts[number]

    def _input(self, name: str, info: Tensor) -> None:
        part = self.parts[0]
        self.times[name] = -1
        if info.shape is not None and info.code in DTYPES:
            value = part.graph.input(name, info.shape, DTYPES[info.code])
            self.known[0][name] = self.tensors[name] = tensor_of(value)
            part.feeds[value] = name
        else:
            self.tensors[name], self.is_cut = info, True
            label = hosts.label_of(info, f"ONNX input {name[:80]!r}") if info.is_tensor else SEQUENCE
            shape = UNKNOWN if info.shape is None else info.shape
            value = Value(part.graph, -1 - len(self.inputs), shape, label, name)
        self.inputs.append(value)

    # -- nodes ------------------------------------------------------------------------------------------------

    def add(self, node: OnnxNode) -> None:
        """Builds a node; notes why it is unsupported, and leaves its results unknown."""
        if not all(name in self.tensors for name in node.reads):
            # after an unsupported node: report only what is unsupported about this node
            problems = hosts.check(node)
            self.problems += problems
            self._note(node, Fate.NOTHING if problems else Fate.BEHIND)
            return
        try:
            self._add(node)
        except UnsupportedError as error:
            self.problems += str(error).split("\n  ")
            self._note(node, Fate.NOTHING)
        except Error:
            raise
        except FAULTS as error:
            raise fault(node, error) from None

    def _note(self, node: OnnxNode, fate: Fate) -> None:
        self.fates.append((f"{node.domain}.{node.op_type}" if node.domain else node.op_type, fate))

    def _add(self, node: OnnxNode) -> None:
        if self._replace(node):
            return None
        if node.op_type == "Squeeze" and any(not array.size for array in self._arrays(node.reads[1:]).values()):
            # axes of size 1, as in ONNX Runtime; onnx infers no axes
            node = replace(node, inputs=node.inputs[:1])
        for name in node.reads:
            if self.tensors[name].parts is not None:
                self._write(name)
        vague = [tensor for tensor in map(self.tensors.__getitem__, node.reads) if tensor.is_stated]
        # tensors of the rest have no time
        if _LAST in map(self.times.get, node.reads):
            return self._put_off(node)
        if not node.bodies and control(node) is None and all(item.code in DTYPES for item in vague):
            if any(item.shape is None for item in vague):
                return self._put_off(node)
            try:
                return self._build(node)
            except UnsupportedError as error:
                if self.budget.exceeded:
                    raise
                return self._run_on_arrays(node, str(error))
        return self._run_on_arrays(node, "")

    def _time(self, node: OnnxNode) -> int:
        return max([self.times.get(name, -1) for name in node.reads], default=-1)

    def _build(self, node: OnnxNode) -> None:
        number = (self._time(node) + 1) // 2
        part, known = self._part(number), self.known[number]
        for name in node.reads:
            if name not in known:
                self._bring(name, number)
        count = len(part.graph.nodes)
        found = built(part.graph, node, known, self.budget)
        if any(node.outputs[len(found) :]):
            raise InvalidArgumentError(
                f"{node.where}: names {counted(len(node.outputs), 'output')}, but gives {len(found)}"
            )
        self._note(node, fate_of(part.graph.nodes[count:], found))
        for name, item in zip(node.outputs, found, strict=False):
            if not name:
                continue
            self.tensors[name] = item
            if item.array is None:
                known[name], self.times[name] = item, 2 * number

    def _bring(self, name: str, number: int) -> None:
        """Makes a tensor known in a part's graph."""
        part, known, stack = self.parts[number], self.known[number], [name]
        while stack:
            name = stack[-1]
            if name not in known:
                item = self.tensors[name]
                sizes = item.node.inputs if item.node is not None else ()
                if more := [one for one in sizes if one and one not in known]:
                    stack += more
                    continue
                known[name] = self._imported(part, name, item) if item.numbers is None else item
            stack.pop()

    def _imported(self, part: Part, name: str, item: Tensor) -> Tensor:
        """Returns an earlier tensor as an input of a part's graph."""
        label = name.replace("\0", "?") or "?"
        try:
            value = part.graph.input(label, item.sizes, item.dtype)
        except InvalidArgumentError:
            value = part.graph.input(f"{label} ({len(part.feeds)})", item.sizes, item.dtype)
        part.feeds[value] = name
        self._want(name)
        return tensor_of(value)

    def _want(self, name: str) -> None:
        """Makes a tensor an output of the graph that computes it."""
        time = self.times.get(name, -1)
        if time < 0 or time % 2 or time == _LAST:
            return
        part, known, value = self.parts[time // 2], self.known[time // 2], self.tensors[name].value
        if value is None:
            key = f"\0{name}"
            if key not in known:
                known[key] = tensor_of(constant_of(part.graph, self.tensors[name], known, self.budget))
            value = known[key].value
        assert value is not None
        part.gives[name] = value

    def _run_on_arrays(self, node: OnnxNode, why: str) -> None:
        """Places a node between two graphs."""
        problems = hosts.check(node)
        infos = {name: self.tensors[name] for name in node.reads}
        arrays = self._arrays(node.reads)
        try:
            if problems:
                raise UnsupportedError("\n  ".join(problems))
            results = hosts.results_of(node, infos, arrays)
        except UnsupportedError as error:
            raise UnsupportedError(why or str(error)) from None
        for name in node.reads:
            if name not in arrays:
                self._want(name)
        number = (self._time(node) + 2) // 2
        bodies = {name: self._model(body, f"{node.where}, {name}") for name, body in node.bodies.items()}
        host = HostNode(node, arrays, tuple(results), bodies)
        host.check()
        self._note(node, Fate(host.by))
        self._part(number).before.append(host)
        self.is_cut = True
        for name, info in zip(node.outputs, results, strict=False):
            if name:
                self.times[name], self.tensors[name] = 2 * number - 1, info

    def _model(self, body: Body, where: str) -> SubModel:
        around = self._arrays(body.free)
        inputs = (*body.inputs, *(name for name in body.free if name not in around))
        return self._submodel(where, body.nodes, {**around, **body.arrays}, inputs, body.outputs)

    def _submodel(
        self, where: str, nodes: Sequence[OnnxNode], arrays: Mapping[str, Array], inputs: Iterable[str], outputs: Any
    ) -> SubModel:
        section = Section(where, tuple(inputs), Lent(arrays), tuple(nodes), tuple(outputs), self.budget.total)

        def build(infos: Sequence[Tensor]) -> Graph:
            return _builder(Model(**vars(section), infos=tuple(infos)), self.engine).graph()

        return SubModel(**vars(section), build=build, info_of=hosts.info_of)

    def _replace(self, node: OnnxNode) -> bool:
        """Replaces a node by standard nodes, or by the nodes of its known branch, iterations or sequence."""
        if is_contributed(node):
            items = [self.tensors[name] for name in node.reads]
            if any(item.is_stated and item.shape is None for item in items):
                self._put_off(node)
                return True
            nodes, arrays = contributed.replaced(node, self.tensors, self._fresh)
            self.budget.spend(sum(array.nbytes for array in arrays.values()), node.where)
            if lost := {*filter(None, node.outputs)}.difference(*(one.outputs for one in nodes)):
                raise InvalidArgumentError(f"{node.where}: has no output for {sorted(lost)[0][:80]!r}")
            found: Replacement | None = (nodes, arrays)
        elif node.domain:
            return False
        elif node.op_type == "If":
            found = self._branch_of(node)
        elif node.op_type in ("Loop", "Scan"):
            found = self._unrolled(node)
        else:
            found = replaced(node, self.tensors, self._fresh)
        if found is None:
            return False
        self.tensors |= tensors_of(found[1])
        for one in found[0]:
            self.add(one)
        return True

    def _unrolled(self, node: OnnxNode) -> Replacement | None:
        """Returns a Loop or Scan with fewer states, or its unrolled nodes if the trip count is known."""
        smaller = without_invariants(node, self._fresh)
        if smaller is not None:
            return smaller, {}
        count = trip_count(node, self._arrays(node.reads)) if node.op_type == "Loop" else None
        return None if count is None else unrolled(node, count, spliced, self._fresh)

    def _branch_of(self, node: OnnxNode) -> Replacement | None:
        """Returns the branch of an If whose condition is known."""
        condition = self.tensors.get((*node.inputs, "")[0], Tensor()).array
        body = node.bodies.get("then_branch" if condition is not None and condition.any() else "else_branch")
        if condition is None or condition.size != 1 or body is None:
            return None
        return spliced(body, node, (), node.outputs, self._fresh)

    def _arrays(self, names: Iterable[str]) -> dict[str, Array]:
        """Returns the arrays of known tensors."""
        arrays = {name: self.tensors[name].array for name in names}
        return {name: array for name, array in arrays.items() if array is not None}

    def _fresh(self, name: str) -> str:
        """Returns a new name of a tensor."""
        if self._renames is None:
            self._renames = fresh_names((*self.tensors, *names_of(self.model.nodes)))
        return self._renames(name)

    def _write(self, name: str) -> None:
        """Adds a node that makes a sequence, for readers of the whole sequence."""
        tensor = self.tensors[name]
        if tensor.parts is None:
            return
        for part in tensor.parts:
            self._write(part)
        node = written(name, tensor)
        if any(self.times.get(one) == _LAST for one in node.reads):
            self._put_off(node)
        else:
            self._run_on_arrays(node, "")

    def _put_off(self, node: OnnxNode) -> None:
        """Defers a node to the call."""
        self.problems += hosts.check(node)
        self._note(node, Fate.LATER)
        self.is_cut = True
        self.rest.append(node)
        for name in filter(None, node.outputs):
            self.times[name], self.tensors[name] = _LAST, Tensor()

    def survey(self) -> Survey:
        """Returns the fates of the nodes so far."""
        return Survey(tuple(self.fates), tuple(dict.fromkeys(self.problems)))

    # -- the whole --------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """Returns the graph, or the staged graph."""
        outputs = [name for name in self.model.outputs if name in self.tensors]
        for name in outputs:
            self._write(name)
        stored = self._arrays(outputs)
        self.is_cut |= any(dtypes.label(array.dtype) not in dtypes.CODES for array in stored.values())
        if not self.problems and not self.is_cut:
            whole = self.parts[0].graph
            whole.outputs = {name: self._output(name) for name in self.model.outputs}
            return whole
        if self.problems:
            raise UnsupportedError(refusal("from_onnx", self.problems))
        rest = self._rest()
        for name in self.model.outputs:
            if name not in stored:
                self._want(name)
        whole = StagedGraph(self.model, graph_of, self.engine, self.parts, stored, rest)
        whole.inputs = self.inputs
        whole.outputs = {name: self._stated(name) for name in self.model.outputs}
        return whole

    def _rest(self) -> SubModel | None:
        made = {name for node in self.rest for name in node.outputs}
        outputs = dict.fromkeys(name for name in self.model.outputs if name in made)
        if not outputs:
            return None
        reads = dict.fromkeys(name for node in self.rest for name in node.reads if name not in made)
        arrays = self._arrays(reads)
        inputs = [name for name in reads if name not in arrays]
        for name in inputs:
            self._want(name)
        return self._submodel(self.model.name, self.rest, arrays, inputs, outputs)

    def _output(self, name: str) -> Value:
        graph, known = self.parts[0].graph, self.known[0]
        tensor = self.tensors[name]
        if tensor.value is not None:
            return tensor.value
        if tensor.array is None:
            return constant_of(graph, tensor, known, self.budget)
        self.budget.spend(tensor.array.nbytes, f"ONNX output {name[:80]!r}")
        return graph.constant(tensor.array)

    def _stated(self, name: str) -> Value:
        """Returns an output with the graph's name for it."""
        info = self.tensors[name]
        label = info.dtype if info.code in TYPES else SEQUENCE
        shape = UNKNOWN if info.shape is None else info.shape
        return Value(self.parts[0].graph, -1, shape, label, name)


# the time of tensors that are built at the call
_LAST = 1 << 60

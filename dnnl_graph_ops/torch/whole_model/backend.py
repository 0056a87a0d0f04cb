"""The backend of `torch.compile(model, backend="dnnl_graph_ops")`: runs graphs captured for inference as nets.

PyTorch finds the backend by an entry point of the package. If gradients are recorded, PyTorch runs the captured graph,
with this package's ops for its convolutions.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from ..._core import lent_array
from ...errors import Error, InvalidArgumentError, UnsupportedError
from ...frontends.reading.budget import Budget
from ...frontends.reading.faults import FAULTS
from ...frontends.torch_export.build import constant, parameter
from ...frontends.torch_export.host import stated
from ...frontends.torch_export.importer import appended, copied, is_expressible, size_of
from ...frontends.torch_export.planned import base_of, order_of, root_of, viewed
from ...frontends.torch_export.program import dims_of, flat_outputs
from ...graph import Graph
from ...log import logger
from ...net.net import Net
from ...net.options import checked_options
from ...ops import static_transpose
from ...passes.mixed_precision import AUTO
from ...runtime import threads as pool
from ...runtime.cpu import check_settings
from ...runtime.engines import default_engine
from ...runtime.locks import Builds
from ..choice.narrow import tell_if_slow
from ..choice.verdicts import near, tried
from ..layers import compute, ops
from ..layers.compute import follow_threads
from ..layers.conv_params import FORWARD, conv_params
from ..layers.modules import tell_of_steps
from ..layers.packed import marks_of, reading
from . import captured, sources

Run: TypeAlias = Callable[..., Any]

# the most nets of one captured graph: modules that share the graph, or earlier values of parameters
_MOST_ENTRIES = 4
# nets that a graph may build at first, and how often each of them has to run on average before more are built
_FIRST_BUILDS, _RUNS_OF_A_BUILD = 8, 16
# for graphs that take longer (seconds), one run of both engines decides
_LONG = 5e-3
_FLOATS = ("f32", "bf16", "f16")
# arguments of random ops that draw nothing where one of these is 0 or False
_STILL = ("dropout_p", "dropout", "train", "training")
_CPU = torch.device("cpu")
LEFT = "PyTorch runs ops"
_BETWEEN = f"{LEFT} that no net of this package has, or that are alone between such ops"
_INSIDE = f"{LEFT} as steps of a net, since no op of this package expresses them"
_TOO_MANY = f"its {_FIRST_BUILDS} or more nets, each for other parameters or numbers, run a few times each"
_LOGGER = logger("torch.backend")


def dnnl_graph_ops(module: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Run:
    """The backend: PyTorch calls it with a captured graph.

    Args:
        options: options of `Graph.compile`: tune, algorithm, precision, policy, max_error; passed here or by
            `torch.compile(..., options={...})`. With precision="auto" the first call's data are the samples.

    Raises:
        InvalidArgumentError, TypeError: an unknown option or value; PyTorch adds the backend's name.
    """
    options = {**(options.pop("options", None) or {}), **options}
    options.pop("mode", None)
    _check_options(**options)
    check_settings()
    trains = torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in inputs)
    with captured.noted(trains):
        return recorded(module) if trains else _compiled(module, inputs, _compiler(options))


def compiled(module: fx.GraphModule, inputs: Sequence[Any], building: Callable[[], None]) -> Run:
    """Returns a captured graph as nets, without a comparison with PyTorch's speed.

    Args:
        building: called before each net is built, also for other parameters; may raise.

    Raises:
        UnsupportedError: the graph draws random numbers, whose order might differ from PyTorch's.
    """
    return _compiled(module, inputs, _compiler({}, building))


def _compiled(module: fx.GraphModule, inputs: Sequence[Any], compiler: Any) -> Run:
    def backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        # called outside of captured code, whose calls PyTorch's compiler would capture in turn
        return torch._dynamo.disable(compiler(gm, example_inputs))

    run: Run = aot_module_simplified(
        module,
        list(inputs),
        fw_compiler=compiler,
        bw_compiler=backward,
        inference_compiler=compiler,
        decompositions=_ORDINARY,
    )
    return run


def _check_options(
    policy: Any = "fusion",
    tune: Any = "heuristic",
    algorithm: Any = None,
    precision: Any = None,
    max_error: Any = None,
    **others: Any,
) -> None:
    """Raises for wrong options before anything is captured: later failures silently fall back to PyTorch."""
    if others:
        raise InvalidArgumentError(
            f"torch.compile(backend='dnnl_graph_ops'): no option {sorted(others)[0]!r}; there are tune, algorithm, "
            "precision, policy and max_error"
        )
    checked_options(default_engine(), policy, tune, algorithm, precision, max_error=max_error)


def recorded(module: fx.GraphModule) -> Run:
    """Returns a captured graph for training: PyTorch's, with this package's ops for its convolutions."""
    graph = fx.Graph(tracer_cls=module.graph._tracer_cls)
    graph.output(graph.graph_copy(module.graph, {}))
    made = fx.GraphModule(module, graph)
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in _CONVOLUTIONS:
            continue
        if node.target not in _AXES or not sources.fold(node, _AXES[node.target]):
            node.target = _CONVOLUTIONS[node.target]
    made.recompile()
    run: Run = made.forward
    return run


def _as_op(theirs: Run, axes: int, transposed: bool) -> Run:
    """Returns a function that computes one of PyTorch's functions by this package's op."""
    names = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")

    def convolution(input: Tensor, weight: Tensor, bias: Any = None, *arguments: Any, **named: Any) -> Tensor:
        named.update(zip(("stride", "padding", *names), arguments, strict=False))
        if isinstance(named.get("padding"), str) or input.ndim != axes + 2:
            return theirs(input, weight, bias, **named)
        given = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1, **named}
        return ops.call(FORWARD, conv_params(transposed, axes, **given), input, weight, bias)

    return convolution


# PyTorch's ordinary convolutions: {function: number of spatial axes}
_AXES: dict[Any, int] = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_TRANSPOSED = {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}
_CONVOLUTIONS: dict[Any, Run] = {
    theirs: _as_op(theirs, axes, theirs in _TRANSPOSED) for theirs, axes in (_AXES | _TRANSPOSED).items()
}


def _as_aten(transposed: bool) -> Run:
    def convolution(x: Tensor, w: Tensor, b: Any, *arguments: Any) -> Tensor:
        return torch.ops.aten.convolution(x, w, b, *arguments[:3], transposed, *arguments[3:])

    return convolution


# our ops of optimized modules: {our op: PyTorch's op}, for nets
_ORDINARY: Any = {
    getattr(torch.ops.dnnl_graph_ops, kind).default: _as_aten(transposed) for kind, transposed in ops.KINDS.items()
}


def _compiler(options: Mapping[str, Any], building: Callable[[], None] | None = None) -> Callable[..., Run]:
    """Returns a compiler of functional graphs of ATen ops.

    building: called before a net is built, and the net runs always; None: the faster engine runs.
    """

    def compiler(module: fx.GraphModule, inputs: Sequence[Any]) -> Run:
        if building and any(map(_is_random, module.graph.nodes)):
            raise UnsupportedError("random numbers are drawn")
        for node, tensor in _constants(module):
            node.meta.setdefault("val", tensor)
        metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
        static = frozenset(getattr(metadata, "static_input_indices", None) or ())
        if not all(isinstance(one, Tensor | torch.SymInt | int) for one in inputs) or _writes(module.graph):
            return make_boxed_func(module.forward)
        if all(_runs(node) for node in module.graph.nodes if node.op == "call_function"):
            return make_boxed_func(Region(module, static, options, building))
        return make_boxed_func(_parted(module, static, options, building))

    return compiler


def _parted(module: fx.GraphModule, static: frozenset[int], *given: Any) -> Run:
    """Returns the graph divided into the largest possible nets; PyTorch runs the rest."""
    support = create_op_support(lambda _, node: node.op == "call_function" and _runs(node))
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=False)
    groups = [one.nodes for one in partitioner.propose_partitions() if not all(map(_is_number, one.nodes))]
    # every part returns a tuple, a part with one result as well
    parted = fuse_by_partitions(module, groups, always_return_tuple=True)
    constant = {node for i, node in enumerate(_placeholders(parted)) if i in static}
    left: Counter[str] = Counter()
    for node in parted.graph.nodes:
        if node.op == "call_module" and node.target.startswith("fused_"):
            own, part = frozenset(i for i, one in enumerate(node.args) if one in constant), getattr(parted, node.target)
            delattr(parted, node.target)
            node.op, node.target = "call_function", Region(part, own, *given).__call__
        elif node.op == "call_function" and node.target is not operator.getitem:
            left[str(node.target)] += 1
    parted.recompile()
    _tell(_BETWEEN, left)
    run: Run = parted.forward
    return run


def _runs(node: fx.Node) -> bool:
    """Whether a net can run a node: an op with tensors in CPU memory whose sizes do not depend on data."""
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    each = chain.from_iterable(value if isinstance(value, tuple | list) else (value,) for value in values)
    tensors = [one for one in each if isinstance(one, Tensor)]
    return is_expressible(node) and all(one.device == _CPU and not free_unbacked_symbols(one) for one in tensors)


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float)


def _is_random(node: fx.Node) -> bool:
    """Whether an op draws random numbers: attention without dropout, dropout in inference and the like draw none."""
    target: Any = node.target
    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()):
        return False
    arguments = target._schema.arguments
    given = {one.name: one.default_value for one in arguments}
    given |= {**dict(zip(given, node.args, strict=False)), **node.kwargs}
    return all(given.get(name, True) not in (0, False) for name in _STILL)


def _writes(graph: fx.Graph) -> bool:
    """Whether ops write to their operands, or free their memory: nets next to them might run too early or too late."""
    calls = (node.target for node in graph.nodes if node.op == "call_function")
    schemas = (schema for target in calls if (schema := getattr(target, "_schema", None)) is not None)
    # resize_storage_bytes_ declares no write
    return any(schema.is_mutable or schema.name.endswith("_") for schema in schemas)


def _constants(module: fx.GraphModule) -> Iterator[tuple[fx.Node, Tensor]]:
    """Yields the tensors that the captured code made of numbers: `torch.tensor([1.0, 2.0])`."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(tensor := operator.attrgetter(node.target)(module), Tensor):
            yield node, tensor


def _placeholders(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _varying(given: Sequence[fx.Node], static: Collection[int]) -> list[tuple[int, int]]:
    """Returns the inputs and axes whose sizes may vary from call to call."""
    values = ((i, node.meta["val"]) for i, node in enumerate(given) if i not in static)
    tensors = ((i, value) for i, value in values if isinstance(value, Tensor))
    return [(i, axis) for i, value in tensors for axis, dim in enumerate(dims_of(value.shape)) if dim is None]


@dataclass
class _Speeds:
    """Whether a graph's nets are faster than PyTorch, by the sizes of inputs; parameters' values do not matter."""

    varying: Sequence[tuple[int, int]]
    faster: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def sizes(self, args: Sequence[Any]) -> tuple[int, ...]:
        return tuple(near(args[i].shape[axis]) for i, axis in self.varying)


class Region:
    """A captured graph and its nets, one for each state of the parameters, with plans for all sizes."""

    def __init__(
        self,
        module: fx.GraphModule,
        static: frozenset[int],
        options: Mapping[str, Any],
        building: Callable[[], None] | None,
    ) -> None:
        self._module = module
        self._options = options
        self._building = building
        self._given = _placeholders(module)
        self._static = sorted(i for i in static if isinstance(self._given[i].meta.get("val"), Tensor))
        self._entries: list[_Entry] = []
        self._builds = Builds()
        self._speeds = _Speeds(_varying(self._given, self._static))
        self._built = self._runs = 0
        self._is_told = False

    @property
    def sources(self) -> frozenset[int]:
        return frozenset().union(*(entry.whose for entry in self._entries))

    def forget(self, replaced: bool = False) -> None:
        self._entries = []

    def __call__(self, *args: Any) -> list[Any]:
        if compute.in_fork:
            return list(self._module(*args))
        if pool.count != torch.get_num_threads():
            follow_threads()
        constants = list(map(args.__getitem__, self._static))
        entry = self._found(constants, args)
        if entry is None:
            if self._building is not None:
                self._building()
            elif not self._pays(args):
                return list(self._module(*args))
            entry = self._builds.once(lambda: self._found(constants, args), lambda: self._new(constants, args))
        if entry.net is not None:
            try:
                if self._building is not None or entry.is_faster(args):
                    self._runs += 1
                    return entry.run(args)
            except Error as error:
                _LOGGER.info("PyTorch runs a call of a graph of %d nodes: %s", len(self._module.graph.nodes), error)
        return list(self._module(*args))

    def _found(self, constants: list[Tensor], args: Sequence[Any]) -> _Entry | None:
        for entry in self._entries:
            if entry.seen.fit(constants) and (not entry.numbers or entry.fits(args)):
                return entry
        return None

    def _pays(self, args: Sequence[Any]) -> bool:
        """Whether to build a net for a call: not if PyTorch is faster, nor if parameters change every few calls."""
        if torch.are_deterministic_algorithms_enabled():
            return True
        if not self._speeds.faster.get(self._speeds.sizes(args), True):
            return False
        pays = self._built < _FIRST_BUILDS + self._runs // _RUNS_OF_A_BUILD
        if not pays and not self._is_told:
            self._is_told = True
            _LOGGER.info("PyTorch runs calls of a graph of %d nodes: %s", len(self._module.graph.nodes), _TOO_MANY)
        return pays

    def _new(self, constants: list[Tensor], args: Sequence[Any]) -> _Entry:
        seen = marks_of(constants)
        self._built += 1
        entry = _Entry(self._module, self._given, frozenset(self._static), args, self._options, self._speeds)
        if seen is None:
            # changes of these tensors could not be seen
            entry.net = None
            return entry
        entry.seen, entry.whose = seen, frozenset(map(id, constants))
        # earlier values of parameters do not return
        kept = [one for one in self._entries if one.whose != entry.whose or one.seen.fit(constants)]
        self._entries = [entry, *kept[: _MOST_ENTRIES - 1]]
        tell_of_steps(self)
        return entry


@dataclass
class _Result:
    """A result of a captured graph: None, a number, or a tensor in the layout that PyTorch expects.

    node: the net's output for it; None: none. argument: the number of the argument that the result is a view of.
    graph_inputs: the graph's placeholders, if a view depends on their sizes.
    order: the expected axes from the slowest to the fastest, if the net's dense result has other axes.
    is_turned: whether the net returns the result in this order.
    """

    node: fx.Node | None = None
    is_number: bool = False
    argument: int | None = None
    views: tuple[fx.Node, ...] = ()
    graph_inputs: tuple[fx.Node, ...] = ()
    order: tuple[int, ...] | None = None
    is_turned: bool = True

    def given(self, args: Sequence[Any], results: Iterator[Any], bases: dict[fx.Node, Any]) -> Any:
        """Returns the result; `bases`: what the net's outputs have become, which several results may view."""
        if self.argument is not None:
            return self._viewed(args[self.argument], args)
        if self.node is None:
            return None
        if self.node not in bases:
            array = next(results)
            # NumPy's dtypes without a call of ours
            to_tensor = int if self.is_number else torch.from_numpy if array.dtype.isbuiltin == 1 else _tensor
            base: Any = to_tensor(array)
            bases[self.node] = base if self.order is None else self._laid(base)
        base = bases[self.node]
        return self._viewed(base, args) if self.views else base

    def _laid(self, tensor: Tensor) -> Tensor:
        """Returns the net's output with the axes in the expected order."""
        assert self.order is not None
        tensor = tensor if self.is_turned else tensor.permute(self.order).contiguous()
        return tensor.permute([self.order.index(axis) for axis in range(tensor.ndim)])

    def _viewed(self, tensor: Tensor, args: Sequence[Any]) -> Any:
        return viewed(tensor, self.views, dict(zip(self.graph_inputs, args, strict=False))) if self.views else tensor


_Viewed: TypeAlias = tuple[fx.Node, tuple[fx.Node, ...]]  # a node, and views from it to a result


def _results(nodes: Sequence[fx.Node | None], given: Sequence[fx.Node]) -> list[_Result]:
    """Returns the results of a graph; those that share memory in PyTorch are views of one output, or of an argument."""
    tensors = [node for node in nodes if node is not None and isinstance(node.meta["val"], Tensor)]
    roots = {node: root_of(node) for node in tensors}
    owners = Counter(root for root, _ in roots.values())
    shared = {node: found for node, found in roots.items() if owners[found[0]] > 1 or found[0] in given}
    return [_result(node, given, shared.get(node) if node is not None else None) for node in nodes]


def _result(node: fx.Node | None, given: Sequence[fx.Node], shared: _Viewed | None) -> _Result:
    if node is None:
        return _Result()
    if isinstance(node.meta["val"], torch.SymInt | int):
        return _Result(node, is_number=True)
    if not isinstance(node.meta["val"], Tensor):
        raise UnsupportedError(f"torch node {node.name!r}: a result that is a {type(node.meta['val']).__name__}")
    base, views = shared or base_of(node, may_vary=True)
    vary = any(len(one.all_input_nodes) > 1 for one in views)
    more: dict[str, Any] = {"views": views, "graph_inputs": tuple(given) if vary else ()}
    if base in given:
        return _Result(argument=list(given).index(base), **more)
    order = order_of(base.meta["val"])
    return _Result(base, order=None if order is None or order == tuple(range(len(order))) else order, **more)


def _firsts(results: Sequence[_Result]) -> dict[fx.Node, _Result]:
    """Returns the first result of each node that the net has to compute, in their order."""
    firsts: dict[fx.Node, _Result] = {}
    for one in results:
        if one.node is not None:
            firsts.setdefault(one.node, one)
    return firsts


class _Entry:
    """A net for the current values of parameters."""

    def __init__(
        self,
        module: fx.GraphModule,
        given: Sequence[fx.Node],
        static: frozenset[int],
        args: Sequence[Any],
        options: Mapping[str, Any],
        speeds: _Speeds,
    ) -> None:
        # the marks of the parameters
        self.seen: Any = None
        self.whose: frozenset[int] = frozenset()
        self.net: Net | None = None
        # numbers besides the inputs' sizes that the net is built for
        self.numbers: dict[int, Any] = {}
        self._theirs = module
        self._speeds = speeds
        self._outputs: list[_Result] = []
        try:
            self._outputs = _results(list(flat_outputs(module.graph)), given)
            self._build(given, static, args, options)
        except (Error, *FAULTS) as error:
            _LOGGER.info("PyTorch runs a graph of %d nodes: %s", len(module.graph.nodes), error)
            self.net = None

    def _build(
        self, given: Sequence[fx.Node], static: frozenset[int], args: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        graph = Graph(name="torch.compile")
        self._parameters = {i: args[i] for i in static}
        known: dict[str, Any] = {}
        places = {}
        for i, node in enumerate(given):
            value = node.meta["val"]
            if i in static:
                known[node.name] = parameter(graph, self._reading(i))
            elif isinstance(value, Tensor):
                if value.dtype in compute.DTYPES:
                    tell_if_slow(value.dtype)
                known[node.name] = graph.input(node.name, dims_of(value.shape), stated(value.dtype))
                places[node.name] = i
        for node, tensor in _constants(self._theirs):
            known[node.name] = constant(graph, copied(tensor, {}))
        budget = Budget(sum(args[i].nbytes for i in static))
        for i, node in enumerate(given):
            if not isinstance(node.meta["val"], Tensor):
                found = size_of(graph, node, given, known, budget)
                if found is None:
                    self.numbers[i] = args[i]
                known[node.name] = np.asarray(args[i]) if found is None else found
        problems: list[str] = []
        # one output for each node; `_Result.given` lays it out as the first of its results says
        made = [(one, node) for node, one in _firsts(self._outputs).items()]
        appended(graph, [node for _, node in made], known, budget, problems)
        if problems:
            raise UnsupportedError("\n".join(problems))
        counts = Counter(graph.outputs.values())
        for (name, value), (one, node) in zip(list(graph.outputs.items()), made, strict=True):
            if one.order is None:
                continue
            fake = node.meta["val"]
            if None not in dims_of(fake.shape) and value.node is not None and counts[value] == 1:
                value.strides = tuple(map(int, fake.stride()))
                one.order = None
            elif value.dtype not in _FLOATS:
                # ops transpose no other dtypes
                one.is_turned = False
            else:
                graph.outputs[name] = static_transpose(value, order=list(one.order))
        if options.get("precision") == AUTO:
            # the call that builds the entry
            options = {"samples": [{name: _array(args[i]) for name, i in places.items()}], **options}
        self.net = graph.compile(**options)
        self._arguments = [places[name] for name in self.net.input_names]

    def _reading(self, argument: int) -> Callable[[], Any]:
        return reading(self, lambda entry: entry._parameters[argument])

    def is_faster(self, args: Sequence[Any]) -> bool:
        """Whether the net is faster than PyTorch, measured at the first call with about such sizes."""
        if torch.are_deterministic_algorithms_enabled():
            return True
        key, faster = self._speeds.sizes(args), self._speeds.faster
        found = faster.get(key)
        if found is None:
            found = faster[key] = self._tried(args)
            if not found:
                _LOGGER.info("PyTorch runs a graph of %d nodes: it is faster", len(self._theirs.graph.nodes))
            elif len(faster) == 1:
                self._tell_of_steps()
        return found

    def _tell_of_steps(self) -> None:
        """Logs the ops that PyTorch computes as steps of the net."""
        latest = None if self.net is None else self.net._latest()
        nodes = (node for group, _ in latest.lowering.decisions for node in group.listed) if latest else ()
        ops = Counter(node.host.title for node in nodes if node.host is not None)
        if ops:
            _tell(_INSIDE, ops)

    def _tried(self, args: Sequence[Any]) -> bool:
        return tried(lambda: self.run(args), lambda: self._theirs(*args), once=_LONG).ours

    def fits(self, args: Sequence[Any]) -> bool:
        return all(args[i] == number for i, number in self.numbers.items())

    def run(self, args: Sequence[Any]) -> list[Any]:
        assert self.net is not None
        made = self.net(*map(_array, map(args.__getitem__, self._arguments)))
        results = iter(made if isinstance(made, tuple) else (made,))
        bases: dict[fx.Node, Any] = {}
        out = []
        # no comprehension: up to Python 3.11 that is a call
        for one in self._outputs:
            out.append(one.given(args, results, bases))
        return out


def _tell(how: str, ops: Counter[str]) -> None:
    _LOGGER.info("%s: %s", how, ", ".join(f"{count} {name}" for name, count in ops.items()))


def _array(tensor: Tensor) -> Any:
    if tensor.is_neg():
        # a view of a conjugate: the memory holds the negated elements
        tensor = tensor.resolve_neg()
    array = lent_array(tensor.detach() if tensor.requires_grad else tensor)
    return tensor if array is None else array


def _tensor(array: Any) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)

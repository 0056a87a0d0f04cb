"""Defines `from_torch`, which builds the graph of an exported program."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import dtypes, words
from ...errors import Error, UnsupportedError
from ...graph import Graph, Value
from ...runtime.dlpack import from_dlpack
from ...runtime.engines import Engine
from ..reading.budget import Budget
from ..reading.deferred import constant_of
from ..reading.faults import refusal
from ..reading.input_shapes import Dims, InputShapes, fixed
from ..reading.node import tensors_of
from . import host
from .build import built, constant
from .host import pytorch, stated
from .program import Behind, Reader, dims_of, of_size, out_of_place, read
from .sizes import size_op
from .table import RULES


def from_torch(program: Any, engine: Engine | None = None, *, shapes: InputShapes | None = None) -> Graph:
    """Import an `ExportedProgram` of `torch.export.export` as a graph: `from_torch(program).compile()(x)`.

    Args:
        program: the result of `torch.export.export(model.eval(), args)`, for inference.
        engine: the engine that runs the graph; None: the default CPU engine.
        shapes: {input name: shape} fixes sizes of dynamic dims: {"x": (1, 80, None)}; None leaves a dim dynamic. The
            names of inputs are PyTorch's names of the arguments.

    Returns:
        A Graph whose inputs are the program's input tensors in the order of its call, nested ones flattened, and whose
        `outputs` are the program's outputs in order, both under PyTorch's names; numbers of Python become tensors
        without axes, and None is left out. Dynamic dims of the export stay dynamic. Parameters are copied: later
        changes of the module have no effect. Ops that this package lacks run in PyTorch, as steps on the host.

    Raises:
        TypeError: no ExportedProgram. RuntimeUnavailableError: torch is missing.
        InvalidArgumentError, ShapeError: `shapes` names no input, or contradicts the program.
        UnsupportedError: lists all unsupported parts: writes to buffers or inputs, results that are no tensors, dtypes
            that the package lacks, control flow, random numbers.
    """
    torch = pytorch("from_torch")
    if not isinstance(program, torch.export.ExportedProgram):
        file = words.of_file(program, "") if isinstance(program, str | os.PathLike) else ""
        raise TypeError(
            f"from_torch: needs an ExportedProgram, got {type(program).__name__}; make one of a module by "
            f"torch.export.export(module.eval(), example_arguments){file}"
        )
    program = _decomposed(program)
    signature, kinds = program.graph_signature, torch.export.graph_signature
    problems = _written(signature)
    graph = Graph(engine, name=type(program).__name__)
    fxs = {fx.name: fx for fx in program.graph.nodes}
    known: dict[str, Any] = {}
    stored = {**program.state_dict, **program.constants}
    copies: dict[Any, Any] = {}
    dims = _input_dims(fxs, signature, shapes)
    size = sum(one.nbytes for one in stored.values() if isinstance(one, torch.Tensor))
    for spec in signature.input_specs:
        name = spec.arg.name
        if spec.kind is kinds.InputKind.TOKEN:
            continue
        if spec.target is not None:
            if hasattr(stored[spec.target], "__tensor_flatten__"):
                problems.append(f"{spec.target!r}: a {type(stored[spec.target]).__name__}, which holds other tensors")
            elif name in fxs and fxs[name].users:
                known[name] = constant(graph, copied(stored[spec.target], copies), spec.target)
        elif not isinstance(fxs[name].meta.get("val"), torch.Tensor):
            if fxs[name].users:
                problems.append(f"input {name!r}: no tensor")
        else:
            value = fxs[name].meta["val"]
            try:
                known[name] = graph.input(name, dims[name], stated(value.dtype))
            except Error as error:
                problems.append(f"input {name!r}: {error}")
    # ops that only check their arguments return a token
    given = [spec.arg for spec in signature.output_specs if spec.kind is not kinds.OutputKind.TOKEN]
    results = [(argument, fxs.get(getattr(argument, "name", ""))) for argument in given]
    outputs = [fx for argument, fx in results if fx is not None]
    numbers = {i: getattr(argument, "value", None) for i, (argument, fx) in enumerate(results) if fx is None}
    problems += [
        f"output {i}: no tensor and no number, but {numbers[i]!r}; return it with the program's results"
        for i in numbers
        if numbers[i] is not None and not isinstance(numbers[i], bool | int | float)
    ]
    appended(graph, outputs, known, Budget(size), problems, out_of_place(program.graph))
    if problems:
        raise UnsupportedError(refusal("from_torch", problems))
    _with_numbers(graph, [fx is not None for _, fx in results], numbers)
    graph._keeps_inputs = True
    return graph


def _input_dims(fxs: Mapping[str, Any], signature: Any, shapes: InputShapes | None) -> dict[str, Dims]:
    """Returns the dims of the inputs that are tensors by name, those that `shapes` fixes included."""
    declared: dict[str, Dims] = {
        name: dims_of(fxs[name].meta["val"].shape)
        # user_inputs has the values of strings and numbers, not their names
        for name in (spec.arg.name for spec in signature.input_specs if spec.target is None)
        if name in fxs and hasattr(fxs[name].meta.get("val"), "shape")
    }
    if shapes is None:
        return declared
    return declared | fixed(shapes, declared, "from_torch: 'shapes'")


def _with_numbers(graph: Graph, are_tensors: Sequence[bool], numbers: Mapping[int, Any]) -> None:
    """Adds outputs that are numbers of Python, as tensors without axes, between the others; None is left out."""
    tensors = iter(list(graph.outputs.items()))
    outputs: dict[str, Value] = {}
    for i, is_tensor in enumerate(are_tensors):
        if is_tensor:
            name, outputs[name] = next(tensors)
        elif numbers[i] is not None:
            # PyTorch makes tensors of these types of numbers
            kind = np.float32 if isinstance(numbers[i], float) else None
            outputs[f"output_{i}"] = graph.constant(np.asarray(numbers[i], kind))
    graph.outputs = outputs


def appended(
    graph: Graph,
    outputs: list[Any],
    known: Mapping[str, Any],
    budget: Budget,
    problems: list[str],
    instead: Mapping[Any, Any] | None = None,
) -> None:
    """Builds the nodes that the outputs depend on, from values, arrays and records; adds errors to `problems`.

    `instead`: ops that replace some nodes' ops.
    """
    tensors, fxs = tensors_of(known), read(outputs)
    reader = Reader({fx: fx.name for fx in fxs if fx.op == "placeholder" or fx.name in known}, instead or {})
    for fx in fxs:
        try:
            node = None if fx in reader.names else reader.node(fx)
            # other nodes are after unsupported ones
            if node is not None and all(name in tensors for name in node.inputs):
                made = built(graph, node, tensors, budget)
                tensors.update((name, item) for name, item in zip(node.outputs, made, strict=False) if name)
        except Behind:
            continue
        except UnsupportedError as error:
            problems.append(str(error))
    if problems:
        return
    for fx in outputs:
        tensor = tensors.get(reader.names.get(fx, ""))
        if tensor is None or tensor.dtype not in dtypes.CODES:
            kind = getattr(fx.meta["val"], "dtype", type(fx.meta["val"]).__name__)
            problems.append(f"output {fx.name!r}: {kind}, which no op here takes")
            continue
        value = tensor.value
        if value is None and tensor.array is None:
            value = constant_of(graph, tensor, tensors, budget)
        elif value is None:
            value = graph.constant(tensor.array)
        name, count = fx.name, 1
        while name in graph.outputs:
            name, count = f"{fx.name}_{count}", count + 1
        graph.outputs[name] = value


def is_expressible(fx: Any) -> bool:
    """Whether a node of PyTorch's graphs is supported, if its arguments are."""
    if fx.target is operator.getitem:
        return is_expressible(fx.args[0])
    if size_op(fx.target):
        return True
    if not hasattr(fx.target, "_schema"):
        return False
    own = [one for node in (fx, *fx.all_input_nodes) for one in _tensors(node.meta.get("val"))]
    if not all(stated(one.dtype) in dtypes.CODES for one in own):
        return False
    try:
        given = zip(fx.target._schema.arguments, fx.args, strict=False)
        host.overload(str(fx.target), "", {argument.name: value for argument, value in given})
    except UnsupportedError:
        return False
    return True


def _tensors(value: Any) -> list[Any]:
    import torch

    return [one for one in (value if isinstance(value, tuple | list) else [value]) if isinstance(one, torch.Tensor)]


def size_of(graph: Graph, fx: Any, given: Sequence[Any], known: Mapping[str, Any], budget: Budget) -> Any:
    """Returns a symbolic number as the size of an input's axis; None if it is none."""
    number = str(fx.meta["val"])
    for other in given:
        shape = getattr(other.meta["val"], "shape", ())
        axis = next((i for i, dim in enumerate(shape) if not isinstance(dim, int) and str(dim) == number), None)
        if axis is not None:
            node = of_size(fx.name, other.name, axis)
            return built(graph, node, tensors_of(known), budget)[0]
    return None


def copied(tensor: Any, copies: dict[Any, Any]) -> Any:
    """Returns the elements of a parameter or buffer as they are now, row-major; those of tied ones once.

    `copies`: the arrays so far, each next to the one that it was copied from, whose address is the key.
    """
    array = from_dlpack(tensor.detach().resolve_conj().resolve_neg())
    key = array.ctypes.data, array.shape, array.strides, array.dtype
    if key not in copies:
        copies[key] = array, np.array(array, order="C", copy=True)
    return copies[key][1]


def _written(signature: Any) -> list[str]:
    """Returns the names of buffers and inputs that the program writes to."""
    remedy = "; export the model after model.eval()"
    kinds = {"buffers": ("buffer", remedy), "user_inputs": ("input", ""), "parameters": ("parameter", "")}
    return [
        f"{what} {name!r} is written to{more}"
        for kind, (what, more) in kinds.items()
        for name in getattr(signature, f"{kind}_to_mutate", {}).values()
    ]


# ops that PyTorch computes faster as a whole than decomposed
_WHOLE = ("aten.lstm.", "aten.gru.", "aten.rnn_tanh.", "aten.rnn_relu.", "aten.upsample_bicubic2d.")


def _decomposed(program: Any) -> Any:
    """Returns the program with ops without rules decomposed, as far as PyTorch can."""
    import torch

    called = [fx for fx in program.graph.nodes if fx.op == "call_function"]
    orders = any(isinstance(fx.target, torch._ops.HigherOrderOperator) for fx in called)
    instead = out_of_place(program.graph)
    targets = {instead.get(fx, fx.target) for fx in called if not size_op(fx.target)}
    lacking = {one for one in targets if hasattr(one, "_schema") and not _is_ruled(one)}
    if not orders and not lacking:
        return program
    lacking -= {one for one in _constant(program) if hasattr(one, "_schema") and not one._schema.is_mutable}
    table = torch.export.default_decompositions()
    if not orders and not any(one._schema.is_mutable or one in table for one in lacking):
        return program
    for one in list(table):
        if _is_ruled(one):
            del table[one]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return program.run_decompositions(table)
        except Exception as error:
            if orders or any(one._schema.is_mutable for one in lacking):
                text = " ".join(str(error).split())[:300]
                raise UnsupportedError(f"from_torch: PyTorch cannot take it apart: {text}") from error
            return program


def _is_ruled(op: Any) -> bool:
    return str(op) in RULES or str(op).startswith(_WHOLE)


def _constant(program: Any) -> set[Any]:
    """Returns the ops that the program calls on known tensors only."""
    given = {spec.arg.name for spec in program.graph_signature.input_specs if spec.target is None}
    constants: dict[Any, bool] = {}
    open_ = set()
    for fx in program.graph.nodes:
        known = fx.name not in given if fx.op == "placeholder" else all(constants[one] for one in fx.all_input_nodes)
        constants[fx] = known
        if fx.op == "call_function" and not known:
            open_.add(fx.target)
    return {fx.target for fx in program.graph.nodes if fx.op == "call_function"} - open_

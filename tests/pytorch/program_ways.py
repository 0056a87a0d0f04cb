"""The ways from a program to results: through `from_torch`, `torch.compile`, and PyTorch's own compiler."""

import functools
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

import dnnl_graph_ops as dgo
from dnnl_graph_ops.torch.whole_model import backend

from .program import Program, Step, Tensors, values_of

# what eager runs and the package refuses, by the message: why
LIMITS = {
    "is written to": "an input or a parameter is written to, which no net does",
    "needs at least one output": "views of arguments alone, which leave a net nothing to compute",
}
torch._logging.set_logs(all=logging.ERROR)
# a third of an export's time goes into finding these ops again, which are always the same
torch._export.utils._materialize_cpp_cia_ops = functools.cache(torch._export.utils._materialize_cpp_cia_ops)


class Theirs(Exception):
    """PyTorch itself fails to trace what it runs."""


@contextmanager
def tracing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Theirs(f"{type(error).__name__} of PyTorch: {str(error).strip().splitlines()[0][:80]}") from None


def copies(inputs: Tensors) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.clone() for tensor in inputs.values())


def options_of(program: Program) -> dict[str, str]:
    """Of the compiler, by which convolutions give what eager gives, of Inf and NaN too (docs/nonfinite.md)."""
    finite: list[bool] = []

    def seen(step: Step, tensors: list[torch.Tensor]) -> None:
        finite.extend("F.conv" not in step.text or bool(one.isfinite().all()) for one in tensors[:-1])

    for inputs in program.calls:
        values_of(program, inputs, seen=seen)
    return {} if all(finite) else {"algorithm": "direct"}


@torch.no_grad()
def exported(program: Program) -> list[list[torch.Tensor]]:
    """The outputs of each call; of other sizes only where the exported program takes them."""
    exported = _exported(program)
    net = dgo.from_torch(exported).compile(**options_of(program))
    results = [_results(net, program.inputs)]
    if program.grown:
        try:
            exported.module()(*copies(program.grown))
        except Exception:
            return results
        results.append(_results(net, program.grown))
    return results


def _exported(program: Program) -> torch.export.ExportedProgram:
    shapes = [dict.fromkeys(range(t.ndim), torch.export.Dim.AUTO) for t in program.inputs.values()]
    with tracing():
        return torch.export.export(
            program.module(), copies(program.inputs), dynamic_shapes=tuple(shapes) if program.dynamic else None
        )


def decomposed(program: Program) -> list[list[torch.Tensor]]:
    """The outputs of the exported program after PyTorch took it apart."""
    return [list(_exported(program).run_decompositions().module()(*copies(program.inputs)))]


def _results(net: Any, inputs: Tensors) -> list[torch.Tensor]:
    made = net.run(dict(zip(net.input_names, copies({n: inputs[n] for n in net.input_names}), strict=True)))
    return [tensor_of(array) for array in made.values()]


def tensor_of(array: np.ndarray) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


class Left(Exception):
    """A captured graph that the backend left to PyTorch."""


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def compiled(program: Program) -> list[list[torch.Tensor]]:
    """The outputs of each call, and the inputs behind it, of nets, however fast PyTorch is.

    Raises:
        Left: the backend leaves a graph to PyTorch.
    """
    lines, logger = _Lines(), logging.getLogger(backend.__name__)
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        with mock.patch.object(backend._Entry, "_tried", lambda entry, args: True):
            results = _compiled(program, backend.dnnl_graph_ops, options=options_of(program))
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
    left = [text for text in lines.texts if text.startswith("PyTorch runs a ")]
    if left:
        raise Left(left[0])
    return results


def divided(program: Program) -> list[list[torch.Tensor]]:
    """The outputs of each call, and the inputs behind it, of graphs divided at random: some parts are nets, PyTorch
    computes the others, as they are refused, or slower."""
    seed, runs, build = repr(program.steps), backend._runs, backend._Entry._build

    def draw(which: object, share: float) -> bool:
        return random.Random(f"{seed} {which}").random() < share

    def is_run(node: fx.Node) -> bool:
        return runs(node) and draw(node.name, 0.75)

    def is_faster(entry: Any, args: Any) -> bool:
        return draw(len(entry._theirs.graph.nodes), 0.5)

    def built(entry: Any, given: Any, *more: Any) -> None:
        if draw([node.name for node in given], 0.25):
            raise dgo.UnsupportedError("a part")
        build(entry, given, *more)

    replaced = {"_tried": is_faster, "_build": built}
    with mock.patch.object(backend, "_runs", is_run), mock.patch.multiple(backend._Entry, **replaced):
        return _compiled(program, backend.dnnl_graph_ops, options=options_of(program))


@torch.no_grad()
def _compiled(program: Program, chosen: Any, **more: Any) -> list[list[torch.Tensor]]:
    torch._dynamo.reset()
    module = program.module()
    made = torch.compile(module, backend=chosen, dynamic=program.dynamic, fullgraph=True, **more)
    own = module.state_dict(keep_vars=True)
    results, versions = [], {name: tensor._version for name, tensor in own.items()}
    for inputs in program.calls:
        # eager begins each call with parameters that nobody wrote to
        for name in (name for name, tensor in own.items() if tensor._version != versions[name]):
            own[name].copy_(program.parameters[name])
        given = copies(inputs)
        results.append([*made(*given), *given])
    return results


def aot_eager(program: Program) -> list[list[torch.Tensor]]:
    with tracing():
        return _compiled(program, "aot_eager")


def planned(program: Program) -> list[list[torch.Tensor]]:
    """Results of each call without numbers, with the strides of the graph that PyTorch captures.

    Eager has others: floor_divide of a permuted tensor and a scalar keeps the order of axes in eager alone.
    """
    with tracing():
        return _compiled(
            program, functools.partial(aot_module_simplified, fw_compiler=_unfilled, inference_compiler=_unfilled)
        )


def _unfilled(module: fx.GraphModule, _: Any) -> Callable[..., list[Any]]:
    """A function that returns a captured graph's results without numbers."""
    given = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    (output,) = module.graph.find_nodes(op="output")
    results = [each.meta["val"] if isinstance(each, fx.Node) else each for each in output.args[0]]

    def run(*args: Any) -> list[Any]:
        sizes = {value.node.expr: arg for value, arg in zip(given, args, strict=True) if is_size(value)}

        def number(size: Any) -> int:
            return int(size.node.expr.subs(sizes)) if is_size(size) else int(size)

        def empty(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value if value is None else number(value)
            shape, strides = (tuple(map(number, sizes)) for sizes in (value.shape, value.stride()))
            return torch.empty_strided(shape, strides, dtype=value.dtype)

        return [empty(value) for value in results]

    return make_boxed_func(run)


def is_size(value: Any) -> bool:
    return isinstance(value, torch.SymInt)


WAYS: dict[str, Callable[[Program], list[list[torch.Tensor]]]] = {
    "export": exported,
    "compile": compiled,
    "divided": divided,
    "aot_eager": aot_eager,
    "decomposed": decomposed,
}
# the way of PyTorch itself that is like one of the package's
THEIRS = {"export": "decomposed", "compile": "aot_eager", "divided": "aot_eager"}

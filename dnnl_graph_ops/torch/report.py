"""Defines `report`: for each convolution of a model the engine that computes it, and the speedup."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from ..errors import InvalidArgumentError
from ..reports.tables import html, table
from ..words import counted
from .choice.verdicts import MEASURED, Verdict, measuring
from .layers.compute import call_of, refusal
from .layers.conv_params import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, is_last
from .layers.modules import is_convolution, is_ours, optimized_class, watch
from .optimize import check_module, check_optimized, run_once
from .whole_model import capture, captured

_PYTORCH = "PyTorch"


@dataclass(frozen=True)
class LayerTime:
    """The times of one layer in one direction.

    Attributes:
        layer: the name, as in `model.named_modules()`.
        text: the module's class and arguments on one line.
        direction: "forward", "backward_data" or "backward_weights".
        input: the shape of the layer's input.
        calls: how often a call of the model, or a training step, runs this direction with such an input. 0: backward
            data of a layer whose input is one of `example_inputs`, which needs no gradient.
        computed_by: "dnnl_graph_ops" or "PyTorch".
        our_seconds, their_seconds: the least time of one call in each engine; None if not compared.
        why: "measured", or another reason for the choice, such as "not called" of a layer that the inputs do not reach;
            the table prints "slower here: left to PyTorch" for measured layers that PyTorch computes. Of layers in 16
            bits it tells if they are faster in f32, conversions not counted.
    """

    layer: str
    text: str
    direction: str
    input: tuple[int, ...]
    calls: int
    computed_by: str
    our_seconds: float | None
    their_seconds: float | None
    why: str

    @property
    def gain(self) -> float:
        """The speedup: PyTorch's time divided by the chosen engine's; 1.0 (in the table "-") if PyTorch computes."""
        if self.computed_by == _PYTORCH or not (self.our_seconds and self.their_seconds):
            return 1.0
        return self.their_seconds / self.our_seconds

    @property
    def is_left(self) -> bool:
        """Whether the layer was measured and PyTorch is faster."""
        return self.computed_by == _PYTORCH and self.our_seconds is not None


class Report(tuple[LayerTime, ...]):
    """A tuple of `LayerTime` in the order of first calls, all directions of a layer together.

    `str()` is a table, `to_dict()` the data for JSON. `Report(rows)` is a table of selected rows.
    """

    _captures: Mapping[str, str] = MappingProxyType({})
    _recompilations: Mapping[str, int] = MappingProxyType({})

    @property
    def captures(self) -> Mapping[str, str]:
        """Modules that may run as nets captured by torch.compile: captured, waiting, or why not; "" is the model.

        A module waits until its calls have taken as long as a capture is expected to. `warm_up` captures at once. Of a
        result of `torch.compile(model, backend="dnnl_graph_ops")`: its graphs by their numbers in PyTorch's logs.
        """
        return self._captures

    @property
    def recompilations(self) -> Mapping[str, int]:
        """How often PyTorch captured code of the model again, by PyTorch's reason."""
        return self._recompilations

    @property
    def seconds(self) -> float:
        """Seconds of all calls of the measured layers, each in the chosen engine."""
        return sum(row.calls * times[0] for row in self if (times := _times(row)))

    @property
    def their_seconds(self) -> float:
        """Seconds of all calls of the measured layers in PyTorch."""
        return sum(row.calls * times[1] for row in self if (times := _times(row)))

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts and lists for JSON; times in seconds."""
        layers = [{**asdict(row), "gain": row.gain} for row in self]
        totals = {"seconds": self.seconds, "their_seconds": self.their_seconds}
        captures = {"captures": dict(self.captures), "recompilations": dict(self.recompilations)}
        return {"layers": layers, **captures, **totals}

    def __str__(self) -> str:
        rows = table(self._rows(), width=sys.maxsize) if self else ()
        return "\n".join((*rows, *self._totals()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Returns the table for a notebook."""
        return html(self._rows(), title="; ".join(self._totals()))

    def _rows(self) -> list[tuple[str, ...]]:
        head = "layer", "module", "input", "calls", "direction", "computed by"
        times = "ms here", "PyTorch ms", "speedup", "why"
        return [(*head, *times), *(_cells(row, before) for row, before in zip(self, (None, *self), strict=False))]

    def _totals(self) -> Iterator[str]:
        if self:
            yield f"layers: {1e3 * self.seconds:.3f} ms here, {1e3 * self.their_seconds:.3f} ms in PyTorch"
        yield from (f"{name or 'the model'}: {state}" for name, state in self.captures.items())
        yield from (
            f"captured again {counted(count, 'time')}: {reason}" for reason, count in self.recompilations.items()
        )


def _times(row: LayerTime) -> tuple[float, float] | None:
    """Returns the seconds of a call in the chosen engine, and in PyTorch; None: not measured."""
    if row.our_seconds is None or row.their_seconds is None:
        return None
    return row.their_seconds if row.computed_by == _PYTORCH else row.our_seconds, row.their_seconds


def _cells(row: LayerTime, before: LayerTime | None) -> tuple[str, ...]:
    """Returns the cells of a row; cells on the layer are empty if the row before has the same layer."""

    def ms(seconds: float | None) -> str:
        return "-" if seconds is None else f"{seconds * 1e3:.3f}"

    layer = row.layer, row.text, "x".join(map(str, row.input)), str(row.calls)
    if before is not None and (before.layer, before.input) == (row.layer, row.input):
        layer = "", "", "", ""
    times = ms(row.our_seconds), ms(row.their_seconds)
    gain = "-" if row.is_left else f"{row.gain:.2f}"
    why = "slower here: left to PyTorch" if row.is_left and row.why == MEASURED else row.why
    return *layer, row.direction, row.computed_by, *times, gain, why


def report(model: nn.Module, *example_inputs: Any) -> Report:
    """Report which engine computes each convolution of an optimized model: forward and, in training, both gradients.

    Calls the model once, in eval mode and without gradients, and restores its state; layers that were not measured
    before are measured now. Times are from the first call with about such sizes in this process.

    Of a model of `torch.compile(model, backend="dnnl_graph_ops")`, which is not called now and has no rows, the report
    lists the graphs of the calls so far.

    Args:
        model: the result of `optimize`, or a module that contains it; or that of `torch.compile`.
        *example_inputs: the model's positional arguments.

    Raises:
        TypeError: not a module. InvalidArgumentError: no layer of the model is optimized, or the model takes another
            number of inputs; no graph of a compiled model was captured.
    """
    check_module(model, "report")
    # without an import of PyTorch's compiler
    is_compiled = "torch._dynamo" in sys.modules and isinstance(model, torch._dynamo.OptimizedModule)
    if is_compiled or (not any(map(is_ours, model.modules())) and captured.graphs(model)):
        return _of_graphs(model)
    check_optimized(model, "report")
    found = {module: name for name, module in model.named_modules() if is_convolution(module)}
    seen: dict[tuple[Any, ...], list[Any]] = {}
    training = model.training
    leaves = (each for each in example_inputs if isinstance(each, torch.Tensor) and not each.requires_grad)
    data = {_address(each) for each in leaves} - {None}

    def note(module: nn.Module, call: Any) -> None:
        _, x, *_ = call
        seen.setdefault((module, x.shape, x.stride(), x.dtype), [call, 0])[1] += 1

    with watch(note):
        handles = [m.register_forward_pre_hook(partial(_passing, seen)) for m in found if not is_ours(m)]
        try:
            run_once(model, example_inputs, "report")
        finally:
            for handle in handles:
                handle.remove()
    rows = []
    called = {module for module, *_ in seen}
    for module in found:
        if module not in called:
            seen[module, ()] = [None, 0]
    for (module, shape, *_), (call, count) in seen.items():
        with measuring():
            verdicts = [_untaken(module, module in called)] if call is None else _verdicts(call, training)
        is_first = call is not None and _address(call[1]) in data
        for direction, verdict in verdicts:
            rows.append(
                LayerTime(
                    found[module],
                    f"{type(module).__name__}({module.extra_repr()})",
                    direction.strip("_") or "forward",
                    tuple(shape),
                    0 if is_first and direction == BACKWARD_DATA else count,
                    "dnnl_graph_ops" if verdict.ours else _PYTORCH,
                    verdict.our_seconds,
                    verdict.their_seconds,
                    verdict.why,
                )
            )
    result = Report(rows)
    result._captures, result._recompilations = capture.states(model), captured.again(model)
    return result


def _of_graphs(model: nn.Module) -> Report:
    graphs = captured.graphs(model)
    if not graphs:
        raise InvalidArgumentError(
            "report: no graph of the model was captured for backend='dnnl_graph_ops': call the model first; "
            "dgt.report(dgt.optimize(model), x) lists layers"
        )
    result = Report(())
    result._captures = {f"graph {one.name}": str(one) for one in graphs}
    result._recompilations = captured.again(model)
    return result


def _address(tensor: torch.Tensor) -> int | None:
    """Returns the address of a tensor's storage; None if its layout has none, as of mkldnn tensors."""
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else None


def _passing(seen: dict[tuple[Any, ...], list[Any]], module: nn.Module, arguments: tuple[Any, ...]) -> None:
    """Returns the row of a call of a convolution that is not optimized."""
    x = arguments[0]
    seen.setdefault((module, x.shape, x.stride(), x.dtype), [None, 0])[1] += 1


def _untaken(module: nn.Module, is_called: bool) -> tuple[str, Verdict]:
    """Returns the row of a convolution that PyTorch computes whatever is faster."""
    if not is_called:
        return FORWARD, Verdict(is_ours(module), why="not called")
    reason = "another forward" if optimized_class(type(module)) is None else "not selected by optimize"
    return FORWARD, Verdict(False, why=f"not optimized: {reason}")


def _verdicts(call: Any, training: bool) -> list[tuple[str, Verdict]]:
    spec, x, w, b, net = call
    if why := refusal(x, w, *([] if b is None else [b])):
        # PyTorch's op has no kernel for some of what its modules compute in other ways
        return [(FORWARD, Verdict(False, why=why))]
    forward = call_of(spec, FORWARD, x, w, b, net=net)
    calls = [forward]
    if training:
        with torch.no_grad():
            dy = torch.randn_like(y) if (y := forward.run(x, w, b, net)).is_floating_point() else y
            calls.append(call_of(spec, BACKWARD_DATA, dy, w, x.shape, is_last(y)))
            calls.append(call_of(spec, BACKWARD_WEIGHTS, x, dy, w.shape, is_last(y)))
    both = [(call.direction, call.verdict) for call in calls]
    if x.dtype is torch.float32 or both[0][1].our_seconds is None:
        return both
    wide = call_of(spec, FORWARD, x.detach().float(), w.detach().float(), None if b is None else b.detach().float())
    return [(FORWARD, _beside_f32(both[0][1], wide.verdict)), *both[1:]]


def _beside_f32(narrow: Verdict, wide: Verdict) -> Verdict:
    """Returns the verdict of a layer in 16 bits, which says so if the layer is faster in f32."""
    times = ((one.our_seconds, one.their_seconds) for one in (narrow, wide))
    seconds = [min(ours, theirs) for ours, theirs in times if ours and theirs]
    if len(seconds) < 2 or seconds[0] <= seconds[1]:
        return narrow
    return narrow._replace(why=f"slower than f32, which takes {1e3 * seconds[1]:.3f} ms")

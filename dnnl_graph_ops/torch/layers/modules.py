"""Subclasses of PyTorch's convolution modules that differ only in the engine that computes."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from operator import itemgetter
from types import FunctionType
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

import torch
from torch import Tensor, get_num_threads, is_grad_enabled, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..._core import TensorMarks
from ...runtime import threads as pool
from .. import private
from ..private import (
    Convolution,
    FakeTensor,
    TransposedConvolution,
    has_global_hook,
    is_autocast_enabled,
    tracing_state,
)
from . import compute, ops
from .call_cache import Needs, Route, is_saving_watched, is_watched, key_of, needs_of, record
from .compute import DTYPES, call_of, forked, refusal, their_forward
from .conv_params import FORWARD, ConvParams, Ints
from .packed import Packed, marks_of

PLAIN = frozenset({Tensor, nn.Parameter})
# hooks that compute the weights before each call from parameters and buffers
_KNOWN_HOOKS = (WeightNorm, SpectralNorm, BasePruningMethod)
_KNOWN_PARAMETRIZATIONS = frozenset({private.WeightNorm, private.SpectralNorm, private.Orthogonal})
_STATE = "_dnnl_graph_ops"
_ORIGINAL = "_dnnl_graph_ops_original"  # attributes of the class; others are set by name
_MOST_ROUTES = 256


@dataclass(eq=False)
class State:
    """A module's data for this package, which is no part of the module's state: copies and pickles start without it."""

    # None: the parameters' dtype
    dtype: torch.dtype | None = None
    # the layer's arguments, and the module's attributes that they are derived from
    spec: ConvParams = field(init=False)
    arguments: tuple[Any, ...] = ()
    given: tuple[Any, ...] = ()
    packed: Packed | None = None
    # weights of the last unpacked call, to see whether they are constant
    last: TensorMarks | None = None
    # whether parameters were set since the last call
    replaced: bool = False
    # routes of earlier calls, valid while arguments and packed weights are the same
    routes: dict[Hashable, Route] = field(default_factory=dict)
    # the marks of the packed tensors
    sources: frozenset[int] = frozenset()

    def __reduce__(self) -> tuple[Any, ...]:
        return State, (self.dtype,)

    def set_dtype(self, dtype: torch.dtype | None) -> None:
        self.dtype = dtype
        self.forget()

    def forget(self, replaced: bool = False) -> None:
        self.packed = self.last = None
        self.replaced = replaced
        self.routes = {}
        _packing.discard(self)

    def keep(self, key: Hashable, route: Route) -> None:
        if len(self.routes) >= _MOST_ROUTES:
            self.routes = {}
        self.routes[key] = route

    def pack(self, module: Any, sources: list[Tensor], dtype: torch.dtype | None) -> Packed | None:
        seen = marks_of(sources)
        with torch.no_grad():
            weight, bias = (_kept(t, sources, dtype) for t in (module.weight, module.bias))
        assert weight is not None
        if seen is None or refusal(weight, *([] if bias is None else [bias])):
            return None
        self.routes = {}
        self.packed, self.last = Packed(self.spec, seen, weight, bias, dtype), None
        self.sources = frozenset(map(id, sources))
        _packing.add(self)
        return self.packed


def _kept(t: Tensor | None, sources: list[Tensor], dtype: torch.dtype | None) -> Tensor | None:
    """Returns weights or a bias in a dtype: a parameter itself, since its memory may be replaced, or their values."""
    if t is None or (dtype in (None, t.dtype) and any(t is each for each in sources)):
        return t
    return t.detach().to(dtype or t.dtype)


class Holder(Protocol):
    """Holds data derived from tensors, whose ids are `sources`."""

    @property
    def sources(self) -> frozenset[int]: ...

    def forget(self, replaced: bool = False) -> None: ...


_packing: WeakSet[Holder] = WeakSet()


def tell_of_steps(holder: Holder) -> None:
    """Registers a holder, which is told of writes that versions do not count."""
    _packing.add(holder)


def forget_those_of(tensors: Iterable[Tensor]) -> None:
    written = {id(tensor) for tensor in tensors}
    for holder in list(_packing):
        if not holder.sources.isdisjoint(written):
            holder.forget(replaced=True)


def _stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Tells holders of an optimizer's step: fused optimizers, and those that write to `.data`, change no versions."""
    if _packing:
        forget_those_of(parameter for group in optimizer.param_groups for parameter in group["params"])


register_optimizer_step_post_hook(_stepped)


def _is_direct(*tensors: Tensor | None) -> bool:
    """Whether calls are neither observed nor transformed: no mode, no transform, no tracer."""
    return (
        not torch.compiler.is_compiling() and all(t is None or type(t) in PLAIN for t in tensors) and not is_watched()
    )


def _is_traceable(*tensors: Tensor | None) -> bool:
    """Whether this package's ops may be traced or transformed; not by tracers that support PyTorch's ops only."""
    return (
        all(t is None or type(t) in PLAIN or isinstance(t, FakeTensor) for t in tensors)
        and not torch.onnx.is_in_onnx_export()
        and not tracing_state()
    )


Watcher: TypeAlias = Callable[[nn.Module, tuple[Any, ...]], None]
# what `watch` calls; others read it
watcher: Watcher | None = None


@contextmanager
def watch(function: Watcher) -> Iterator[None]:
    """Within this context, calls the function with each called module and its layer's operands."""
    global watcher
    before, watcher = watcher, function
    try:
        yield
    finally:
        watcher = before


def is_observed() -> bool:
    """Whether modules or engines are observed, or autocast changes dtypes."""
    return bool(watcher is not None or is_autocast_enabled() or is_watched() or has_global_hook())


class _EqualToOriginal(type):
    """Makes subclasses equal to their original class as a key: torch.ao and torch.fx look modules up by their types."""

    def __eq__(cls, other: object) -> bool:
        return _original(cls) is (_original(other) if isinstance(other, type) else other)

    def __hash__(cls) -> int:
        return type.__hash__(_original(cls))


def _original(given: type) -> type:
    original: type = given.__dict__.get(_ORIGINAL, given)
    return original


class _Ours(metaclass=_EqualToOriginal):
    """Base class: pickles name the original classes, since `optimize` makes the subclasses at run time."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        given: Any = super().__reduce_ex__(max(protocol, 2))
        original = type(self).__dict__.get(_ORIGINAL)
        if original is None or given[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return given
        return _restored, (original, *given[1][1:]), *given[2:]


class _Convolution(_Ours, Convolution):
    """Base class of all subclasses."""

    def _again(self, x: Tensor) -> Tensor | None:
        """Returns the result of a repeated call by its route; None if there is none or anything differs."""
        own = self.__dict__
        state = own.get(_STATE)
        parameters = own["_parameters"]
        w = parameters.get("weight")
        if state is None or w is None or "bias" not in parameters or type(x) not in PLAIN:
            return None
        b = parameters["bias"]
        needs = needs_of(x, w, b) if is_grad_enabled() else ()
        route = state.routes.get(key_of(x, own["training"], needs))
        if route is None or state.given != _given(own):
            return None
        return their_forward(route.call.spec, x, w, b) if route.theirs else self._follow(route, x, w, b, needs)

    def _follow(self, route: Route, x: Tensor, w: Tensor, b: Tensor | None, needs: Needs) -> Tensor | None:
        if watcher is not None or type(w) not in PLAIN or pool.count != get_num_threads():
            return None
        if route.net is not None:
            packed = self.__dict__[_STATE].packed
            # another thread may have packed changed weights
            if packed is None or packed.net is not route.net or not packed.seen.fit((w,) if b is None else (w, b)):
                return None
            packed.reused = True
        if not route.is_weighed:
            route.weigh(partial(self._follow, route, needs=needs), x, w, b, needs)
        if not needs:
            again: Any = None if compute.in_fork else route.again
            return again and (again(x, w, b) if route.net is None else again(x))
        return record(x, w, b, route) if x.is_cpu and w.is_cpu else None

    def _compute(self, x: Tensor, padding: Ints, output_padding: Ints, usual: bool = False) -> Tensor | None:
        """Returns the result, or None if PyTorch's forward has to compute or to raise.

        `usual`: whether x and the paddings are the call's own, so that repeated calls can be recognised.
        """
        axes = len(self.kernel_size)
        if not isinstance(x, Tensor) or x.is_nested:
            return None
        if x.ndim != axes + 2:
            if x.ndim != axes + 1:
                return None
            out = self._compute(x.unsqueeze(0), padding, output_padding)
            return None if out is None else out.squeeze(0)
        arguments = self.stride, padding, self.dilation, self.transposed, output_padding, self.groups
        if torch.compiler.is_compiling():
            w, b = self.weight, self.bias
            return ops.call("", ConvParams(*arguments), x, w, b) if _is_traceable(x, w, b) else None
        state = state_of(self)
        if state.arguments != arguments:
            state.forget()
            state.arguments = arguments
            state.spec = ConvParams(*arguments).plain
        cast = torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu") if cast else state.dtype
        packed = None if self.training or forked() else self._packed(state, dtype, x)
        if packed is None:
            w, b = self.weight, self.bias
        else:
            w, b = packed.weight, packed.bias
            if is_grad_enabled() and (x.requires_grad or any(t.requires_grad for t in self._sources() or ())):
                w, b = self.weight, self.bias
        if not _is_direct(x, w, b):
            # the op handles autocast and all other cases
            return ops.call("", state.spec, x, w, b) if _is_traceable(x, w, b) else None
        if not (x.is_cpu and w.is_cpu):
            return None
        given = x.dtype
        if dtype is not None and not (given is w.dtype is dtype) and given in DTYPES and w.dtype in DTYPES:
            x, w, b = x.to(dtype), w.to(dtype), None if b is None else b.to(dtype)
        net = packed.net if packed is not None and packed.weight.dtype is x.dtype else None
        if watcher is not None:
            watcher(self, (state.spec, x, w, b, net))
        call = call_of(state.spec, FORWARD, x, w, b, net=net)
        if not call.shape:
            return None
        if net is not None and call.is_left and not any(route.net for route in state.routes.values()):
            # free memory of unused plans
            net.clear_plans()
        route = Route(call, net if call.verdict.ours else None, x, w)
        needs = needs_of(x, w, b)
        out = record(x, w, b, route) if needs else call.run(x, w, b, route.net)
        # later calls use the packed net, or unpacked weights
        own = self._parameters.get("weight")
        as_they_are = own is not None and own.dtype is w.dtype and (self.training or net is not None)
        usual = usual and x.dtype is given and (as_they_are or (net is not None and not needs))
        if usual and call.verdict.is_settled and not (is_autocast_enabled() or is_saving_watched()):
            self._keep(state, route, x)
        return out if cast or out.dtype is given else out.to(given)

    def _keep(self, state: State, route: Route, x: Tensor) -> None:
        """Keeps the route for repeated calls."""
        w, b = self._parameters.get("weight"), self._parameters.get("bias")
        if w is not None and "bias" in self._parameters:
            needs = needs_of(x, w, b)
            route.prepare(x, w, b)
            route.weigh(partial(self._follow, route, needs=needs), x, w, b, needs)
            state.given = _given(self.__dict__)
            state.keep(key_of(x, self.training, needs), route)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, nn.Parameter) and (state := self.__dict__.get(_STATE)) is not None:
            state.forget(replaced=True)
        super().__setattr__(name, value)
        if name == "qconfig" and value is not None:
            # torch.ao is about to quantize the module, and takes exact types
            _give_back(self)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        # frees memory of calls that PyTorch computes, and every reference to parameters, which may be swapped
        state_of(self).forget()
        forget_those_of(self.parameters())
        return super()._apply(fn, recurse)

    def _packed(self, state: State, dtype: torch.dtype | None, x: Tensor) -> Packed | None:
        """Returns the packed weights of the current values; None if they must be read at each call."""
        sources = self._sources()
        if sources is None:
            return None
        packed = state.packed
        if packed is not None and packed.asked is dtype and packed.seen.fit(sources):
            packed.reused = True
            return packed
        if not _is_direct(x, *sources):
            return None
        # weights that change at each call are not packed, and their autograd history is not kept alive
        settled = not state.replaced and (state.last is None or state.last.fit(sources))
        if not settled or (packed is not None and not packed.reused) or any(t.grad_fn is not None for t in sources):
            state.forget()
            state.last = None if any(t.grad_fn is not None for t in sources) else marks_of(sources)
            return None
        return state.pack(self, sources, dtype)

    def _sources(self) -> list[Tensor] | None:
        """Returns the tensors that weights and bias are computed from; None if unknown."""
        parameters = self._parameters
        weight = parameters.get("weight")
        if weight is not None and "bias" in parameters:
            bias = parameters["bias"]
            return [weight] if bias is None else [weight, bias]
        # sharding of parameters writes them without counting, but also sets them, which is seen
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return None
        known = any(isinstance(hook, _KNOWN_HOOKS) for hook in self._forward_pre_hooks.values())
        if known or all(type(p) in _KNOWN_PARAMETRIZATIONS for p in _parametrizations(self)):
            return [*self.parameters(), *self.buffers()]
        return None


_given = itemgetter("stride", "padding", "dilation", "output_padding", "groups", "padding_mode")


def _parametrizations(module: Any) -> list[nn.Module]:
    """Returns all source tensors in any order, with an unknown one if weights have another source."""
    if not parametrize.is_parametrized(module):
        return [module]
    return [p for listed in module.parametrizations.values() for p in listed]


def state_of(module: nn.Module) -> State:
    state: State | None = module.__dict__.get(_STATE)
    if state is None:
        state = module.__dict__[_STATE] = State()
    return state


class _Ordinary(_Convolution):
    def forward(self, input: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and (again := self._again(input)) is not None:
            return again
        x, padding = input, self.padding
        if self.padding_mode != "zeros":
            x = F.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * len(self.stride)
        elif isinstance(padding, str):
            x, padding = self._evened(x)
        out = self._compute(x, tuple(padding), self.output_padding, x is input)
        return super().forward(input) if out is None else out

    def _evened(self, x: Tensor) -> tuple[Tensor, Ints]:
        """For padding="same" and "valid", returns the padding of both ends, and x padded by the surplus of one end."""
        ends = self._reversed_padding_repeated_twice
        less, more = ends[::2], ends[1::2]
        if less != more:
            x = F.pad(x, [n for a, b in zip(less, more, strict=True) for n in (0, b - a)])
        return x, tuple(reversed(less))


class _Transposed(_Convolution, TransposedConvolution):
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        usual = output_size is None and self.padding_mode == "zeros"
        if usual and not torch.compiler.is_compiling() and (again := self._again(input)) is not None:
            return again
        axes = len(self.stride)
        beyond = self.output_padding
        if output_size is not None and isinstance(input, Tensor) and axes + 1 <= input.ndim <= axes + 2:
            given: list[Any] = [self.stride, self.padding, self.kernel_size, axes, self.dilation]
            beyond = tuple(self._output_padding(input, output_size, *given))
        padding: Any = self.padding
        out = self._compute(input, padding, beyond, usual) if self.padding_mode == "zeros" else None
        return super().forward(input, output_size) if out is None else out


def _class_of(original: type[Any], mixin: type[Any]) -> type[Any]:
    """Returns the subclass of a convolution's class.

    torch.fx treats only modules of torch.nn as one step; TorchScript compiles the wrapped forward.
    """
    own = mixin.forward
    forward = FunctionType(own.__code__, own.__globals__, own.__name__, own.__defaults__, own.__closure__)
    return _named_as(original, mixin, forward=update_wrapper(forward, original.forward))


def _named_as(original: type[Any], mixin: type[Any], **own: Any) -> type[Any]:
    names = {"__module__": original.__module__, "__doc__": original.__doc__, _ORIGINAL: original}
    return type(original.__name__, (mixin, original), {**names, **own})


_BY_ORIGINAL: dict[type, type] = {}
for _kind, _mixin in ("Conv", _Ordinary), ("ConvTranspose", _Transposed):
    for _name in (f"{_kind}{_axes}d" for _axes in (1, 2, 3)):
        _made = _BY_ORIGINAL[getattr(nn, _name)] = _class_of(getattr(nn, _name), _mixin)
        _lazy = getattr(nn, f"Lazy{_name}")
        _BY_ORIGINAL[_lazy] = _named_as(_lazy, _Ours, cls_to_become=_made)
_METHODS = ("forward", "_conv_forward", "__call__")


def _give_back(module: nn.Module) -> None:
    """Makes a module of the original class again, with the same parameters and hooks."""
    original = type(module).__dict__.get(_ORIGINAL)
    if original is not None:
        module.__dict__.pop(_STATE, None)
        module.__class__ = original


def is_convolution(module: nn.Module) -> bool:
    """Whether a module is a convolution that can be optimized, or is."""
    return isinstance(module, tuple(_BY_ORIGINAL))


def is_ours(module: nn.Module) -> bool:
    return isinstance(module, _Ours)


def optimized_class(given: type[Any]) -> type | None:
    """Returns the subclass for a class; None if it is no convolution of PyTorch or has a forward of its own."""
    if issubclass(given, _Ours):
        return None
    if given in _BY_ORIGINAL:
        return _BY_ORIGINAL[given]
    parent: Any = given.__bases__[0]
    if given.__name__ == f"Parametrized{parent.__name__}" and len(given.__bases__) == 1:
        # torch.nn.utils.parametrize restores the class that it finds as the base
        base = optimized_class(parent)
        own = {name: value for name, value in given.__dict__.items() if name not in ("__dict__", "__weakref__")}
        return None if base is None else type(given.__name__, (base,), own)
    base = next((original for original in _BY_ORIGINAL if issubclass(given, original)), None)
    if base is None or base.__name__.startswith("Lazy"):
        return None
    if any(getattr(given, name, None) is not getattr(base, name, None) for name in _METHODS):
        return None
    known = next((c for c in type.__subclasses__(given) if c.__dict__.get(_ORIGINAL) is given), None)
    return known or _class_of(given, _BY_ORIGINAL[base].__bases__[0])


def _restored(given: type, *arguments: Any) -> nn.Module:
    """Returns a new module of a pickle, before its state is set."""
    made = optimized_class(given)
    assert made is not None
    module: nn.Module = made.__new__(made, *arguments)
    return module

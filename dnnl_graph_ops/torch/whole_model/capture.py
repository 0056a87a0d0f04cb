"""Runs modules that hold optimized convolutions as nets captured by torch.compile, if nets are faster.

A module is captured in eval mode without gradients, once its calls have taken as long as the capture is expected to:
both together then take at most twice as long as they would with the better decision. Later calls run the captured code
if PyTorch's guards hold, else layer by layer. Only the outermost possible module is captured. No call is repeated, as
it may have side effects: nets and layers take turns until the faster of both is known.
"""

from __future__ import annotations

import inspect
import sys
import time
import weakref
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, NoneType
from typing import Any, TypeAlias

import torch
from torch import is_grad_enabled, nn
from torch.autograd import forward_ad
from torch.utils.dlpack import from_dlpack
from torch.utils.hooks import RemovableHandle

from ...log import logger
from ...once import once
from ..choice import verdicts
from ..choice.budget import budget
from ..choice.verdicts import near
from ..layers import compute, modules
from ..layers.compute import forked
from ..layers.modules import PLAIN, is_observed, is_ours, state_of
from ..private import (
    are_transforms_active,
    dispatch_modes,
    function_modes,
    has_global_hook,
    is_autocast_enabled,
    replicated,
    tracing_state,
)
from . import captured

_LOGGER = logger("torch.whole")
# settled kinds of calls that a module remembers
_MOST_SETTLED = 256
_HOOKED = "it has hooks"
_NUMBERS = frozenset({NoneType, bool, int, float, str})
# calls until all is measured; the first one captures
CALLS = 1 + 2 * verdicts.TURNS
# seconds that the import of PyTorch's compiler takes
_SECONDS_TO_IMPORT = 1.5

Run: TypeAlias = Callable[[], Any]
_is_inside: ContextVar[bool] = ContextVar("is_inside", default=False)


@dataclass
class _Pace:
    """Seconds of captures, and how many innermost modules they captured; at first those of an ordinary model."""

    seconds: float = 0.25
    modules: int = 10

    def add(self, seconds: float, modules: int) -> None:
        self.seconds, self.modules = self.seconds + seconds, self.modules + modules


_pace = _Pace()


def attach(model: nn.Module) -> None:
    """Enables the capture of modules that hold optimized convolutions."""
    for module in model.modules():
        forward = type(module).forward
        called = forward is not nn.Module.forward and not isinstance(module, torch.jit.ScriptModule)
        # PyTorch's compiler runs a generator to its end at once
        called = called and not inspect.isgeneratorfunction(forward)
        if called and module._compiled_call_impl is None and _layers(module) and not is_ours(module):
            Whole(module)


def detach(model: nn.Module) -> None:
    """Disables the capture: each layer runs alone."""
    for module in model.modules():
        if isinstance(module._compiled_call_impl, Whole):
            module._compiled_call_impl.leave(module)


def states(model: nn.Module) -> dict[str, str]:
    """Returns by module, "" for the model itself, whether it runs as captured nets; inner ones if they were asked."""
    wholes = ((name, module._compiled_call_impl) for name, module in model.named_modules())
    return {name: one.state for name, one in wholes if isinstance(one, Whole) and (one.was_asked or not name)}


def _layers(module: nn.Module) -> list[nn.Module]:
    return [layer for layer in module.modules() if is_ours(layer)]


def _are_hooked(module: nn.Module) -> bool:
    return any(each._forward_hooks or each._forward_pre_hooks for each in module.modules())


class Stale(Exception):
    """Raised if parameters differ from the packed ones."""


class _Counts:
    """Counts of captured code. PyTorch keeps the backend for good, so the backend holds no code or tensors.

    hits: runs of nets. works: captures and builds of nets, which `may_work` allows.
    """

    def __init__(self) -> None:
        self.hits = self.works = 0
        self.may_work = False

    def backend(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        from .backend import compiled

        with captured.noted(False):
            run = compiled(graph, inputs, self._working)

        def noted(*args: Any) -> Any:
            out = run(*args)
            self.hits += 1
            return out

        return noted

    def _working(self) -> None:
        if not self.may_work:
            raise Stale
        self.works += 1


class _Code:
    """The captured code of a module, held by a function of its own, as PyTorch keeps it with a function's code."""

    def __init__(self) -> None:
        own = FunctionType(_call.__code__.replace(), _call.__globals__)
        self.counts = _Counts()
        self.capture = torch.compile(own, backend=self.counts.backend, fullgraph=True)
        # runs captured code whose guards hold, else the original function
        self.run = torch._dynamo.run(own)
        # captured code refers to the function, and PyTorch to the code until it is reset
        weakref.finalize(self, torch._dynamo.eval_frame.remove_from_cache, own)


def _call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return module._call_impl(*args, **kwargs)


def _without_gradients(run: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
    """Runs captured code under no_grad also in inference mode, which PyTorch's guards tell apart."""
    if not torch.is_inference_mode_enabled():
        return run(module, args, kwargs)
    with torch.inference_mode(False), torch.no_grad():
        return run(module, tuple(map(_counted, args)), {name: _counted(each) for name, each in kwargs.items()})


def _counted(each: Any) -> Any:
    """Returns a tensor on the same memory that is no inference tensor; other arguments as they are."""
    if not isinstance(each, torch.Tensor) or not each.is_inference():
        return each
    return from_dlpack(each.resolve_conj().resolve_neg())


def _key_of(args: tuple[Any, ...]) -> Hashable:
    """Returns the key of all that the way of a call depends on; calls that are watched or measured have others.

    None: arguments that are not captured. What `is_observed` asks stands here again, as in `key_of` of a layer.
    """
    key: list[Any] = [
        torch.get_num_threads(), is_grad_enabled(), compute.in_fork, verdicts.at_once.get(),
        torch.are_deterministic_algorithms_enabled(), is_autocast_enabled(), modules.watcher is None,
        bool(has_global_hook()), are_transforms_active(), dispatch_modes(),
        function_modes(), tracing_state() is None, forward_ad._current_level,
        # another number if any hook was registered
        RemovableHandle.next_id,
    ]  # fmt: skip
    for each in args:
        kind = type(each)
        if kind in PLAIN:
            key += each.shape, each.dtype, each.layout, each.device
        elif kind in _NUMBERS:
            key += kind, each
        else:
            return None
    return tuple(key)


class Whole:
    """The value of a module's `_compiled_call_impl`, which PyTorch calls instead of hooks and forward.

    Copies and pickles of a module lack the attribute, and get it back from the method `replica`, which replaces the
    module's method that shares attributes with replicas.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._is_off = False
        # why the last capture failed, or was not tried
        self._why = ""
        self._code: _Code | None = None
        # calls that guards or nets did not accept
        self._due: verdicts.Case | None = None
        # seconds of the last capture, doubled by a failure; 0: estimated
        self._seconds = 0.0
        # seconds of calls since the last capture
        self._waited = 0.0
        # by the key of calls whose way is settled: whether nets compute
        self._settled: dict[Hashable, bool] = {}
        # a key for this module's cases alone
        self._kind = object()
        module.__dict__.update(_compiled_call_impl=self, _replicate_for_data_parallel=self.replica)

    def __reduce__(self) -> tuple[Any, ...]:
        return Whole, (self._module,)

    @property
    def was_asked(self) -> bool:
        """Whether calls of the module itself have reached it, rather than those of a module around it."""
        return bool(self._waited or self._code or self._why)

    @property
    def state(self) -> str:
        """Whether the module is captured, waits, or runs layer by layer, and why."""
        if self._why:
            return f"layer by layer: {self._why}"
        if self._code is not None:
            return f"captured in {self._seconds:.1f} s"
        return f"waiting: {self._waited:.1f} of about {self._expected():.1f} s of calls"

    def leave(self, module: nn.Module) -> None:
        for name in ("_compiled_call_impl", "_replicate_for_data_parallel"):
            module.__dict__.pop(name, None)

    def replica(self) -> nn.Module:
        replica: nn.Module = replicated(self._module)
        self.leave(replica)
        return replica

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._module._call_impl(*args, **kwargs)
        # a settled call enters few functions: whoever observes or changes calls has keys of their own
        key = None if not self._settled or kwargs else _key_of(args)
        by_nets = self._settled.get(key)
        if self._is_off or self._module.training or _is_inside.get() or (by_nets is None and not self._is_inference()):
            return self._module._call_impl(*args, **kwargs)
        token, calls, start = _is_inside.set(True), budget.calls, time.perf_counter()
        others = budget.trials + budget.captures
        try:
            if by_nets is None:
                return self._run(args, kwargs)
            code = self._code
            if by_nets and code is not None:
                out, is_hit = self._by_nets(code, args, kwargs)
                if not is_hit:
                    self._settled.clear()
                return out
            return self._module._call_impl(*args)
        finally:
            _is_inside.reset(token)
            spent = time.perf_counter() - start - (budget.trials + budget.captures - others)
            # layers inside have counted their time
            budget.calls = calls + spent
            self._waited += spent

    def _is_inference(self) -> bool:
        """Whether this is the outermost module in inference, no layer is observed, and times may decide."""
        return not (
            self._is_off
            or self._module.training
            or is_grad_enabled()
            or _is_inside.get()
            or forked()
            or torch.are_deterministic_algorithms_enabled()
            or is_observed()
        )

    def _run(self, args: Any, kwargs: Any) -> Any:
        def apart() -> Any:
            return self._module._call_impl(*args, **kwargs)

        case = self._case(args, kwargs)
        if case is None:
            # inner modules may be called with tensors
            _is_inside.set(False)
            return apart()
        # other threads may end the capture meanwhile
        code = self._code
        if (code is None or case == self._due) and self._is_paid():
            return self._capture(apart, args, kwargs)
        if code is None:
            return apart()
        hooked = _are_hooked(self._module)
        if hooked is not (self._why == _HOOKED):
            self._why = _HOOKED if hooked else ""
        return apart() if hooked else self._by_faster(code, case, apart, args, kwargs)

    def _is_paid(self) -> bool:
        return verdicts.is_at_once() or self._waited >= self._expected()

    def _expected(self) -> float:
        """Returns the seconds that a capture takes, by the module's size and the captures of this process."""
        if self._seconds:
            return self._seconds
        imports = 0.0 if "torch._dynamo" in sys.modules else _SECONDS_TO_IMPORT
        return imports + _pace.seconds / _pace.modules * self._modules

    @once
    def _modules(self) -> int:
        """The number of innermost modules, counted once, as waiting calls ask for it."""
        return sum(not module._modules for module in self._module.modules())

    def _capture(self, apart: Run, args: Any, kwargs: Any) -> Any:
        """Captures code and returns its result; a module that cannot be captured runs layer by layer from now on.

        Keeps code captured for other sizes; the next capture waits twice as long.
        """
        if (why := self._hindrance()) is not None:
            if why != self._why:
                _LOGGER.info("%s runs layer by layer now: %s", type(self._module).__name__, why)
            self._why = why
            return apart()
        code = self._code = self._code or _Code()
        counts = code.counts
        works, start, counts.may_work = counts.works, time.perf_counter(), True
        try:
            # calls look for hooks; PyTorch's guards on them would cost more than all others
            with budget.capture(), torch._dynamo.config.patch(skip_nnmodule_hook_guards=True):
                out = _without_gradients(code.capture, self._module, args, kwargs)
        except Stale:
            # another thread has captured meanwhile
            return apart()
        except (
            Exception
        ) as error:  # PyTorch's compiler raises errors of all types; an uncompiled call shows what is wrong
            # PyTorch wraps the backend's own errors
            inner = getattr(error, "inner_exception", error)
            why = f"{type(inner).__name__}: {inner}"
        else:
            self._due, self._why = None, ""
            if counts.works > works:
                self._seconds = time.perf_counter() - start
                _pace.add(self._seconds, self._modules)
            return out
        finally:
            counts.may_work, self._waited = False, 0.0
        out = apart()
        if counts.hits:
            self._due, self._seconds = None, 2 * self._expected()
        else:
            self._is_off, self._code, self._why = True, None, why.partition("\n")[0]
        _LOGGER.info("%s runs layer by layer: %s", type(self._module).__name__, why)
        return out

    def _hindrance(self) -> str | None:
        """Returns why the module cannot be captured now; None if it can."""
        if _are_hooked(self._module):
            return _HOOKED
        if any(state_of(layer).dtype is not None for layer in _layers(self._module)):
            return "layers compute in another dtype"
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return "other processes may write to its parameters"
        tensors = *self._module.parameters(), *self._module.buffers()
        if not all(type(each) in PLAIN and each.is_cpu and not each.is_inference() for each in tensors):
            return "its parameters are tensors of torch.inference_mode, of another device, or of a subclass"
        return None

    def _by_faster(self, code: _Code, case: verdicts.Case, apart: Run, args: Any, kwargs: Any) -> Any:
        """Returns the result of nets or layers, the faster for about such sizes; in turns until that is known."""
        if not kwargs and (found := verdicts.settled(case)) is not None:
            if len(self._settled) >= _MOST_SETTLED:
                self._settled.clear()
            self._settled[_key_of(args)] = found.ours

        def by_nets() -> tuple[Any, bool]:
            out, is_hit = self._by_nets(code, args, kwargs)
            if not is_hit:
                self._due = case
                self._settled.clear()
            return out, is_hit

        out, verdict = verdicts.in_turns(case, by_nets, apart)
        if verdict is not None:
            _LOGGER.info("%s, extents %s: computed by %s", case.name, case.extents, verdict)
            if verdict.ours:
                # nets pack weights of their own
                for layer in _layers(self._module):
                    state_of(layer).forget()
        return out

    def _by_nets(self, code: _Code, args: Any, kwargs: Any) -> tuple[Any, bool]:
        """Returns the result, and whether captured code computed it, by PyTorch's guards and parameter versions."""
        hits = code.counts.hits
        try:
            if torch.is_inference_mode_enabled():
                out = _without_gradients(code.run, self._module, args, kwargs)
            else:
                out = code.run(self._module, args, kwargs)
        except Stale:
            out = self._module._call_impl(*args, **kwargs)
        return out, code.counts.hits > hits

    def _case(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> verdicts.Case | None:
        """Returns the case of calls that take about the same time; None for arguments that are not captured."""
        kind: list[Any] = [self._kind, torch.get_num_threads()]
        extents: list[int] = []
        for each in (*args, *kwargs.values()):
            if type(each) in PLAIN and each.is_cpu and each.layout is torch.strided:
                kind += each.dtype, each.ndim
                extents += map(near, each.shape)
            elif type(each) in _NUMBERS:
                kind.append(type(each))
            else:
                return None
        return verdicts.Case(tuple(kind), tuple(extents), type(self._module).__name__)

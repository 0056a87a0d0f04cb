"""Caches decisions for repeated calls, which then check nothing again and create no arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, get_num_threads, is_grad_enabled, nn
from torch.autograd import forward_ad

from ..._core import TensorCall
from ...errors import UnsupportedError
from ...net.net import Net
from ..choice.verdicts import expect, verdict
from ..private import (
    are_transforms_active,
    dispatch_modes,
    function_modes,
    is_autocast_enabled,
    is_batched,
    is_deterministic,
    top_saving_hooks,
    tracing_state,
)
from . import compute, ops
from .compute import Call, Optional, call_of, case_of, their_forward
from .conv_params import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Ints, channels_last

# in PyTorch's calls below so many seconds the overhead of a call matters
_SHORT = 0.5e-3
# an upper bound of our overhead beyond PyTorch's
_WAY = 20e-6
Needs: TypeAlias = tuple[bool, ...]
Shapes: TypeAlias = tuple[Ints, Ints, Ints]  # shapes of x and w, and the strides of w


def is_watched() -> bool:
    """Whether calls are observed or transformed: by a mode, a transform or a tracer."""
    return bool(
        are_transforms_active()
        or dispatch_modes()
        or function_modes()
        or tracing_state()
        or forward_ad._current_level >= 0
    )


def key_of(x: Tensor, training: bool, needs: Needs) -> Hashable:
    """Returns the key of a module's calls, besides its parameters and arguments; watched calls have keys of their own.

    What `is_watched` asks stands here again: a call of each question would cost more than the answer.
    """
    try:
        strides = x.stride()
    except RuntimeError:  # sparse
        return None
    return (
        x.shape, strides, x.dtype, x.is_neg(), training, needs,
        get_num_threads(), is_autocast_enabled(), is_deterministic(),
        are_transforms_active(), dispatch_modes(), function_modes(),
        tracing_state() is None, forward_ad._current_level,
    )  # fmt: skip


def is_transformed(dy: Tensor) -> bool:
    """Whether a backward pass is itself recorded, traced, mapped or observed."""
    return (
        torch.compiler.is_compiling()
        or is_grad_enabled()
        or type(dy) is not Tensor
        or is_watched()
        or is_batched(dy)  # with is_grads_batched
    )


def is_saving_watched() -> bool:
    """Whether tensors saved for gradients pass through hooks: checkpointing compares them when it recomputes."""
    return top_saving_hooks(True) is not None


def needs_of(x: Tensor, w: Tensor, b: Optional) -> Needs:
    """Returns for each tensor whether gradients are recorded; empty: for none."""
    if not is_grad_enabled():
        return ()
    needs = x.requires_grad, w.requires_grad, b is not None and b.requires_grad
    return needs if True in needs else ()


def _shapes_of(x: Tensor, w: Tensor) -> Shapes:
    return x.shape, w.shape, w.stride()


class Route:
    """The decisions for calls with tensors of equal layout, forward and backward.

    Attributes:
        theirs: whether PyTorch computes everything, gradients included.
        again: repeats the call; None: not settled. A call with a net takes x alone.
        back: the key of the last backward pass, and its calls, once their verdicts are settled.
    """

    __slots__ = ("again", "back", "call", "is_weighed", "last", "net", "shapes", "theirs")

    def __init__(self, call: Call, net: Net | None, x: Tensor, w: Tensor) -> None:
        self.call, self.net, self.shapes = call, net, _shapes_of(x, w)
        self.last = channels_last(call.shape, call.strides)
        self.theirs = self.is_weighed = False
        self.back: tuple[Any, tuple[Call | None, Call | None]] | None = None
        self.again: TensorCall | None = None

    def run_again(self, x: Tensor, w: Tensor, b: Optional) -> Optional:
        """Returns the result; None for tensors of another layout, or if the plan was dropped."""
        again = self.again
        if again is None or compute.in_fork:
            return None
        result: Optional = again(x) if self.net is not None else again(x, w, b)
        return result

    def prepare(self, x: Tensor, w: Tensor, b: Optional) -> None:
        """Prepares the fast path for later calls, after a first one."""
        if self.call.verdict.ours:
            # PyTorch's zeros without memory
            with suppress(UnsupportedError):
                self.again = self.call.again(x, w, b, net=self.net)

    def gradients(self, x: Any, w: Any, dy: Tensor, needs: Needs) -> list[Optional]:
        key = (
            needs,
            dy.shape,
            dy.stride(),
            dy.dtype,
            dy.is_neg(),
            torch.get_num_threads(),
            is_deterministic(),
        )
        if self.back is None or self.back[0] != key:
            spec, (src, weights, _) = self.call.spec, self.shapes
            data = call_of(spec, BACKWARD_DATA, dy, w, src, self.last) if needs[0] else None
            weigh = call_of(spec, BACKWARD_WEIGHTS, x, dy, weights, self.last) if needs[1] else None
            calls = [call for call in (data, weigh) if call is not None]
            if not all(call.verdict.is_settled for call in calls):
                return compute.gradients((data, weigh), x, w, dy, self.shapes, needs[2])
            self.back = key, (data, weigh)
            self.theirs = not any(call.verdict.ours for call in (self.call, *calls))
        return compute.gradients(self.back[1], x, w, dy, self.shapes, needs[2])

    def weigh(self, run: Callable[..., object], x: Tensor, w: Tensor, b: Optional, needs: Needs) -> None:
        """Decides for PyTorch if this package's overhead exceeds its gain, gradients included where they are needed."""
        ours, mine, seconds, _ = self.call.verdict
        if needs and self.back is None:
            return
        self.is_weighed = True
        if not needs and not ours:
            self.theirs = True
        elif mine is None or seconds is None or seconds > _SHORT or (not needs and seconds - mine > _WAY):
            return
        else:
            spec = self.call.spec
            case = case_of(("call", needs, self.net is None, torch.get_num_threads()), spec, w.shape, x)
            expect(case, seconds * (4 if needs else 1))
            our_call: Callable[[], object] = partial(run, x, w, b)
            their_call: Callable[[], object] = partial(their_forward, spec, x, w, b)
            if needs:
                given = _alone(x), _alone(w), _alone(b)
                our_call = _step(lambda *tensors: record(*tensors, self), given)
                their_call = _step(partial(their_forward, spec), given)
            found = verdict(case, our_call, their_call)
            self.theirs, self.is_weighed = not found.ours, found.is_settled


def _alone(t: Optional) -> Optional:
    """Returns a detached tensor of the same kind, whose gradient nobody sees and which calls no hooks."""
    if t is None:
        return None
    if isinstance(t, nn.Parameter):
        return nn.Parameter(t.detach(), t.requires_grad)
    return t.detach().requires_grad_(t.requires_grad)


def _step(run: Callable[..., Tensor], given: tuple[Optional, ...]) -> Callable[[], object]:
    """Returns a function that runs forward and backward."""
    wanted = [t for t in given if t is not None and t.requires_grad]

    def step() -> object:
        out = run(*given)
        return torch.autograd.grad(out, wanted, out.detach())

    return step


class Recorded(torch.autograd.Function):
    """A module's call with recorded gradients. Its backward runs as ops if it is itself recorded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Optional, route: Route) -> Tensor:
        # keeps only operands that gradients need; observed calls keep those of PyTorch's own op
        needs_x, needs_w, *_ = ctx.needs_input_grad
        if (needs_x and needs_w) or is_saving_watched():
            ctx.save_for_backward(x, w)
        else:
            ctx.save_for_backward(x if needs_w else None, w if needs_x else None)
        out = route.run_again(x, w, b)
        if out is None:
            call = call_of(route.call.spec, FORWARD, x, w, b, net=route.net)
            if _shapes_of(x, w) != route.shapes:
                route = Route(call, route.net, x, w)
            out = call.run(x, w, b, route.net)
        ctx.route = route
        return out

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, w = ctx.saved_tensors
        route, needs = ctx.route, ctx.needs_input_grad[:3]
        if not is_transformed(dy):
            return *route.gradients(x, w, dy, needs), None
        src, weights, _ = route.shapes
        return *ops.forward_gradients(route.call.spec, x, w, dy, src, weights, route.last, needs), None


# Function.apply looks for transforms, which are excluded here
record: Callable[..., Tensor] = super(torch.autograd.Function, Recorded).apply

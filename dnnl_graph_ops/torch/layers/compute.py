"""Computes fprop, dgrad and wgrad of a convolution on tensors in CPU memory, each in the faster engine.

The operands of a direction, as of the ops: (x, w, bias), (dy, w, size of x), (x, dy, size of w).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ... import functional
from ..._core import TensorCall, check_fork, forked_with_one_thread, lent_array
from ...errors import Error
from ...net.net import Net
from ...runtime import threads as pool
from ..choice import verdicts
from ..choice.narrow import tell_if_slow
from ..choice.verdicts import UNKNOWN, Case, Verdict, near, verdict
from ..private import is_deterministic
from .conv_params import (
    BACKWARD_DATA,
    BACKWARD_WEIGHTS,
    FORWARD,
    ConvParams,
    Ints,
    check_gradient,
    is_last,
    is_sound,
    laid,
    result_last,
    result_shape,
    strides_of,
)

Optional: TypeAlias = "Tensor | None"

# dtypes of the convolution ops
DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
MOST_CALLS = 2048
_UNSOUND = "the sizes do not fit"
# the functions' arguments for the shape of a gradient
_SIZES = {BACKWARD_DATA: "src_shape", BACKWARD_WEIGHTS: "weights_shape"}

in_fork = False


def _after_fork() -> None:
    """Notes that this child's thread pool stayed in the parent, if the parent computed with several threads."""
    global in_fork
    try:
        check_fork()
    except Error:
        in_fork = True


os.register_at_fork(after_in_child=_after_fork)


def forked() -> bool:
    return in_fork


def follow_threads() -> int:
    """Sets this package's number of threads to PyTorch's, and returns it."""
    n: int = 1 if forked_with_one_thread() else torch.get_num_threads()
    if n != pool.count:
        pool.set_num_threads(n)
    return n


class Call:
    """One direction of a convolution, for tensors of given layouts and a number of threads.

    Attributes:
        shape, strides: of the result; () if this package does not compute it.
        last: whether a gradient is channels last.
        case: the calls with the same verdict; None: not measured.
    """

    __slots__ = ("_again", "_attributes", "case", "direction", "last", "shape", "spec", "strides", "verdict")

    def __init__(
        self, spec: ConvParams, direction: str, last: bool, shape: Ints, verdict: Verdict, case: Case | None
    ) -> None:
        self.spec, self.direction, self.last = spec, direction, last
        self.shape, self.strides = shape, strides_of(shape, last) if shape else ()
        self.verdict, self.case = verdict, case
        self._attributes = spec.attributes if direction == FORWARD else {**spec.attributes, _SIZES[direction]: shape}
        self._again: TensorCall | None = None

    @property
    def is_left(self) -> bool:
        """Whether PyTorch computes such calls from now on."""
        return self.verdict.is_settled and not self.verdict.ours

    def again(self, *tensors: Optional, net: Net | None = None) -> TensorCall:
        """Returns a function that repeats the call in this package while its plan exists.

        `net`: a net with packed weights and bias.
        """
        assert tensors[0] is not None
        make = partial(torch.empty_strided, self.shape, self.strides, dtype=tensors[0].dtype)
        if net is not None:
            return TensorCall(net._plans, None, (), tensors[:1], make)
        name = self.spec.kind + self.direction
        return TensorCall(functional.cache, name, functional.plan_attributes(name, self._attributes), tensors, make)

    def run(self, a: Tensor, b: Tensor, third: Any, net: Net | None = None) -> Tensor:
        """Returns the result of the verdict's engine; of PyTorch in a forked child that may not compute."""
        if in_fork:
            return self._theirs(a, b, third)
        if self._again is not None and net is None and self.verdict.ours and self.verdict.is_settled:
            return self._ours(a, b, third, None)
        return verdicts.run(self.case, self.verdict, *self._both(a, b, third, net))

    def weigh(self, a: Tensor, b: Tensor, third: Any, net: Net | None) -> None:
        """Updates the verdict if it is not settled."""
        if self.case is not None and not self.verdict.is_settled:
            # measurements must not be recorded
            with torch.no_grad():
                self.verdict = verdict(self.case, *self._both(a, b, third, net))

    def _both(self, *call: Any) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        return lambda: self._ours(*call), lambda: self._theirs(*call[:3])

    def _ours(self, a: Tensor, b: Tensor, third: Any, net: Net | None) -> Tensor:
        tensors = (a, b, third) if self.direction == FORWARD else (a, b)
        again: Optional = None if self._again is None or net is not None else self._again(*tensors)
        if again is not None:
            return again
        out = torch.empty_strided(self.shape, self.strides, dtype=a.dtype)
        if net is not None:
            if (array := lent_array(a)) is None:
                return self._theirs(a, b, third)
            net(array, out=lent_array(out))
            return out
        arrays = [lent_array(t) for t in tensors if t is not None]
        if any(array is None for array in arrays):
            # memory that does not hold the elements, of a tensor with the layout of an ordinary one
            return self._theirs(a, b, third)
        getattr(functional, self.spec.kind + self.direction)(*arrays, **self._attributes, out=lent_array(out))
        self._again = self._again or self.again(*tensors)
        return out

    def _theirs(self, a: Tensor, b: Tensor, third: Any) -> Tensor:
        return theirs(self.spec, self.direction, a, b, third, self.last)


calls: dict[Hashable, Call] = {}


def call_of(
    spec: ConvParams, direction: str, a: Tensor, b: Tensor, third: Any, last: bool = False, net: Net | None = None
) -> Call:
    """Returns the Call for these operands; `last`: whether a gradient shall be channels last."""
    threads = follow_threads()
    like = (third.shape, third.stride(), third.dtype, third.device) if isinstance(third, Tensor) else third
    # of parameters calls themselves look at the sign
    signs = a.is_neg(), direction == BACKWARD_WEIGHTS and b.is_neg()
    key = (
        spec, direction, threads, is_deterministic(), net is None, last, like, signs,
        type(a), a.shape, a.stride(), a.dtype, type(b), b.shape, b.stride(), b.dtype,
    )  # fmt: skip
    call = calls.get(key)
    if call is None:
        call = _new(spec, direction, (threads, net is None, last, third is None), a, b, third, last)
        if not any(isinstance(t, Tensor) and t.is_neg() for t in (b, third)):
            if len(calls) >= MOST_CALLS:
                calls.clear()
            calls[key] = call
    call.weigh(a, b, third, net)
    return call


def _new(
    spec: ConvParams, direction: str, kind: tuple[Hashable, ...], a: Tensor, b: Tensor, third: Any, last: bool
) -> Call:
    src: Ints
    weights: Ints
    if direction == FORWARD:
        src, weights, bias = a.shape, b.shape, None if third is None else third.shape
        why = refusal(a, b) if third is None else refusal(a, b, third)
        why = why or ("" if is_sound(spec, src, weights, bias) else _UNSOUND)
        last, shape = (False, ()) if why else (result_last(spec, a, b, third), result_shape(spec, src, weights))
    else:
        src, weights, dst = map(tuple, check_gradient(spec, direction, a.shape, b.shape, third))
        fits = is_sound(spec, src, weights, None) and result_shape(spec, src, weights) == dst
        why = refusal(a, b) or ("" if fits else _UNSOUND)
        # a plain tuple: the key of plans
        shape = tuple(third)
    if why:
        return Call(spec, direction, last, (), Verdict(False, why=why), None)
    tell_if_slow(a.dtype)
    measured = (a, b) if direction == BACKWARD_WEIGHTS else (a,)
    return Call(spec, direction, last, shape, UNKNOWN, case_of((direction, *kind), spec, weights, *measured))


def case_of(kind: tuple[Hashable, ...], spec: ConvParams, weights: Ints, *tensors: Tensor) -> Case:
    """Returns the case: calls with nearby extents have the same verdict."""
    channels = [(t.shape[1], is_last(t)) for t in tensors]
    extents = [near(extent) for t in tensors for extent in (t.shape[0], *t.shape[2:])]
    suffix = kind[0] if kind[0] in (BACKWARD_DATA, BACKWARD_WEIGHTS) else ""
    name = f"{spec.kind}{suffix}, weights {tuple(weights)} {tensors[0].dtype}"
    return Case((*kind, spec, tensors[0].dtype, weights, *channels), tuple(extents), name)


def refusal(*tensors: Tensor) -> str:
    """Returns why this package does not support these tensors; empty if it does."""
    for t in tensors:
        if t.layout is not torch.strided or t.device.type != "cpu":
            return f"a tensor of layout {t.layout} on {t.device}"
        if t.dtype not in DTYPES or t.dtype is not tensors[0].dtype:
            return f"dtype {t.dtype}"
        if t.is_neg() or t.is_quantized or (t.ndim and 1 not in t.stride()):
            return "a tensor whose memory holds other numbers"
    return ""


def theirs(spec: ConvParams, direction: str, a: Tensor, b: Tensor, third: Any, last: bool) -> Tensor:
    """Returns PyTorch's result; a gradient channels last or first."""
    if direction == FORWARD:
        return their_forward(spec, a, b, third)
    if direction == BACKWARD_DATA:
        return their_gradients(spec, None, b, a, third, b.shape, last, (True, False, False))[0]
    return their_gradients(spec, a, None, b, a.shape, third, last, (False, True, False))[1]


def their_forward(spec: ConvParams, x: Tensor, w: Tensor, b: Optional) -> Tensor:
    return torch.convolution(x, w, b, *spec)


def their_gradients(
    spec: ConvParams, x: Optional, w: Optional, dy: Tensor, src: Ints, weights: Ints, last: bool, wanted: Sequence[bool]
) -> list[Any]:
    """Returns PyTorch's gradients, channels last or first.

    Operands that the wanted gradients do not need may be None.
    """
    given = [
        dy.new_empty_strided(shape, strides_of(shape, last)) if tensor is None else tensor
        for tensor, shape in ((x, src), (w, weights))
    ]
    channels = [dy.shape[1]] if wanted[2] else None
    *both, db = torch.ops.aten.convolution_backward(dy, *given, channels, *spec, list(wanted))
    return [*(laid(t, last) if is_one else None for t, is_one in zip(both, wanted, strict=False)), db]


def bias_gradient(dy: Tensor) -> Tensor:
    return dy.sum([0, *range(2, dy.ndim)])


def gradients(
    calls: tuple[Call | None, Call | None], x: Any, w: Any, dy: Tensor, shapes: Sequence[Ints], bias: bool
) -> list[Any]:
    """Returns the gradients of x and w by their calls, and of the bias; None: not wanted.

    The gradient of w needs x, the gradient of x needs w. PyTorch computes its gradients in one call.
    """
    data, weigh = calls
    left = [call is not None and call.is_left for call in calls]
    found: list[Any] = [None, None, None]
    if True in left:
        one = data or weigh
        assert one is not None
        found = their_gradients(one.spec, x, w, dy, shapes[0], shapes[1], one.last, (*left, left[1] and bias))
    if data is not None and not left[0]:
        found[0] = data.run(dy, w, shapes[0])
    if weigh is not None and not left[1]:
        found[1] = weigh.run(x, dy, shapes[1])
    if bias and not left[1]:
        found[2] = bias_gradient(dy)
    return found

"""The three directions of a convolution on tensors in CPU memory, each by whoever is faster."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from .. import functional
from .._core import TensorCall, check_fork, forked_with_one_thread, lent_array
from ..compile.net import Net
from ..errors import Error
from ..runtime import threads as pool
from . import choice
from .choice import UNKNOWN, Case, Result, Verdict, near, verdict
from .spec import (
    BACKWARD_DATA,
    BACKWARD_WEIGHTS,
    FORWARD,
    Ints,
    Spec,
    check_gradient,
    is_last,
    is_sound,
    laid,
    result_last,
    result_shape,
    strides_of,
)

Optional: TypeAlias = "Tensor | None"
Shapes: TypeAlias = tuple[Ints, Ints, Ints]  # of x and of w, and the strides of w

# what the convolution families take
DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
_MOST_JOBS = 2048
# how the functions are called, and what they call the shape of the result
_FUNCTIONS = {
    FORWARD: ("", ""),
    BACKWARD_DATA: ("_backward_data", "src_shape"),
    BACKWARD_WEIGHTS: ("_backward_weights", "weights_shape"),
}

_forked = False


def _after_fork() -> None:
    """The pool's threads stayed in the parent: what it had computed with, a child cannot."""
    global _forked
    try:
        check_fork()
    except Error:
        _forked = True


os.register_at_fork(after_in_child=_after_fork)


def forked() -> bool:
    return _forked


def follow_threads() -> int:
    """PyTorch's number of threads, which is ours from here on."""
    n: int = 1 if forked_with_one_thread() else torch.get_num_threads()
    if n != pool.get_num_threads():
        pool.use(n)
    return n


class Job(NamedTuple):
    """Shapes, strides and dtypes of a call that came before: what to make for the result, and who computes."""

    shape: Ints  # empty: nothing that we could compute
    strides: Ints
    verdict: Verdict
    case: Case | None = None


def _run(job: Job, ours: Callable[[], Result], theirs: Callable[[], Result]) -> Result:
    """The result of a job by whom its verdict names; by PyTorch in a child that may not compute."""
    return theirs() if _forked else choice.run(job.case, job.verdict, ours, theirs)


class Layer:
    """Everything that can be computed of a convolution with certain arguments."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.aten = spec.aten
        self._jobs: dict[Hashable, Job] = {}
        self._names = {direction: spec.kind + suffix for direction, (suffix, _) in _FUNCTIONS.items()}
        attributes = spec.attributes
        self._forward, self._backward_data, self._backward_weights = (
            partial(getattr(functional, name), **attributes) for name in self._names.values()
        )

    def again(self, direction: str, job: Job, tensors: tuple[Optional, ...], net: Net | None = None) -> TensorCall:
        """What makes such a call once more, as long as its plan is there."""
        assert tensors[0] is not None
        make = partial(torch.empty_strided, job.shape, job.strides, dtype=tensors[0].dtype)
        if net is not None:
            return TensorCall(net._plans, None, (), tensors[:1], make)
        name, shape = self._names[direction], _FUNCTIONS[direction][1]
        given = {**self.spec.attributes, **({shape: job.shape} if shape else {})}
        return TensorCall(functional.cache, name, functional.plan_attributes(name, given), tensors, make)

    # -- forward ------------------------------------------------------------------------------------------------

    def forward(self, x: Tensor, w: Tensor, b: Optional, net: Net | None = None) -> Tensor:
        """`net`: has these weights and this bias packed."""
        return self.run(self.forward_job(x, w, b, net), x, w, b, net)

    def run(self, job: Job, x: Tensor, w: Tensor, b: Optional, net: Net | None = None) -> Tensor:
        return _run(job, lambda: self._our_forward(job, x, w, b, net), lambda: self.their_forward(x, w, b))

    def forward_job(self, x: Tensor, w: Tensor, b: Optional, net: Net | None) -> Job:
        threads = follow_threads()
        key = (
            FORWARD, threads, net is None, x.shape, x.stride(), x.dtype, w.shape, w.stride(), w.dtype,
            None if b is None else (b.shape, b.stride(), b.dtype),
        )  # fmt: skip
        return self._weighed(
            key,
            lambda: self._new_forward(x, w, b, net, threads),
            lambda job: self._our_forward(job, x, w, b, net),
            lambda: self.their_forward(x, w, b),
        )

    def their_forward(self, x: Tensor, w: Tensor, b: Optional) -> Tensor:
        return torch.convolution(x, w, b, *self.aten)

    def _our_forward(self, job: Job, x: Tensor, w: Tensor, b: Optional, net: Net | None) -> Tensor:
        out = torch.empty_strided(job.shape, job.strides, dtype=x.dtype)
        if net is not None:
            net(lent_array(x), out=lent_array(out))
        else:
            self._forward(lent_array(x), lent_array(w), None if b is None else lent_array(b), out=lent_array(out))
        return out

    def _new_forward(self, x: Tensor, w: Tensor, b: Optional, net: Net | None, threads: int) -> Job:
        tensors = (x, w) if b is None else (x, w, b)
        if (why := refusal(*tensors)) or not is_sound(self.spec, x.shape, w.shape, None if b is None else b.shape):
            return Job((), (), Verdict(False, why=why or "the sizes do not fit"))
        shape = result_shape(self.spec, x.shape, w.shape)
        case = self.case((FORWARD, net is None, b is None, threads), w.shape, x)
        return Job(shape, strides_of(shape, result_last(self.spec, x, w, b)), UNKNOWN, case)

    # -- gradients ----------------------------------------------------------------------------------------------

    def backward_data(self, dy: Tensor, w: Tensor, src_shape: Ints, last: bool) -> Tensor:
        """The gradient of x, in channels last or first."""
        job = self.data_job(dy, w, src_shape, last)

        def theirs() -> Tensor:
            return laid(self.their_gradients(dy, None, w, src_shape, w.shape, (True, False, False), last)[0], last)

        return _run(job, lambda: self._our_data(job, dy, w), theirs)

    def _our_data(self, job: Job, dy: Tensor, w: Tensor) -> Tensor:
        out = torch.empty_strided(job.shape, job.strides, dtype=dy.dtype)
        self._backward_data(lent_array(dy), lent_array(w), src_shape=job.shape, out=lent_array(out))
        return out

    def data_job(self, dy: Tensor, w: Tensor, src_shape: Ints, last: bool) -> Job:
        threads = follow_threads()
        key = BACKWARD_DATA, threads, dy.shape, dy.stride(), dy.dtype, w.shape, w.stride(), w.dtype, src_shape, last
        return self._weighed(
            key,
            lambda: self._new_data(dy, w, src_shape, last, threads),
            lambda job: self._our_data(job, dy, w),
            lambda: self.their_gradients(dy, None, w, src_shape, w.shape, (True, False, False), last),
        )

    def _new_data(self, dy: Tensor, w: Tensor, src_shape: Ints, last: bool, threads: int) -> Job:
        if job := self._refused((dy, w), src_shape, w.shape, dy.shape):
            return job
        # plain tuples, as plans are looked up by
        case = self.case((BACKWARD_DATA, last, threads), w.shape, dy)
        return Job(tuple(src_shape), strides_of(src_shape, last), UNKNOWN, case)

    def backward_weights(
        self, x: Tensor, dy: Tensor, weights_shape: Ints, last: bool, bias: bool = False
    ) -> tuple[Tensor, Optional]:
        """The gradients of w, in channels last or first, and of the bias if wanted."""
        job = self.weights_job(x, dy, weights_shape, last, bias)

        def theirs() -> tuple[Tensor, Optional]:
            _, dw, db = self.their_gradients(dy, x, None, x.shape, weights_shape, (False, True, bias), last)
            return laid(dw, last), db

        return _run(job, lambda: self._our_weights(job, x, dy, bias), theirs)

    def _our_weights(self, job: Job, x: Tensor, dy: Tensor, bias: bool) -> tuple[Tensor, Optional]:
        out = torch.empty_strided(job.shape, job.strides, dtype=dy.dtype)
        self._backward_weights(lent_array(x), lent_array(dy), job.shape, out=lent_array(out))
        return out, bias_gradient(dy) if bias else None

    def weights_job(self, x: Tensor, dy: Tensor, weights_shape: Ints, last: bool, bias: bool) -> Job:
        threads = follow_threads()
        key = (
            BACKWARD_WEIGHTS, threads, bias, x.shape, x.stride(), x.dtype, dy.shape, dy.stride(), dy.dtype,
            weights_shape, last,
        )  # fmt: skip
        return self._weighed(
            key,
            lambda: self._new_weights(x, dy, weights_shape, last, bias, threads),
            lambda job: self._our_weights(job, x, dy, bias),
            lambda: self.their_gradients(dy, x, None, x.shape, weights_shape, (False, True, bias), last),
        )

    def _new_weights(self, x: Tensor, dy: Tensor, weights_shape: Ints, last: bool, bias: bool, threads: int) -> Job:
        if job := self._refused((x, dy), x.shape, weights_shape, dy.shape):
            return job
        case = self.case((BACKWARD_WEIGHTS, bias, last, threads), weights_shape, x, dy)
        return Job(tuple(weights_shape), strides_of(weights_shape, last), UNKNOWN, case)

    def their_gradients(
        self,
        dy: Tensor,
        x: Optional,
        w: Optional,
        src_shape: Ints,
        weights_shape: Ints,
        wanted: tuple[bool, bool, bool],
        last: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """PyTorch's own, in channels last or first.

        What is not needed for the wanted ones may be None, and stands for memory nobody reads.
        """
        given = [
            torch.empty_strided(shape, strides_of(shape, last), dtype=dy.dtype) if tensor is None else tensor
            for tensor, shape in ((x, src_shape), (w, weights_shape))
        ]
        channels = [dy.shape[1]] if wanted[2] else None
        return torch.ops.aten.convolution_backward(dy, *given, channels, *self.aten, list(wanted))

    def gradients(
        self, x: Optional, w: Optional, dy: Tensor, shapes: Shapes, last: bool, wanted: tuple[bool, ...]
    ) -> Gradients:
        """How those of x, w and the bias are computed that are wanted, by whoever is faster.

        x is needed for the gradient of w, w for that of x. They lie in channels `last` where the result does.
        """
        src, shape, _ = shapes
        data = weigh = None
        if wanted[0]:
            assert w is not None
            data = self.data_job(dy, w, src, last)
        if wanted[1]:
            assert x is not None
            weigh = self.weights_job(x, dy, shape, last, wanted[2])
        return Gradients(self, shapes, last, wanted, data, weigh)

    # -- who computes -------------------------------------------------------------------------------------------

    def _refused(self, tensors: tuple[Tensor, ...], src: Ints, weights: Ints, dst: Ints) -> Job | None:
        check_gradient(self.spec, src, weights, dst)
        why = refusal(*tensors)
        if not why and not (is_sound(self.spec, src, weights, None) and result_shape(self.spec, src, weights) == dst):
            why = "the sizes do not fit"
        return Job((), (), Verdict(False, why=why)) if why else None

    def case(self, kind: tuple[Hashable, ...], weights: Ints, *tensors: Tensor) -> Case:
        """What times depend on: calls with extents near these have the same verdict."""
        channels = [(t.shape[1], is_last(t)) for t in tensors]
        extents = [near(extent) for t in tensors for extent in (t.shape[0], *t.shape[2:])]
        return Case((*kind, self.spec, tensors[0].dtype, weights, *channels), tuple(extents))

    def _weighed(
        self, key: Hashable, new: Callable[[], Job], ours: Callable[[Job], object], theirs: Callable[[], object]
    ) -> Job:
        """The job of a key with its verdict, which may be an estimate that is asked for again."""
        kept = self._jobs.get(key)
        if kept is not None and kept.verdict.is_settled:
            return kept
        job = new() if kept is None else kept
        if job.case is not None and not job.verdict.is_settled:
            # what is being found out is nobody's history
            with torch.no_grad():
                job = job._replace(verdict=verdict(job.case, partial(ours, job), theirs))
        if len(self._jobs) >= _MOST_JOBS:
            self._jobs.clear()
        self._jobs[key] = job
        return job


class Gradients:
    """Those of one kind of call."""

    def __init__(
        self,
        layer: Layer,
        shapes: Shapes,
        last: bool,
        wanted: tuple[bool, ...],
        data: Job | None,
        weigh: Job | None,
    ) -> None:
        self._layer, self._shapes, self._last, self._wanted = layer, shapes, last, wanted
        self._data, self._weigh = data, weigh
        jobs = [job for job in (data, weigh) if job is not None]
        self.theirs = not any(job.verdict.ours for job in jobs)
        self.is_settled = all(job.verdict.is_settled for job in jobs)
        self._again: dict[str, TensorCall] = {}

    def __call__(self, x: Optional, w: Optional, dy: Tensor) -> tuple[Optional, Optional, Optional]:
        """At one go where PyTorch computes all."""
        src, shape, _ = self._shapes
        if self.theirs and self._data and self._weigh:
            both = self._layer.their_gradients(dy, x, w, src, shape, (True, True, self._wanted[2]), self._last)
            return both[0], both[1], both[2] if self._wanted[2] else None
        dx = dw = db = None
        if self._data is not None and w is not None:
            dx = self._repeated(BACKWARD_DATA, dy, w)
            if dx is None:
                dx = self._layer.backward_data(dy, w, src, self._last)
                self._keep(BACKWARD_DATA, self._data, dy, w)
        if self._weigh is not None and x is not None:
            dw = self._repeated(BACKWARD_WEIGHTS, x, dy)
            if dw is None:
                dw, db = self._layer.backward_weights(x, dy, shape, self._last, self._wanted[2])
                self._keep(BACKWARD_WEIGHTS, self._weigh, x, dy)
        if self._wanted[2] and db is None:
            db = bias_gradient(dy)
        return dx, dw, db

    def _repeated(self, direction: str, a: Tensor, b: Tensor) -> Optional:
        again = self._again.get(direction)
        return None if again is None or _forked else again(a, b)

    def _keep(self, direction: str, job: Job, a: Tensor, b: Tensor) -> None:
        if job.verdict.ours and job.verdict.is_settled and direction not in self._again:
            self._again[direction] = self._layer.again(direction, job, (a, b))


def refusal(*tensors: Tensor) -> str:
    """Why our engine does not take these; empty: it does."""
    for t in tensors:
        if t.layout is not torch.strided or t.device.type != "cpu":
            return f"a tensor of layout {t.layout} on {t.device}"
        if t.dtype not in DTYPES or t.dtype is not tensors[0].dtype:
            return f"dtype {t.dtype}"
        # jobs are told apart by strides: imaginary parts, which may be negated in passing, lie two by two
        if t.is_neg() or t.is_quantized or (t.ndim and 1 not in t.stride()):
            return "a tensor whose memory holds other numbers"
    return ""


def bias_gradient(dy: Tensor) -> Tensor:
    return dy.sum([0, *range(2, dy.ndim)])


@lru_cache(1024)
def layer_of(spec: Spec) -> Layer:
    return Layer(spec)

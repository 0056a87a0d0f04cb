"""Counts the graphs that PyTorch captures for this package, with the reasons for which it captures code again."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from weakref import WeakSet

import torch
from torch import nn

from ...log import logger

_LOGGER = logger("torch.backend")
# the most graphs that are remembered
_MOST = 4096
_CALL = nn.Module._wrapped_call_impl.__code__
# what differs between guards with one meaning: the number of the code, values, the line that asked
_DETAILS = re.compile(r"^\d+/\d+: |\. expected .*|\s+# .*", re.MULTILINE)


@dataclass(eq=False)
class Captured:
    """A captured graph.

    Attributes:
        modules: the modules whose calls led to the capture.
        name: the numbers of the code and of its capture, as in PyTorch's logs: "0/1".
        seconds: of the capture up to now, PyTorch's part included.
        recorded: whether the graph is for training.
        again: why the code was captured again; "": for the first time.
    """

    modules: WeakSet[nn.Module]
    name: str
    seconds: float
    recorded: bool
    again: str

    def __str__(self) -> str:
        use = "training" if self.recorded else "inference"
        how, why = ("captured again", f": {self.again}") if self.again else ("captured", "")
        return f"{how} for {use} in {self.seconds:.1f} s{why}"


_captured: deque[Captured] = deque(maxlen=_MOST)


@contextmanager
def noted(recorded: bool) -> Iterator[None]:
    """Counts the capture that this context is a part of, if the context ends without an error."""
    yield
    metrics, number = torch._dynamo.utils.get_metrics_context(), torch._guards.CompileContext.current_compile_id()
    if not metrics.in_progress():
        # the graph is no part of PyTorch's captures: somebody calls the backend
        return
    reason = str(metrics._metrics.get("recompile_reason") or "").partition("\n")[0]
    seconds = (time.time_ns() - metrics._start_time_ns) / 1e9
    one = Captured(_callers(), str(number), seconds, recorded, _DETAILS.sub("", reason).strip())
    if one.again:
        _LOGGER.info("graph %s: %s", one.name, one)
    _captured.append(one)


def _callers() -> WeakSet[nn.Module]:
    """Returns the modules that are being called; of a frame of PyTorch's call, `self` is the first local variable."""
    found: WeakSet[nn.Module] = WeakSet()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is _CALL:
            found.add(frame.f_locals["self"])
        frame = frame.f_back
    return found


def graphs(model: nn.Module) -> Sequence[Captured]:
    """Returns the graphs captured in calls of a model."""
    return [one for one in list(_captured) if model in one.modules]


def again(model: nn.Module) -> dict[str, int]:
    """Returns how often code was captured again in calls of a model, by PyTorch's reason."""
    return dict(Counter(one.again for one in graphs(model) if one.again))

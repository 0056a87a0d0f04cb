"""Streams: a net on inputs that come piece by piece along an unknown axis, with the results of the whole."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes
from ..errors import Error, InvalidArgumentError, ShapeError, UnsupportedError
from ..graph import Value
from ..ir import dims
from ..net.net import Net
from ..once import once
from ..runtime import arrays
from ..runtime.locks import Builds
from ..schema.arguments import int64, show
from ..words import counted
from . import recurrences  # noqa: F401  (fills the table of rules)
from .flow import Flow
from .steps import Step, step

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

Ints = tuple[int, ...]
# compiled steps that are kept
_MOST_STEPS = 64
_FORMAT = 1


class Steps:
    """The compiled steps of a net for chunks of one size and inputs of given sizes, shared by all its streams.

    Attributes:
        start: the samples of the first step; each later step takes `chunk` samples, but the last.
    """

    def __init__(self, net: Net, flow: Flow, chunk: int, start: int, sizes: Mapping[str, Ints], where: str) -> None:
        self.net, self.flow, self.chunk, self.start, self.where = net, flow, chunk, start, where
        self.sizes = sizes
        self._builds = Builds()
        self._made: dict[object, Step] = {}
        self._shapes = self._inferred(start)

    def shapes(self, samples: int) -> list[Ints]:
        """Returns the shapes of the net's inputs for a stream of this length."""
        found = []
        for value in self.net.inputs:
            shape = list(self.sizes[value.name])
            if value in self.flow.inputs:
                shape[self.flow.axes[value]] = samples
            found.append(tuple(shape))
        return found

    def _inferred(self, samples: int) -> dict[Value, Ints]:
        """Returns the shapes of all values of a stream of this length.

        Raises:
            ShapeError: the net does not take inputs of this length.
            UnsupportedError: a length is another one than the motions of the ops tell.
        """
        shapes = {value: dims(twin) for value, twin in self.net._infer(self.shapes(samples)).items()}
        told = self.flow.state(samples, ended=True).made
        for value, axis in self.flow.axes.items():
            if value in shapes and shapes[value][axis] != told[value]:
                raise UnsupportedError(
                    f"{self.where}: {value.name!r} has {counted(shapes[value][axis], 'sample')} of {samples}, not "
                    f"{told[value]}"
                )
        return shapes

    @property
    def first(self) -> Step:
        return self._once("first", lambda: step(self.net, self.flow, self._shapes, None, self.flow.state(self.start)))

    def next(self, size: int) -> Step:
        """Returns the step of a number of samples, a multiple of the period, in the middle of a stream."""

        def build() -> Step:
            before, after = self.flow.state(self.start), self.flow.state(self.start + size)
            return step(self.net, self.flow, self._shapes, before, after)

        return self._once(("next", size), build)

    def ends(self, samples: int, rest: int) -> Iterator[tuple[int, Step]]:
        """Yields the steps that end a stream of this length, each with its samples, of which `rest` are left.

        Sizes are powers of two of periods, so that few plans serve all lengths; the last step takes less than a period.
        """
        count, short = divmod(rest, self.flow.period)
        for power in reversed(range(count.bit_length())):
            if count >> power & 1:
                yield self.flow.period << power, self.next(self.flow.period << power)

        def build() -> Step:
            self._inferred(samples)
            begin, end = self.flow.state(samples - short), self.flow.state(samples, ended=True)
            return step(self.net, self.flow, self._shapes, begin, end)

        yield short, self._once(("last", short), build)

    def _once(self, key: object, build: Any) -> Step:
        made: Step = self._builds.once(lambda: self._made.get(key), lambda: self._keep(key, build()))
        return made

    def _keep(self, key: object, made: Step) -> Step:
        if len(self._made) >= _MOST_STEPS:
            self._made.pop(next(iter(self._made)), None)
        self._made[key] = made
        return made

    def prepare(self) -> None:
        """Compiles the first step and those of a whole chunk."""
        for one in (self.first, self.next(self.chunk)):
            assert one.net is not None

    def empty(self) -> list[Array]:
        """Returns no samples of each output."""
        found = []
        for value in self.net.outputs.values():
            shape = list(self._shapes[value])
            shape[self.flow.axes[value]] = 0
            found.append(np.empty(shape, dtypes.numpy_dtype(value.dtype)))
        return found

    def kept(self) -> dict[str, tuple[Ints, str]]:
        """Returns shape and dtype of what a stream keeps from step to step, by name."""
        net, chunks = self.next(self.chunk).net, {value.name for value in self.flow.inputs}
        others = chunks | {value.name for value in self.net.inputs}
        inputs = () if net is None else net.inputs
        return {
            value.name: (tuple(size or 0 for size in value.shape), value.dtype)
            for value in inputs
            if value.name not in others
        }


class Stream:
    """A net on inputs that come piece by piece; `Net.stream` returns it.

    `push` takes the next samples of the inputs and returns the samples of the outputs that became known; `flush` ends
    the stream and returns the rest. All results together are those of one call with the whole input, and they do not
    depend on the lengths that were pushed, not even in the last bit: the net runs on `chunk` samples at a time, and
    what is pushed waits until there are so many. The first step takes more where the net looks ahead.

    Between steps a stream keeps the edges of tensors that later results depend on, and the states of recurrences,
    whatever its length. Streams of a net share weights and plans. Different streams may run in several threads at once,
    one stream in one thread at a time.

    Attributes:
        net: the net.
        chunk: the samples of a step: those asked for, rounded up to a multiple of `period`.
        period: the least number of input samples that is a whole number of samples of each tensor of the net.
        start: the samples of the first step, a multiple of `chunk`.
    """

    def __init__(self, net: Net, flow: Flow, chunk: int, start: int, fixed: Mapping[str, Array], where: str) -> None:
        self.net, self.chunk, self.start, self.period = net, chunk, start, flow.period
        self._flow, self._fixed, self._where = flow, dict(fixed), where
        self._lock = threading.Lock()
        self._steps: Steps | None = None
        self._begin()
        if all(None not in _others(value, flow) for value in flow.inputs):
            self._steps = self._bound({value.name: _sized(value, flow, 0) for value in flow.inputs})
            self._steps.prepare()

    def __repr__(self) -> str:
        return f"Stream({self.net.graph.name!r}, chunk={self.chunk}, latency={self.latency}, samples={self.samples})"

    def _begin(self) -> None:
        self._kept: dict[str, Array] | None = None
        self._rest: list[Array] = []
        self._samples = 0

    # -- running ----------------------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """The number of samples that were pushed since the begin of the stream."""
        return self._samples

    @once
    def latency(self) -> int:
        """Samples of the inputs that the outputs lag behind: how far the net looks ahead, apart from chunks."""
        return self._flow.latency([*self.net.outputs.values()], self.start)

    def delay(self, rate: float) -> float:
        """Returns the latency in milliseconds.

        Args:
            rate: samples of the inputs in a second, such as 16000, or the frames of a spectrogram.

        Raises:
            InvalidArgumentError: a rate that is not above 0.
        """
        if not rate > 0:
            raise InvalidArgumentError(f"{self._where}: 'rate' must be above 0, got {show(rate)}")
        return 1000 * self.latency / rate

    def push(self, *samples: Any, **named: Any) -> Any:
        """Takes the next samples and returns those of the outputs that became known.

        Args:
            samples, named: an array for each input that runs along the axis, by position or by name, of the declared
                dtype, and of any and equal lengths along the axis. They are copied where they have to wait.

        Returns:
            An array, or a tuple of arrays in the order of the outputs, as the net returns; with no elements if no
            sample became known.

        Raises:
            TypeError, ShapeError, InvalidArgumentError: as a call of the net, or inputs of different lengths, or of
                other sizes of other axes than before. The stream is as it was before the call.
            Error: another thread uses the stream.
        """
        with self._alone():
            given = self._checked(samples, named)
            steps = self._steps_for(given)
            rest = [_joined(pieces, axis) for pieces, axis in zip(self._waiting(given), self._axes, strict=True)]
            kept, at, total = self._kept, 0, rest[0].shape[self._axes[0]]
            found: list[list[Array]] = [[] for _ in self.net.outputs]
            while total - at >= (size := self.start if kept is None else self.chunk):
                kept = self._run(steps.first if kept is None else steps.next(size), rest, at, size, kept, found)
                at += size
            self._kept, self._samples = kept, self._samples + given[0].shape[self._axes[0]]
            # what waits is a copy: the caller may change the arrays
            self._rest = [_part(array, axis, at, total).copy() for array, axis in zip(rest, self._axes, strict=True)]
            return self._returned(found, steps)

    def flush(self) -> Any:
        """Ends the stream and returns the rest of the outputs; the next `push` begins another stream.

        What is left is computed in steps of 1, 2, 4, ... periods, which are compiled when a stream first needs them.

        Returns:
            As `push`.

        Raises:
            InvalidArgumentError: nothing was pushed.
            ShapeError: the net does not take inputs of this length.
            Error: another thread uses the stream.
        """
        with self._alone():
            steps = self._steps
            if steps is None or not self._rest:
                raise InvalidArgumentError(f"{self._where}: nothing was pushed, there is nothing to flush")
            if self._kept is None:
                whole = dict(zip((value.name for value in self._flow.inputs), self._rest, strict=True))
                results = self.net.run({**self._fixed, **whole})
                found = [[array] for array in results.values()]
            else:
                found, kept, at = [[] for _ in self.net.outputs], self._kept, 0
                for size, one in steps.ends(self._samples, self._rest[0].shape[self._axes[0]]):
                    kept = self._run(one, self._rest, at, size, kept, found)
                    at += size
            self._begin()
            return self._returned(found, steps)

    def reset(self) -> None:
        """Begins another stream: forgets what was pushed. Raises Error if another thread uses the stream."""
        with self._alone():
            self._begin()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise Error(f"{self._where}: another thread uses this stream; open a stream for each thread")
        try:
            yield
        finally:
            self._lock.release()

    def _run(
        self, one: Step, rest: Sequence[Array], at: int, size: int, kept: Mapping[str, Array] | None, found: Any
    ) -> dict[str, Array]:
        """Runs a step on samples of `rest`; appends the outputs to `found` and returns what to keep."""
        chunk = {
            value.name: _part(array, axis, at, at + size)
            for value, array, axis in zip(self._flow.inputs, rest, self._axes, strict=True)
        }
        new, keeps = one.run({**self._fixed, **(kept or {}), **chunk})
        for pieces, array in zip(found, new, strict=True):
            if array is not None:
                pieces.append(array)
        return keeps

    def _returned(self, found: Sequence[Sequence[Array]], steps: Steps) -> Any:
        results = [
            _joined(pieces, self._flow.axes[value]) if pieces else nothing
            for pieces, value, nothing in zip(found, self.net.outputs.values(), steps.empty(), strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    # -- inputs -----------------------------------------------------------------------------------------------

    @property
    def _axes(self) -> list[int]:
        return [self._flow.axes[value] for value in self._flow.inputs]

    def _checked(self, samples: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        """Returns the arrays of a push in the order of the inputs that run along the axis."""
        names = [value.name for value in self._flow.inputs]
        given = dict(zip(names, samples, strict=False))
        wrong = [name for name in named if name not in names or name in given]
        given.update(named)
        if len(samples) > len(names) or wrong or len(given) < len(names):
            raise TypeError(f"{self._where}: push takes one array for each of the inputs {', '.join(names)}")
        checked = []
        for value in self._flow.inputs:
            where = f"{self._where}: input {value.name!r}"
            checked.append(_fitting(arrays.as_array(given[value.name], where), value, where))
        lengths = {array.shape[axis] for array, axis in zip(checked, self._axes, strict=True)}
        if len(lengths) > 1:
            raise ShapeError(f"{self._where}: inputs of different lengths along the axis: {sorted(lengths)}")
        return checked

    def _waiting(self, given: Sequence[Array]) -> list[list[Array]]:
        """Returns what waits and what is new of each input."""
        return [[*before, new] for *before, new in zip(*([self._rest] if self._rest else []), given, strict=True)]

    def _steps_for(self, given: Sequence[Array]) -> Steps:
        """Returns the steps for arrays of these sizes."""
        sizes = self._sizes(given)
        begun = self._rest or self._kept is not None
        if self._steps is not None and all(self._steps.sizes[name] == shape for name, shape in sizes.items()):
            return self._steps
        if begun and self._steps is not None:
            before = {name: self._steps.sizes[name] for name in sizes}
            raise ShapeError(
                f"{self._where}: sizes of other axes are {sizes}, and were {before}; flush or reset the stream first"
            )
        self._steps = self._bound(sizes)
        return self._steps

    def _sizes(self, given: Sequence[Array]) -> dict[str, Ints]:
        """Returns the shapes of arrays of the inputs by name, with 0 for the streamed axis."""
        return {
            value.name: (*array.shape[:axis], 0, *array.shape[axis + 1 :])
            for value, array, axis in zip(self._flow.inputs, given, self._axes, strict=True)
        }

    def _bound(self, sizes: Mapping[str, Ints]) -> Steps:
        """Returns the steps of the net for inputs of these sizes."""
        whole = {**{name: array.shape for name, array in self._fixed.items()}, **sizes}
        key = (tuple(self._flow.inputs), self.chunk, tuple(sorted(whole.items())))
        known: dict[Any, Steps] = self.net._streams
        if key not in known:
            known.setdefault(key, Steps(self.net, self._flow, self.chunk, self.start, whole, self._where))
        return known[key]

    # -- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes where the stream is to a file, from which `load` goes on: what it keeps and what waits, no weights.

        Raises:
            OSError: the file cannot be written.
            Error: another thread uses the stream.
        """
        with self._alone():
            kept, names = self._kept, [value.name for value in self._flow.inputs]
            held = {**{f"kept {name}": array for name, array in (kept or {}).items()}}
            held |= {f"rest {name}": array for name, array in zip(names, self._rest, strict=False)}
            header = {
                "format": _FORMAT,
                "chunk": self.chunk,
                "samples": self._samples,
                "begun": kept is not None,
                "arrays": [[name, dtypes.label(array.dtype), array.shape] for name, array in held.items()],
            }
            data = {f"a{i}": np.frombuffer(array.tobytes(), np.uint8) for i, array in enumerate(held.values())}
            with open(path, "wb") as file:
                np.savez(file, allow_pickle=False, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **data)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on where a stream of the same net and chunk was when it was saved.

        The file has no weights, and nothing tells whether the net has the same ones.

        Raises:
            InvalidArgumentError: no such file of a stream, or of another net, chunk or inputs of other sizes; the
                stream is as it was.
            OSError: the file cannot be read.
            Error: another thread uses the stream.
        """
        with self._alone():
            try:
                with np.load(Path(path), allow_pickle=False) as file:
                    header = json.loads(file["header"].tobytes())
                    held = {
                        name: np.frombuffer(file[f"a{i}"].tobytes(), dtypes.numpy_dtype(dtype)).reshape(shape)
                        for i, (name, dtype, shape) in enumerate(header["arrays"])
                    }
                    told = header["format"], header["chunk"]
                    samples, begun = int(header["samples"]), bool(header["begun"])
            except OSError:
                raise
            except Exception as error:
                raise InvalidArgumentError(
                    f"{self._where}: {os.fspath(path)!r} is no file of a stream ({type(error).__name__}: {error})"
                ) from None
            if told != (_FORMAT, self.chunk):
                raise InvalidArgumentError(f"{self._where}: the file is of format and chunk {told}, not {self.chunk}")
            self._take(held, samples, begun)

    def _take(self, held: Mapping[str, Array], samples: int, begun: bool) -> None:
        where = f"{self._where}: the file is of a stream of another net or of inputs of other sizes"
        names = [value.name for value in self._flow.inputs]
        rest = [held.get(f"rest {name}") for name in names]
        kept = {name.removeprefix("kept "): array for name, array in held.items() if name.startswith("kept ")}
        if any(array is None for array in rest):
            if begun or kept or samples or len(held):
                raise InvalidArgumentError(where)
            self._begin()
            return
        given = [array for array in rest if array is not None]
        for value, array in zip(self._flow.inputs, given, strict=True):
            _fitting(array, value, where)
        lengths = {array.shape[axis] for array, axis in zip(given, self._axes, strict=True)}
        waiting = min(lengths)
        most = self.chunk if begun else self.start
        fits = (
            samples - waiting >= self.start and (samples - waiting) % self.chunk == 0 if begun else samples == waiting
        )
        sizes = self._sizes(given)
        if len(lengths) > 1 or waiting >= most or not fits:
            raise InvalidArgumentError(where)
        steps = self._bound(sizes)
        found = {name: (array.shape, dtypes.label(array.dtype)) for name, array in kept.items()}
        if found != (steps.kept() if begun else {}):
            raise InvalidArgumentError(where)
        self._steps, self._kept, self._samples = steps, kept if begun else None, samples
        self._rest = [array.copy() for array in given]


def opened(net: Net, axis: Any, chunk: Any, fixed: Any) -> Stream:
    """Implements `Net.stream`."""
    where = f"{net!r}.stream"
    axis, chunk = int64(axis, f"{where}: 'axis'"), int64(chunk, f"{where}: 'chunk'")
    if chunk < 1:
        raise InvalidArgumentError(f"{where}: 'chunk' must be at least 1, got {chunk}")
    if net._nets != (net,) or not net.engine.on_host:
        raise UnsupportedError(f"{where}: only nets of one graph on the CPU run in chunks, {net!r} has several stages")
    flow = Flow(net, axis, where)
    given = {} if fixed is None else fixed
    if not isinstance(given, Mapping):
        raise TypeError(f"{where}: 'fixed' must be a mapping of names to arrays, got {type(given).__name__}")
    others = {value.name: value for value in net.inputs if value not in flow.inputs}
    if given.keys() != others.keys():
        raise TypeError(
            f"{where}: 'fixed' needs an array for each of the inputs {', '.join(others) or '(none)'}, which do not run "
            f"along axis {axis}; got {', '.join(map(str, given)) or 'none'}"
        )
    held = {}
    for name, value in others.items():
        label = f"{where}: input {name!r}"
        held[name] = _fitting(arrays.as_array(given[name], label), value, label).copy(order="C")
    step_size = -(-chunk // flow.period) * flow.period
    return Stream(net, flow, step_size, flow.steady_from(step_size, where), held, where)


def _fitting(array: Array, value: Value, where: str) -> Array:
    """Returns an array of the dtype and the known sizes of an input; raises for others, as a call of the net."""
    arrays.check_dtype(array, value.dtype, where)
    arrays.check_shape(array, value.shape, where)
    return array


def _others(value: Value, flow: Flow) -> Sequence[int | None]:
    """Returns the sizes of an input but that of the streamed axis."""
    return [size for axis, size in enumerate(value.shape) if axis != flow.axes[value]]


def _sized(value: Value, flow: Flow, samples: int) -> Ints:
    return tuple(samples if axis == flow.axes[value] else size or 0 for axis, size in enumerate(value.shape))


def _part(array: Array, axis: int, begin: int, end: int) -> Array:
    """Returns a row-major array of samples of another; a view where it can."""
    return np.ascontiguousarray(array[(slice(None),) * axis + (slice(begin, end),)])


def _joined(pieces: Sequence[Array], axis: int) -> Array:
    filled = [piece for piece in pieces if piece.shape[axis]] or pieces[:1]
    return filled[0] if len(filled) == 1 else np.concatenate(filled, axis)

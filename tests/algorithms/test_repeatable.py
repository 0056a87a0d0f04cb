"""The same result twice: from run to run and in another process, and where threads or the batch change bits.

`python -m algorithms.test_repeatable THREADS` prints the digests of every form's results as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from children import child
from constants import adopt

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import lower, table
from dnnl_graph_ops.algorithms.algorithm import Algorithm
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.convolution.nodes import CONV_KINDS, make_problem
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.program import Place, Program

from .test_algorithms import KINDS, external

Array = np.ndarray[Any, Any]

FILTERING = {"Winograd 2", "Winograd 3", "Winograd 4"}
# docs/explanations/repeatable.md names them: forms whose bits are the same for any number of threads, and for any batch
_ANY_DATA = frozenset({"builtin direct", *FILTERING, "builtin depthwise", "builtin grouped"})
STEADY = {
    DGRAD: _ANY_DATA | {"builtin col2im"},
    FPROP: _ANY_DATA | {"flipped builtin col2im", "builtin few-channel", "builtin depthwise, multiplied"},
    WGRAD: frozenset({"builtin depthwise", "builtin grouped"}),
}
# and builtin code that splits its sums by threads, or by how many rows there are
SPLIT = {
    (WGRAD, "builtin direct"),
    (WGRAD, "Winograd 2"),
    (WGRAD, "im2col per image"),
    (WGRAD, "builtin few-channel"),
}
SEVERAL = (2, 4, 16)  # threads: tasks of some kernels are smaller where there are many


class Layer(NamedTuple):
    ic: int
    oc: int
    size: tuple[int, ...]
    kernel: int
    stride: int
    pad: int
    groups: int = 1
    batch: int = 3


LAYERS = {
    "wide": Layer(64, 48, (14, 12), 4, 2, 1),
    "deep": Layer(256, 32, (4, 4), 4, 2, 1),
    "stride 1": Layer(32, 32, (20, 20), 3, 1, 1),
    "no overlap": Layer(96, 40, (10, 10), 2, 2, 0),
    "one tap": Layer(96, 40, (10, 10), 1, 1, 0),
    "depthwise": Layer(24, 24, (10, 10), 4, 2, 1, groups=24),
    "multiplied": Layer(48, 24, (10, 10), 4, 2, 1, groups=24),
    "small groups": Layer(24, 24, (10, 10), 3, 1, 1, groups=6),
    "narrow": Layer(3, 40, (10, 10), 3, 1, 1),
    "thin": Layer(56, 1, (12, 12), 9, 3, 4),
    "1D": Layer(64, 32, (200,), 16, 8, 4),
    "3D": Layer(32, 16, (6, 6, 6), 4, 2, 1),
    # whose tasks many threads share otherwise than few do
    "short 1D": Layer(64, 64, (100,), 11, 1, 5),
    "deep, one tap": Layer(1024, 80, (5, 5), 1, 1, 0),
    "few lines": Layer(512, 512, (2, 9), 3, 1, 1, groups=512),
}


class Question(NamedTuple):
    """One direction of a layer with random data; the result's shape."""

    kind: str
    attrs: dict[str, Any]
    arrays: list[Array]
    shape: tuple[int, ...]

    def first(self, batch: int) -> Question:
        """The same of the first images alone."""
        given, *others = self.arrays
        more = {"src_shape": (batch, *self.shape[1:])} if "src_shape" in self.attrs else {}
        arrays = [np.ascontiguousarray(given[:batch]), *others]
        return self._replace(attrs={**self.attrs, **more}, arrays=arrays, shape=(batch, *self.shape[1:]))


def question(name: str, data_format: str, kind: str) -> Question:
    layer, rng = LAYERS[name], np.random.default_rng(0)
    rank = len(layer.size)
    dst = [(n - 1) * layer.stride + layer.kernel - 2 * layer.pad for n in layer.size]

    def image(channels: int, size: Any) -> Array:
        shape = (layer.batch, *size, channels) if data_format == "NXC" else (layer.batch, channels, *size)
        return rng.standard_normal(shape).astype(np.float32)

    x, y = image(layer.ic, layer.size), image(layer.oc, dst)
    w = rng.standard_normal((layer.ic, layer.oc // layer.groups, *(layer.kernel,) * rank)).astype(np.float32)
    bias = rng.standard_normal(layer.oc).astype(np.float32)
    attrs: dict[str, Any] = {
        "strides": (layer.stride,) * rank, "pads_begin": (layer.pad,) * rank, "pads_end": (layer.pad,) * rank,
        "groups": layer.groups, "data_format": data_format, "weights_format": "IOX",
    }  # fmt: skip
    return {
        "ConvTranspose": Question(kind, attrs, [x, w, bias], y.shape),
        "ConvTransposeBackwardData": Question(kind, {**attrs, "src_shape": x.shape}, [y, w], x.shape),
        "ConvTransposeBackwardWeights": Question(kind, attrs, [x, y], w.shape),
    }[kind]


def questions() -> Iterator[tuple[str, Question]]:
    for name in LAYERS:
        for data_format in ("NXC", "NCX") if name in ("one tap", "thin") else ("NXC",):
            for kind in KINDS:
                yield f"{name} {data_format} {kind}", question(name, data_format, kind)


def results(asked: Question, threads: int, runs: int = 1) -> dict[str, list[Array]]:
    """Those of every form that applies, by its name, and of the one that is chosen."""
    env = Env(dgo.engine("cpu"), threads, algorithm="fast")
    found = {}
    for form in (*table.ALGORITHMS, None):
        if form is not None and form.direction != CONV_KINDS[asked.kind].direction:
            continue
        arrays = computed(asked, env, form, runs)
        if arrays:
            found["chosen" if form is None else form.name] = arrays
    return found


def computed(asked: Question, env: Env, form: Algorithm | None, runs: int) -> list[Array]:
    """Results of runs of one plan; none where the form does not apply."""
    views = [external(Place.INPUT, array, index) for index, array in enumerate(asked.arrays)]
    found = [np.full(asked.shape, np.nan, np.float32) for _ in range(runs)]
    output = external(Place.OUTPUT, found[0], 0)
    problem = make_problem(asked.kind, asked.attrs, views, output)
    program = Program()
    if form is None:
        lower.lower(program, problem, env)
    elif form.applies(problem, env):
        lower.build(program, problem, form, env)
    else:
        return []
    executor = assemble(program, views, [output], env.engine, threads=env.threads).executor
    for result in found:
        executor.run(asked.arrays, [result])
    return found


def same(one: Array, other: Array) -> bool:
    return bool((one.view(np.uint32) == other.view(np.uint32)).all())


@cache
def digests(threads: int) -> dict[str, str]:
    """Of every form's result of every question."""
    return {
        f"{label}, {form}": hashlib.sha256(result.tobytes()).hexdigest()
        for label, asked in questions()
        for form, (result,) in results(asked, threads).items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_from_run_to_run(threads: int) -> None:
    """Of one plan, and of another that is made of the same net."""
    for label, asked in questions():
        for form, (first, *others) in results(asked, threads, 2).items():
            assert all(same(first, other) for other in others), f"{label}, {form}"
            assert hashlib.sha256(first.tobytes()).hexdigest() == digests(threads)[f"{label}, {form}"]


@pytest.mark.child
@pytest.mark.parametrize("threads", [1, 2])
def test_in_another_process(threads: int) -> None:
    done = child("-m", "algorithms.test_repeatable", str(threads))
    assert done.returncode == 0, done.stderr[-3000:]
    theirs, mine = json.loads(done.stdout), digests(threads)
    assert theirs.keys() == mine.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []


@pytest.mark.slow
def test_forms_that_no_number_of_threads_changes() -> None:
    """And builtin code that is said to change does: the list is no longer than it must be."""
    changed, ran = set(), set()
    for label, asked in questions():
        direction = CONV_KINDS[asked.kind].direction
        alone = results(asked, 1)
        ran |= {(direction, form) for form in alone}
        for threads in SEVERAL:
            several = results(asked, threads)
            for form in STEADY[direction] & alone.keys():
                assert same(alone[form][0], several[form][0]), f"{label}, {form}, {threads} threads"
            changed |= {(direction, form) for form in alone if not same(alone[form][0], several[form][0])}
    print("changed:", sorted(changed))
    assert {(direction, form) for direction, forms in STEADY.items() for form in forms} <= ran
    assert changed >= SPLIT


@pytest.mark.slow
def test_forms_that_no_batch_changes() -> None:
    for label, asked in questions():
        direction = CONV_KINDS[asked.kind].direction
        if direction == WGRAD:
            continue
        whole = results(asked, 2)
        for batch in (1, 2):
            part = results(asked.first(batch), 2)
            for form in STEADY[direction] & whole.keys() & part.keys():
                assert same(whole[form][0][:batch], part[form][0]), f"{label}, {form}, {batch} of the batch"


if __name__ == "__main__":
    adopt()
    json.dump(digests(int(sys.argv[1])), sys.stdout)

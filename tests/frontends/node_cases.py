"""onnx's own tests of nodes and of models, through `from_onnx`: what becomes of each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import dnnl_graph_ops as dgo

WAYS = ("passed", "refused", "wrong", "foreign")


class Outcome(NamedTuple):
    """What became of a test: one of WAYS, why, and whether onnx's reference implementation had a part in it."""

    way: str
    why: str = ""
    by_reference: bool = False


@functools.cache
def node_cases() -> tuple[Any, ...]:
    """Those whose tensors are numbers, of types too that only messages have."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [replace(case, data_sets=[*map(_read, case.data_sets)]) for case in load_model_tests(kind="node")]
    return tuple(case for case in cases if all(map(_numeric, _tensors(case))))


def _read(data: Sequence[Sequence[Any]]) -> tuple[list[Any], ...]:
    import onnx

    return tuple(
        [onnx.numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else one for one in part] for part in data
    )


@functools.cache
def model_cases(kind: str) -> tuple[Any, ...]:
    """Those whose models and data are files of the package."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    cases = []
    for case in load_model_tests(kind=kind):
        folder = Path(case.model_dir)
        proto = onnx.load(folder / "model.onnx")
        sets = [
            tuple(_stored(proto, data, name) for name in ("input", "output"))
            for data in sorted(folder.glob("test_data_set_*"))
        ]
        cases.append(replace(case, model=proto, data_sets=sets))
    return tuple(cases)


def _stored(proto: Any, folder: Path, what: str) -> list[Any]:
    """The inputs or outputs of a test, in their order."""
    import onnx
    from onnx import numpy_helper

    infos = getattr(proto.graph, what)
    files = [folder / f"{what}_{i}.pb" for i in range(len(list(folder.glob(f"{what}_*.pb"))))]
    found: list[Any] = []
    for info, file in zip(infos, files, strict=False):
        if info.type.HasField("sequence_type"):
            found.append(numpy_helper.to_list(onnx.SequenceProto.FromString(file.read_bytes())))
        else:
            found.append(numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())))
    return found


def _tensors(case: Any) -> list[Any]:
    return [item for inputs, outputs in case.data_sets for item in (*inputs, *outputs)]


def _numeric(item: Any) -> bool:
    return isinstance(item, np.ndarray | np.generic) and np.asarray(item).dtype.kind not in "OSU"


def ops_of(case: Any) -> str:
    return "+".join(sorted({node.op_type for node in case.model.graph.node}))


_RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}


@contextmanager
def _counted() -> Iterator[list[None]]:
    """As many entries as runs of onnx's reference implementation."""
    from onnx.reference import ReferenceEvaluator

    runs: list[None] = []
    run = ReferenceEvaluator.run

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        runs.append(None)
        return run(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReferenceEvaluator, "run", counted)
        yield runs


def outcome(case: Any) -> Outcome:
    """Loads a test's model and compares its results with those of the test."""
    with _counted() as runs:
        found = _outcome(case)
    return found._replace(by_reference=bool(runs))


def _outcome(case: Any) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = dgo.from_onnx(case.model).compile()
            stored = {tensor.name for tensor in case.model.graph.initializer}
            for inputs, wanted in case.data_sets:
                names = [info.name for info in case.model.graph.input if info.name not in stored]
                # older models list what they store among their inputs, some behind the others
                given = dict(zip(names, map(_given, inputs), strict=False))
                # a net without inputs computes constants
                found = net(*(given[name] for name in net.input_names))
                results = found if isinstance(found, tuple | list) and len(net.output_names) > 1 else (found,)
                if why := _difference(results, wanted, case):
                    return Outcome("wrong", why)
    except dgo.Error as error:
        return Outcome("refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("foreign", f"{type(error).__name__}: {error}")
    return Outcome("passed")


def _given(item: Any) -> Any:
    return item if isinstance(item, list) else np.asarray(item)


def _difference(found: Sequence[Any], wanted: Sequence[Any], case: Any) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    return next(filter(None, (_unlike(*pair, case) for pair in zip(found, wanted, strict=True))), "")


def _unit(dtype: np.dtype[Any]) -> float:
    return 0.0 if dtype.kind == "b" or "int" in dtype.name else float(ml_dtypes.finfo(dtype).eps)


def _unlike(one: Any, other: Any, case: Any) -> str:
    if isinstance(other, list):
        if len(one) != len(other):
            return f"{len(one)} elements, not {len(other)}"
        return next(filter(None, (_unlike(*pair, case) for pair in zip(one, other, strict=True))), "")
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return f"shape {one.shape}, not {other.shape}"
    if one.dtype.kind in "OSU" or other.dtype.kind in "OSU":
        return "" if one.astype(str).tolist() == other.astype(str).tolist() else f"{one} and {other}"
    if one.dtype != other.dtype:
        return f"dtype {one.dtype}, not {other.dtype}"
    if not _RANDOM.isdisjoint(ops_of(case).split("+")):
        return ""
    # two units in the last place of floats of 16 and 8 bits: what onnx computes step by step is as far from exact
    rtol = max(case.rtol, 2 * _unit(one.dtype) if one.itemsize <= 2 else 0)
    pair = [item.astype(np.float64) for item in (one, other)]
    if not np.allclose(*pair, rtol=rtol, atol=max(case.atol, rtol * 1e-2), equal_nan=True):
        return f"differs by {np.nanmax(np.abs(pair[0] - pair[1])):.3g}"
    return ""

"""The graphs that both versions compile, by name: models, examples, random graphs."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from . import layers, single_ops
from .models import path

SEED, DAGS = 20261125, 26
WHOLE = ("f32", "bf16")  # dtypes of layers in every direction
TABLE = json.loads(Path(__file__).with_name("graphs.json").read_text(encoding="utf-8"))
CALLS = tuple(f"{op}{part}" for op in ("conv_transpose", "convolution") for part in ("", "_data", "_weights", "_bias"))
QUICK = tuple(TABLE["quick"])
NAMES = (
    *(f"{room} {name}" for room in ("zoo", "torch", "example") for name in TABLE[room]),
    *(f"dag {number}" for number in range(DAGS)),
    *(f"call {name}" for name in CALLS),
    *(f"op {name}" for name in single_ops.BUILDERS),
    *(f"layer {name} {way} {dtype}" for name in TABLE["layers"] for way in layers.DIRECTIONS for dtype in WHOLE),
    *(f"layer {name} fwd int8" for name in TABLE["layers"]),
)
FILES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Subject:
    """A graph, what `compile` takes as its outputs, and arrays for all of the graph's inputs."""

    graph: Any
    outputs: Any
    inputs: Sequence[np.ndarray]

    def given(self, net: Any) -> dict[str, np.ndarray]:
        """The arrays that `net` takes, which leaves inputs out that nothing reads."""
        every = {value.name: array for value, array in zip(self.graph.inputs, self.inputs, strict=True)}
        return {name: every[name] for name in net.input_names}


def subject(name: str, models: Path) -> Subject:
    """The graph called `name`; not for calls."""
    room, _, rest = name.partition(" ")
    return ROOMS[room](rest, models)


def _arrays(graph: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(SEED)
    return [rng.standard_normal(value.shape, np.float32) for value in graph.inputs]


def _from_file(room: str) -> Callable[[str, Path], Subject]:
    def read(name: str, models: Path) -> Subject:
        import dnnl_graph_ops as dgo

        file = path(models, f"{room} {name}")
        with np.load(file.with_suffix(".npz")) as held:
            inputs = [held[key] for key in sorted(held) if key[0] in "xa"]
        if file.suffix == ".onnx":
            return Subject(dgo.from_onnx(str(file)), None, inputs)
        import torch

        return Subject(dgo.from_torch(torch.export.load(file)), None, inputs)

    return read


def _dag(number: str, models: Path) -> Subject:
    from graph.dags import draw

    dag = draw(SEED, int(number))
    results = [value for value in dag.data if value.node is not None][-3:]
    outputs = {f"out{i}": value for i, value in enumerate(results)}
    return Subject(dag.graph, outputs, [dag.data[value] for value in dag.graph.inputs])


def _example(name: str, models: Path) -> Subject:
    graph, outputs = getattr(sys.modules[__name__], f"_{name}")()
    return Subject(graph, outputs, _arrays(graph))


def _source(number: str) -> ModuleType:
    """An example's functions: what it does when it runs is left out."""
    (file,) = FILES.glob(f"{number}_*.py")
    head = file.read_text(encoding="utf-8").partition("\noptions = ")[0]
    module = ModuleType(f"example_{number}")
    exec(compile(head, file, "exec"), vars(module))
    return module


def _fused_block() -> tuple[Any, Any]:
    return _source("03").build()[:2]


def _unet_decoder() -> tuple[Any, Any]:
    return _source("04").build(), None


def _quantized_decoder() -> tuple[Any, Any]:
    import dnnl_graph_ops as dgo

    weights = _source("05").bilinear(1)
    graph = dgo.Graph(name="decoder")
    attrs = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "IOX"}
    y = dgo.ops.conv_transpose(graph.input("x", (4, 1, 8, 8)), weights, name="up1", **attrs)
    return graph, dgo.ops.conv_transpose(dgo.ops.relu(y), weights, name="up2", **attrs)


def _explain_graph() -> tuple[Any, Any]:
    import tempfile

    import dnnl_graph_ops as dgo

    with tempfile.TemporaryDirectory() as folder:
        _source("06").write_graph(Path(folder, "decoder.json"))
        return dgo.Graph.from_json(Path(folder, "decoder.json")), None


def _vocoder() -> tuple[Any, Any]:
    import dnnl_graph_ops as dgo

    example = _source("09")
    graph = dgo.Graph(name="vocoder")
    frames = graph.input("frames", (1, example.BANDS, 16))
    return graph, example.vocoder(frames, example.Own(example.random_weights(np.random.default_rng(SEED))))


def _layer(name: str, models: Path) -> Subject:
    return Subject(*layers.subject(*name.rsplit(" ", 2)))


def _op(name: str, models: Path) -> Subject:
    return Subject(*single_ops.subject(name))


ROOMS: dict[str, Callable[[str, Path], Subject]] = {
    "layer": _layer,
    "op": _op,
    "zoo": _from_file("zoo"),
    "full": _from_file("full"),
    "torch": _from_file("torch"),
    "dag": _dag,
    "example": _example,
}


def call(name: str, dtype: str) -> Callable[[], np.ndarray]:
    """A one-shot function on small arrays: src (2, 16, 9, 9), weights (16, 16, 3, 3), stride 2."""
    import dnnl_graph_ops as dgo
    from dnnl_graph_ops.dtypes import numpy_dtype

    op = next(each for each in ("conv_transpose", "convolution") if name.startswith(each))
    transposed = op == "conv_transpose"
    part = name.removeprefix(op)
    rng = np.random.default_rng(SEED)
    small, large = (2, 16, 9, 9), (2, 16, 19, 19)
    src, dst = (
        rng.standard_normal(shape).astype(numpy_dtype(dtype))
        for shape in ((small, large) if transposed else (large, small))
    )
    weights = rng.standard_normal((16, 16, 3, 3)).astype(numpy_dtype(dtype))
    common = {"strides": 2, "pads_begin": 0, "pads_end": 0, "data_format": "NCX"}
    attrs = {**common, "weights_format": "IOX" if transposed else "OIX"}
    if part == "_bias":
        return lambda: getattr(dgo, f"{op}_backward_bias")(dst, data_format="NCX")
    if part == "_weights":
        return lambda: getattr(dgo, f"{op}_backward_weights")(src, dst, weights_shape=weights.shape, **attrs)
    if part == "_data":
        return lambda: getattr(dgo, f"{op}_backward_data")(dst, weights, src_shape=src.shape, **attrs)
    return lambda: getattr(dgo, op)(src, weights, **attrs)

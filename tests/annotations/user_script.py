"""What a user writes, with the types that a checker must see; .ci/run has mypy and basedpyright read it."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.net import PartitionInfo
from dnnl_graph_ops.reports.explain import Benchmark, PartitionReport
from dnnl_graph_ops.reports.profile import Profile

Array = np.ndarray[Any, Any]

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value, _):
        return value


def one_shot() -> None:
    src, weights = np.ones((1, 4, 4, 3), np.float32), np.ones((2, 2, 5, 3), np.float32)
    dst = dgo.conv_transpose(src, weights, strides=2, engine=dgo.engine("cpu"))
    assert_type(dst, Array)
    shape = dgo.conv_transpose_output_shape((1, None, 4, 3), weights.shape, strides=(2, 2))
    assert_type(shape, tuple[int | None, ...])
    grad = dgo.conv_transpose_backward_weights(src, dst, weights.shape, strides=2)
    assert_type(dgo.conv_transpose_backward_data(dst, weights, strides=2), Array)
    half = dgo.conv_transpose_backward_bias(dst.astype(ml_dtypes.bfloat16))
    assert_type(dgo.from_dlpack(dgo.to_dlpack(half)), Array)
    dgo.convert_weights(grad, "XOI", "pytorch")
    ordinary = np.ones((2, 2, 3, 5), np.float32)
    result = dgo.convolution(src, ordinary, strides=2, auto_pad="same_upper")
    assert_type(result, Array)
    assert_type(dgo.convolution_backward_data(result, ordinary, strides=2, src_shape=src.shape), Array)
    assert_type(dgo.convolution_backward_weights(src, result, ordinary.shape, strides=2), Array)
    assert_type(dgo.convolution_backward_bias(result), Array)
    assert_type(dgo.convolution_output_shape((None, 4, 4, 3), ordinary.shape), tuple[int | None, ...])
    assert_type(dgo.convert_weights(ordinary, "keras", "pytorch", op="convolution"), Array)


def graphs() -> None:
    with dgo.Graph(name="example") as graph:
        x = graph.input("x", (None, 8, 8, 3))
        kernel = graph.constant(np.ones((2, 2, 4, 3), np.float32))
        y = dgo.ops.relu(dgo.ops.conv_transpose(x, kernel, strides=2, name="up") + 1.0) * 2
        z = dgo.ops.softmax(2 / y, axis=-1)
    assert_type(x, dgo.Value)
    assert_type(y, dgo.Value)
    assert_type(z, dgo.Value)
    assert_type(y.shape, tuple[int | None, ...])
    probabilities, logarithms = dgo.ops.softmax(y, outputs=2)
    assert_type((probabilities, logarithms), tuple[dgo.Value, dgo.Value])
    net = graph.compile({"y": y, "z": z}, tune="heuristic")
    with TemporaryDirectory() as folder:
        net.save(Path(folder) / "a.net")
        assert_type(dgo.load(f"{folder}/a.net", engine=dgo.engine("cpu"), verify=True), dgo.Net)
    assert_type(net, dgo.Net)
    array = np.ones((1, 8, 8, 3), np.float32)
    first, _ = net(array)
    net.run({"x": array}, out={"y": first})["y"].sum()
    assert_type(net.partitions, tuple[PartitionInfo, ...])
    assert_type(net.input_names + net.output_names, tuple[str, ...])
    explanation = net.explain()
    assert_type(explanation, dgo.Explanation)
    assert_type(explanation.partitions, tuple[PartitionReport, ...])
    assert_type(explanation.to_dict(), dict[str, Any])
    infos = net.algorithms("up")
    assert_type(infos, tuple[dgo.AlgorithmInfo, ...])
    assert_type((infos[0].name, infos[0].seconds, infos[0].measured), tuple[str, float, float | None])
    assert_type((infos[0].workspace, infos[0].error, infos[0].deterministic), tuple[int, frozenset[str], bool])
    graph.compile(y, algorithms={"up": infos[0].name})
    graph.compile(y, algorithms={"up": lambda info: "fast" not in info.error and info.workspace < 1 << 20})
    assert_type(net.benchmark(array, repeat=2), Benchmark)
    assert_type(net.benchmark(array, repeat=2).median, float)
    assert_type(net.profile(array, repeat=2), Profile)
    assert_type(net.submit(array), Future[Any])
    assert_type(net.to_svg(), str)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "graph.json"
        file.write_text(graph.to_json())
        assert_type(dgo.Graph.from_json(file), dgo.Graph)


def modules() -> None:
    layer = dgo.nn.ConvTranspose2d(3, 4, 2, stride=2, bias=True, data_format="NXC")
    assert_type(layer, dgo.nn.ConvTranspose2d)
    layer.load_state_dict(layer.state_dict())
    layer.backward(layer(np.ones((1, 4, 4, 3), np.float32)))
    down = dgo.nn.Conv2d(3, 4, (2, 3), padding=1, groups=1)
    assert_type(down, dgo.nn.Conv2d)
    dgo.nn.Conv2d(3, 4, 2, strides=2, pads_begin=1, pads_end=1, dilations=(1, 1), data_format="NHWC")
    assert_type(down(np.ones((1, 3, 4, 4), np.float32)), Array)
    assert_type(down.state_dict(), dict[str, Array])
    assert_type(dgo.bench.real_layers(), tuple[dgo.bench.Problem, ...])
    assert_type(dgo.quantize.Calibration, type[dgo.quantize.Calibration])


class Upsampler(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.ConvTranspose2d(3, 4, 2, stride=2)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return scale * self.up(x)


def not_the_last(name: str, module: torch.nn.Module) -> bool:
    return name != "last" and not isinstance(module, torch.nn.Conv1d)


def pytorch() -> None:
    x = torch.ones(1, 3, 4, 4)
    model = dgt.optimize(Upsampler())
    assert_type(model, Upsampler)
    dgt.optimize(model, inplace=True, layers=not_the_last, dtype="bf16", example_inputs=x)
    dgt.optimize(model, layers=lambda name, module: name == "up" and not module.training, example_inputs=(x, 2.0))
    dgt.refresh(model)
    report = dgt.report(model, x, 2.0)
    assert_type(report, dgt.Report)
    assert_type(report[0], dgt.LayerTime)
    assert_type([(row.layer, row.computed_by) for row in report], list[tuple[str, str]])
    assert_type(report[0].input, tuple[int, ...])
    assert_type(report[0].our_seconds, float | None)
    assert_type(report[0].gain, float)
    assert_type(report.to_dict(), dict[str, Any])


def surroundings() -> None:
    assert_type(dgo.__version__, str)
    assert_type(dgo.runtimes(), tuple[dgo.Runtime, ...])
    assert_type(dgo.engines(), tuple[dgo.Engine, ...])
    dgo.set_num_threads(dgo.get_num_threads())
    assert_type(dgo.info(), dict[str, Any])
    dgo.cache_info()
    dgo.clear_caches()
    with dgo.verbose() as log:
        one_shot()
    log.executed()
    try:
        dgo.engine("cpu", index=3)
    except dgo.InvalidArgumentError as error:
        assert_type(error, dgo.InvalidArgumentError)
    except (dgo.RuntimeUnavailableError, dgo.UnsupportedError):
        pass


if __name__ == "__main__":
    one_shot()
    graphs()
    modules()
    pytorch()
    surroundings()
    print("done")

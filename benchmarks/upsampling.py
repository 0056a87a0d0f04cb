"""Published layers after nearest upsampling, folded and not, compared with ONNX Runtime, OpenVINO and PyTorch.

`python benchmarks/upsampling.py [--threads N] [--rounds N]` prints a table: the milliseconds of the folded layer, and
the times of others over them: the unfolded ops of this package, and the other runtimes; then a step of training, of
the layer alone. Weights are constant in inference. Results are compared first; times are those of the process, with
several threads those of the clock, medians of rounds in which all take turns. `--models` times steps of training of
whole models instead: a generator, and a U-Net where segmentation-models-pytorch is installed.
"""

from __future__ import annotations

import argparse
import copy
import io
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from turns import Run, counts, in_turns

import dnnl_graph_ops as dgo
import dnnl_graph_ops.torch
from dnnl_graph_ops.passes.folding import layers
from dnnl_graph_ops.torch.layers import upsampled
from dnnl_graph_ops.torch.layers.conv_params import ConvParams
from dnnl_graph_ops.torch.whole_model import backend, sources

_LEAST_SECONDS = 0.02


class Case(NamedTuple):
    """A convolution of `channels` upsampled channels, joined with `skip` others, on a source of `sizes`.

    `trained`: a step of training is timed as well.
    """

    name: str
    channels: int
    outputs: int
    sizes: tuple[int, ...]
    skip: int = 0
    kernel: int = 3
    scale: int = 2
    trained: bool = False


CASES = (
    Case("128 -> 128", 128, 128, (32, 32), trained=True),
    Case("256 + 64 -> 64", 256, 64, (32, 32), 64, trained=True),
    Case("3-D, 64 -> 32", 64, 32, (8, 16, 16), trained=True),
    Case("ProGAN", 512, 512, (16, 16)),
    Case("ProGAN", 512, 256, (32, 32)),
    Case("ProGAN", 128, 64, (64, 64), trained=True),
    Case("BigGAN", 768, 384, (16, 16)),
    Case("SNGAN", 256, 256, (16, 16), trained=True),
    Case("style transfer", 128, 64, (64, 64), trained=True),
    Case("style transfer", 64, 32, (128, 128)),
    Case("Stable Diffusion VAE", 512, 512, (32, 32)),
    Case("Stable Diffusion VAE", 256, 256, (64, 64)),
    Case("U-Net, ResNet-34", 512, 256, (8, 8), 256),
    Case("U-Net, ResNet-34", 256, 128, (16, 16), 128),
    Case("U-Net, ResNet-34", 128, 64, (32, 32), 64, trained=True),
    Case("U-Net, ResNet-34", 64, 32, (64, 64), 64),
    Case("U-Net, ResNet-34", 32, 16, (128, 128), trained=True),
    Case("Real-ESRGAN", 64, 64, (96, 96)),
    Case("by 4", 64, 64, (32, 32), scale=4),
    Case("1-D by 4", 128, 64, (512,), kernel=9, scale=4, trained=True),
    Case("1x1", 256, 128, (20, 20), kernel=1),
)
_CONVOLUTIONS: dict[int, type[nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class Layer(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.scale = float(case.scale)
        self.layer: Any = _CONVOLUTIONS[len(case.sizes)](
            case.channels + case.skip, case.outputs, case.kernel, padding=case.kernel // 2
        )

    def forward(self, x: Tensor, *skips: Tensor) -> Tensor:
        larger = functional.interpolate(x, scale_factor=self.scale)
        result: Tensor = torch.relu(self.layer(torch.cat([larger, *skips], 1) if skips else larger))
        return result


def operands(case: Case) -> list[Tensor]:
    larger = tuple(n * case.scale for n in case.sizes)
    x = torch.randn(1, case.channels, *case.sizes)
    return [x, torch.randn(1, case.skip, *larger)] if case.skip else [x]


def inference(case: Case, threads: int) -> tuple[dict[str, Run], float]:
    """Returns what runs a layer, by name, and how much the results of the folded one differ at most, relatively."""
    import onnxruntime
    import openvino

    module, given = Layer(case).eval(), operands(case)
    names = [f"x{number}" for number in range(len(given))]
    content: Any = io.BytesIO()
    torch.onnx.export(module, tuple(given), content, dynamo=False, opset_version=17, input_names=names)
    model = content.getvalue()
    feeds = {name: array.numpy() for name, array in zip(names, given, strict=True)}
    with mock.patch.object(layers, "pays", lambda before, after: False):
        unfolded = dgo.from_onnx(model).compile()
        unfolded.run(feeds)
    folded = dgo.from_onnx(model).compile()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options)
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()

    def eager() -> None:
        with torch.inference_mode():
            module(*given)

    (result,), (wanted,) = folded.run(feeds).values(), session.run(None, feeds)
    runs = {
        "folded": lambda: folded.run(feeds),
        "unfolded": lambda: unfolded.run(feeds),
        "ONNX Runtime": lambda: session.run(None, feeds),
        "OpenVINO": lambda: request.infer(list(feeds.values())),
        "PyTorch": eager,
    }
    return runs, float(np.abs(result - wanted).max() / np.abs(wanted).max())


def training(case: Case) -> dict[str, Run]:
    """Returns what runs a layer forward and backward."""
    axes = len(case.sizes)
    module, operand = Layer(case).layer, operands(case)
    weight, bias = module.weight, module.bias
    for x in operand:
        x.requires_grad_()
    spec = ConvParams((1,) * axes, (case.kernel // 2,) * axes, (1,) * axes, False, (0,) * axes, 1)
    plain = upsampled.Layer.plain(spec)
    parts = [plain._replace(scales=(case.scale,) * axes), *[plain] * (len(operand) - 1)]

    def larger() -> Tensor:
        first = functional.interpolate(operand[0], scale_factor=float(case.scale))
        return torch.cat([first, *operand[1:]], 1) if case.skip else first

    def step(forward: Callable[[], Tensor]) -> Run:
        def run() -> None:
            y = forward()
            torch.autograd.grad(y, (*operand, weight, bias), torch.ones_like(y))

        return run

    return {
        "folded": step(lambda: upsampled.joined(operand, weight, bias, parts)),
        "unfolded": step(lambda: upsampled.convolution(larger(), weight, bias, plain)),
        "PyTorch": step(lambda: module(larger())),
    }


def generator() -> tuple[nn.Module, Tensor]:
    """Returns ProGAN's generator from 8x8 to 128x128, without its normalization of pixels, and a batch of two."""
    channels = (512, 512, 256, 128, 64)
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [nn.Upsample(scale_factor=2), nn.Conv2d(before, after, 3, padding=1), nn.LeakyReLU(0.2)]
        layers += [nn.Conv2d(after, after, 3, padding=1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(channels[-1], 3, 1)), torch.randn(2, channels[0], 8, 8)


def unet() -> tuple[nn.Module, Tensor]:
    """Returns a U-Net with ResNet-34 as its encoder, and a batch of two."""
    import segmentation_models_pytorch as models

    return models.Unet("resnet34", encoder_weights=None), torch.randn(2, 3, 128, 128)


def unfolded(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Run:
    """A backend of `torch.compile` of its own, so that PyTorch does not take what it has compiled by the other one."""
    with mock.patch.object(sources, "fold", lambda *given: False):
        return backend.dnnl_graph_ops(module, inputs)


def steps_of(model: nn.Module, x: Tensor) -> dict[str, Run]:
    """Returns what runs a model forward and backward."""

    def step(compiler: Any) -> Run:
        mine = copy.deepcopy(model)
        run = torch.compile(mine, backend=compiler) if compiler else mine

        def runs() -> None:
            mine.zero_grad()
            run(x).square().mean().backward()

        return runs

    compilers = {"folded": "dnnl_graph_ops", "unfolded": unfolded, "PyTorch": None, "inductor": "inductor"}
    return {name: step(compiler) for name, compiler in compilers.items()}


def medians(runs: dict[str, Run], options: argparse.Namespace, warm: int) -> dict[str, float]:
    clock = time.process_time if options.threads == 1 else time.perf_counter
    for run in runs.values():
        for _ in range(warm):
            run()

    times = in_turns(runs, counts(runs, _LEAST_SECONDS, clock), range(options.rounds), clock)
    return {name: statistics.median(some) for name, some in times.items()}


def row(case: Case, times: dict[str, float]) -> Iterator[str]:
    channels = f"{case.channels}{f' + {case.skip}' if case.skip else ''} -> {case.outputs}"
    sizes = "x".join(map(str, case.sizes))
    yield f"{case.name}: {channels}, {'x'.join([str(case.kernel)] * len(case.sizes))}, {sizes} by {case.scale}"
    yield f"{1e3 * times['folded']:.2f}"
    yield from ratios(times)


def ratios(times: dict[str, float]) -> Iterator[str]:
    for name in list(times)[1:]:
        yield f"{times[name] / times['folded']:.2f}"


def table(titles: list[str], rows: Iterable[list[str]]) -> None:
    print(f"| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for cells in rows:
        print(f"| {' | '.join(cells)} |", flush=True)


def models(options: argparse.Namespace) -> None:
    def rows() -> Iterator[list[str]]:
        for make in (generator, unet):
            times = medians(steps_of(*make()), options, 20)
            yield [make.__name__, f"{1e3 * times['folded']:.1f}", *ratios(times)]

    table(["model", "ms", "unfolded", "PyTorch", "inductor"], rows())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--inference", action="store_true", help="no steps of training")
    parser.add_argument("--models", action="store_true", help="steps of training of whole models")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    dgo.set_num_threads(options.threads)
    if options.models:
        return models(options)
    rows, steps, errors = [], [], []
    for case in CASES:
        runs, error = inference(case, options.threads)
        errors.append(error)
        rows.append(list(row(case, medians(runs, options, 2))))
        if case.trained and not options.inference:
            # trials of who computes a layer take some calls
            steps.append(list(row(case, medians(training(case), options, 40))))
    print(
        f"{options.threads} threads; results differ from ONNX Runtime's by {max(errors):.1e} of the largest at most\n"
    )
    table(["layer", "ms", "unfolded", "ONNX Runtime", "OpenVINO", "PyTorch"], rows)
    if steps:
        print("\nforward and backward:\n")
        table(["layer", "ms", "unfolded", "PyTorch"], steps)
    return None


if __name__ == "__main__":
    main()

"""Models of other packages, drawn by a seed from their own registries, beside ONNX Runtime, OpenVINO and PyTorch.

`python benchmarks/packages.py draw` writes `packages.json`: the drawn models with the shapes of their inputs, and those
that were passed over with the reason. `measure [NAME...]` builds each with random weights, exports it, compares the
results and times all in turns, in a process for each model with a limit of time; what is refused, fails or takes
longer is a row as well. `table` prints the page's table of the recorded times.

The packages: timm, torchvision, segmentation-models-pytorch, monai, transformers, diffusers; and openvino, onnxscript.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import json
import random
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

SEED: Final = 48
COUNTS: Final = {
    "timm": 20,
    "torchvision": 8,
    "segmentation_models_pytorch": 7,
    "monai": 8,
    "transformers": 8,
    "diffusers": 4,
}
MOST_OF_A_FAMILY: Final = 3
MOST_GMAC: Final = 5.0
MOST_PARAMETERS: Final = 100e6
LEAST_EXTENT: Final = 32
SECONDS: Final = 300
ROUNDS_SECONDS: Final = 6.0
# of dnnl_graph_ops.bench.zoo, by the names that the packages have for them
ZOO: Final = re.compile(
    r"resnet18|mobilenet_?v3_large|convnext_tiny|deeplabv3_|DeepLabV3$|Encodec|AutoencoderKL$|DynUNet|Generator$|^UNet$"
)
DRAWN: Final = Path(__file__).with_name("packages.json")
TIMES: Final = Path(__file__).parent / "times" / "packages"
RIVALS: Final = ("onnxruntime", "openvino", "torch", "torch channels last")

Run = Callable[[], Any]
Inputs = dict[str, Tensor]


class Unfit(Exception):
    """Why a name is passed over."""


class Built(NamedTuple):
    module: nn.Module
    inputs: Inputs


# --- the packages' registries: names with their families, and a model of a name at `1 / shrink` of its own size ---


def _operators() -> None:
    """Declares the operators that torchvision's Python part asks for: its binary part fits one version of PyTorch."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    globals()["_LIBRARY"] = library


def _image(size: int, channels: int = 3, axes: int = 2) -> Tensor:
    return torch.randn(1, channels, *[size] * axes)


def _timm_names() -> Iterator[tuple[str, str]]:
    import timm

    for name in timm.list_models():
        yield name, timm.models.model_entrypoint(name).__module__.rpartition(".")[2]


def _timm(name: str, shrink: int) -> Built:
    import timm

    channels, size, _ = _timm_size(name)
    size //= shrink
    sized: Mapping[str, Any] = {"img_size": size} if shrink > 1 else {}
    try:
        module = timm.create_model(name, **sized)
    except TypeError:
        module = timm.create_model(name)
    return Built(module, {"x": _image(size, channels)})


def _timm_size(name: str) -> tuple[int, int, int]:
    import timm

    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    shape = tuple(config.input_size) if config is not None else (3, 224, 224)
    return shape[0], shape[1], shape[2]


def _torchvision_names() -> Iterator[tuple[str, str]]:
    import torchvision

    models = torchvision.models
    # detection and quantization need operators of its binary part
    for module in (models, models.segmentation, models.video, models.optical_flow):
        for name in models.list_models(module):
            yield name, models.get_model_builder(name).__module__.rpartition(".")[2]


def _torchvision(name: str, shrink: int) -> Built:
    import torchvision

    models = torchvision.models
    where = models.get_model_builder(name).__module__
    module = models.get_model(name, weights=None, **({"weights_backbone": None} if "segmentation" in where else {}))
    if "optical_flow" in where:
        size = 256 // shrink
        return Built(module, {"image1": _image(size), "image2": _image(size)})
    crop = getattr(models.get_model_weights(name).DEFAULT.transforms(), "crop_size", None) or [512]
    size = crop[0] // shrink
    return Built(module, {"x": torch.randn(1, 3, 16, size, size) if "video" in where else _image(size)})


def _segmentation_names() -> Iterator[tuple[str, str]]:
    import segmentation_models_pytorch as smp

    for kind in sorted(smp.MODEL_ARCHITECTURES_MAPPING):
        for encoder in sorted(smp.encoders.get_encoder_names()):
            yield f"{kind} {encoder}", f"{kind} of smp"


def _segmentation(name: str, shrink: int) -> Built:
    import segmentation_models_pytorch as smp

    kind, encoder = name.split()
    return Built(smp.create_model(kind, encoder, encoder_weights=None), {"x": _image(256 // shrink)})


_OF_MONAI: Final[Mapping[str, Any]] = {
    "spatial_dims": 3,
    "dimensions": 3,
    "in_channels": 1,
    "in_channel": 1,
    "out_channels": 2,
    "out_channel": 2,
    "n_classes": 2,
    "num_classes": 2,
    "channels": (16, 32, 64, 128),
    "strides": (2, 2, 2),
}


def _monai_names() -> Iterator[tuple[str, str]]:
    from monai.networks import nets

    for name, found in sorted(vars(nets).items()):
        if isinstance(found, type) and issubclass(found, nn.Module) and found.__name__ == name:
            yield name, found.__module__.rpartition(".")[2]


def _monai(name: str, shrink: int) -> Built:
    from monai.networks import nets

    size = 64 // shrink
    values = {**_OF_MONAI, "img_size": (size,) * 3, "input_size": (size,) * 3}
    every = inspect.signature(getattr(nets, name)).parameters
    needed = [p for p in every.values() if p.default is p.empty]
    named = [p.name for p in needed if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if missing := [name for name in named if name not in values]:
        raise Unfit(f"no general value for {', '.join(missing)}")
    random_weights = {"pretrained": False} if "pretrained" in every else {}
    module = getattr(nets, name)(**{name: values[name] for name in named}, **random_weights)
    return Built(module, {"x": _image(size, 1, 3)})


def _transformers_names() -> Iterator[tuple[str, str]]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    yield from ((name, f"{name} of transformers") for name in sorted(MODEL_MAPPING_NAMES))


def _transformers(name: str, shrink: int) -> Built:
    import transformers

    config = transformers.CONFIG_MAPPING[name]()
    size = getattr(config, "image_size", None) or 224
    size = (size if isinstance(size, int) else size[0]) // shrink
    if hasattr(config, "image_size"):
        config.image_size = size if isinstance(config.image_size, int) else type(config.image_size)((size, size))
    config.use_cache = False
    module = transformers.AutoModel.from_config(config, attn_implementation="eager")
    kind = module.main_input_name
    if not any(isinstance(part, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) for part in module.modules()):
        raise Unfit("no convolution")
    if kind == "pixel_values":
        return Built(module, {kind: _image(size, getattr(config, "num_channels", 3))})
    if kind == "input_values":
        return Built(module, {kind: torch.randn(1, 16000 // shrink)})
    raise Unfit(f"its input is {kind}")


def _diffusers_names() -> Iterator[tuple[str, str]]:
    import diffusers

    for name in sorted(dir(diffusers.models)):
        member = getattr(diffusers.models, name)
        if isinstance(member, type) and issubclass(member, diffusers.ModelMixin):
            yield name, f"{name} of diffusers"


def _diffusers(name: str, shrink: int) -> Built:
    import diffusers

    module = getattr(diffusers.models, name)()
    if not any(isinstance(part, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) for part in module.modules()):
        raise Unfit("no convolution")
    config = module.config
    inputs: Inputs = {}
    for each in inspect.signature(module.forward).parameters.values():
        if each.name in ("sample", "x"):
            axes = 3 if any(isinstance(part, nn.Conv3d) for part in module.modules()) else 2
            own = config.get("sample_size") or 64
            inputs[each.name] = _image((own if isinstance(own, int) else own[0]) // shrink, config["in_channels"], axes)
        elif each.name in ("timestep", "timesteps"):
            inputs[each.name] = torch.tensor([10])
        elif each.name == "encoder_hidden_states" and each.default is each.empty:
            inputs[each.name] = torch.randn(1, 16, config["cross_attention_dim"])
        elif each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            raise Unfit(f"no general value for {each.name}")
    return Built(module, inputs)


NAMES: Final[Mapping[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    "timm": _timm_names,
    "torchvision": _torchvision_names,
    "segmentation_models_pytorch": _segmentation_names,
    "monai": _monai_names,
    "transformers": _transformers_names,
    "diffusers": _diffusers_names,
}
BUILDERS: Final[Mapping[str, Callable[[str, int], Built]]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "segmentation_models_pytorch": _segmentation,
    "monai": _monai,
    "transformers": _transformers,
    "diffusers": _diffusers,
}


# --- drawing ---


def fitting(package: str, name: str) -> dict[str, Any]:
    """How much a model is made smaller, its inputs' shapes, parameters and products, counted without numbers.

    Raises:
        Unfit: it cannot be built as such, or is too large at all sizes.
    """
    shrink, reason = 1, ""
    while True:
        try:
            with torch.device("meta"):
                module, inputs = BUILDERS[package](name, shrink)
            parameters = sum(p.numel() for p in module.parameters())
            if parameters > MOST_PARAMETERS:
                raise Unfit(f"{parameters / 1e6:.0f} M parameters")
            least = min((min(x.shape[2:]) for x in inputs.values() if x.ndim > 3), default=LEAST_EXTENT)
            if least < LEAST_EXTENT:
                raise Unfit(reason)
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                module.eval()(**_named(module, inputs))
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(reason or f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:160]) from error
        gmac = counter.get_total_flops() / 2e9
        if gmac <= MOST_GMAC:
            shapes = {key: list(x.shape) for key, x in inputs.items()}
            return {"shrink": shrink, "inputs": shapes, "parameters": parameters, "gmac": round(gmac, 3)}
        shrink, reason = 2 * shrink, f"{gmac:.1f} GMAC at its least size"


def _named(module: nn.Module, inputs: Inputs) -> Inputs:
    """Under the names that the module has for them: a single one is called differently everywhere."""
    if len(inputs) > 1:
        return inputs
    first = next(iter(inspect.signature(module.forward).parameters))
    return dict(zip((next(iter(inputs)) if first in ("args", "kwargs") else first,), inputs.values(), strict=True))


def draw() -> None:
    rng = random.Random(SEED)
    drawn, passed, families = [], [], {}
    for package, count in COUNTS.items():
        names = sorted(NAMES[package]())
        rng.shuffle(names)
        wanted = count
        for name, family in names:
            if not wanted:
                break
            if ZOO.search(name) or families.get(family, 0) == MOST_OF_A_FAMILY:
                continue
            try:
                fit = fitting(package, name)
            except Unfit as error:
                passed.append({"package": package, "name": name, "reason": str(error)})
                continue
            families[family] = families.get(family, 0) + 1
            drawn.append({"package": package, "name": name, "family": family, **fit})
            wanted -= 1
            print(drawn[-1], flush=True)
    versions = {package: importlib.metadata.version(package) for package in COUNTS}
    lists = {"models": drawn, "passed_over": passed}
    lines = [f' "seed": {SEED}', f' "versions": {json.dumps(versions)}']
    for key, rows in lists.items():
        lines.append(f' "{key}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]")
    DRAWN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


# --- measuring ---


def seeded(module: nn.Module) -> nn.Module:
    """In eval mode, constant parameters and statistics made to vary: scales of 0 would leave nothing to compute."""
    with torch.no_grad():
        for key, value in module.state_dict().items():
            if not value.is_floating_point() or not value.numel() or value.min() != value.max():
                continue
            noise = 0.1 * torch.randn(value.shape)
            value.add_(noise.abs() if key.endswith("running_var") else noise)
    return module.eval().requires_grad_(False)


class Flat(nn.Module):
    """Gives the tensors of what a model returns, whatever holds them."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(_tensors(self.module(**dict(zip(self.names, inputs, strict=True)))))


def _tensors(made: Any) -> Iterator[Tensor]:
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, Mapping):
        yield from _tensors(list(made.values()))
    elif isinstance(made, list | tuple):
        for each in made:
            yield from _tensors(each)
    elif hasattr(made, "__dict__"):
        yield from _tensors(vars(made))


class Case(NamedTuple):
    module: Flat
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor]
    path: Path
    exporter: str


def _case(row: Mapping[str, Any], folder: Path) -> Case:
    torch.manual_seed(SEED)
    module, inputs = BUILDERS[row["package"]](row["name"], row["shrink"])
    named = _named(module, inputs)
    flat, given = Flat(seeded(module), list(named)).eval(), tuple(named.values())
    with torch.inference_mode():
        torch.manual_seed(SEED)
        outputs = list(flat(*given))
    path = folder / f"{re.sub('[^a-z0-9]+', '_', row['name'].lower())}.onnx"
    exporter = path.with_suffix(".txt")
    if not exporter.exists():
        exporter.write_text(_exported(flat, given, path))
    return Case(flat, given, outputs, path, exporter.read_text())


def _exported(module: nn.Module, given: tuple[Tensor, ...], path: Path) -> str:
    """Writes a file by the first exporter whose file ONNX Runtime takes."""
    import onnxruntime

    names = [f"x{number}" for number in range(len(given))]
    said = []
    options: dict[str, dict[str, Any]] = {
        "by tracing": {"dynamo": False, "opset_version": 17},
        "by torch.export": {"dynamo": True, "external_data": False, "verbose": False},
    }
    for exporter, more in options.items():
        try:
            with torch.inference_mode(not more["dynamo"]):
                torch.onnx.export(module, given, str(path), input_names=names, **more)
            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:
            said.append(f"{exporter}: {type(error).__name__}: {error}".splitlines()[0][:200])
        else:
            return exporter
    raise RuntimeError(f"no export: {'; '.join(said)}")


def runs(case: Case, inductor: bool) -> Iterator[tuple[str, Callable[[], tuple[Run, Callable[[], Any]]]]]:
    """Yields a name and what prepares a run of it: a call and what then reads its outputs."""
    import dnnl_graph_ops as dgo

    feeds = {f"x{number}": x.numpy() for number, x in enumerate(case.inputs)}

    def ours() -> tuple[Run, Callable[[], Any]]:
        net = dgo.from_onnx(str(case.path)).compile()
        taken = [feeds[name] for name in net.input_names]
        outputs = net(*taken)
        return lambda: net(*taken, out=outputs), lambda: outputs if isinstance(outputs, tuple) else [outputs]

    yield "ours", ours

    def onnxruntime() -> tuple[Run, Callable[[], Any]]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(case.path), options, providers=["CPUExecutionProvider"])
        taken = {each.name: feeds[each.name] for each in session.get_inputs()}
        return lambda: session.run(None, taken), lambda: session.run(None, taken)

    yield "onnxruntime", onnxruntime

    def openvino(precision: str) -> tuple[Run, Callable[[], Any]]:
        import openvino

        settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        hint = {"INFERENCE_PRECISION_HINT": precision} if precision else {}
        model = openvino.Core().compile_model(str(case.path), "CPU", {**settings, **hint, "ENABLE_CPU_PINNING": False})
        request = model.create_infer_request()
        taken = {each.get_any_name(): feeds[each.get_any_name()] for each in model.inputs}
        return lambda: request.infer(taken, share_inputs=True), lambda: [x.data.copy() for x in request.output_tensors]

    yield "openvino", lambda: openvino("f32")
    yield "openvino default", lambda: openvino("")

    def eager(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Run, Callable[[], Any]]:
        def run() -> list[Any]:
            with torch.inference_mode():
                return [x.numpy(force=True) for x in module(*given)]

        return run, run

    yield "torch", lambda: eager(case.module, case.inputs)

    def last() -> tuple[Run, Callable[[], Any]]:
        forms = {4: torch.channels_last, 5: torch.channels_last_3d}
        axes = max((p.ndim for p in case.module.parameters()), default=0)
        if axes not in forms:
            raise Unfit("no channels-last format")
        module = case.module.to(memory_format=forms[axes])
        plain = torch.contiguous_format
        return eager(module, tuple(x.contiguous(memory_format=forms.get(x.ndim, plain)) for x in case.inputs))

    yield "torch channels last", last
    if inductor:
        yield "inductor", lambda: eager(_compiled(case), case.inputs)


def _compiled(case: Case) -> nn.Module:
    import torch._inductor.config

    torch._inductor.config.freezing = True
    compiled: nn.Module = torch.compile(case.module)
    return compiled


def one(row: Mapping[str, Any], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """A row of results: medians of milliseconds, and by rival the median of the ratios of the rounds."""
    import dnnl_graph_ops as dgo

    torch.set_num_threads(1)
    dgo.set_num_threads(1)
    result: dict[str, Any] = {"package": row["package"], "name": row["name"], "gmac": row["gmac"]}
    try:
        case = _case(row, folder)
    except Exception as error:
        return {**result, "failed": f"{type(error).__name__}: {error}"[:500]}
    result["exporter"] = case.exporter
    prepared: dict[str, Run] = {}
    errors, failures = {}, {}
    wanted = [np.asarray(x, np.float64) for x in case.outputs]
    scale = max((float(np.abs(x).max()) for x in wanted if x.size), default=0.0) or 1.0
    for name, prepare in runs(case, options.inductor):
        try:
            begin = time.perf_counter()
            run, read = prepare()
            run()
            arrays = [np.asarray(x, np.float64) for x in read()]
            if len(arrays) == len(wanted):
                pairs = zip(arrays, wanted, strict=True)
                errors[name] = max(float(np.abs(a - b.reshape(a.shape)).max(initial=0)) / scale for a, b in pairs)
            prepared[name] = run
            print(f"{name} {time.perf_counter() - begin:.1f} s", file=sys.stderr)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    result |= {"errors": {key: float(f"{value:.1e}") for key, value in errors.items()}, "failures": failures}
    if "ours" not in prepared:
        return result
    times = rounds(prepared)
    result["ms"] = {name: round(1e3 * statistics.median(some), 3) for name, some in times.items()}
    result["ratios"] = {
        name: [round(b / a, 3) for a, b in zip(times["ours"], some, strict=True)] for name, some in times.items()
    }
    del result["ratios"]["ours"]
    return result


def rounds(prepared: Mapping[str, Run]) -> dict[str, list[float]]:
    """Process seconds of a call, in rounds in which all take turns."""
    counts = {}
    for name, run in prepared.items():
        begin = time.process_time()
        run()
        counts[name] = max(1, int(0.03 / max(time.process_time() - begin, 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in prepared}
    end = time.monotonic() + ROUNDS_SECONDS
    while len(times["ours"]) < 6 or (time.monotonic() < end and len(times["ours"]) < 25):
        for name, run in prepared.items():
            run()  # its caches were another's
            begin = time.process_time()
            for _ in range(counts[name]):
                run()
            times[name].append((time.process_time() - begin) / counts[name])
    return times


def measure(options: argparse.Namespace) -> None:
    """Each model in a process of its own; the file of results is written after each."""
    rows = json.loads(DRAWN.read_text())["models"]
    results = json.loads(options.times.read_text())["rows"] if options.times.exists() else []
    by_model = {(row["package"], row["name"]): row for row in results}
    for row in rows:
        key = row["package"], row["name"]
        if (options.names and row["name"] not in options.names) or (key in by_model and not options.names):
            continue
        command = [sys.executable, __file__, "one", json.dumps(row), "--folder", str(options.folder)]
        command += ["--inductor"] if options.inductor else []
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
            lines = [line for line in done.stdout.splitlines() if line.startswith('{"package"')]
            failed = f"ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        except subprocess.TimeoutExpired:
            lines, failed = [], f"took more than {options.seconds} s"
        result = json.loads(lines[-1]) if lines else {"package": key[0], "name": key[1], "failed": failed}
        by_model[key] = result
        every = [by_model[key] for key in ((row["package"], row["name"]) for row in rows) if key in by_model]
        head = {"cpu": options.cpu, "threads": 1, "dtype": "f32", "date": time.strftime("%Y-%m-%d"), "method": METHOD}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        lines.append(' "rows": [\n' + ",\n".join(f"  {json.dumps(each)}" for each in every) + "\n ]")
        options.times.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{row['name']}: {best(result)}", flush=True)


METHOD: Final = "process seconds, one thread, 6 to 25 rounds in which all take turns; ratios of a round: theirs by ours"


def best(result: Mapping[str, Any]) -> tuple[float, str]:
    """The median ratio of the fastest f32 rival, and which it is; or NaN and the reason."""
    if "ms" not in result:
        return float("nan"), result.get("failed") or str(result["failures"].get("ours"))
    medians = {name: statistics.median(some) for name, some in result["ratios"].items() if name in RIVALS}
    name = min(medians, key=medians.__getitem__)
    return round(medians[name], 3), name


def table(options: argparse.Namespace) -> None:
    """Prints a row for each model, the least ratio first, and geometric means by package."""
    every = json.loads(options.times.read_text())["rows"]
    timed = sorted((row for row in every if "ms" in row), key=lambda row: best(row)[0])
    means: dict[str, list[float]] = {}
    print("| model | package | GMAC | ms | best rival | which | within | OpenVINO at its default | PyTorch |")
    print("|---|---|---:|---:|---:|---|---|---:|---:|")
    for row in timed:
        ratio, name = best(row)
        means.setdefault(row["package"], []).append(ratio)
        low, _, high = np.percentile(row["ratios"][name], (10, 50, 90))
        others = [statistics.median(row["ratios"].get(each, [float("nan")])) for each in ("openvino default", "torch")]
        cells = [row["name"], row["package"], row["gmac"], f"{row['ms']['ours']:.2f}", f"{ratio:.2f}", name]
        cells += [f"{low:.2f} to {high:.2f}", *(f"{other:.2f}" for other in others)]
        print(f"| {' | '.join(map(str, cells))} |")
    for row in every:
        if "ms" not in row:
            print(f"| {row['name']} | {row['package']} | | {best(row)[1][:160]} | | | | | |")
    for package, ratios in {**means, "all": [best(row)[0] for row in timed]}.items():
        print(f"{package}: {statistics.geometric_mean(ratios):.2f} of {len(ratios)}")
    errors = [row["errors"]["ours"] for row in timed if "ours" in row["errors"]]
    print(f"results differ from PyTorch's by {max(errors):.1e} of the largest at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("draw", "measure", "one", "table"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path("packages_onnx"), help="where the exported files are kept")
    parser.add_argument("--times", type=Path, default=TIMES / "zen5_f32.json")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at most, for a model")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--cpu", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what in ("draw", "one"):
        _operators()
    if options.what == "draw":
        draw()
    elif options.what == "measure":
        measure(options)
    elif options.what == "table":
        table(options)
    elif options.what == "one":
        print(json.dumps(one(json.loads(options.names[0]), options.folder, options)))


if __name__ == "__main__":
    main()

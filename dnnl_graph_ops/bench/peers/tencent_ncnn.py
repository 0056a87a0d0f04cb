"""ncnn in f32: a net of one layer, run by an Extractor with everything in ncnn's own packed layout.

Weights are packed when the net is loaded. src is packed before (16, 8 or 4 channels together, as ncnn itself chooses)
and dst is left packed, buffers come from pools: what an inner layer of a net costs, no copy in or out is timed. Minimal
filtering and the products of blocks stay on as by default; anything that stores or computes below f32 is off.
"""

from __future__ import annotations

import tempfile

import ncnn  # type: ignore[import-untyped, import-not-found, unused-ignore]
import numpy as np

from ...errors import Error, UnsupportedError
from ..problem import Problem
from .task import Prepared, Task, keeping

_KINDS = {"conv": "Convolution", "conv_transpose": "Deconvolution"}
_RANKS = ("1D", "", "3D")
_OFF = (
    "use_fp16_packed",
    "use_fp16_storage",
    "use_fp16_arithmetic",
    "use_bf16_packed",
    "use_bf16_storage",
    "use_int8_inference",
    "use_int8_packed",
    "use_int8_storage",
    "use_int8_arithmetic",
    "use_vulkan_compute",
)
# what it lays out is freed into them: they live as long as the process
_POOLS = (ncnn.PoolAllocator(), ncnn.PoolAllocator())
_UNPACKED, _AS_COMPUTED = 1, 1


def versions() -> dict[str, str]:
    return {"ncnn": ncnn.__version__}


def prepare(task: Task) -> Prepared:
    if task.weights != "constant":
        raise UnsupportedError("its weights are packed when a net is loaded: constant ones only")
    for pool in _POOLS:
        pool.clear()
    operands, problem = task.operands(), task.problem
    net = ncnn.Net()
    net.opt.num_threads = task.threads
    net.opt.blob_allocator, net.opt.workspace_allocator = _POOLS
    for name in _OFF:
        if hasattr(net.opt, name):
            setattr(net.opt, name, False)
    if net.load_param_mem(_description(task)) != 0:
        raise UnsupportedError(f"no layer {_kind(problem)} with these sizes")
    with tempfile.NamedTemporaryFile() as file:
        # a mark of 0: the numbers of the weights follow as they are
        file.write(bytes(4) + _weights(problem, operands["weights"]).tobytes())
        file.write(operands["bias"].tobytes() if "bias" in operands else b"")
        file.flush()
        if net.load_model(file.name) != 0:
            raise Error("ncnn did not load the weights")
    given = ncnn.Mat(operands["src"], batch_index=0).clone()
    src = _run(net, "given", given, "src")

    def read(out: ncnn.Mat) -> np.ndarray:
        plain = ncnn.convert_packing(out, _UNPACKED, net.opt)
        images = [np.array(plain.batch(i)) for i in range(problem.batch)]
        return np.stack(images).reshape(problem.dst_shape())

    prepared = keeping(lambda: _run(net, "src", src, "dst"), read, "")
    prepared.run()
    prepared.hold = (net, src)
    prepared.detail = f"{_kind(problem)}, src in packs of {src.elempack}"
    return prepared


def _run(net: ncnn.Net, given: str, mat: ncnn.Mat, wanted: str) -> ncnn.Mat:
    extractor = net.create_extractor()
    extractor.input(given, mat)
    status, out = extractor.extract(wanted, _AS_COMPUTED)
    if status != 0:
        raise Error(f"ncnn ended with status {status}")
    return out


def _kind(problem: Problem) -> str:
    return _KINDS[problem.op] + ("DepthWise" if problem.groups > 1 else "") + _RANKS[problem.rank - 1]


def _weights(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """By group, outputs before inputs."""
    if not problem.transposed:
        return weights
    return np.ascontiguousarray(np.swapaxes(weights.reshape(problem.groups, -1, *weights.shape[1:]), 1, 2))


def _description(task: Task) -> str:
    """The net in ncnn's text format. What does nothing, a Dropout, is a place to have src packed; sizes are hints."""
    problem = task.problem
    biased = int(problem.bias and task.direction == "fwd")
    numbers = {0: problem.out_channels, 5: biased, 6: int(np.prod(problem.weights_shape)), 7: problem.groups}
    if problem.groups == 1:
        del numbers[7]
    for place, axis in enumerate(reversed(problem.axes)):
        keys = (1 + 10 * place, 2 + 10 * place, 3 + 10 * place, 4 + 10 * place, 15 + place)
        values = (axis.kernel, axis.dilation, axis.stride, axis.pad_begin, axis.pad_end)
        numbers |= dict(zip(keys, values, strict=True))
        if problem.transposed:
            numbers[18 + place] = axis.output_padding
    said = " ".join(f"{key}={value}" for key, value in sorted(numbers.items()))
    before, after = (_hint(shape) for shape in (problem.src_shape(), problem.dst_shape()))
    lines = (
        f"Input given 0 1 given {before}",
        f"Dropout pack 1 1 given src {before}",
        f"{_kind(problem)} layer 1 1 src dst {said} {after}",
    )
    return "\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n"


def _hint(shape: tuple[int, ...]) -> str:
    """The shape of one image, innermost first; an array of four numbers, or of five for a 3D one."""
    sizes = [len(shape) - 1, *reversed(shape[1:])]
    sizes += [1] * (4 - len(sizes))
    return f"-23330={len(sizes)},{','.join(map(str, sizes))}"

"""The package's own peers: what the entry point `dnnl_graph_ops.bench_peers` of its distribution names."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .registry import LENIENT, LITERAL, OPTIMIZED, OWN, TORCH, Peer

_ALL = ("fwd", "bwd_d", "bwd_w")
_HERE = __name__.rpartition(".")[0]

_TORCH_MODELS: Final = f"{_HERE}.pytorch_models"
# constants folded into the compiled function, as the other runtimes do with theirs
_FROZEN: Final = {"TORCHINDUCTOR_FREEZING": "1"}
_OURS = Peer(
    OWN,
    f"{_HERE}.own",
    directions=_ALL,
    dtypes=("f32", "bf16", "f16", "int8"),
    layouts=("NXC", "NCX"),
    default=False,
    models=f"{_HERE}.own_models",
    ours=True,
)
_INSIDE_TORCH = Peer(
    OPTIMIZED,
    "",
    (TORCH,),
    directions=(),
    dtypes=(),
    layouts=("NXC", "NCX"),
    default=False,
    models=_TORCH_MODELS,
    options={"form": "optimized"},
    trains=True,
    ours=True,
    # as users do: both then run on the OpenMP that PyTorch brings, and its threads wait as PyTorch has them
    first=TORCH,
)

PEERS: Final = (
    _OURS,
    # the op as oneDNN's own partition computes it
    replace(_OURS, name=LITERAL, models="", options={"tune": "off"}),
    Peer(
        TORCH,
        f"{_HERE}.pytorch",
        ("torch",),
        directions=_ALL,
        dtypes=("f32", "bf16", "f16"),
        layouts=("NXC", "NCX"),
        models=_TORCH_MODELS,
        trains=True,
    ),
    # compiles for seconds to minutes a layer: only by name
    Peer(
        "torch-compile",
        f"{_HERE}.pytorch",
        ("torch",),
        "torch, and a C++ compiler",
        dtypes=("f32", "bf16", "f16"),
        layouts=("NXC", "NCX"),
        environment=_FROZEN,
        default=False,
        models=_TORCH_MODELS,
        options={"form": "inductor"},
        trains=True,
    ),
    _INSIDE_TORCH,
    replace(_INSIDE_TORCH, name=f"{OWN}-compile", options={"form": "backend"}),
    replace(_INSIDE_TORCH, name=f"{OWN}-export", options={"form": "export"}, layouts=("NCX",), trains=False),
    Peer(
        "onnxruntime",
        f"{_HERE}.onnx_runtime",
        ("onnxruntime", "onnx"),
        "onnxruntime onnx",
        dtypes=("f32", "f16", "int8"),
        models=f"{_HERE}.onnx_runtime",
    ),
    Peer(
        "openvino",
        f"{_HERE}.open_vino",
        ("openvino", "onnx"),
        "openvino onnx",
        dtypes=("f32", "bf16", "f16", "int8"),
        models=f"{_HERE}.open_vino",
    ),
    # whole models in the precision that it chooses itself, bf16 where the CPU has it
    Peer(
        LENIENT,
        "",
        ("openvino",),
        directions=(),
        dtypes=(),
        tolerance=0.2,
        models=f"{_HERE}.open_vino",
        options={"hint": "default"},
    ),
    Peer("ncnn", f"{_HERE}.tencent_ncnn", ("ncnn",), layouts=("packed",), tolerance=1e-4),
    Peer(
        "mnn",
        f"{_HERE}.alibaba_mnn",
        ("MNN", "onnx"),
        "MNN onnx",
        layouts=("packed",),
        tolerance=5e-3,
        models=f"{_HERE}.alibaba_mnn",
    ),
)

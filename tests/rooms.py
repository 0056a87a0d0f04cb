"""Where the tests of a room are: `python tests/rooms.py ROOM...` prints their paths, in the folder tests."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PACKAGE, KERNELS = ROOT / "dnnl_graph_ops", ROOT / "bindings" / "kernels"
# rooms whose tests are not, or not all, in the folder of tests/ that has their name
ELSEWHERE = {
    "ir": ("test_wiring.py", "rewrites"),
    "passes": ("passes", "rewrites"),
    # a folder torch/ would hide PyTorch
    "torch": ("pytorch",),
    # a folder onnxruntime/ would hide ONNX Runtime
    "onnxruntime": ("ort",),
    "trial": ("onednn/test_exact_int8.py", "program/test_post_op_errors.py"),
    "bindings/library": ("bindings", "runtime"),
    "bindings/memory": ("bindings", "device", "test_memory.py"),
    "bindings/calls": ("bindings", "pytorch/test_calls.py", "nn"),
    "kernels/attention": ("bindings/test_attention.py", "bindings/test_rotary.py"),
    "kernels/col2im": ("bindings/test_im2col.py", "bindings/test_col2im_product.py"),
    "kernels/copy": ("bindings/test_kernels_copy.py",),
    "kernels/depthwise": ("bindings/test_kernels_depthwise.py", "bindings/test_int8_depthwise.py"),
    "kernels/dot": (
        "bindings/test_bf16_product.py",
        "bindings/test_bf16_gradient.py",
        "bindings/test_bf16_winograd.py",
        "bindings/test_int8_product.py",
    ),
    "kernels/elementwise": (
        "bindings/test_elementwise.py",
        "bindings/test_elementwise_int.py",
        "bindings/test_select.py",
        "bindings/test_kernels_isfinite.py",
    ),
    "kernels/epilogue": ("bindings/test_epilogue.py", "bindings/test_kernel_epilogues.py"),
    "kernels/few_channels": ("bindings/test_few_channels.py",),
    "kernels/filtering": (
        "bindings/test_filter_product.py",
        "bindings/test_filter_lines.py",
        "bindings/test_kernels_groups.py",
    ),
    "kernels/im2col": ("bindings/test_im2col.py",),
    "kernels/indices": ("bindings/test_indices.py", "bindings/test_gather.py", "bindings/test_topk.py"),
    "kernels/isa": ("bindings/test_isa.py", "bindings/test_isa_symbols.py", "bindings/test_trapped.py"),
    "kernels/norm": ("backends/test_norm.py",),
    "kernels/product": (
        "bindings/test_kernel_rooms.py",
        "bindings/test_filter_product.py",
        "bindings/test_bf16_product.py",
        "bindings/test_work.py",
    ),
    "kernels/recurrent": ("bindings/test_recurrent.py",),
    "kernels/rows": ("bindings/test_row_product.py",),
    "kernels/scan": ("bindings/test_cumsum.py",),
    "kernels/window": ("backends/test_window.py", "backends/test_integer_window.py"),
}


def rooms() -> list[str]:
    """Returns the rooms of the package, and those of the kernels."""
    return [
        *(path.name for path in sorted(PACKAGE.iterdir()) if list(path.glob("*.py"))),
        "bindings",
        *(f"kernels/{path.name}" for path in sorted(KERNELS.iterdir()) if path.is_dir()),
    ]


def paths_of(room: str) -> tuple[str, ...]:
    """Returns the paths of a room's tests; raises LookupError if there are none. Any path in tests/ is a room too."""
    paths = ELSEWHERE.get(room, (room,))
    if not all((TESTS / path).exists() for path in paths):
        raise LookupError(f"no tests of {room!r}; rooms: {' '.join(sorted({*rooms(), *ELSEWHERE}))}")
    return paths


if __name__ == "__main__":
    try:
        print(*dict.fromkeys(path for room in sys.argv[1:] for path in paths_of(room)), sep="\n")
    except LookupError as error:
        raise SystemExit(str(error)) from None

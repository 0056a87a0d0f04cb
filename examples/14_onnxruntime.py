"""ONNX Runtime's sessions whose convolutions run here: by `register()`, and by `install()` where code asks for the CPU.

A decoder of transposed convolutions, of dynamic sizes, timed, and compared with ONNX Runtime's CPU provider.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from statistics import median

import numpy as np

try:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"nothing to show: {error} (pip install '.[onnxruntime]')")
    sys.exit(0)
import dnnl_graph_ops as dgo
import dnnl_graph_ops.onnxruntime as dgr

WIDTHS, ROUNDS, TOLERANCE = (64, 48, 32, 16), 7, 1e-4


def decoder() -> bytes:
    """Three steps that double the extents, with random weights."""
    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for i, (inside, outside) in enumerate(pairwise(WIDTHS)):
        w = rng.standard_normal((inside, outside, 4, 4), np.float32) / np.float32(np.sqrt(4 * inside))
        weights.append(numpy_helper.from_array(w, f"w{i}"))
        nodes.append(helper.make_node("ConvTranspose", [name, f"w{i}"], [f"up{i}"], strides=[2, 2], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"up{i}"], [name := f"y{i}"]))
    given, result = (
        helper.make_tensor_value_info(title, TensorProto.FLOAT, ["n", width, f"{title}_h", f"{title}_w"])
        for title, width in (("x", WIDTHS[0]), (name, WIDTHS[-1]))
    )
    graph = helper.make_graph(nodes, "decoder", [given], [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    content: bytes = model.SerializeToString()
    return content


def options() -> onnxruntime.SessionOptions:
    """As many threads for ONNX Runtime's nodes as for the package's."""
    found = onnxruntime.SessionOptions()
    found.intra_op_num_threads = dgo.get_num_threads()
    return found


def milliseconds(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    return 1e3 * median(times)


def main() -> int:
    model = decoder()
    try:
        devices = dgr.register()
    except dgo.Error as error:
        print(f"nothing to show: {error}")
        return 0
    plain = onnxruntime.InferenceSession(model, options(), providers=["CPUExecutionProvider"])
    chosen = options()
    chosen.add_provider_for_devices(devices, {})
    asked = onnxruntime.InferenceSession(model, chosen)
    with dgr.install():
        # as a library does it
        unasked = onnxruntime.InferenceSession(model, options(), providers=["CPUExecutionProvider"])
    print("providers:", ", ".join(asked.get_providers()))
    worst = 0.0
    for size in (16, 24, 40):
        feeds = {"x": np.random.default_rng(size).standard_normal((1, WIDTHS[0], size, size), np.float32)}
        expected = plain.run(None, feeds)[0]
        for session in (asked, unasked):
            worst = max(worst, float(np.abs(session.run(None, feeds)[0] - expected).max()))
        before, after = (milliseconds(session, feeds) for session in (plain, asked))
        print(f"{size} x {size}: {before:.2f} ms with ONNX Runtime's CPU provider, {after:.2f} ms with this one")
    print(f"largest difference: {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())

"""The same bits from run to run and from process to process, and where threads or the batch change them."""

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.lowering import lower, registry
from dnnl_graph_ops.lowering.env import Env
from dnnl_graph_ops.lowering.family import DIRECTIONS, make_problem
from dnnl_graph_ops.lowering.problem import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD
from dnnl_graph_ops.lowering.program import Place, Program, argument
from dnnl_graph_ops.strides import dense_strides

KINDS = {direction: kind for kind, direction in DIRECTIONS.items() if kind != "ConvTransposeBackpropFilters"}

# operands and result
TENSORS = {
    FORWARD: ("src", "weights", "dst"),
    BACKWARD_DATA: ("dst", "weights", "src"),
    BACKWARD_WEIGHTS: ("src", "dst", "weights"),
}
# batch, in channels, out channels, src, kernel, stride, pads, groups, data format
LAYERS = {
    "k4 s2": (3, 64, 64, (20, 20), 4, 2, 1, 1, "NXC"),
    "k4 s2 NCX": (3, 64, 64, (20, 20), 4, 2, 1, 1, "NCX"),
    "narrow": (2, 16, 4, (64, 64), 4, 2, 1, 1, "NXC"),
    "depthwise": (2, 64, 64, (32, 32), 4, 2, 1, 64, "NXC"),
    "k3 s1": (3, 32, 48, (24, 24), 3, 1, 1, 1, "NXC"),
    "1d": (2, 96, 64, (200,), 16, 8, 4, 1, "NXC"),
    "k2 s2": (2, 64, 32, (40, 40), 2, 2, 0, 1, "NXC"),
    "1x1": (2, 64, 96, (30, 30), 1, 1, 0, 1, "NXC"),
    "3d": (2, 32, 16, (8, 8, 8), 4, 2, 1, 1, "NXC"),
    "image": (2, 64, 3, (64, 64), 4, 2, 1, 1, "NXC"),
    "deep": (4, 256, 256, (4, 4), 4, 2, 1, 1, "NXC"),
    "groups": (2, 128, 128, (12, 12), 4, 2, 1, 4, "NXC"),
}

# Sums over positions are split among threads; what the library does with its own is its own affair. README says it.
WITH_THREADS = {BACKWARD_WEIGHTS: {form.name for form in registry.FORMULATIONS}, FORWARD: {"deconvolution"}}
WITH_BATCH = {FORWARD: {"deconvolution"}}


def shapes_of(layer):
    batch, ic, oc, src, kernel, stride, pads, groups, data_format = layer
    dst = [stride * (n - 1) + kernel - 2 * pads for n in src]
    x, y = ((batch, *s, c) if data_format == "NXC" else (batch, c, *s) for s, c in ((src, ic), (dst, oc)))
    return {"src": x, "weights": (*[kernel] * len(src), oc // groups, ic), "dst": y}


def run(form, layer, data, threads):
    """What a form makes of a layer, twice; None where it does not apply."""
    shapes = shapes_of(layer)
    *operands, made = TENSORS[form.direction]
    arrays = [data[name] if name == "weights" else data[name][: layer[0]] for name in operands]
    result = np.full(shapes[made], np.nan, np.float32)
    views = [argument(Place.INPUT, "f32", a.shape, dense_strides(a.shape), i) for i, a in enumerate(arrays)]
    output = argument(Place.OUTPUT, "f32", result.shape, dense_strides(result.shape))
    attrs = {"strides": layer[5], "pads_begin": layer[6], "pads_end": layer[6], "groups": layer[7]}
    attrs |= {"data_format": layer[8], "weights_format": "XOI"}
    kind = KINDS[form.direction]
    problem = make_problem(kind, attrs, views, output)
    env = Env(dgo.engine("cpu"), threads)
    if not form.applies(problem, env):
        return None
    program = Program()
    lower.build(program, problem, form, env)
    executor = assemble(program, views, [output], env.engine, macs=problem.macs, threads=threads).executor
    results = []
    for _ in range(2):
        result.fill(np.nan)
        executor.run(arrays, [result])
        results.append(result.tobytes())
    assert results[0] == results[1], f"{form.name} twice"
    return result


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("direction", KINDS)
def test_every_form_gives_the_same_bits(direction, name):
    """Twice in a run; with other threads and in another batch unless its name is on a list."""
    layer = LAYERS[name]
    rng = np.random.default_rng(3)
    data = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes_of(layer).items()}
    ran = 0
    for form in registry.FORMULATIONS:
        both = run(form, layer, data, 2) if form.direction == direction else None
        if both is None:
            continue
        ran += 1
        one = run(form, layer, data, 1)
        if form.name not in WITH_THREADS.get(direction, ()):
            assert one.tobytes() == both.tobytes(), f"{form.name} with one thread"
        if direction != BACKWARD_WEIGHTS and form.name not in WITH_BATCH.get(direction, ()):
            first = run(form, (1, *layer[1:]), data, 2)
            assert first is None or first.tobytes() == both[:1].tobytes(), f"{form.name} in a batch of one"
    assert ran > 1


CALLS = """
import hashlib, json, sys
import numpy as np
import dnnl_graph_ops as dgo

rng = np.random.default_rng(5)
digests = []
for ic, oc, size, kernel, stride in ((64, 64, (20, 20), 4, 2), (96, 64, (200,), 16, 8), (64, 3, (48, 48), 4, 2)):
    x = rng.standard_normal((2, *size, ic)).astype(np.float32)
    w = rng.standard_normal((*[kernel] * len(size), oc, ic)).astype(np.float32)
    attrs = {"strides": stride, "pads_begin": 1, "pads_end": 1, "weights_format": "XOI"}
    graph = dgo.Graph()
    src = graph.input("src", x.shape)
    net = graph.compile(dgo.ops.relu(dgo.ops.conv_transpose(src, w, **attrs)))
    y = dgo.conv_transpose(x, w, **attrs)
    results = [net(x), y, dgo.conv_transpose_backward_data(y, w, src_shape=x.shape, **attrs)]
    results.append(dgo.conv_transpose_backward_weights(x, y, w.shape, **attrs))
    digests += [hashlib.sha256(result.tobytes()).hexdigest() for result in results]
print(json.dumps(digests))
"""


def test_two_processes_give_the_same_bits():
    first, second = (child("-c", CALLS).stdout for _ in range(2))
    assert first == second
    assert first.count(",") == 11

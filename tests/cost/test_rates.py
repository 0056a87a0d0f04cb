"""What weighs dtypes asks the rates of the CPU: bf16 is taken where it pays on this CPU, not where its name stands."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.bench.times import Elsewhere
from dnnl_graph_ops.cost import fits
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.passes.folding.estimates import comparable_seconds
from dnnl_graph_ops.runtime import cpu, rates

# products in bf16 take twice as long as in f32 on the first, half as long on the second
SLOW, FAST = "emerald_rapids", "emerald_rapids_amx"


def layers() -> dict[str, dgo.Value]:
    graph = dgo.Graph()
    x = graph.input("x", (1, 28, 28, 64))
    weights = graph.input("w", (3, 3, 64, 64))
    pads = {"pads_begin": 1, "pads_end": 1}
    return {
        "convolution": ops.convolution(x, weights, **pads),
        "transposed": ops.conv_transpose(x, weights, **pads, strides=2),
        "gradient": ops.convolution_backward_weights(x, x, weights_shape=(3, 3, 64, 64), **pads),
        "product": ops.matmul(graph.input("a", (256, 512)), graph.input("b", (512, 256))),
    }


@pytest.mark.parametrize("kind", ["convolution", "transposed", "gradient", "product"])
def test_products_in_bf16_pay_by_the_rates_of_the_cpu(kind):
    """Both CPUs have the same constants, of the same instruction set."""
    node = layers()[kind].node
    gains = {}
    for machine in (SLOW, FAST):
        env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16", record=rates.package(machine))
        gains[machine] = comparable_seconds(node, "f32", env) / comparable_seconds(node, "bf16", env)
    # a layer in bf16 may run on kernels in f32, which convert
    assert gains[SLOW] < 1.2 < 1.3 < gains[FAST], gains


def test_estimates_are_told_in_seconds_of_this_cpu():
    """`clock` turns estimates, whose proportions alone decide, into seconds: the record halves, the seconds double."""
    zen5 = rates.package("zen5")
    half = replace(zen5, rates={unit: rate / 2 for unit, rate in zen5.rates.items()})
    own, slow = (Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16", record=record) for record in (zen5, half))
    implied = fits.package("avx512").rates[rates.BUILTIN_F32]
    for direction in ("fprop", "dgrad", "wgrad"):
        pace = fits.pace("avx512_core_bf16", own.release, "f32", direction)
        assert pace > 1
        # the constants are this machine's own
        assert cost.clock(direction, "f32", own) == 1 / pace
        assert cost.clock(direction, "f32", slow) == pytest.approx(2 * implied / zen5.rates[rates.BUILTIN_F32] / pace)


@pytest.mark.choice
@pytest.mark.constants("avx512_bf16")
def test_explain_and_algorithms_tell_the_same_seconds():
    graph = dgo.Graph()
    x = graph.input("x", (1, 28, 28, 64))
    net = graph.compile(ops.convolution(x, graph.constant(np.ones((3, 3, 64, 64), "f4")), pads_begin=1, pads_end=1))
    told = {info.name: info.seconds for info in net.algorithms("convolution_0")}
    listed = dict(net.explain().groups[0].candidates)
    assert listed and all(told[name] == pytest.approx(seconds) for name, seconds in listed.items())


@pytest.mark.choice
@pytest.mark.constants("avx512_bf16")
def test_explain_says_by_which_rates_it_estimated(monkeypatch):
    monkeypatch.setattr(Env, "rates", property(lambda env: rates.of(env.engine)))
    monkeypatch.setitem(rates._records, dgo.engine("cpu"), rates.package(SLOW))
    monkeypatch.setattr(cpu, "isa", lambda engine: "avx512_core_bf16")
    graph = dgo.Graph()
    x = graph.input("x", (1, 28, 28, 64), "bf16")
    net = graph.compile(ops.convolution(x, graph.input("w", (3, 3, 64, 64), "bf16"), pads_begin=1, pads_end=1))
    group = net.explain().groups[0]
    assert group.rates_from == rates.PACKAGE
    assert "at the rates of this CPU (the package): " in str(net.explain())
    monkeypatch.setitem(rates._records, dgo.engine("cpu"), rates.package("zen5"))
    assert net.explain().groups[0].rates_from == ""


MODELS = ("fsrcnn", "dcgan", "encodec_decoder", "centernet_head")
CODE = """
import json, sys
import torch
import dnnl_graph_ops as dgo
from dnnl_graph_ops.bench import zoo
shares = {}
for name in sys.argv[1:]:
    inputs = tuple(map(torch.ones, zoo.shapes(name)))
    net = dgo.from_torch(torch.export.export(zoo.build(name).eval(), inputs)).compile(precision="bf16")
    net(*(x.numpy() for x in inputs))
    explanation = net.explain()
    narrow = sum(group.compute_dtype == "bf16" for group in explanation.groups)
    shares[name] = narrow, len(explanation.wide)
print(json.dumps(shares))
"""


@pytest.mark.slow
@pytest.mark.parametrize("machine", [SLOW, FAST])
def test_models_take_bf16_where_it_pays(machine):
    """By records of other CPUs, on the constants of this one."""
    path = Path(rates.__file__).with_name(f"{machine}.json")
    done = child("-c", CODE, *MODELS, **{rates.VARIABLE: str(path)})
    shares = json.loads(done.stdout.splitlines()[-1])
    print(
        machine, {name: f"{narrow} groups in bf16, {wide} products in f32" for name, (narrow, wide) in shares.items()}
    )
    narrow, wide = map(sum, zip(*shares.values(), strict=True))
    if machine == SLOW or not cpu.computes_natively("bf16", dgo.engine("cpu")):
        assert wide > 3 * narrow
    else:
        assert narrow > 3 * wide

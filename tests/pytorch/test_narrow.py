"""Layers in 16 bits that are slower than in f32 are told: by a warning, in the log and in the report."""

import logging
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import dnnl_graph_ops.torch as dgt
from dnnl_graph_ops.runtime import rates
from dnnl_graph_ops.torch.choice import narrow
from dnnl_graph_ops.torch.choice.verdicts import Verdict
from dnnl_graph_ops.torch.layers.compute import calls

SLOW, FAST = rates.package("emerald_rapids"), rates.package("granite_rapids")
beside_f32 = sys.modules["dnnl_graph_ops.torch.report"]._beside_f32
TEXT = "bf16 is slower than f32 on this CPU: 53 against 108 GMAC/s of one thread"


@pytest.fixture(params=[SLOW, FAST, None], ids=["slow", "fast", "unknown"])
def record(request, monkeypatch):
    monkeypatch.setattr(rates, "of", lambda engine: request.param)
    narrow.tell_if_slow.cache_clear()
    calls.clear()
    yield request.param
    narrow.tell_if_slow.cache_clear()
    calls.clear()


def test_rates_of_16_bits(monkeypatch):
    def of(**known):
        rates_of = None if not known else SimpleNamespace(rates={f"builtin {name}": r for name, r in known.items()})
        monkeypatch.setattr(rates, "of", lambda engine: rates_of)
        return narrow.slowness(torch.bfloat16)

    assert of() == of(f32=9.0, bf16=9.0) == ""
    assert of(f32=9.0, bf16=8.0, f16=20.0) == "bf16 is slower than f32 on this CPU: 8 against 9 GMAC/s of one thread"
    assert of(f32=9.0) == "bf16 is slower than f32 on this CPU, which has no unit for it"
    assert narrow.slowness(torch.float32) == ""


@pytest.mark.parametrize("dtype", ["bf16", torch.bfloat16])
def test_optimize_warns(record, dtype, recwarn):
    dgt.optimize(nn.Conv1d(2, 3, 3), dtype=dtype)
    assert [str(each.message) for each in recwarn] == (
        [f"optimize: dtype={dtype!r} costs time: {TEXT}"] * (record is SLOW)
    )


@pytest.mark.parametrize("way", ["autocast", "module", "compile"])
def test_calls_are_told_once(record, way, caplog):
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3)).eval(), torch.randn(1, 2, 8)
    if way != "autocast":
        model, x = model.bfloat16(), x.bfloat16()
    torch._dynamo.reset()
    ours = torch.compile(model, backend="dnnl_graph_ops") if way == "compile" else dgt.optimize(model)
    with caplog.at_level(logging.INFO, "dnnl_graph_ops.torch.choice"), torch.no_grad():
        for _ in range(2):
            with torch.autocast("cpu", enabled=way == "autocast"):
                assert ours(x).dtype is torch.bfloat16
    assert [message for message in caplog.messages if "slower" in message] == [TEXT] * (record is SLOW)


def test_a_report_tells_of_layers_that_are_faster_in_f32():
    def verdict(ours, theirs):
        return Verdict(ours <= theirs, ours, theirs)

    assert beside_f32(verdict(2e-3, 3e-3), verdict(1e-3, 4e-3)).why == "slower than f32, which takes 1.000 ms"
    for wide in (verdict(2e-3, 4e-3), Verdict(False, why="refused")):
        assert beside_f32(verdict(2e-3, 3e-3), wide).why == "measured"


@pytest.mark.parametrize("way", ["autocast", "dtype", "module"])
def test_reports_in_16_bits(way):
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU()), torch.randn(1, 2, 8)
    if way == "module":
        model, x = model.bfloat16(), x.bfloat16()
    ours = dgt.optimize(model, **({"dtype": "bf16"} if way == "dtype" else {}))
    with torch.autocast("cpu", enabled=way == "autocast"):
        forward, *gradients = dgt.report(ours, x)
    assert forward.why == "measured" or forward.why.startswith("slower than f32, which takes ")
    assert [row.why for row in gradients] == ["measured"] * 2

"""What a notebook shows of reports, nets and graphs, and traces of profiles."""

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.drawing import listing

X = np.ones((1, 6, 6, 4), np.float32)
EMPTY = frozenset({"br", "img", "hr"})


class Elements(HTMLParser):
    """Checks that each element is closed, and collects the cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in EMPTY
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def net():
    graph = dgo.Graph(name="<first & second>")
    y = dgo.ops.convolution(graph.input("image", X.shape), np.ones((3, 3, 4, 8), np.float32), name="conv<1>")
    y = dgo.ops.convolution(dgo.ops.relu(y, name="act"), np.ones((1, 1, 8, 2), np.float32), name="last")
    return graph.compile({"result": y})


def test_a_net_shows_its_inputs_and_outputs(net):
    text = net._repr_html_()
    assert "Net &lt;first &amp; second&gt;" in text
    cells = Elements(text).cells
    assert cells[4:] == ["input", "image", "f32", "(1, 6, 6, 4)", "output", "result", "f32", "(1, 4, 4, 2)"]


def test_an_explanation_shows_groups_and_steps(net):
    said = net.explain()
    cells = Elements(said._repr_html_()).cells
    assert {"Convolution + ReLU", "conv<1>", "implementation"} <= set(cells)
    assert all(step.implementation in cells for step in said.steps)


def test_a_profile_is_no_dump(net):
    times = net.profile(X, repeat=2)
    assert repr(times) == str(times) and "StepTime" not in repr(times)
    assert isinstance(times, list)
    assert f"{max(step.seconds for step in times) * 1e3:.3f}" in Elements(times._repr_html_()).cells


def test_a_calibration_is_no_dump(net):
    found = dgo.quantize.calibrate(net, [X])
    assert repr(found) == str(found) and "LayerReport" not in repr(found)
    assert {"conv<1>", "last", "result"} <= set(Elements(found._repr_html_()).cells)


def test_a_report_of_a_choice_is_no_dump(net):
    found = net.graph.compile(dict(net.outputs), precision="auto", samples=[X], max_error=0.1)
    assert repr(found.precision_report) == str(found.precision_report)


def test_a_report_of_a_model_is_no_dump():
    torch = pytest.importorskip("torch", reason="needs the extra 'torch'")
    import dnnl_graph_ops.torch as dgt

    model = dgt.optimize(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).eval())
    found = dgt.report(model, torch.ones(1, 3, 8, 8))
    assert repr(found) == str(found) and "LayerTime" not in repr(found)
    assert {"0", "1x3x8x8", "forward"} <= set(Elements(found._repr_html_()).cells)


def test_a_graph_is_drawn_unless_it_is_too_large(net):
    root = ET.fromstring(net.graph._repr_svg_())
    assert root.tag.endswith("svg")
    graph = dgo.Graph()
    y = graph.input("x", (2,))
    for _ in range(201):
        y = dgo.ops.relu(y)
    assert graph._repr_svg_() is None


def test_showing_changes_nothing(net):
    before = listing(net.graph), net(X).tobytes(), net.plan_count()
    for item in (net, net.explain(), net.profile(X, repeat=1)):
        item._repr_html_()
    net.graph._repr_svg_()
    assert (listing(net.graph), net(X).tobytes(), net.plan_count()) == before


def checked_trace(path, times):
    """The events of a trace: complete ones with a start and a duration that follow each other on each track."""
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    assert set(record) == {"traceEvents", "displayTimeUnit"} and record["displayTimeUnit"] in ("ms", "ns")
    tracks = {}
    for event in record["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            continue
        assert event["ph"] == "X" and event["name"] and event["ts"] >= 0 and event["dur"] >= 0
        tracks.setdefault(event["tid"], []).append(event)
    for events in tracks.values():
        for one, after in pairwise(events):
            assert one["ts"] + one["dur"] == pytest.approx(after["ts"])
        assert sum(event["dur"] for event in events) == pytest.approx(1e6 * sum(step.seconds for step in times))
        assert sum(event["args"]["bytes"] for event in events) == sum(step.bytes for step in times)
    return tracks


def test_a_trace_has_the_profile_s_steps(net, tmp_path):
    times = net.profile(X, repeat=2)
    times.save(tmp_path / "trace.json")
    steps, layers = checked_trace(tmp_path / "trace.json", times).values()
    assert [event["name"] for event in steps] == [step.step for step in times]
    assert [event["args"]["ops"] for event in steps] == [list(step.ops) for step in times]
    assert {event["args"]["threads"] for event in steps} == {times.threads} == {net.explain().threads}
    assert len(layers) <= len(steps) and sum(event["args"]["steps"] for event in layers) == len(steps)
    first = next(event for event in steps if "conv<1>" in event["args"]["ops"])
    assert first["args"]["bytes"] >= X.nbytes


def test_a_trace_of_a_staged_graph(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("Relu", ["x"], ["a"]), make("Hardmax", ["a"], ["b"]), make("NonZero", ["b"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, (2, 3))], [onnx.ValueInfoProto(name="y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    times = dgo.from_onnx(model).compile().profile(np.ones((2, 3), np.float32), repeat=1)
    times.save(tmp_path / "trace.json")
    checked_trace(tmp_path / "trace.json", times)

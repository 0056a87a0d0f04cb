"""Drawings: well-formed SVG and Graphviz text, every op in it, boxes apart, colours by partition."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.drawing.layered import place

NAMESPACE = "{http://www.w3.org/2000/svg}"


def block():
    """ConvTranspose, bias and ReLU, which run as one partition."""
    graph = dgo.Graph(name="block")
    weights, bias = np.ones((2, 2, 4, 8), np.float32), np.ones(4, np.float32)
    up = dgo.ops.conv_transpose(graph.input("x", (1, 4, 4, 8)), weights, strides=2, name="up")
    return graph, dgo.ops.relu(dgo.ops.bias_add(up, bias, name="bias"), name="last")


def random_graph(rng, ops):
    graph = dgo.Graph()
    values = [graph.input("a", (2, 4, 4, 4)), graph.input("b", (2, 4, 4, 4))]
    for _ in range(ops):
        a, b = (values[-1 - int(rng.integers(min(8, len(values))))] for _ in range(2))
        values.append(dgo.ops.relu(a) if rng.random() < 0.5 else a + b)
    read = {value for node in graph.nodes for value in node.inputs}
    return graph, [value for value in values if value not in read and value.node is not None]


def boxes(svg):
    """(x, y, width, height, fill) and the words of every box."""
    found = []
    for group in ET.fromstring(svg).iter(f"{NAMESPACE}g"):
        rect = group.find(f"{NAMESPACE}rect")
        if rect is not None:
            size = tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))
            words = [text.text for text in group.findall(f"{NAMESPACE}text")]
            found.append((*size, rect.get("fill"), words))
    return found


def overlapping(found):
    return [
        (a[-1], b[-1])
        for i, a in enumerate(found)
        for b in found[:i]
        if abs(2 * (a[0] - b[0]) + a[2] - b[2]) < a[2] + b[2] and abs(2 * (a[1] - b[1]) + a[3] - b[3]) < a[3] + b[3]
    ]


def test_one_partition_has_one_colour(tmp_path):
    graph, y = block()
    net = graph.compile(y)
    svg = net.to_svg(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text(encoding="utf-8") == svg
    found = boxes(svg)
    assert [words[0] for *_, words in found] == ["x", "1 ConvTranspose", "1 BiasAdd", "1 ReLU", "last"]
    colours = [fill for *_, fill, _ in found]
    assert colours[0] == colours[-1] != colours[1] == colours[2] == colours[3]
    assert "up" in found[1][-1] and "1x8x8x4 f32" in found[1][-1]
    assert "1: ConvTranspose + BiasAdd + ReLU" in svg


def test_debug_policy_has_a_colour_for_each_op():
    graph, y = block()
    found = boxes(graph.compile(y, policy="debug").to_svg())
    assert len({fill for *_, fill, _ in found}) == 4


@pytest.mark.parametrize("ops", [3, 20, 60])
def test_boxes_are_apart_and_edges_go_down(ops, seed):
    graph, outputs = random_graph(np.random.default_rng([seed, ops]), ops)
    svg = graph.compile(outputs).to_svg()
    found = boxes(svg)
    assert len(found) >= len(outputs) + 1
    assert not overlapping(found), f"--seed={seed}"
    starts = [box[1] + box[3] for box in found]
    for path in re.findall(r"<path d='(M[^']*)' fill='none'", svg):
        numbers = [float(item) for item in re.findall(r"-?[\d.]+", path)]
        assert numbers[1] < numbers[-1] and any(abs(numbers[1] - y) < 0.2 for y in starts)


def test_long_edges_pass_beside_boxes():
    # 0 -> 1 -> 2 -> 3 and 0 -> 3: the long edge must not run through 1 and 2
    layout = place([(80.0, 40.0)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    corners = layout.routes[3][1:-1]
    assert corners
    for box in (1, 2):
        x, y = layout.centres[box]
        assert all(abs(cx - x) > 40 or abs(cy - y) > 20 for cx, cy in corners)


def test_large_graphs_are_laid_out_in_bounded_time():
    count = 3000
    edges = [(i, i + 1) for i in range(count - 1)] + [(0, i) for i in range(2, count)]
    assert len(place([(50.0, 20.0)] * count, edges).centres) == count


def test_hostile_names_are_escaped():
    graph = dgo.Graph(name='<&"\n')
    y = dgo.ops.relu(graph.input('"]; <b>&\x01', (2,)), name="</svg>")
    net = graph.compile(y)
    assert boxes(net.to_svg())[1][-1][1] == "</svg>"
    for text in (net.to_dot(), graph.to_dot()):
        assert not re.search(r'[^\\]"\]; <b>', text)


def test_dot():
    graph, y = block()
    text, coloured = graph.to_dot(), graph.compile(y).to_dot()
    for found in (text, coloured):
        assert found.startswith('digraph "block" {') and found.count("->") == 4
    assert len(set(re.findall(r'fillcolor="(#\w+)"', text))) == 1
    assert len(set(re.findall(r'fillcolor="(#\w+)"', coloured))) == 2


def test_unknown_dims_before_the_first_call():
    graph = dgo.Graph()
    y = dgo.ops.relu(graph.input("x", (None, 4)))
    svg = graph.compile(y).to_svg()
    assert "?x4 f32" in svg


@pytest.mark.parametrize("name", ["net.png", "net.pdf", "net.svg.PNG"])
def test_only_svg_is_written(name, tmp_path):
    graph = dgo.Graph()
    net = graph.compile(dgo.ops.relu(graph.input("x", (2,))))
    with pytest.raises(dgo.InvalidArgumentError, match=rf"Net.to_svg: '.*{name}' is written as SVG; give a name"):
        net.to_svg(tmp_path / name)
    assert not list(tmp_path.iterdir())
    net.to_svg(str(tmp_path / "net.SVG"))
    with pytest.raises(TypeError, match=r"Net.to_svg: 'path' must be a path or None, got int"):
        net.to_svg(1)

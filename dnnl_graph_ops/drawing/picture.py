"""Pictures of graphs: boxes for ops, inputs and outputs, edges, and the partition of each op; DOT text of pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from ..graph import Graph, Node, Value

_LONGEST = 28
# the golden angle: the step in hue from a partition to the next
_GOLDEN = 0.381966
_SHAPES = {"input": "oval", "output": "oval", "op": "box"}


@dataclass(frozen=True)
class Box:
    """A box. `part`: the number of its partition, from 1; 0 for none."""

    title: str
    lines: tuple[str, ...]
    hint: str
    role: str = "op"
    part: int = 0

    @property
    def heading(self) -> str:
        """The partition's number and the title."""
        return f"{self.part} {self.title}" if self.part else self.title


@dataclass(frozen=True)
class Picture:
    """Boxes, edges between boxes by number, and a description of each partition."""

    name: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    legend: tuple[str, ...] = ()


def of_graph(graph: Graph) -> Picture:
    """Returns the picture of a graph; without declared outputs, values that no op reads are the outputs."""
    read = {value for node in graph.nodes for value in node.inputs}
    outputs = graph.outputs or {v.name: v for n in graph.nodes for v in n.outputs if v not in read}
    return _picture(graph.name, graph.nodes, graph.inputs, outputs, {}, ())


@singledispatch
def of_net(net: Any) -> Picture:
    """Returns the picture of a net; ops that run together have one number."""
    latest = net._latest()
    if latest is None:
        groups = [(part.ops, "") for part in net.partitions]
    else:
        groups = [
            (tuple(node.name for node in group.listed), decision.formulation)
            for group, decision in latest.lowering.decisions
        ]
    parts = {name: i for i, (names, _) in enumerate(groups, 1) for name in names}
    nodes = [node for node in net.graph.nodes if node.name in parts]
    by_name = {node.name: node for node in nodes}
    legend = tuple(
        f"{i}: {' + '.join(by_name[name].kind for name in names if name in by_name)}" + (f" ({how})" if how else "")
        for i, (names, how) in enumerate(groups, 1)
    )
    return _picture(net.graph.name, nodes, net.inputs, net.outputs, parts, legend)


def alone(title: str, reads: Sequence[str], gives: Sequence[str]) -> Picture:
    """Returns a picture of one box between its inputs and outputs."""
    boxes = [Box(short(name), (), name, "input") for name in reads]
    boxes.append(Box(title, tuple(map(short, gives)), "", "op", 1))
    boxes += [Box(short(name), (), name, "output") for name in gives]
    own = len(reads)
    edges = [*((i, own) for i in range(own)), *((own, i) for i in range(own + 1, len(boxes)))]
    return Picture(title, tuple(boxes), tuple(edges), (f"1: {title}",))


def side_by_side(
    name: str,
    inputs: Sequence[str],
    outputs: Iterable[str],
    pictures: Iterable[tuple[Picture, Sequence[str], Sequence[str]]],
) -> Picture:
    """Returns pictures combined into one; each comes with the names of its input and output tensors."""
    boxes, legend = [Box(short(one), (), one, "input") for one in inputs], list[str]()
    edges: dict[tuple[int, int], None] = {}
    maker = {one: i for i, one in enumerate(inputs)}
    for picture, reads, gives in pictures:
        first, place, left, made = len(legend), dict[int, int](), iter(reads), iter(gives)
        results: dict[int, str] = {}
        for i, box in enumerate(picture.boxes):
            if box.role == "op":
                place[i] = len(boxes)
                boxes.append(replace(box, part=box.part and box.part + first))
            elif box.role == "output":
                results[i] = next(made)
            elif (source := next(left)) in maker:
                place[i] = maker[source]
        for start, end in picture.edges:
            if start in place and end in place:
                edges[place[start], place[end]] = None
            elif start in place:
                maker[results[end]] = place[start]
        for line in picture.legend:
            number, _, text = line.partition(": ")
            legend.append(f"{int(number) + first}: {text}")
    for one in outputs:
        if one in maker:
            edges[maker[one], len(boxes)] = None
        boxes.append(Box(short(one), (), one, "output"))
    return Picture(name, tuple(boxes), tuple(edges), tuple(legend))


def _picture(
    name: str,
    nodes: Sequence[Node],
    inputs: Iterable[Value],
    outputs: Mapping[str, Value],
    parts: Mapping[str, int],
    legend: tuple[str, ...],
) -> Picture:
    boxes: list[Box] = []
    source: dict[Value, int] = {}
    # two operands from one box are one line
    edges: dict[tuple[int, int], None] = {}
    for value in inputs:
        source[value] = len(boxes)
        boxes.append(Box(short(value.name), (_tensor(value),), value.name, "input"))
    for position, node in enumerate(nodes, len(boxes)):
        source.update(dict.fromkeys(node.outputs, position))
        shapes = [_tensor(value) for value in node.outputs]
        boxes.append(Box(node.kind, (short(node.name), *shapes), _hint(node), "op", parts.get(node.name, 0)))
    for node in nodes:
        if node.outputs:
            edges.update(((source[value], source[node.outputs[0]]), None) for value in node.inputs if value in source)
    for label, value in outputs.items():
        if value in source:
            edges[source[value], len(boxes)] = None
        boxes.append(Box(short(label), (_tensor(value),), label, "output"))
    return Picture(name, tuple(boxes), tuple(edges), legend)


def short(text: str) -> str:
    """Returns a name shortened to fit into a box: its beginning and its end."""
    clean = "".join(char if char.isprintable() else "?" for char in text)
    if len(clean) <= _LONGEST:
        return clean
    return f"{clean[: _LONGEST // 2 - 1]}…{clean[-_LONGEST // 2 :]}"


def _tensor(value: Value) -> str:
    return f"{'x'.join('?' if dim is None else str(dim) for dim in value.shape) or 'scalar'} {value.dtype}"


def _hint(node: Node) -> str:
    """Returns attributes and constants, shown as a tooltip."""
    lines = [f"{node.kind} {node.name}"]
    lines += [f"{name} = {str(value)[:80]}" for name, value in node.attrs.items() if value is not None]
    lines += [f"constant {v.name}: {_tensor(v)}" for v in node.inputs if v.is_constant]
    return "\n".join(lines)


def fill(part: int) -> str:
    """Returns a partition's colour, light enough for black text; white for no partition."""
    return _hex(part, 0.84, 0.65) if part else "#ffffff"


def stroke(part: int) -> str:
    return _hex(part, 0.38, 0.55) if part else "#333333"


def _hex(part: int, lightness: float, saturation: float) -> str:
    red, green, blue = hls_to_rgb((0.55 + part * _GOLDEN) % 1.0, lightness, saturation)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in (red, green, blue))


def dot(picture: Picture) -> str:
    """Returns DOT text for `dot -Tsvg`: ops filled with the colour of their partition."""
    lines = [
        f"digraph {_quoted(picture.name)} {{",
        '  node [style="filled,rounded", fontname="sans-serif", fontsize=11];',
    ]
    for i, box in enumerate(picture.boxes):
        label = _quoted("\n".join((box.heading, *box.lines)))
        lines.append(
            f"  n{i} [label={label}, shape={_SHAPES[box.role]}, "
            f'fillcolor="{fill(box.part)}", color="{stroke(box.part)}"];'
        )
    lines += [f"  n{a} -> n{b};" for a, b in picture.edges]
    return "\n".join([*lines, "}\n"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

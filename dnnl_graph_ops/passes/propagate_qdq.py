"""Moves integers, not floats, in front of a Quantize and of a product, and gives each product its own Dequantize.

Pools, reductions and resampling, called windows here, have a Dequantize of their own as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..backends import integer_window, window
from ..backends.movement import VIEWS
from ..convolution.quantization import BOUNDING
from ..graph import Node, Value
from ..ir import GraphView, like, linked, readers_of, twin
from ..ir.rewrites import Rewrite
from ..program.element_ops import OPS
from ..schema import kinds

# kinds that may be fused with the Dequantize of their operands
_PRODUCTS = kinds("multiplies")
_WITH_DEQUANTIZE = _PRODUCTS | integer_window.BUILDERS.keys()
_DEQUANTIZES = kinds("dequantizes")
_QUANTIZED = _DEQUANTIZES | {"Quantize"}
_MOVING_VIEWS = kinds("moves").intersection(VIEWS)

MOVE_INTEGERS = Rewrite(
    "move_integers",
    "an op that moves elements in front of a Quantize moves integers, rounded before",
    (
        "no other op reads the moved tensor",
        "the net does not return the moved tensor",
        "the result has one scale",
    ),
)
VIEW_INTEGERS = Rewrite(
    "view_integers",
    "a product of a reshaped or transposed Dequantize reads integers that were reshaped or transposed",
    ("the integers have one scale",),
)
REPEAT_DEQUANTIZE = Rewrite(
    "repeat_dequantize",
    "every product or window has its own Dequantize, and so have sums of a product's integers, and element-wise ops "
    "among other readers",
)


def run(graph: GraphView) -> None:
    """Moves integers, and gives every product, window or sum with a product a Dequantize that it may be fused with.

    Other element-wise ops share one, which one step of them computes, where the floats are in memory for others.
    """
    if _QUANTIZED.isdisjoint([node.kind for node in graph.nodes()]):
        return
    _move_integers(graph)
    _view_integers(graph)
    for node in graph:
        shared = {value for value in _fusible(node) if graph.reads(value) > 1 or value in graph.returned}
        if not shared:
            continue
        inputs = [_repeated(value) if value in shared else value for value in node.inputs]
        dequantized = [value.node for value in inputs if value not in node.inputs and value.node is not None]
        if dequantized:
            REPEAT_DEQUANTIZE.fired(node)
            for maker in dequantized:
                graph.insert(maker, before=node)
            graph.replace(node, twin(node, inputs=inputs))
    _split_elementwise(graph)
    results = {node: node.outputs[0] for node in graph if node.kind in _DEQUANTIZES}
    graph.remove(*(node for node, value in results.items() if not graph.reads(value) and value not in graph.returned))


def _fusible(node: Node) -> Sequence[Value]:
    """Returns the operands whose Dequantize a node may be fused with: of a sum with a product's integers, the other."""
    if node.kind in _WITH_DEQUANTIZE:
        return node.inputs
    if node.kind != "Add":
        return ()
    left, right = map(_is_product, node.inputs)
    return [value for value, product in zip(node.inputs, (right, left), strict=True) if product]


def _is_product(value: Value) -> bool:
    """Whether a value is a product's, after a ReLU or Clamp or none, as a Quantize and a Dequantize round it."""
    dequantize = value.node
    if dequantize is None or dequantize.kind != "Dequantize":
        return False
    quantize = dequantize.inputs[0].node
    if quantize is None or quantize.kind != "Quantize":
        return False
    maker = quantize.inputs[0].node
    if maker is not None and maker.kind in BOUNDING:
        maker = maker.inputs[0].node
    return maker is not None and maker.kind in _PRODUCTS


def _split_elementwise(graph: GraphView) -> None:
    for value, readers in readers_of(graph.nodes()).items():
        if value.node is None or value.node.kind not in _DEQUANTIZES or value.node not in graph:
            continue
        joining = [one for one in readers if one.kind in OPS and one.outputs[0].shape == value.shape]
        if not joining or (len(joining) == len(readers) and value not in graph.returned):
            continue
        copy = _repeated(value)
        assert copy.node is not None
        graph.insert(copy.node, before=joining[0])
        for node in joining:
            REPEAT_DEQUANTIZE.fired(node)
            graph.replace(node, twin(node, inputs=[copy if one is value else one for one in node.inputs]))


def _moves(node: Node) -> int:
    """Returns how many of its first operands a node moves without computing anything; 0 if it computes."""
    if node.kind == "Concat":
        return len(node.inputs)
    return int(node.kind in _MOVING_VIEWS or window.repeats(node))


def _move_integers(graph: GraphView) -> None:
    """Replaces an op that joins or moves elements, and the Quantize after it, by the same op on integers.

    Operands are quantized before they are moved, but for integers of the scale, zero point and dtype of the result.
    """
    rest = [node for node in graph if node.kind == "Quantize"]
    while rest:
        node = rest.pop()
        join = node.inputs[0].node
        count = 0 if join is None or join not in graph else _moves(join)
        if join is None or not count or not _moves_integers(node, graph):
            continue
        parts = [_rounded(value, node) for value in join.inputs[:count]]
        for part in dict.fromkeys(part.node for part in parts if part.node is not None):
            if part not in graph:
                graph.insert(part, before=node)
                rest.append(part)
        graph.remove(join)
        graph.replace(node, twin(join, inputs=[*parts, *join.inputs[count:]]))


def _moves_integers(quantize: Node, graph: GraphView) -> bool:
    unmet, whole = "", quantize.inputs[0]
    if graph.reads(whole) > 1:
        unmet = "no other op reads the moved tensor"
    elif whole in graph.returned:
        unmet = "the net does not return the moved tensor"
    elif not _of_tensor(quantize):
        unmet = "the result has one scale"
    MOVE_INTEGERS.tell(quantize, unmet)
    return not unmet


def _rounded(value: Value, quantize: Node) -> Value:
    """Returns the operand `value` of a join as integers with the scale, zero point and dtype of the join's Quantize.

    Integers of this scale, zero point and dtype that a Dequantize reads are taken as they are, floats quantized.
    """
    maker, whole = value.node, quantize.outputs[0]
    if maker is not None and maker.kind == "Dequantize" and _of_tensor(maker):
        given, wanted = (
            (one.attrs["scales"][0], (one.attrs.get("zps") or (0,))[0], dtype)
            for one, dtype in ((maker, maker.inputs[0].dtype), (quantize, whole.dtype))
        )
        if given == wanted:
            return maker.inputs[0]
    return linked(twin(quantize, inputs=[value]), [like(value, whole.dtype)]).outputs[0]


def _view_integers(graph: GraphView) -> None:
    """Puts the Dequantize of a product's first operand after the views between both."""
    for node in graph:
        if node.kind not in _PRODUCTS:
            continue
        views: list[Node] = []
        maker = node.inputs[0].node
        while maker is not None and maker.kind in _MOVING_VIEWS:
            views.append(maker)
            maker = maker.inputs[0].node
        if not views or maker is None or maker.kind != "Dequantize":
            continue
        has_one = _of_tensor(maker)
        VIEW_INTEGERS.tell(node, "" if has_one else "the integers have one scale")
        if has_one:
            _put_behind(graph, maker, views, node)


def _put_behind(graph: GraphView, dequantize: Node, views: Sequence[Node], product: Node) -> None:
    """Replaces the first operand of `product`, `views` (last first) of a Dequantize, by a Dequantize of the views."""
    (value,) = dequantize.inputs
    for view in reversed(views):
        integers = linked(twin(view, inputs=[value]), [like(view.outputs[0], value.dtype)])
        graph.insert(integers, before=product)
        (value,) = integers.outputs
    floats = linked(twin(dequantize, inputs=[value]), [like(product.inputs[0])])
    graph.insert(floats, before=product)
    graph.replace(product, twin(product, inputs=[floats.outputs[0], *product.inputs[1:]]))
    for view in views:
        if graph.reads(view.outputs[0]) or view.outputs[0] in graph.returned:
            break
        graph.remove(view)


def _of_tensor(node: Node) -> bool:
    return len(node.attrs["scales"]) == 1


def _repeated(value: Value) -> Value:
    """Returns the result of a new copy of the Dequantize that computes `value`; `value` itself if another op does."""
    if value.node is None or value.node.kind not in _DEQUANTIZES:
        return value
    return linked(twin(value.node), [like(value)]).outputs[0]

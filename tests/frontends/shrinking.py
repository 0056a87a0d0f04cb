"""Smaller forms of a random model, and a script of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import NodeProto, helper
from smaller import cut


def smaller(model: Any) -> Iterator[Any]:
    """Fewer results, nodes and attributes, known sizes, shorter axes, plainer numbers."""
    if len(model.outputs) > 1:
        yield from (model.pruned(outputs=[name]) for name in model.outputs)
    for i in range(len(model.nodes)):
        yield from _without(model, i)
    if model.symbolic:
        yield replace(model, symbolic=False)
    for i, node in enumerate(model.nodes):
        for attribute in node.attribute:
            fewer = NodeProto()
            fewer.CopyFrom(node)
            fewer.attribute.remove(attribute)
            yield replace(model, nodes=[*model.nodes[:i], fewer, *model.nodes[i + 1 :]])
    leaves = {**model.feeds, **model.constants}
    for size in sorted({n for array in leaves.values() for n in array.shape if n > 1}, reverse=True):
        for less in (1, size - 1):
            yield _mapped(model, lambda array, size=size, less=less: cut(array, size, less))
    for name, array in leaves.items():
        if array.size > 1 and np.unique(array).size > 1:
            yield _mapped(model, np.ones_like, name)


def _without(model: Any, index: int) -> Iterator[Any]:
    """The model without a node, whose results become inputs with their values."""
    results = model.results()
    names = [name for name in model.nodes[index].output if name]
    if all(name in results for name in names):
        nodes = model.nodes[:index] + model.nodes[index + 1 :]
        outputs = [name for name in model.outputs if name not in names]
        if outputs:
            yield model.pruned(nodes=nodes, outputs=outputs, feeds={**model.feeds, **{n: results[n] for n in names}})


def _mapped(model: Any, change: Callable[[np.ndarray], np.ndarray], only: str = "") -> Any:
    """With other inputs and constants."""
    feeds, constants = (
        {name: array if only and name != only else change(array) for name, array in part.items()}
        for part in (model.feeds, model.constants)
    )
    return replace(model, feeds=feeds, constants=constants)


def script(model: Any) -> str:
    """Runs in the folder tests, and raises where the model fails."""
    nodes = ",\n      ".join(map(_node, model.nodes))
    parts = (", ".join(f"{n!r}: {_array(a)}" for n, a in part.items()) for part in (model.feeds, model.constants))
    feeds, constants = (f"{{{part}}}" for part in parts)
    tolerance = max(model.errors[name] for name in model.outputs)
    return (
        "from frontends.one_node import agree, node, np\n"
        f"agree([{nodes}],\n      {feeds},\n      {constants},\n      opset={model.opset}, "
        f"ways=[{'symbolic' if model.symbolic else 'sizes'!r}], tolerance={tolerance:.3g}, outputs={model.outputs})"
    )


def _node(node: NodeProto) -> str:
    values = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    texts = (f", {name}={value.decode() if isinstance(value, bytes) else value!r}" for name, value in values.items())
    inputs = " ".join(name or "-" for name in node.input)
    return f'node("{node.op_type}", "{inputs}", "{" ".join(node.output)}"{"".join(texts)})'


def _array(array: np.ndarray) -> str:
    kind = "?" if array.dtype == bool else array.dtype.str[1:]
    if array.size > 1 and (array == array.flat[0]).all():
        return f"np.full({array.shape}, {array.flat[0].item()}, {kind!r})"
    return f"np.array({array.tolist()}, {kind!r})" if array.size else f"np.zeros({array.shape}, {kind!r})"

"""A graph in benchdnn's JSON format, evaluated op by op."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo

from .ops import Slot, evaluate


def attributes_of(op: Mapping[str, Any]) -> dict[str, Any]:
    """{name: value}; booleans are stored as 0 and 1."""
    return {
        name: bool(entry["value"]) if entry["type"] == "bool" else entry["value"]
        for name, entry in op.get("attrs", {}).items()
    }


def tensors_of(graph: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Every tensor of the graph by id."""
    return {t["id"]: t for op in graph["graph"] for t in (*op["inputs"], *op["outputs"])}


def inputs_of(graph: Mapping[str, Any]) -> list[int]:
    """Ids in the order of input_ports, else those that no op produces in order of first use."""
    made = {t["id"] for op in graph["graph"] for t in op["outputs"]}
    used = [t["id"] for op in graph["graph"] for t in op["inputs"]]
    loose = [i for i in dict.fromkeys(used) if i not in made]
    ports = [i for i in dict.fromkeys(graph.get("input_ports", ())) if i in loose]
    return ports + [i for i in loose if i not in ports]


def outputs_of(graph: Mapping[str, Any]) -> list[int]:
    """Ids in the order of output_ports, else those that no op reads."""
    known = tensors_of(graph)
    stated = [i for i in dict.fromkeys(graph.get("output_ports", ())) if i in known]
    if stated:
        return stated
    used = {t["id"] for op in graph["graph"] for t in op["inputs"]}
    return [t["id"] for op in graph["graph"] for t in op["outputs"] if t["id"] not in used]


def _in_order(graph: Mapping[str, Any], known: set[int]) -> list[Mapping[str, Any]]:
    ordered, waiting = [], list(graph["graph"])
    while waiting:
        ready = [op for op in waiting if all(t["id"] in known for t in op["inputs"])]
        if not ready:
            raise ValueError(f"no order for the ops {[op['name'] for op in waiting]}")
        ordered += ready
        known |= {t["id"] for op in ready for t in op["outputs"]}
        waiting = [op for op in waiting if not any(op is r for r in ready)]
    return ordered


def evaluate_graph(graph: Mapping[str, Any], inputs: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Every tensor of the graph by id, intermediate results rounded to their own types."""
    values = dict(inputs)
    for op in _in_order(graph, set(values)):
        slots = [Slot(t["dtype"], tuple(t["shape"])) for t in op["outputs"]]
        results = evaluate(op["kind"], [values[t["id"]] for t in op["inputs"]], attributes_of(op), slots)
        for tensor, slot, result in zip(op["outputs"], slots, results, strict=True):
            if min(slot.shape, default=0) > -1 and result.shape != slot.shape:
                raise ValueError(f"{op['name']}: {result.shape} where the graph says {slot.shape}")
            values[tensor["id"]] = result
    return values


def evaluate_built(graph: dgo.Graph, inputs: Mapping[dgo.Value, np.ndarray]) -> dict[dgo.Value, np.ndarray]:
    """Every value of a graph built here, likewise."""
    values = dict(inputs) | {value: value.constant for value in graph.constants}
    for node in graph.nodes:
        slots = [Slot(value.dtype, value.shape) for value in node.outputs]
        results = evaluate(node.kind, [values[value] for value in node.inputs], node.attrs, slots)
        values.update(zip(node.outputs, results, strict=True))
    return values

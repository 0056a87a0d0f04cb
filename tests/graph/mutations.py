"""Broken graph files: small faults in good ones, as text and as objects. Run as a child process.

python -m graph.mutations SEED START STOP
"""

import copy
import json
import sys
import traceback

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops.errors import Error

from .dags import draw

# graphs above this are read and written, not compiled
SMALL = 1 << 20
ODD = [
    None, True, -1, 0, 1, 7, 2**31, 2**40, 2**62, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e308, "", "f32", "NCX",
    "\0", "ReLU", "x" * 5000, [], [[]], {}, [0], [1] * 20, [2**40] * 3, [None], {"type": "s64", "value": 1},
    {"id": 0}, [1] * 3000,
]  # fmt: skip


def originals(seed: int) -> list[str]:
    """Good files: drawn graphs, and one of the family written by hand."""
    return [draw(seed, number).graph.to_json() for number in range(12)]


def places(node, found=None, path=()):
    """Every place in the file: (container, key)."""
    found = [] if found is None else found
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found.append((node, key))
        places(value, found)
    return found


def mutated(rng: np.random.Generator, text: str):
    """The file with one to three faults."""
    choice = rng.random()
    if choice < 0.2:
        at = int(rng.integers(0, len(text)))
        cut = int(rng.integers(1, 40))
        insert = str(rng.choice(["", "{", "]", '"', "-", "9" * 50, "\\u0000", "null", "[" * 200]))
        return text[:at] + insert + text[at + cut :]
    data = json.loads(text)
    spoil(rng, data)
    return data if choice < 0.6 else json.dumps(data)


def spoil(rng: np.random.Generator, data) -> None:
    """One to three faults in objects as JSON has them."""
    for _ in range(int(rng.integers(1, 4))):
        container, key = _one(rng, places(data))
        what = rng.random()
        if what < 0.5:
            container[key] = copy.deepcopy(_one(rng, ODD))
        elif what < 0.65 and isinstance(container, dict):
            del container[key]
        elif what < 0.75 and isinstance(container, list):
            container.insert(int(rng.integers(0, len(container) + 1)), copy.deepcopy(container[key]))
        elif what < 0.85 and isinstance(container, list):
            container.pop(key)
        else:
            other, name = _one(rng, places(data))
            container[key] = copy.deepcopy(other[name])


def _one(rng, items):
    return items[int(rng.integers(0, len(items)))]


def deep(kind: int):
    """Files that are too much on purpose."""
    nested = "[" * 100_000
    tensor = {"id": 0, "dtype": "f32", "shape": [2**40], "stride": [1], "layout_type": "strided"}
    op = {
        "id": 0,
        "name": "r",
        "kind": "ReLU",
        "attrs": {},
        "inputs": [tensor],
        "outputs": [{**tensor, "id": 1}],
    }
    ring = [
        {**op, "id": i, "inputs": [{**tensor, "id": i, "shape": [2]}],
         "outputs": [{**tensor, "id": (i + 1) % 500, "shape": [2]}]} for i in range(500)
    ]  # fmt: skip
    wide = {**op, "attrs": {"axes": {"type": "s64[]", "value": list(range(500_000))}}}
    return [
        nested,
        '{"graph":' + nested,
        {"graph": [op]},
        {"graph": ring},
        {"graph": [wide]},
        {"graph": [op] * 200_000},
    ][kind]


def attempt(source) -> bool:
    """Whether the file was refused; what it is refused with must be one of the package's errors."""
    try:
        graph = dgo.Graph.from_json(source)
        graph.to_json()
        sizes = [np.prod(v.shape, dtype=float) for n in graph.nodes for v in n.outputs if None not in v.shape]
        if sum(sizes) > SMALL or not graph.outputs or any(None in v.shape for v in graph.inputs):
            return False
        net = graph.compile()
        if sum(np.prod(v.shape, dtype=float) for v in net.inputs) < SMALL:
            net.run({v.name: _data(v) for v in net.inputs})
        return False
    except (Error, FileNotFoundError):
        return True


def _data(value) -> np.ndarray:
    from dnnl_graph_ops import dtypes

    return np.ones(value.shape, dtypes.numpy_dtype(value.dtype))


def main(seed: int, start: int, stop: int) -> None:
    texts = originals(seed)
    refused = 0
    for number in range(start, stop):
        print(f"CASE {number}", flush=True)
        rng = np.random.default_rng([seed, number])
        source = deep(number) if number < 6 else mutated(rng, texts[number % len(texts)])
        try:
            refused += attempt(source)
        except Exception:
            print(f"FAILURE {number}: {traceback.format_exc()[-1500:]!r}")
    print(f"DONE {stop - start}, {refused} refused")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Attributes and shapes of graphs that others wrote, against what these graphs say of their outputs."""

import json

import pytest

from dnnl_graph_ops import schema, shapes
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.shapes import Meta

STALE = "BiasAddBackprop"  # the name of BiasAddBackward before 3.0


def metas(tensors):
    return [Meta(tuple(tensor["shape"]), tensor["dtype"]) for tensor in tensors]


@pytest.mark.corpus
def test_graphs_of_the_corpora(corpora):
    seen = set()
    for path in sorted(corpora.glob("graph_json/**/*.json")):
        for op in json.loads(path.read_text())["graph"]:
            kind, inputs, outputs = op["kind"], metas(op["inputs"]), metas(op["outputs"])
            where = f"{path.name} {kind}"
            seen.add(kind)
            if kind == STALE:
                with pytest.raises(InvalidArgumentError, match="did you mean 'BiasAddBackward'"):
                    schema.normalise_attrs(kind, {}, where)
                continue
            given = {name: attr["value"] for name, attr in op["attrs"].items()}
            ranks = schema.attr_lengths(kind, len(inputs[0].shape))
            attrs = schema.normalise_attrs(kind, given, where, ranks=ranks, lenient=True)
            dtype = outputs[0].dtype if outputs else None
            found = shapes.checked(kind, inputs, attrs, where, dtype=dtype, outputs=len(outputs))[1]
            assert found == outputs, where
    assert len(seen) >= 60

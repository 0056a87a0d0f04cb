"""Every shape rule against the library's own answer.

One op is compiled alone with an output of unknown rank; the library infers its shape, which is then queried.
"""

from random import Random

import pytest

from dnnl_graph_ops import schema, shapes

from .generate import GENERATORS
from .library import compile_alone, engine

__all__ = ["engine"]

CASES = (4, 12, 100)
# what the library infers wrongly or refuses, though it has a kernel for the op
REFUSED = {
    "ConvTransposeBackwardData": lambda attrs: set(attrs["dilations"]) != {1} or attrs["auto_pad"].startswith("SAME"),
    "ConvTransposeBackwardWeights": lambda attrs: attrs["auto_pad"].startswith("SAME"),
}


@pytest.mark.parametrize("kind", sorted(schema.OPS))
def test_same_shape(kind, engine, seed, amount, request):
    chosen = request.config.getoption("--case")
    compared, reason = 0, "no case"
    for number in range(amount(*CASES)) if chosen is None else [chosen]:
        case = GENERATORS[kind](Random(f"{seed} {kind} {number}"))
        print(f"reproduce: pytest {__file__} -k 'same and {kind}' --seed {seed} --case {number}\n{case}")
        rank = len(case.shapes[0]) if case.shapes else 0
        attrs = schema.normalise_attrs(kind, case.attrs, kind, ranks=schema.attr_lengths(kind, rank))
        expected = shapes.checked(kind, case.metas, attrs, kind, dtype=case.dtype, outputs=case.outputs)[1]
        why = shapes.unsupported(kind, case.metas, expected, attrs, engine.runtime._library.version)
        if why or (kind in REFUSED and REFUSED[kind](attrs)):
            reason = why or reason
            continue
        compared += 1
        found = compile_alone(engine, kind, case.metas, expected, attrs, known=False)
        assert found == [meta.shape for meta in expected]
    if not compared:
        pytest.skip(reason)

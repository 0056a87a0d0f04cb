"""The small language of steps."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.test_algorithms import external
from reference import conv_transpose as truth
from reference.data import integers

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import lower, table
from dnnl_graph_ops.compile.plan import assemble
from dnnl_graph_ops.convolution.nodes import CONV_KINDS, make_problem
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.program import Place, Program

KINDS = ("ConvTransposeBackwardData", "ConvTransposeBackwardWeights")


@pytest.mark.parametrize("name", ["builtin direct", "convolution, channels last"])
def test_a_training_step_transposes_diff_dst_once(name: str, rng: np.random.Generator) -> None:
    """Both backward ops of channels-first data read the same channels-last copy."""
    attrs = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "data_format": "NCX", "weights_format": "IOX"}
    src, weights, diff = (integers(rng, shape) for shape in ((2, 8, 5, 5), (8, 8, 4, 4), (2, 8, 10, 10)))
    results = [np.full(array.shape, np.nan, np.float32) for array in (src, weights)]
    given, outs = (
        [external(place, array, i) for i, array in enumerate(arrays)]
        for place, arrays in ((Place.INPUT, (diff, weights, src)), (Place.OUTPUT, results))
    )
    env = Env(dgo.engine("cpu"), dgo.get_num_threads())
    program = Program()
    for kind, views, out in zip(KINDS, (given[:2], [given[2], given[0]]), outs, strict=True):
        extra = {"src_shape": src.shape} if kind == KINDS[0] else {}
        (form,) = (f for f in table.ALGORITHMS if (f.direction, f.name) == (CONV_KINDS[kind].direction, name))
        lower.build(program, make_problem(kind, attrs | extra, views, out), form, env)
    assert sum(given[0].buffer in {view.buffer for view in step.reads} for step in program.steps) == 1
    assemble(program, given, outs, env.engine).executor.run([diff, weights, src], results)
    spatial = {"src_spatial": src.shape[2:]}
    np.testing.assert_array_equal(results[0], truth.backward_data(diff, weights, **spatial, **attrs))
    np.testing.assert_array_equal(results[1], truth.backward_weights(src, diff, weights.shape[2:], **attrs))

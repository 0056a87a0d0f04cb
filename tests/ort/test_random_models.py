"""Random models in sessions whose nodes are claimed one by one, or in groups as large as they may be."""

import numpy as np
import pytest
from frontends import random_models

from dnnl_graph_ops.onnxruntime import provider

from .sessions import onnxruntime, ours

EACH = 10


@pytest.fixture(params=["single", "groups"])
def in_sessions(request, monkeypatch):
    """Models run in sessions with the provider."""
    if request.param == "single":
        monkeypatch.setenv("DNNL_GRAPH_OPS_EP", "all")
    else:
        for name in ("may_gain", "gains"):
            monkeypatch.setattr(provider, name, lambda *_: True)

    def run(proto, feeds):
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ours(proto.SerializeToString(), graph_optimization_level=level)
        return session.run(None, {name: np.asarray(array) for name, array in feeds.items()})

    monkeypatch.setattr(random_models, "run", run)


@pytest.mark.slow
@pytest.mark.cases(20, 120, 6000, each=EACH)
@pytest.mark.usefixtures("in_sessions")
def test_agree(start, seed):
    for case in range(start, start + EACH):
        random_models.check(random_models.drawn(seed, case), f"--seed={seed}: drawn({seed}, {case}) in a session")

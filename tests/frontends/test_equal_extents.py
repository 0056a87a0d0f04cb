"""Constants beside convolutions of equal extents through ONNX, torch.export and torch.compile."""

import numpy as np
import pytest
from reference.data import integers

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

import dnnl_graph_ops as dgo  # noqa: E402
from dnnl_graph_ops.torch.whole_model import backend  # noqa: E402

from .equal_extents import Steps, as_onnx, drawn  # noqa: E402

EACH = 2


def by_onnx(shape, steps, x):
    return dgo.from_onnx(as_onnx(shape, steps)).compile()(x.numpy())


def by_export(shape, steps, x):
    return dgo.from_torch(torch.export.export(Steps(steps), (x,))).compile()(x.numpy())


def by_compile(shape, steps, x):
    torch._dynamo.reset()
    compiled = torch.compile(Steps(steps), backend=backend.dnnl_graph_ops, dynamic=False)
    with torch.no_grad():
        return compiled(x).numpy()


def check(run, start, seed):
    """Sums beyond 2**24 or fractions may be rounded: one part in 2**20 of the largest; most are exact."""
    for case in range(start, start + EACH):
        rng = np.random.default_rng([seed, case])
        shape, steps = drawn(rng)
        x = torch.from_numpy(integers(rng, shape, limit=2))
        if rng.random() < 0.3:
            x = x.movedim(1, -1).contiguous().movedim(-1, 1)
        want = Steps(steps).double()(x.double()).numpy()
        got = run(shape, steps, x)
        text = f"--seed {seed}, case {case}\n{steps}"
        assert got.shape == want.shape and got.dtype == np.float32, text
        scale = max(np.abs(want).max(), 1.0)
        np.testing.assert_allclose(got, want, rtol=0, atol=scale * 2.0**-20, err_msg=text)


@pytest.mark.cases(16, 48, 2000, each=EACH)
def test_from_onnx(start, seed):
    check(by_onnx, start, seed)


@pytest.mark.slow
@pytest.mark.cases(4, 40, 2000, each=EACH)
def test_from_torch(start, seed):
    check(by_export, start, seed)


@pytest.mark.slow
@pytest.mark.cases(10, 30, 500, each=EACH)
def test_compiled(start, seed, monkeypatch):
    monkeypatch.setattr(backend._Entry, "_tried", lambda entry, args: True)
    check(by_compile, start, seed)

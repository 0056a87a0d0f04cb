"""One dtype against another: what is asked, and the command."""

from dnnl_graph_ops.bench import against
from dnnl_graph_ops.bench.problem import Problem

LAYER = Problem("small", 1, 8, 8, (6, 6), (4, 4), (2, 2), (1, 1))


def test_every_direction_and_a_bias():
    asked = dict(against.questions([LAYER], "NXC"))
    assert list(asked) == ["small fwd NXC", "small fwd NXC bias", "small bwd_d NXC", "small bwd_w NXC"]
    assert [task.problem.bias for task in asked.values()] == [False, True, False, False]


def test_layers_are_halved_and_from_all_over_the_suite():
    found = against.layers(30, 0.1)
    assert len(found) == len({layer.name for layer in found}) > 20
    assert all(layer.macs <= 1e8 for layer in found)
    assert len({layer.family for layer in found}) > 8


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(against, "layers", lambda count, gmacs: [LAYER])
    found = against.main(["--dtype", "f16", "--than", "f32", "--seconds", "0"])
    assert len(found) == 4
    assert all(ratio.times == ratio.seconds[0] / ratio.seconds[1] for ratio in found)
    assert "f16 / f32: geometric mean" in capsys.readouterr().out

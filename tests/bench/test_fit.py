"""The command that fits the cost model: files of times, going on after an interruption, and what it writes."""

import json

import pytest
from constants import USER_FILE

import dnnl_graph_ops as dgo
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms.table import ALGORITHMS
from dnnl_graph_ops.bench import fit, rates, regression, times
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.compile import measure_rates
from dnnl_graph_ops.cost import fits
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.runtime import cpu
from dnnl_graph_ops.runtime.rates import parse

LAYERS = [
    Problem(name, 1, channels, 8, (6, 6), (4, 4), (2, 2), (1, 1))
    for name, channels in (("first", 8), ("second", 16), ("third", 3))
]

ORDINARY = [Problem("first", 1, 8, 16, (7, 6), (3, 3), (2, 2), (1, 1), op="conv")]


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Three small layers, timed for a moment, and an empty cache directory."""
    layers = {"conv_transpose": LAYERS, "conv": ORDINARY}
    monkeypatch.setattr(times, "real_layers", lambda op="conv_transpose": layers[op])
    monkeypatch.setattr(times, "SECONDS", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fits, "user_file", USER_FILE)
    fits.forget()
    yield
    fits.forget()


def rows_of(path):
    return json.loads(path.read_text("utf-8"))["rows"]


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_rows_are_saved_and_loaded(tmp_path, capsys, dtype):
    saved = tmp_path / "times.json"
    fit.main(["--save", str(saved), "--dtype", dtype])
    recorded = times.read(saved)
    assert recorded.head["dtype"] == dtype
    assert len(recorded.rows) == len(LAYERS) * len(times.ASKED["conv_transpose"])
    assert {s.problem.dtype for s in fit.samples(recorded)} == {dtype}
    printed = capsys.readouterr().out
    assert "these constants" in printed and "those of the other half" in printed
    before = saved.read_bytes()
    fit.main(["--load", str(saved)])
    assert saved.read_bytes() == before


@pytest.mark.slow
def test_ordinary_layers_are_measured_as_the_transposed_ones_that_they_are(tmp_path):
    saved = tmp_path / "times.json"
    fit.main(["--save", str(saved), "--op", "conv_transpose,conv"])
    rows = rows_of(saved)
    asked = times.ASKED
    assert len(rows) == len(LAYERS) * len(asked["conv_transpose"]) + len(asked["conv"])
    ordinary = [row for row in rows if row.get("op") == "conv"]
    assert [(row["direction"], row["constant"]) for row in ordinary] == list(asked["conv"])
    (first, *_) = [s for s in fit.samples(times.read(saved)) if s.problem.geometry.kernel == (3, 3)]
    assert first.problem.geometry.x == (7, 6) and first.problem.geometry.y == (4, 3)


@pytest.mark.slow
def test_an_interruption_keeps_what_was_measured(monkeypatch, tmp_path, capsys):
    saved, measured = tmp_path / "times.json", []
    real = times.measure

    def measure(problem, env):
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(problem)
        return real(problem, env)

    monkeypatch.setattr(times, "measure", measure)
    with pytest.raises(SystemExit) as ended:
        fit.main(["--save", str(saved)])
    assert ended.value.code == 130
    assert f"--resume {saved}" in capsys.readouterr().err
    assert len(rows_of(saved)) == 5
    first = rows_of(saved)
    monkeypatch.setattr(times, "measure", lambda problem, env: measured.append(problem) or real(problem, env))
    fit.main(["--resume", str(saved)])
    assert len(measured) == len(rows_of(saved)) == 12
    assert rows_of(saved)[:5] == first


@pytest.mark.bench
def test_forms_that_changed_are_measured_anew(monkeypatch, tmp_path):
    saved = tmp_path / "times.json"
    fit.main(["--save", str(saved)])
    content = json.loads(saved.read_text("utf-8"))
    renamed = content["rows"][3]
    renamed["forms"][0] = "of another name"
    saved.write_text(json.dumps(content), "utf-8")
    asked, real = [], times.measure
    monkeypatch.setattr(times, "measure", lambda problem, env: asked.append(problem) or real(problem, env))
    fit.main(["--resume", str(saved)])
    assert [problem.direction for problem in asked] == [renamed["direction"]]
    assert all("of another name" not in row["forms"] for row in rows_of(saved))


@pytest.mark.slow
def test_another_machines_file_is_not_gone_on_with(tmp_path):
    saved = tmp_path / "times.json"
    fit.main(["--save", str(saved)])
    with pytest.raises(InvalidArgumentError, match=r"dtype 'f32', not 'bf16'"):
        fit.main(["--resume", str(saved), "--dtype", "bf16"])
    saved.write_text(saved.read_text("utf-8").replace('"cpu": "', '"cpu": "not '), "utf-8")
    with pytest.raises(InvalidArgumentError, match="has cpu 'not "):
        fit.main(["--resume", str(saved)])


def test_a_file_with_older_names_of_directions_is_refused(tmp_path):
    saved = tmp_path / "times.json"
    saved.write_text(json.dumps({"dtype": "f32", "rows": [{"direction": "forward"}]}), "utf-8")
    with pytest.raises(InvalidArgumentError, match=r"direction 'forward'; .* forward to dgrad, backward_data to fprop"):
        times.read(saved)


@pytest.mark.slow
def test_what_is_written_is_picked_up(tmp_path):
    saved = tmp_path / "times.json"
    fit.main(["--save", str(saved), "--write"])
    env, head = times.here("f32", 0.3)
    mine = fits.user_file(fits.keys(env.isa)[0])
    assert mine.is_relative_to(tmp_path)
    content = json.loads(mine.read_text("utf-8"))
    assert {name: content[name] for name in ("cpu", "isa", "onednn")} == {
        name: head[name] for name in ("cpu", "isa", "onednn")
    }
    assert fits.find(env.isa, head["onednn"], "f32") == fits.parse(content)["f32"]
    problem = times.described(LAYERS[0], "dgrad", "NXC", constant=False)
    form = next(f for f in ALGORITHMS if f.direction == "dgrad" and f.name == "builtin direct")
    counts = form.counts(problem, env)
    prices = fits.parse(content)["f32"][form.key]
    assert form.seconds(problem, env) == cost.estimate(counts, prices, env.threads)


@pytest.mark.bench
def test_a_second_dtype_joins_the_first(tmp_path):
    """bf16 is a class of its own where the library computes in it, and f32's again where it does not."""
    written = tmp_path / "fit.json"
    fit.main(["--write", str(written)])
    first = json.loads(written.read_text("utf-8"))
    fit.main(["--write", str(written), "--dtype", "bf16"])
    second = json.loads(written.read_text("utf-8"))
    native = "bf16" if cpu.multiplies("bf16", times.here("bf16", 0.3)[0].isa) else "f32"
    assert set(second["constants"]) == {"f32", native}
    if native == "bf16":
        assert second["constants"]["f32"] == first["constants"]["f32"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_fitting_lowers_what_choosing_costs(tmp_path):
    """Times that are exactly what some constants say are predicted again."""
    truth = {key: tuple(3e-9 * (i + 1) for i in range(fits.FIELDS)) for key in fits.package("avx2").constants["f32"]}
    env = times.Elsewhere(dgo.engine("cpu"), 2, name="avx2")
    rows = []
    for layer in LAYERS:
        for direction, constant in times.ASKED["conv_transpose"]:
            problem = times.described(layer, direction, "NXC", constant)
            forms = [f for f in ALGORITHMS if f.direction == direction and f.applies(problem, env)]
            timed = {f.name: cost.estimate(f.counts(problem, env), truth[f.key], env.threads) for f in forms}
            rows.append(
                {"layer": layer.name, "direction": direction, "layout": "NXC", "constant": constant, "seconds": timed}
            )
    recorded = times.Recorded({"isa": "avx2", "threads": 2, "dtype": "f32", "max_gmacs": 1.0}, rows)
    samples = fit.samples(recorded)
    before = regression.mean([fit.loss(s, fits.package("avx2").constants["f32"]) for s in samples])
    assert regression.mean([fit.loss(s, fit.fit(samples)) for s in samples]) <= before
    assert regression.mean([fit.loss(s, truth) for s in samples]) == 1.0


def test_rates_of_recorded_times(tmp_path, capsys):
    """By rows of the layer itself: multiply-adds over seconds; a record that the variable may name."""
    problem = measure_rates.layer("f32", run=False)
    seconds = {"builtin direct": 1e-3, "convolution": 5e-4, "im2col": 2e-3}
    layer = {"name": "a", "batch": 1, "in_channels": 64, "out_channels": 64, "spatial": [28, 28], "kernel": [3, 3]}
    layer |= {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "op": "conv"}
    row = {"op": "conv", "layer": "a", "direction": problem.direction, "layout": "NXC", "constant": True}
    head = {"cpu": "another", "cpu_family": "", "isa": "avx2", "onednn": "3.2.0", "date": "2026-01-01"}
    head |= {"threads": 1, "dtype": "f32", "max_gmacs": 1.0}
    path, record = tmp_path / "times.json", tmp_path / "rates.json"
    path.write_text(json.dumps({**head, "rows": [{**row, "problem": layer, "forms": [], "seconds": seconds}]}))
    rates.main([str(path), "--write", str(record)])
    assert "measured now" not in capsys.readouterr().out
    read = parse(json.loads(record.read_text()), "a file")
    billions = problem.macs / 1e9
    expected = {"builtin f32": billions / 1e-3, "convolution f32": billions / 5e-4, "MatMul f32": billions / 2e-3}
    assert read.rates == pytest.approx(expected, rel=1e-2) and read.machine.cpu == "another"


@pytest.mark.slow
@pytest.mark.skipif(not kernels.int8_isa()[0], reason="no products of integers here")
def test_integers_are_fitted_beside_floats(tmp_path, capsys):
    """Rows, going on, prices that `cost.integers` reads, and refusals of other sets."""
    saved, written = tmp_path / "s8.json", tmp_path / "written.json"
    arguments = ["--dtype", "s8", "--op", "conv_transpose,conv"]
    fit.main([*arguments, "--save", str(saved), "--write", str(written)])
    recorded = times.read(saved)
    assert [(row["layer"], row["direction"]) for row in recorded.rows] == [
        *((layer.name, "dgrad") for layer in LAYERS), ("first", "fprop"),
    ]  # fmt: skip
    assert all(any("integer" in name for name in row["seconds"]) for row in recorded.rows)
    assert "those of the other half, " in capsys.readouterr().out
    content = fits.parse(json.loads(written.read_text("utf-8")))
    assert content.keys() == {fits.INTEGERS}
    assert content[fits.INTEGERS].keys() == fits.package("avx2").constants[fits.INTEGERS].keys()

    before = saved.read_bytes()
    fit.main([*arguments, "--resume", str(saved)])
    assert saved.read_bytes() == before
    floats = tmp_path / "f32.json"
    fit.main(["--save", str(floats)])
    fit.main(["--load", str(saved), str(floats), "--write"])
    isa, release = recorded.head["isa"], recorded.head["onednn"]
    mine = fits.parse(json.loads(fits.user_file(fits.keys(isa)[0]).read_text("utf-8")))
    assert fits.of_integers(isa, release) == mine[fits.INTEGERS]
    assert fits.find(isa, release, "f32") == mine["f32"]

    saved.write_text(saved.read_text("utf-8").replace(recorded.head["int8_isa"], "another"), "utf-8")
    with pytest.raises(InvalidArgumentError, match=r"'another'.*ONEDNN_MAX_CPU_ISA names a smaller set"):
        fit.main(["--load", str(saved)])

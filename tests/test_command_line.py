"""`dnnl-graph-ops` and `python -m dnnl_graph_ops`: one command line with all subcommands, and what it answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from children import child

import dnnl_graph_ops as dgo
from dnnl_graph_ops.__main__ import COMMANDS, main, script

ROOT = Path(__file__).parents[1]


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(name in printed for name in COMMANDS)
    assert set(COMMANDS) == {
        *("info", "status", "explain", "run", "benchmark", "diff", "convert", "selftest", "bench", "cache", "fit")
    }


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"dnnl_graph_ops {dgo.__version__}\n"


@pytest.mark.parametrize("words", [["nonsense"], ["bench", "nonsense"], ["fit", "--nonsense"]])
def test_wrong_usage_is_status_2_and_names_what_there_is(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "m.onnx", "--inputs", "x.npy"], "--inputs x.npy; it is --input here"),
        (["run", "m.onnx", "x.npy"], "x.npy; write --input x.npy"),
        (["run", "m.onnx", "--ramdom"], "--ramdom; did you mean '--random'?"),
        (["benchmark", "m.onnx", "--batch", "4"], "--batch 4; it is --shape here"),
        (["benchmark", "m.onnx", "--seconds", "5s"], "'5s': expected a number of seconds, such as 5"),
        (["diff", "a.onnx", "b.onnx", "--atol=1e-3"], "--atol=1e-3; it is --tolerance here"),
        (["convert", "m.onnx"], "required: -o/--output"),
        (["explain", "m.onnx", "--zzz"], "--zzz; there are -h, --help, --svg"),
        (["bench", "--deconv", "mb1ic3"], "--deconv mb1ic3; it is --suite here"),
        (["bench", "run", "--batch", "4"], "--batch 4; it is --mb here"),
        (["quantize", "m.onnx"], "there is no command 'quantize'; it is done in Python: dgo.quantize.calibrate"),
        (["infer", "m.onnx"], "there is no command 'infer'; did you mean 'run'?"),
        (["benchmrk", "m.onnx"], "there is no command 'benchmrk'; did you mean 'benchmark'?"),
    ],
)
def test_words_of_other_programs_are_told_ours(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_reader_that_ends_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "dnnl_graph_ops", "status"], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--part", "0/0"], "part '0/0': must be i/n"), (["--max-gmacs", "1e-9", "--part", "0/400"], "raise --max-gmacs")],
)
def test_fit_without_a_layer_tells_what_to_do(words, said, capsys):
    assert main(["fit", *words]) == 1
    assert said in capsys.readouterr().err


def test_help_of_bench_lists_its_commands(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"], prog="dnnl-graph-ops")
    printed = capsys.readouterr().out
    assert "dnnl-graph-ops bench" in printed
    assert all(name in printed for name in ("run", "compare", "merge", "report", "list", "Exit status"))


def test_bench_without_a_command_measures(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--no-such-choice"])
    assert ended.value.code == 2
    assert main(["bench", "list", "--match", "^DCGAN"]) == 0
    assert "DCGAN" in capsys.readouterr().out


def test_cache_tells_and_clears_the_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "dnnl_graph_ops" / "tuning" / "one.json"
    assert main(["cache"]) == 0 and "none" in capsys.readouterr().out
    kept.parent.mkdir(parents=True)
    kept.write_text("[]")
    assert main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["subjects"] == {"tuning": {"files": 1, "bytes": 2}}
    assert kept.exists()
    assert main(["cache", "--clear"]) == 0
    assert not kept.exists() and kept.parent.is_dir()


def test_the_script_is_declared_and_runs(monkeypatch, capsys):
    declared = f'dnnl-graph-ops = "{script.__module__}:{script.__name__}"'
    assert f"[project.scripts]\n{declared}\n" in (ROOT / "pyproject.toml").read_text()
    monkeypatch.setattr("sys.argv", ["dnnl-graph-ops", "info", "--json"])
    assert script() == 0
    assert json.loads(capsys.readouterr().out)["package"] == dgo.__version__


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_states_its_exit_statuses(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert "Exit status: 0 fine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "x.json", "--svg", "x.png"], "x.png: the picture is SVG; end the name in .svg"),
        (["explain", "x.json", "--svg", "absent/x.svg"], "absent/x.svg: cannot be written (no directory absent)"),
        (["fit", "--save", "absent/x.json"], "absent/x.json: cannot be written (no directory absent)"),
        (["fit", "--write", "absent/x.json"], "absent/x.json: cannot be written (no directory absent)"),
        (["bench", "--quick", "--plot", "x.bmp"], "x.bmp: no picture format; end the name in .png, .svg, .pdf"),
        (["bench", "--quick", "--html", "absent/x"], "absent/x: cannot be written (no directory absent)"),
        (["bench", "--suite", "unet.onnx"], "a model is no list of layers; measure it with --model unet.onnx"),
    ],
)
def test_outputs_are_looked_at_before_any_work(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) in (1, 2)
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.child
def test_as_a_process():
    assert child("-m", "dnnl_graph_ops", "--version").stdout.startswith("dnnl_graph_ops ")

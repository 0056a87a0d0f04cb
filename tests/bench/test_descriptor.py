"""Descriptors and batch files, against the documented grammar and the library's own problems."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from dnnl_graph_ops.bench import batchfile
from dnnl_graph_ops.bench.descriptor import format_descriptor, looks_like_descriptor, parse
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.errors import InvalidArgumentError

from .test_problems import random_problem


def test_output_and_padding_are_derived_from_each_other():
    # the output gives the padding
    assert parse("mb1ic64ih32oc64oh64kh4sh2").pads_begin == (1, 1)
    # the padding gives the output
    assert parse("mb1ic64ih32oc64kh4sh2ph1").out_spatial == (64, 64)
    # neither: no padding
    assert parse("ic8iw5oc8kw3").out_spatial == (7,)


def test_defaults():
    problem = parse("ic8iw5oc4kw3")
    assert (problem.batch, problem.groups, problem.strides, problem.dilations) == (2, 1, (1,), (1,))


def test_dilation_zero_is_none_and_counts_from_there():
    assert parse("ic1iw9oc1kw3dw0").dilations == (1,)
    assert parse("ic1iw9oc1kw3dw2").extent == (7,)


def test_right_padding_is_what_the_output_leaves():
    # one tap too many at the end is cut, one too few becomes output padding
    cut = parse("mb96ic64iw112oc3ow224kw7sw2pw3")
    assert (cut.pads_begin, cut.pads_end, cut.output_padding) == ((3,), (2,), (0,))
    longer = parse("g1mb50ic256iw28oc512ow56kw1sw2pw0")
    assert (longer.pads_end, longer.output_padding) == ((0,), (1,))
    large = parse("mb1ic16ih16oc128oh32kh64sh2ph1")
    assert (large.pads_begin, large.pads_end) == ((1, 1), (61, 61))


def test_smaller_axes_are_copied_from_the_larger():
    problem = parse("mb1ic8id4oc4kd3sd2pd1")
    assert (problem.spatial, problem.kernel, problem.strides) == ((4, 4, 4), (3, 3, 3), (2, 2, 2))
    assert parse("mb1ic8ih4oc4kh3").spatial == (4, 4)


def test_leading_axes_of_one_are_dropped_unless_kept():
    text = "mb2ic16id1ih1iw5oc3od1oh1ow5kd1kh1kw3sd1sh1sw1pd0ph0pw1dd0dh0dw0"
    assert parse(text).rank == 1
    assert parse(text, keep_unit_axes=True).spatial == (1, 1, 5)


def test_names_underscores_and_order():
    problem = parse('_kh4sh2_oc64ic32_ih8_n"a net: up1, 50 %"')
    assert problem.name == "a net: up1, 50 %"
    assert (problem.in_channels, problem.out_channels) == (32, 64)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("ic3iw5kw3", "oc is missing"),
        ("ic3oc4", "no spatial axis"),
        ("ic3oc4iw5", "kw is missing"),
        ("ic3oc4iw5kw", "kw has no number"),
        ("ic3oc4iw5kw3x7", "'x7'"),
        ("g0ic3oc4iw5kw3", "g must be"),
        ("ic3oc4iw5kw3sw0", "sw is missing or 0"),
        ("ic3oc4id5ih5kd3kh3", "both h and w"),
        ("ic3oc4iw5kw1pw9", "ow comes out"),
        ("ic3oc4iw5ow99kw3", "pw comes out"),
        ("g2ic3oc4iw5kw3", "not a multiple of groups"),
    ],
)
def test_malformed_ones_say_what_is_wrong(text, said):
    with pytest.raises(InvalidArgumentError, match=said):
        parse(text)


def test_ordinary_convolutions_have_the_same_grammar_and_their_own_sizes():
    # the output gives the padding, the padding gives the output, neither: none
    assert parse("--conv mb1ic64ih64oc64oh32kh4sh2").pads_begin == (1, 1)
    assert parse("mb1ic64ih64oc64kh4sh2ph1", op="conv").out_spatial == (32, 32)
    assert parse("--conv ic8iw5oc8kw3").out_spatial == (3,)
    # at the end there is as much padding as the output needs
    problem = parse('--conv mb256ic3ih227oc96oh55kh11sh4ph0n"alexnet:conv1"')
    assert (problem.name, problem.pads_end, problem.op) == ("alexnet:conv1", (0, 0), "conv")
    resnet = parse("--conv ic3ih224oc64oh112kh7sh2ph3")
    assert (resnet.pads_begin, resnet.pads_end, resnet.out_spatial) == ((3, 3), (2, 2), (112, 112))
    # what a stride leaves of src is not padding
    assert parse("--conv ic8iw10oc8ow5kw1sw2pw0").pads_end == (0,)
    assert parse("--deconv ic8iw5oc8kw3", op="conv").out_spatial == (7,)
    assert looks_like_descriptor("--conv mb1ic64ih32oc64kh3ph1")
    with pytest.raises(InvalidArgumentError, match="leaves more than a stride of iw unread"):
        parse("--conv ic8iw10oc8ow2kw1pw0")


def test_written_and_read_again_ordinary_ones_compute_the_same(seed):
    rng = random.Random(seed)
    for _ in range(200):
        problem = random_problem(rng, "conv")
        again = parse(format_descriptor(problem), keep_unit_axes=True)
        # padding that no window reaches is not written
        assert replace(again, name="x", pads_end=problem.pads_end) == problem
        assert (again.out_spatial, again.macs) == (problem.out_spatial, problem.macs)


def test_written_and_read_again_random_problems_are_the_same(seed):
    rng = random.Random(seed)
    kept = 0
    while kept < 200:
        rank, groups = rng.randint(1, 3), rng.randint(1, 3)

        def draw(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(rng.randint(low, high) for _ in range(rank))

        values = (draw(2, 7), draw(1, 5), draw(1, 3), draw(0, 2), draw(0, 2))
        try:
            problem = Problem("x", 3, 2 * groups, groups, *values, (0,) * rank, draw(1, 3), groups)
        except InvalidArgumentError:
            continue
        kept += 1
        assert replace(parse(format_descriptor(problem)), name="x") == problem


def test_looks_like_descriptor():
    assert looks_like_descriptor("mb1_ic64ih32oc64oh64kh4sh2ph1")
    assert not looks_like_descriptor("real_layers")
    assert not looks_like_descriptor("problems.json")


@pytest.mark.corpus
def test_the_library_s_own_problems(corpora):
    lines = (corpora / "deconv_problems.jsonl").read_text().splitlines()
    assert len(lines) > 100
    for record in map(json.loads, lines):
        problem, graph = parse(record["desc"]), record["graph"]
        # a canonical descriptor does not tell a 2D problem of height 1 from a 1D one
        unit = len(graph["strides"]) - problem.rank
        for name, value, neutral in (
            ("strides", problem.strides, 1),
            ("dilations", problem.dilations, 1),
            ("pads_begin", problem.pads_begin, 0),
            ("pads_end", problem.pads_end, 0),
            ("output_padding", problem.output_padding, 0),
        ):
            assert [neutral] * unit + list(value) == graph[name], (record["desc"], name)
        src, dst = problem.src_shape(), problem.dst_shape()
        assert [*src[:2], *[1] * unit, *src[2:]] == graph["src_shape_ncx"]
        assert [*dst[:2], *[1] * unit, *dst[2:]] == graph["dst_shape_ncx"]
        assert [*problem.weights_shape[:2], *[1] * unit, *problem.kernel] == graph["weights_shape_iox"]
        assert problem.macs / 1e9 == pytest.approx(record["gmacs"], abs=1e-6)


def test_batch_file(tmp_path):
    (tmp_path / "shapes").write_text('# a comment\nic8iw5oc8kw3n"one"\nmb4ic8ih5oc8kh3n"two#2"  # and one here\n\n')
    (tmp_path / "all").write_text(
        "--reset --mb=16\n--dir=FWD_B,BWD_D --dt=bf16:bf16:f32,f32 --stag=axb\n--batch=shapes\n"
        "--attr-post-ops=sum, \\\n  relu\n--reset --match=.*kw3.*\n--batch=shapes\n"
    )
    entries = batchfile.read(tmp_path / "all")
    assert [e.problem.name for e in entries] == ["one", "two#2", "one"]
    assert [e.problem.batch for e in entries] == [16, 16, 2]
    first, last = entries[0], entries[-1]
    assert (first.directions, first.dtypes) == (("fwd", "bwd_d"), ("bf16", "f32"))
    assert first.problem.bias
    assert (last.directions, last.dtypes, last.problem.bias) == ((), (), False)


def test_a_batch_file_may_name_its_driver(tmp_path):
    (tmp_path / "shapes").write_text(
        "ic8iw5oc8kw3\n--conv --mb=4\nic8iw5oc8kw3\n--reset\nic8iw5oc8kw3\n--deconv\nic8iw5oc8kw3\n"
    )
    ops = [e.problem.op for e in batchfile.read(tmp_path / "shapes")]
    assert ops == ["conv_transpose", "conv", "conv", "conv_transpose"]
    assert batchfile.read(tmp_path / "shapes", "conv")[0].problem.out_spatial == (3,)


def test_batch_file_errors_name_file_and_line(tmp_path):
    (tmp_path / "bad").write_text("ic8iw5oc8kw3\nic8iw5oc8kq3\n")
    with pytest.raises(InvalidArgumentError, match=r"bad, line 2: .*'kq3'"):
        batchfile.read(tmp_path / "bad")
    (tmp_path / "loop").write_text("--batch=loop\n")
    with pytest.raises(InvalidArgumentError, match="include itself"):
        batchfile.read(tmp_path / "loop")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        batchfile.read(tmp_path / "absent")

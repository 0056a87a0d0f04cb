"""Problems, the shipped suite, where problems come from, and the reference of all results."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pytest

from dnnl_graph_ops.bench import data, reference, sources, suite
from dnnl_graph_ops.bench.cases import Wanted, entrants, expand
from dnnl_graph_ops.bench.options import Options, described
from dnnl_graph_ops.bench.peers import registry
from dnnl_graph_ops.bench.peers.task import padding_before, symmetric_padding
from dnnl_graph_ops.bench.problem import CLASSES, OPS, Problem
from dnnl_graph_ops.errors import InvalidArgumentError, ShapeError, UnsupportedError

from . import synthetic


def meeting(problem: Problem, at: list[int], tap: list[int]) -> tuple[int, ...]:
    """The index on the larger side (dst of a transposed convolution, src of an ordinary one) that a tap meets."""
    each = zip(at, problem.strides, tap, problem.dilations, problem.pads_begin, strict=True)
    return tuple(a * s + t * d - p for a, s, t, d, p in each)


def brute_force(problem: Problem, direction: str, operands: dict[str, np.ndarray]) -> tuple[np.ndarray, int]:
    """The result and the number of multiply-adds, by the definition, one product at a time."""
    shapes = {"fwd": problem.dst_shape(), "bwd_d": problem.src_shape(), "bwd_w": problem.weights_shape}
    result = np.zeros(shapes[direction], np.float64)
    count = 0
    ic, oc = problem.in_channels // problem.groups, problem.out_channels // problem.groups
    loops = [range(problem.batch), range(problem.groups), range(ic), range(oc)]
    small, large = problem.spatial, problem.out_spatial
    if problem.op == "conv":
        small, large = large, small
    loops += [range(v) for v in (*small, *problem.kernel)]
    for n, g, i, o, *rest in itertools.product(*loops):
        at, tap = rest[: problem.rank], rest[problem.rank :]
        met = meeting(problem, at, tap)
        if any(not 0 <= v < size for v, size in zip(met, large, strict=True)):
            continue
        count += 1
        if problem.op == "conv":
            src, dst, weights = (n, g * ic + i, *met), (n, g * oc + o, *at), (g * oc + o, i, *tap)
        else:
            src, dst, weights = (n, g * ic + i, *at), (n, g * oc + o, *met), (g * ic + i, o, *tap)
        if direction == "fwd":
            result[dst] += operands["src"][src] * operands["weights"][weights]
        elif direction == "bwd_d":
            result[src] += operands["diff_dst"][dst] * operands["weights"][weights]
        else:
            result[weights] += operands["src"][src] * operands["diff_dst"][dst]
    return result, count


def random_problem(rng: random.Random, op: str = OPS[0]) -> Problem:
    while True:
        rank, groups = rng.randint(1, 3), rng.choice((1, 1, 2, 3))

        def draw(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(rng.randint(low, high) for _ in range(rank))

        try:
            return Problem(
                "x", rng.randint(1, 2), groups * rng.randint(1, 2), groups * rng.randint(1, 2),
                draw(1, 4), draw(1, 3), draw(1, 3), draw(0, 2), draw(0, 2), draw(0, 2) if op == OPS[0] else (),
                draw(1, 2), groups, op=op,
            )  # fmt: skip
        except InvalidArgumentError:
            continue


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("direction", ["fwd", "bwd_d", "bwd_w"])
def test_reference_and_cost_are_the_definition_s(direction, op, seed):
    rng = random.Random(seed)
    for _ in range(12):
        problem = random_problem(rng, op)
        operands = data.operands(problem, direction)
        expected, count = brute_force(problem, direction, operands)
        np.testing.assert_array_equal(reference.compute(problem, direction, operands), expected, str(problem))
        assert problem.macs == count, problem


@pytest.mark.parametrize("op", OPS)
def test_bias_is_added_per_channel(op):
    problem = Problem("b", 2, 3, 4, (3,), (2,), bias=True, op=op)
    operands = data.operands(problem, "fwd")
    without = reference.compute(problem, "fwd", {k: v for k, v in operands.items() if k != "bias"})
    with_bias = reference.compute(problem, "fwd", operands)
    np.testing.assert_array_equal(with_bias - without, np.broadcast_to(operands["bias"][:, None], without.shape))


def test_the_same_numbers_in_every_process_and_others_for_another_seed():
    problem = synthetic.problem()
    first, again, other = (data.operands(problem, "fwd", seed)["src"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_relative_error_finds_nan_and_shapes():
    ones = np.ones((2, 3), np.float32)
    assert data.relative_error(ones, ones) == 0
    assert math.isinf(data.relative_error(np.full((2, 3), np.nan, np.float32), ones))
    assert math.isinf(data.relative_error(ones.T, ones))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spatial": ()}, "1 to 3 spatial axes"),
        ({"strides": (1, 2)}, "one value per spatial axis"),
        ({"kernel": (0,)}, "kernel must be integers >= 1"),
        ({"groups": 3}, "not a multiple of groups 3"),
        ({"batch": 0}, "batch must be"),
        ({"pads_begin": (9,), "pads_end": (9,)}, "lower the padding"),
        ({"op": "deconv"}, "op 'deconv'; known: conv_transpose, conv"),
        ({"op": "conv", "kernel": (4,)}, "smaller kernel or more padding"),
        ({"op": "conv", "output_padding": (1,)}, "is of transposed convolutions"),
    ],
)
def test_bad_sizes_are_named(changes, said):
    values = {"name": "p", "batch": 1, "in_channels": 4, "out_channels": 4, "spatial": (3,), "kernel": (2,)}
    with pytest.raises((InvalidArgumentError, ShapeError), match=said):
        Problem(**{**values, **changes})


def test_limited_halves_the_batch():
    problem = Problem("p", 8, 100, 100, (100,), (10,))
    assert problem.limited(None) is problem
    assert problem.limited(problem.macs / 3 / 1e9).batch == 2
    assert problem.limited(problem.macs / 9 / 1e9) is None


def test_symmetric_padding_describes_the_same_layer(seed):
    rng = random.Random(seed)
    for _ in range(300):
        problem = random_problem(rng)
        try:
            padding, extra, crop = symmetric_padding(problem)
        except UnsupportedError:
            assert any(o >= s for o, s in zip(problem.output_padding, problem.strides, strict=True))
            continue
        for axis in range(problem.rank):
            length = problem.strides[axis] * (problem.spatial[axis] - 1) + problem.extent[axis]
            length += extra[axis] - 2 * padding[axis]
            cut = crop[axis] if crop else slice(0, length)
            # where the first tap of the first input falls, and how long the result is
            assert padding[axis] + cut.start == problem.pads_begin[axis]
            assert cut.stop - cut.start == problem.out_spatial[axis]
            assert cut.stop <= length


def test_uneven_padding_before_describes_the_same_layer(seed):
    rng = random.Random(seed)
    uneven = 0
    for _ in range(300):
        problem = random_problem(rng, "conv")
        padding, before = padding_before(problem)
        uneven += before is not None
        for axis, both, (begin, end) in zip(problem.axes, padding, before or ((0, 0),) * problem.rank, strict=True):
            assert both + begin == axis.pad_begin
            padded = axis._replace(size=axis.size + begin + end, pad_begin=both, pad_end=both)
            assert padded.out == axis.out
    assert uneven > 20


def test_the_adjoint_has_the_same_weights_and_exchanges_src_and_dst(seed):
    rng = random.Random(seed)
    for _ in range(100):
        problem = random_problem(rng, "conv")
        adjoint = problem.adjoint
        assert adjoint.adjoint is adjoint
        assert adjoint.weights_shape == problem.weights_shape
        assert (adjoint.src_shape(), adjoint.dst_shape()) == (problem.dst_shape(), problem.src_shape())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "3x3 stride 1"),
        ({"dilations": (2, 2)}, "3x3 stride 1"),
        ({"spatial": (8,), "kernel": (3,)}, "3x3 stride 1"),
        ({"strides": (2, 2)}, "other"),
        ({"kernel": (3, 1)}, "other"),
        ({"out_channels": 16}, "other"),
        ({"kernel": (1, 1)}, "1x1"),
        ({"kernel": (1, 1), "strides": (2, 2)}, "1x1"),
        ({"groups": 32}, "depthwise and small groups"),
        ({"in_channels": 4, "groups": 4, "out_channels": 8}, "depthwise and small groups"),
        ({"in_channels": 3}, "first layers"),
        ({"in_channels": 4, "kernel": (1, 1)}, "first layers"),
    ],
)
def test_classes_of_layers(changes, name):
    values = {"name": "p", "batch": 1, "in_channels": 32, "out_channels": 64, "spatial": (8, 8), "kernel": (3, 3)}
    assert Problem(**{**values, **changes}, op="conv").layer_class == name


def test_the_suite_of_ordinary_convolutions_has_many_of_every_class():
    layers = suite.real_layers("conv")
    assert len(layers) >= 80
    assert all(p.source and p.family and "/" in p.name and p.op == "conv" for p in layers)
    assert len({p.name.partition("/")[0] for p in layers}) >= 50
    counts = {name: sum(p.layer_class == name for p in layers) for name in CLASSES}
    assert min(counts.values()) >= 20, counts
    assert {p.rank for p in layers} == {1, 2, 3}
    assert any(max(p.dilations) > 1 for p in layers)
    assert {31, 29, 27} <= {p.kernel[0] for p in layers if p.depthwise}
    assert any(p.kernel == p.strides and p.kernel[0] > 2 for p in layers)
    assert {p.layer_class for p in suite.quick_layers("conv")} == set(CLASSES)
    # a name means one layer, whatever the op
    assert len(suite.by_name()) == len(layers) + len(suite.real_layers())


def test_suite_is_large_real_and_has_its_sources():
    layers = suite.real_layers()
    assert len(layers) >= 60
    assert len({p.name for p in layers}) == len(layers)
    assert all(p.source and p.family and "/" in p.name for p in layers)
    families = {p.family for p in layers}
    assert {
        "vocoder",
        "istft",
        "gan",
        "superres",
        "segmentation2d",
        "segmentation3d",
        "detection",
        "depthwise",
    } <= families
    assert {p.rank for p in layers} == {1, 2, 3}
    assert {p.name for op in OPS for p in suite.quick_layers(op)} == set(suite.QUICK)


@pytest.mark.parametrize(
    ("name", "out"),
    [
        # the outputs that the papers and codes state
        ("DCGAN/deconv4", (32, 32)),
        ("DeconvNet/fc6_deconv", (7, 7)),
        ("FCN8s/upscore8", (568, 568)),
        ("Spleeter_2stems/up5", (256, 512)),
        ("EnCodec_24k/up_r8", (1200,)),
        ("WorldModels/deconv4", (64, 64)),
        ("StyleGAN2/up_128_257", (257, 257)),
        ("bmshj2018_hyper/g_s3", (512, 768)),
        ("nnUNet_3d/up4", (128, 128, 128)),
        ("GGCNN/convt3", (301, 301)),
        ("AlexNet/conv1", (55, 55)),
        ("InceptionV3/Conv2d_1a", (149, 149)),
        ("EfficientNetB7_tf/dw5_288_s2", (75, 75)),
        ("ConvMixer1536/patch7", (32, 32)),
        ("VideoSwinT/patch2x4x4", (16, 56, 56)),
        ("SSD300/conv9_2", (5, 5)),
        ("PatchGAN/c512_s1", (31, 31)),
        ("VQGAN_f16/down3", (16, 16)),
        ("HiFiGAN/mpd2_512", (152, 2)),
        ("EnCodec_24k/down_r8", (150,)),
        ("wav2vec2/conv1", (1599,)),
        ("QuartzNet/c2_dw87_d2", (800,)),
        ("DeepSpeech2/conv1", (81, 250)),
        ("CRNN/conv6", (1, 25)),
        ("EEGNet/temporal", (64, 128)),
        ("Mamba130M/conv4_causal", (1024,)),
        ("VoxNet/conv1", (14, 14, 14)),
    ],
)
def test_suite_outputs(name, out):
    assert suite.by_name()[name].out_spatial == out


def test_sources_and_filters(tmp_path):
    assert len(sources.find("real_layers")) == len(suite.real_layers())
    assert sources.find("LapSRN/image")[0].problem.in_channels == 1
    assert sources.find("mb1ic4iw8oc4kw3")[0].problem.batch == 1
    problem = synthetic.problem()
    assert sources.find([problem, problem.as_dict()]) == [Wanted(problem), Wanted(problem)]
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"problems": [problem.as_dict(), "ic4iw8oc4kw3", {"desc": "ic4iw8oc4kw5"}]}))
    assert [w.problem.kernel for w in sources.find(str(path))] == [(4, 4), (3,), (5,)]
    every = sources.find("real_layers")
    kept = sources.Filters(families=("depthwise",), batch=3).apply(every)
    assert kept
    assert all(w.problem.depthwise and w.problem.batch == 3 for w in kept)
    first = sources.Filters(classes=("first layers", "1x1")).apply(sources.find("real_layers", ops=["conv"]))
    assert {w.problem.layer_class for w in first} == {"first layers", "1x1"}


def test_the_op_chooses_the_suite_and_what_descriptors_and_records_mean(tmp_path):
    both = sources.find("real_layers", ops=OPS)
    assert [w.problem for w in both] == [*suite.real_layers(), *suite.real_layers("conv")]
    assert sources.find("DQN/conv1")[0].problem.op == "conv"
    record = {"batch": 1, "in_channels": 4, "out_channels": 4, "spatial": [8], "kernel": [3]}
    path = tmp_path / "list.json"
    path.write_text(json.dumps([record, {**record, "op": "conv"}, "ic4iw8oc4kw3", {"desc": "--conv ic4iw8oc4kw3"}]))
    for what, ops, found in (
        ("ic4iw8oc4kw3", ["conv"], ["conv"]),
        ("ic4iw8oc4kw3", OPS, ["conv_transpose"]),
        ("--conv ic4iw8oc4kw3", OPS, ["conv"]),
        ("--deconv ic4iw8oc4kw3", ["conv"], ["conv_transpose"]),
        (record, ["conv"], ["conv"]),
        ({**record, "op": "conv"}, OPS[:1], ["conv"]),
        (path, OPS[:1], ["conv_transpose", "conv", "conv_transpose", "conv"]),
        (path, OPS[::-1], ["conv", "conv", "conv", "conv"]),
    ):
        assert [w.problem.op for w in sources.find(what, ops=ops)] == found, (what, ops)
    with pytest.raises(InvalidArgumentError, match=r"op: unknown \['matmul'\]; known: conv_transpose, conv"):
        sources.find("real_layers", ops=["matmul"])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("HiFiGAN_v1/ups9", "did you mean HiFiGAN_v1/ups"),
        ("nonsense", "not a file, not a descriptor"),
        ("mb1ic3oc4ih5", "kh is missing"),
        (3, "got int"),
        ({"name": "x"}, "missing keys"),
        ({"batch": 1, "in_channels": 1, "out_channels": 1, "spatial": 3, "kernel": [1]}, "problem"),
    ],
)
def test_unknown_sources_get_one_clear_line(what, said):
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        sources.find(what)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "half.json").write_text('{"problems": [')
    (tmp_path / "other.json").write_text('{"a": 1}')
    for name, said in (("half.json", "not JSON"), ("other.json", "no list of problems")):
        with pytest.raises(InvalidArgumentError, match=said):
            sources.find(str(tmp_path / name))


def test_filters_that_leave_nothing_suggest_a_name():
    with pytest.raises(InvalidArgumentError, match="did you mean LapSRN/"):
        sources.Filters(match="LapSRN/imag$").apply(sources.find("real_layers"))
    with pytest.raises(InvalidArgumentError, match="not a regular expression"):
        sources.Filters(match="(").apply(sources.find("real_layers"))


def test_cases_and_who_runs_them():
    options = Options(("fwd", "bwd_w"), ("f32", "bf16", "int8"), tune=("off", "heuristic"))
    cases, over = expand([Wanted(synthetic.problem())], options)
    assert [(c.direction, c.dtype) for c in cases] == [
        ("fwd", "f32"), ("fwd", "bf16"), ("fwd", "int8"), ("bwd_w", "f32"), ("bwd_w", "bf16"),
    ]  # fmt: skip
    assert not over
    assert cases[-1].weights == "variable"
    known = registry.peers()
    labels = [e.label for e in entrants(cases[1], known["dgo"], [known["torch"], known["onnxruntime"]], options)]
    assert labels == [
        "dgo NXC off",
        "dgo NXC heuristic",
        "dgo NCX off",
        "dgo NCX heuristic",
        "torch NXC",
        "torch NCX",
    ]
    over = expand([Wanted(synthetic.problem())], Options(max_gmacs=1e-9))[1]
    assert len(over) == 1


def test_the_ops_have_keys_of_their_own_and_those_before_stay():
    problems = sources.find(["mb1ic4iw8oc4kw3nx", "--conv mb1ic4iw8oc4kw3nx"])
    (old, new), _ = expand(problems, Options())
    assert old.key == "x|fwd|f32|mb1|constant"
    assert new.key == "x|conv|fwd|f32|mb1|constant"
    assert (old.label, new.label) == ("x fwd f32", "x conv fwd f32")
    assert "op" in old.problem.as_dict()
    record = {k: v for k, v in old.problem.as_dict().items() if k != "op"}
    assert Problem.from_dict(record) == old.problem


def test_peers_are_listed_without_importing_them():
    chosen, notes = registry.select(["none"])
    assert (chosen, notes) == ([], [])
    with pytest.raises(InvalidArgumentError, match="nobody"):
        registry.select(["nobody"])
    absent = registry.Peer("ghost", "ghost", ("no_such_module_here",))
    assert "pip install no_such_module_here" in absent.missing()


def test_every_option_is_described():
    assert [*described()] == sorted(described(), key=[*Options().as_dict()].index)
    assert described().keys() == Options().as_dict().keys()


def test_public_suites_have_their_layers():
    counts = {name: len(sources.find(name)) for name in suite.PUBLIC}
    assert counts == {"phoronix": 10, "xnnpack": 11, "ansor": 28, "deepbench": 56}
    # by hand: the last of ENet's layers doubles 256, and its second adds one row to what padding leaves
    by_name = {wanted.problem.name: wanted.problem for wanted in sources.find("xnnpack")}
    assert by_name["ENet/3"].dst_shape() == (1, 12, 512, 512)
    assert by_name["ENet/2"].dst_shape() == (1, 16, 256, 256)
    assert all(wanted.problem.family == "ansor" for wanted in sources.find("ansor"))


def test_another_library_is_a_peer_by_its_file(tmp_path):
    (tmp_path / "libdnnl.so.3.99").touch()
    (tmp_path / "libdnnl.so.3").symlink_to("libdnnl.so.3.99")
    (mine, literal), notes = registry.select([f"dgo@{tmp_path}/libdnnl.so.3", f"onednn@{tmp_path}/libdnnl.so.3"])
    assert not notes
    assert (mine.name, literal.name) == ("dgo@3.99", "onednn@3.99")
    assert mine.environment["DNNL_GRAPH_OPS_LIBRARY"] == str(tmp_path / "libdnnl.so.3.99")
    (case,), _ = expand([Wanted(synthetic.problem())], Options())
    found = entrants(case, registry.peers()["dgo"], [mine, literal], Options())
    assert {(e.side, e.options.get("tune")) for e in found} == {
        ("dgo", "heuristic"), ("dgo@3.99", None), ("onednn@3.99", "off"),
    }  # fmt: skip
    assert not any(map(registry.is_rival, (mine.name, literal.name, "dgo-compile", "openvino-default")))
    assert registry.is_rival("torch-compile")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "libdnnl.so.3.99").touch()
    (tmp_path / "other" / "libdnnl.so.3").touch()
    assert registry.select([f"dgo@{tmp_path}/other/libdnnl.so.3"])[0][0].name == "dgo@3.99"
    files = [str(tmp_path / "libdnnl.so.3.99"), str(tmp_path / "other" / "libdnnl.so.3.99")]
    named, _ = registry.select([f"onednn@{file}" for file in files])
    assert [peer.environment["DNNL_GRAPH_OPS_LIBRARY"] for peer in named] == files
    with pytest.raises(InvalidArgumentError, match="there is no such file"):
        registry.select(["dgo@/nowhere/libdnnl.so.3"])


def test_other_words_are_understood():
    options = Options(directions=("forward", "backward_weights"), dtypes=("float32", "int8", "BF16"), layouts=("NHWC",))
    assert (options.directions, options.dtypes) == (("fwd", "bwd_w"), ("f32", "int8", "bf16"))
    assert options.layouts == ("NXC",)
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    assert [peer.name for peer in registry.select(["PyTorch", "torch"])[0]] == ["torch"]


def test_precisions_are_columns_of_their_own():
    known = registry.peers()
    options = Options(("fwd",), ("f32", "int8", "bf16"), ("NXC",), precisions=("bf16", "auto", "f32"))
    cases, _ = expand([Wanted(synthetic.problem())], options)
    found = {case.dtype: entrants(case, known["dgo"], [known["openvino"]], options) for case in cases}
    assert [(e.label, e.side) for e in found["f32"]] == [
        ("dgo NXC", "dgo"), ("dgo NXC bf16", "dgo bf16"), ("dgo NXC auto", "dgo auto"), ("openvino NCX", "openvino"),
    ]  # fmt: skip
    assert [e.label for e in found["int8"]] == ["dgo NXC", "dgo NXC f32", "openvino NCX"]
    assert [e.label for e in found["bf16"]] == ["dgo NXC", "openvino NCX"]
    # integers would lose nothing
    assert [case.real for case in cases] == [True, False, False]
    drawn = data.operands(synthetic.problem(), "fwd", real=True)["src"]
    assert (drawn != np.rint(drawn)).any()
    with pytest.raises(InvalidArgumentError, match="precisions: unknown"):
        Options(precisions=("int4",))

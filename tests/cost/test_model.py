"""What the cost model must get right on any machine: forms that are several times slower are not chosen."""

from __future__ import annotations

import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import choice, table
from dnnl_graph_ops.bench.problem import Problem
from dnnl_graph_ops.bench.times import Elsewhere, described
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.cost import nearest
from dnnl_graph_ops.ir.env import Env
from dnnl_graph_ops.program.epilogue import EpilogueOp

pytestmark = pytest.mark.choice


def ranked(layer: Problem, layout: str) -> list[str]:
    """Forward formulations with variable weights, cheapest first."""
    env = Env(dgo.engine("cpu"), 2)
    problem = described(layer, DGRAD, layout, constant=False)
    return [form.name for form, _ in table.candidates(problem, env)]


def test_one_product_for_each_image_needs_positions() -> None:
    """One position an image would read all weights again for each."""
    layer = Problem("DCGAN's first", 64, 100, 512, (1, 1), (4, 4), (1, 1), (0, 0))
    assert ranked(layer, "NCX").index("im2col per image") >= 3


def test_one_tap_on_channels_first_is_one_product() -> None:
    layer = Problem("1x1", 1, 64, 128, (248, 216), (1, 1), (1, 1), (0, 0))
    assert ranked(layer, "NCX")[0] == "im2col per image"


@pytest.mark.parametrize(("direction", "thin"), [(DGRAD, (2, 8)), (FPROP, (1, 4))])
def test_thin_products_of_images_are_own(direction: str, thin: tuple[int, int]) -> None:
    """A MatMul of few rows, or of few sums, takes several times as long."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16")
    form = next(f for f in table.ALGORITHMS if (f.name, f.direction) == ("im2col per image", direction))
    for ic, own in (*((n, True) for n in thin), (16, False), (64, False)):
        layer = Problem("1x1", 2, ic, 32, (24, 24), (1, 1), (1, 1), (0, 0))
        assert form.converts(described(layer, direction, "NCX", False), env) is own


def test_recorded_layers_correct_all_but_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They had no functions behind them."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16")
    monkeypatch.setattr(nearest, "factors", lambda problem, env: {"convolution": 0.25})
    form = next(f for f in table.ALGORITHMS if (f.name, f.direction) == ("convolution", FPROP))
    layer = described(Problem("3x3", 1, 32, 32, (24, 24), (3, 3), (1, 1), (1, 1), (1, 1)), FPROP, "NXC", True)
    behind = layer.with_views(epilogue=(EpilogueOp("Sigmoid", {}, (0,)),))
    alone, both = (table.estimates(problem, env)(form) for problem in (layer, behind))
    assert alone == pytest.approx(0.25 * form.seconds(layer, env))
    assert both - alone == pytest.approx(cost.functions(behind, env, cost.BY_CONVOLUTIONS))


@pytest.mark.parametrize(("isa", "by"), [("avx512_core_bf16", cost.BY_CONVOLUTIONS), ("avx2", cost.BY_PRODUCTS)])
def test_functions_behind_products_are_dear_without_avx512(isa: str, by: int) -> None:
    env = Elsewhere(dgo.engine("cpu"), 1, name=isa)
    form = next(f for f in table.ALGORITHMS if (f.name, f.direction) == ("im2col", FPROP))
    layer = described(Problem("1x1", 1, 64, 256, (50,), (1,), (1,), (0,), (0,)), FPROP, "NXC", True)
    behind = layer.with_views(epilogue=(EpilogueOp("Tanh", {}, (0,)),))
    price = form.seconds(behind, env) - form.seconds(layer, env)
    assert price == pytest.approx(cost.functions(behind, env, by))


CHANNELS_FIRST = {
    # the library puts windows in channels last itself; one product needs none
    "1x1": ((160, 160), 56, 12, 1, WGRAD, "im2col per image", "phases"),
    # transforms on one axis are cheap
    "long rows": ((4096,), 64, 64, 11, WGRAD, "Winograd 3", "phases"),
    # columns of short rows are added up line by line
    "upsampled": ((64, 64), 128, 64, 2, DGRAD, "builtin direct", "im2col per image"),
    "upsampled volume": ((16, 16, 16), 64, 32, 2, DGRAD, "builtin direct", "im2col per image"),
}


@pytest.mark.parametrize("name", CHANNELS_FIRST)
def test_channels_first_what_moves_channels_is_not_for_nothing(name: str) -> None:
    size, ic, oc, k, direction, better, worse = CHANNELS_FIRST[name]
    one = (1,) * len(size)
    strides, pads = ((k,) * len(size), (0,) * len(size)) if direction == DGRAD else (one, (k // 2,) * len(size))
    layer = Problem(name, 1, ic, oc, size, (k,) * len(size), strides, pads, pads)
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16")
    names = [form.name for form, _ in table.candidates(described(layer, direction, "NCX", False), env)]
    assert names.index(better) < names.index(worse)


@pytest.mark.parametrize(
    ("name", "converted"), [("deconvolution", True), ("im2col", False), ("convolution, channels last", True)]
)
def test_copies_of_f16_that_is_computed_in_f32_are_of_f32(name: str, converted: bool) -> None:
    """What moves channels is not cheaper than in f32, and conversions come on top if kernels do not read f16."""
    layer = Problem("64 -> 1", 1, 64, 1, (40, 40), (2, 2), (2, 2), (0, 0))
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16")
    form = next(f for f in table.ALGORITHMS if (f.name, f.direction) == (name, FPROP))
    wide, narrow = (described(layer, FPROP, "NCX", True, dtype) for dtype in ("f32", "f16"))
    more = form.counts(narrow, env).bytes - form.counts(wide, env).bytes
    assert more == pytest.approx(cost.CONVERTED * (narrow.y.size + narrow.x.size) * converted)


def test_what_lies_channels_last_is_put_across_for_a_product_of_images() -> None:
    """A product that reads channels last and writes planes gathers its source first."""
    layer = Problem("1x1", 1, 2, 32, (64, 64), (1, 1), (1, 1), (0, 0))
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16")
    planes, pixels = (described(layer, FPROP, layout, True) for layout in ("NCX", "NXC"))
    form = next(f for f in table.ALGORITHMS if (f.name, f.direction) == ("im2col per image", FPROP))
    assert form.counts(planes, env).values == 0
    assert form.counts(planes.with_views(x=pixels.x), env).values >= pixels.x.size


@pytest.mark.parametrize("kernel", [(3, 1), (1, 3)])
def test_places_in_the_padding_of_a_dilated_row_or_column_are_skipped(kernel: tuple[int, int]) -> None:
    """The library skips them on either axis; parts of a layer read their weights again."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16")
    forms = {(form.name, form.direction): form for form in table.ALGORITHMS}
    library, parts = (forms[name, FPROP] for name in ("convolution", "Winograd 2"))
    plain, dilated = (
        described(Problem("3", 1, 128, 128, (32, 32), kernel, (1, 1), pads, pads, dilations=pads), FPROP, "NXC", True)
        for pads in ((1, 1), tuple(16 if k > 1 else 1 for k in kernel))
    )
    assert library.counts(dilated, env).products < 0.7 * library.counts(plain, env).products
    assert parts.counts(dilated, env).weights > 2 * parts.counts(plain, env).weights


@pytest.mark.parametrize(("channels", "width", "stride"), [(104, 8, 1), (128, 8, 2), (128, 4, 1), (64, 2, 1)])
def test_narrow_groups_are_gathered(channels: int, width: int, stride: int) -> None:
    """A tap of so few channels takes longer to begin than to multiply."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx2")
    sizes = (28, 28), (3, 3), (stride, stride), (1, 1)
    layer = Problem("groups", 1, channels, channels, *sizes, groups=channels // width)
    ranking = table.candidates(described(layer, FPROP, "NXC", True), env)
    assert ranking[0][0].name == "builtin grouped"


@pytest.mark.parametrize("size", [4, 8, 16])
def test_packed_weights_grow_only_for_time(size: int) -> None:
    """Filters of 5x5x5 taps take four times the memory of the weights, of which few products read each."""
    layer = Problem("VNet", 1, 256, 256, (size,) * 3, (5,) * 3, (1,) * 3, (2,) * 3)
    env = Env(dgo.engine("cpu"), 1)
    problem = described(layer, FPROP, "NXC", constant=True)
    ranking = choice.ranked(problem, env)
    lean = [item for item in ranking if 4 * (item[0].counts(problem, env).weights - problem.w.size) <= choice._GROWN]
    assert ranking[0] in lean or ranking[0][1] < lean[0][1] * (1 - choice._SAVED)
    assert sorted(ranking[1:], key=lambda item: item[1]) == ranking[1:]


def test_steps_of_the_library_count_more_beyond_four_threads() -> None:
    """One thread starts them, and they are shared less evenly; fitted constants of one thread have neither."""
    assert [cost.by_library(1e-3, threads) for threads in (1, 2, 4)] == [1e-3] * 3
    shares = [cost.by_library(1e-3 / threads, threads) * threads for threads in (4, 8, 16, 64)]
    assert shares == sorted(set(shares))
    # of short steps, starting them is what counts
    assert cost.by_library(1e-6, 64) > 5e-6


@pytest.mark.parametrize(
    ("places", "summed", "columns", "tiled"),
    [(49, 128, 1024, True), (49, 128, 1280, False), (784, 128, 1280, True), (784, 16, 64, False)],
)
def test_products_that_the_library_does_not_tile_take_longer(
    places: int, summed: int, columns: int, tiled: bool
) -> None:
    """It takes tiles for at most eight columns an element of the depth, or for many multiplications."""
    of = {(form.name, form.direction): form for form in table.ALGORITHMS}["im2col", FPROP]
    layer = Problem("one tap", 1, columns, summed, (places,), (1,), (1,), (0,))
    tiles, vectors = (
        of.counts(described(layer, FPROP, "NXC", True, "bf16"), Elsewhere(dgo.engine("cpu"), 1, name=name)).products
        for name in ("avx512_core_amx", "avx512_core_bf16")
    )
    assert (tiles == vectors) == tiled
    assert tiled or tiles > 4 * vectors


def test_deconvolutions_copy_what_one_tap_meets() -> None:
    """Convolutions read x where it is."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_amx")
    layer = Problem("one tap", 4, 8, 8, (128, 128), (1, 1), (2, 2), (0, 0))
    ranking = [form.name for form, _ in table.candidates(described(layer, FPROP, "NXC", True), env)]
    assert ranking.index("convolution") < ranking.index("im2col") < ranking.index("deconvolution")


def in_bf16(name: str, isa: str, kernel: int, stride: int, channels: int) -> cost.Counts:
    """Counts of an algorithm of dgrad, from 8 x 8 positions."""
    layer = Problem("bf16", 1, channels, 32, (8, 8), (kernel, kernel), (stride, stride), (0, 0))
    env = Elsewhere(dgo.engine("cpu"), 1, name=isa)
    of = {(form.name, form.direction): form for form in table.ALGORITHMS}[name, DGRAD]
    return of.counts(described(layer, DGRAD, "NXC", True, "bf16"), env)


@pytest.mark.parametrize(("kernel", "stride", "divided"), [(4, 2, True), (3, 2, False), (5, 3, False), (6, 3, True)])
def test_strides_that_do_not_divide_the_result_have_an_older_kernel_with_tiles(kernel, stride, divided) -> None:
    tiles, vectors = (
        in_bf16("deconvolution", name, kernel, stride, 64).products for name in ("avx512_core_amx", "avx512_core_bf16")
    )
    assert (tiles == vectors) == divided
    assert divided or tiles > 2 * vectors


@pytest.mark.parametrize(("channels", "filled", "all_are"), [(32, 32, False), (24, 32, True), (48, 64, True)])
def test_rows_that_fill_no_whole_tiles_are_copied_tap_by_tap(channels: int, filled: int, all_are: bool) -> None:
    """So are rows of whole tiles that go on in the next line; axes of one tap are one line."""
    copied, of_all = (in_bf16("builtin bf16", "avx512_core_amx", 3, 1, channels).bytes, 10 * 10 * 9 * filled * 2)
    assert copied == of_all if all_are else 0 < copied < of_all / 2
    assert bool(in_bf16("builtin bf16", "avx512_core_amx", 1, 1, channels).bytes) == all_are
    assert not in_bf16("builtin bf16", "avx512_core_bf16", 3, 1, channels).bytes


@pytest.mark.parametrize("direction", [FPROP, WGRAD])
@pytest.mark.parametrize(("y_channels", "x_channels", "size", "waits"), [
    (768, 16, 56, True), (256, 256, 56, False), (768, 16, 7, False),
])  # fmt: skip
def test_the_library_waits_for_memory_that_few_products_do_not_hide(
    direction: str, y_channels: int, x_channels: int, size: int, waits: bool
) -> None:
    layer = Problem("one tap", 1, y_channels, x_channels, (size, size), (1, 1), (1, 1), (0, 0))
    problem, env = described(layer, direction, "NXC", True), Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_amx")
    of = {(form.name, form.direction): form.counts(problem, env).bytes for form in table.usable(problem, env)}
    library, own = of["convolution", direction], of["builtin direct", direction]
    assert library > 3 * own > 0 if waits else library == own == 0


@pytest.mark.parametrize("name", ["builtin direct", "builtin bf16", "builtin col2im", "deconvolution"])
def test_results_without_taps_are_written_too(name: str) -> None:
    met, most_unmet = (in_bf16(name, "avx512_core_amx", kernel, 2, 32).bytes for kernel in (2, 1))
    assert most_unmet > met


@pytest.mark.parametrize("direction", [DGRAD, WGRAD])
def test_phases_without_taps_are_no_convolutions(direction: str) -> None:
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_amx")
    of = next(form for form in table.ALGORITHMS if (form.name, form.direction) == ("phases", direction))
    layers = (Problem("k", 1, 32, 32, (20, 20), (kernel,) * 2, (4, 4), (0, 0)) for kernel in (4, 1))
    whole, one = (of.counts(described(layer, direction, "NXC", True), env) for layer in layers)
    assert one.calls < whole.calls / 2 and one.values < whole.values / 2 and one.bytes < whole.bytes


SLOW = [
    # single channels are added up tap by tap, or most results have no tap
    (Problem("single channels", 1, 16, 3, (12,) * 3, (2,) * 3, (4,) * 3), DGRAD, "f32", "im2col"),
    (Problem("single channels", 1, 16, 3, (12,) * 3, (2,) * 3, (4,) * 3), DGRAD, "bf16", "im2col"),
    (Problem("many taps", 1, 96, 4, (5,) * 3, (8,) * 3, (1,) * 3), DGRAD, "f32", "im2col"),
    (Problem("strided", 4, 6, 6, (32,) * 3, (1,) * 3, (2,) * 3), DGRAD, "f32", "im2col"),
    (Problem("strided", 4, 6, 6, (32,) * 3, (1,) * 3, (2,) * 3), WGRAD, "f32", "deconvolution"),
    (Problem("far", 2, 32, 768, (32, 32), (1, 1), (2, 2)), DGRAD, "bf16", "deconvolution"),
    # columns of strided positions are written and read again
    (Problem("far", 2, 32, 768, (32, 32), (1, 1), (2, 2)), FPROP, "f32", "im2col"),
    # rows are copied tap by tap
    (
        Problem("dilated", 4, 64, 24, (16, 16), (2, 2), (4, 4), (1, 1), (1, 1), (), (2, 2)),
        FPROP,
        "f32",
        "convolution",
    ),
    # rows of weights share few sets of a cache
    (Problem("4 KB apart", 1, 64, 1024, (14, 14), (1, 1), (1, 1)), WGRAD, "f32", "convolution"),
    # a kernel for AVX2 runs where padding is more than half of the window: by phases that of unpadded layers
    (Problem("unpadded", 1, 24, 320, (38, 38), (3, 3)), WGRAD, "f32", "phases"),
    # each row adds to all weights
    (Problem("patches", 1, 768, 1, (3,) * 3, (16,) * 3, (16,) * 3), WGRAD, "bf16", "builtin few-channel"),
    # every result meets all rows of sources, though few of a tile of results are within a row
    (Problem("rows of groups", 2, 160, 160, (4, 4), (7, 7), (1, 1), groups=10), DGRAD, "f32", "builtin grouped"),
    # an older kernel runs, on copies in blocks of channels
    (Problem("undivided", 2, 160, 32, (28, 28), (4, 4), (3, 3)), DGRAD, "f32", "deconvolution"),
    # a few summed channels are filled up to a vector
    (Problem("few sums", 1, 4, 8, (18,) * 3, (7,) * 3, (1,) * 3), DGRAD, "f32", "deconvolution"),
    # two phases share a register tile, and one has no tap
    (Problem("phases without taps", 2, 1536, 16, (40, 40), (1, 1), (2, 2)), DGRAD, "f32", "builtin direct"),
    # sums over short rows, with padding between them
    (Problem("short rows", 4, 16, 384, (5, 5), (7, 7), (4, 4), (3, 3), (3, 3)), WGRAD, "f32", "builtin direct"),
    # few channels are transformed as whole vectors
    (Problem("few channels", 4, 8, 6, (16,) * 3, (5,) * 3, (2,) * 3, (2,) * 3, (1,) * 3), WGRAD, "f32", "Winograd 2"),
    # most of a tile is unused
    (Problem("many taps", 1, 96, 4, (5,) * 3, (8,) * 3, (1,) * 3), FPROP, "bf16", "convolution"),
]


@pytest.mark.parametrize(("layer", "direction", "dtype", "slow"), SLOW, ids=[f"{s[0].name} {s[2]}" for s in SLOW])
def test_kinds_of_layers_that_an_algorithm_is_slow_for(layer: Problem, direction: str, dtype: str, slow: str) -> None:
    """Times on an Emerald Rapids: the slow one takes 1.5 to 7 times as long as the best."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_amx")
    ranking = [form.name for form, _ in table.candidates(described(layer, direction, "NXC", True, dtype), env)]
    assert slow in ranking and ranking[0] != slow


@pytest.mark.parametrize(("y", "x", "size"), [(24, 96, 56), (32, 128, 28)])
def test_strided_and_dilated_rows_that_are_padded_are_the_library_s(y: int, x: int, size: int) -> None:
    """Builtin sums take 1.4 to 1.6 times as long on an Emerald Rapids: they copy rows tap by tap."""
    layer = Problem("dilated", 1, y, x, (size, size), (3, 3), (2, 2), (4, 4), (4, 4), (), (4, 4))
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_amx")
    assert table.candidates(described(layer, FPROP, "NXC", True), env)[0][0].name == "convolution"


def test_narrow_groups_leave_panels_unused() -> None:
    layer = Problem("groups", 4, 32, 32, (28, 28), (3, 3), (1, 1), (1, 1), groups=2)
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_amx")
    ranking = [form.name for form, _ in table.candidates(described(layer, FPROP, "NXC", True), env)]
    assert ranking.index("builtin grouped") < ranking.index("builtin direct")

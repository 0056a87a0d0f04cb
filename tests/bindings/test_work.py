"""What kernels say that a run comes to."""

import pytest

from dnnl_graph_ops import _core, errors

from .kernel_cases import code

kernels = _core.kernels
F32, BF16 = code("f32"), code("bf16")


def problem(batch=1, channels=(64, 64), size=32, kernel=4, stride=2, tile=1, groups=1):
    return kernels.FilterProblem(
        batch, *channels, [size] * 2, [size * stride] * 2, [kernel] * 2, [stride] * 2, [(kernel - stride) // 2] * 2,
        [tile] * 2, [], groups,
    )  # fmt: skip


def dense(size, channels):
    return [size * size * channels, size * channels, channels]


@pytest.mark.parametrize("channels", [(64, 64), (17, 48), (96, 3), (3, 130)])
@pytest.mark.parametrize("tile", [1, 2, 3, 4])
def test_products_are_about_the_kernels_own(channels, tile):
    """The kernel counts whole panels, work() vectors and what beginning a sum takes; on a big layer they are close."""
    case = problem(channels=channels, tile=tile)
    kernel = kernels.filter_dgrad(case, F32, dense(32, channels[0]), F32, dense(64, channels[1]))
    work = kernels.filter_work(case, "dgrad", F32, F32)
    begun = (channels[0] + 8) / channels[0]
    assert 0.4 * kernel.products <= work.products <= 1.6 * begun * kernel.products


def test_phases_without_a_tap_are_multiplied_where_they_share_a_panel():
    """With 16 channels two phases fill a panel of 32 columns, with 32 each phase has panels of its own."""
    products = {}
    for channels in (16, 32):
        case = kernels.FilterProblem(1, 64, channels, (40, 40), (80, 80), (1, 1), (2, 2), (0, 0), (1, 1))
        products[channels] = kernels.filter_work(case, "dgrad", F32, F32, isa="avx512").products
    assert products[32] == pytest.approx(40 * 40 * (64 + 8) * 32)
    assert products[16] == pytest.approx(40 * 40 * (64 + 8) * 32)


def test_another_sets_work_can_be_asked_for():
    """Wider vectors have more lanes that only fill up; this process runs one of the two."""
    case = problem(channels=(32, 3))
    work = {isa: kernels.filter_work(case, "dgrad", F32, F32, isa=isa).products for isa in ("", "avx2", "avx512")}
    assert work["avx512"] == 2 * work["avx2"]
    assert work[""] == work[kernels.isa()]


@pytest.mark.parametrize("direction", ["dgrad", "fprop", "wgrad"])
def test_minimal_filtering_multiplies_less_and_moves_more(direction):
    direct, tiled = (kernels.filter_work(problem(tile=tile), direction, F32, F32) for tile in (1, 2))
    assert tiled.products < 0.7 * direct.products
    assert tiled.weights > direct.weights


def test_lines_that_are_multiplied_where_they_lie_move_nothing():
    """Narrow layers of f32 in the direct form, where the vectors are full; wide ones and converted ones move."""
    narrow = problem(channels=(16, 4))
    lines = kernels.filter_work(narrow, "wgrad", F32, F32, 1, "avx2")
    assert lines.values == lines.runs == 0 < lines.products
    for moved in (
        kernels.filter_work(narrow, "wgrad", BF16, F32, 1, "avx2"),
        kernels.filter_work(problem(channels=(256, 256)), "wgrad", F32, F32, 1, "avx2"),
        kernels.filter_work(problem(channels=(16, 4), size=8), "wgrad", F32, F32, 1, "avx2"),
    ):
        assert moved.values > 0 and moved.runs > 0
    # twelve rows of a register tile are more than eight channels, six are not
    few = problem(channels=(8, 8))
    assert kernels.filter_work(few, "wgrad", F32, F32, 1, "avx2").values == 0
    assert kernels.filter_work(few, "wgrad", F32, F32, 1, "avx512").values > 0


def test_few_rows_are_not_put_across():
    assert kernels.row_product_work(23, 100, 1000).weights == 0
    assert kernels.row_product_work(24, 100, 1000).weights == 100_000
    assert kernels.row_product_work(97, 100, 1000).weights == 200_000
    # each sum of few rows adds up its lanes
    assert kernels.row_product_work(1, 3 * 2 * 16, 1000, "avx512").products == 96 * (1000 + 160)
    assert kernels.row_product_work(1, 3 * 2 * 16, 1000, "avx2").products == 96 * (1000 + 80)
    # nor few columns: the product is as good transposed
    assert kernels.row_product_work(1000, 3, 100).products == kernels.row_product_work(3, 1000, 100).products
    assert kernels.row_product_work(1000, 3, 100).weights == 0


def test_all_taps_at_once():
    work = kernels.col2im_work(problem(channels=(32, 32)))
    assert work.products >= 32 * 32 * 16 * 32 * 32
    assert work.weights == 16 * 32 * 32


def test_what_is_unknown_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="sideways"):
        kernels.filter_work(problem(), "sideways", F32, F32)
    with pytest.raises(errors.InvalidArgumentError, match="sse2"):
        kernels.col2im_work(problem(), "sse2")
    with pytest.raises(errors.InvalidArgumentError):
        kernels.filter_work(problem(), "wgrad", 77, F32)

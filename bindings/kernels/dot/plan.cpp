#include "kernels/dot/plan.hpp"

#include <algorithm>

namespace dgo {

namespace {

// Bounds of the rows of a task, whose copies should stay near.
constexpr int64_t kLeftBytes = 2048 * 1024, kFewestRows = 128, kMostRows = 256;

void lay_out_tasks(ProductParams& params, Arrangement& arrangement) {
    const int64_t row_bytes = std::max<int64_t>(1, params.src.segments * params.src.channels * params.src.item);
    const int64_t rows = std::clamp(kLeftBytes / row_bytes, kFewestRows, kMostRows);
    for (size_t g = 0; g < arrangement.groups.groups.size(); ++g) {
        TargetGroup& group = arrangement.groups.groups[g];
        const int64_t tiles = params.batch * group.tiles[0] * group.tiles[1] * group.tiles[2];
        const int64_t columns = group.target_count * params.dst.channels;
        const int64_t units = ceil_div(tiles, kDotBlockRows);
        group.blocks = columns == 0 ? 0 : ceil_div(units, rows / kDotBlockRows);
        // Few blocks are rounded up to a multiple of the threads, so that each thread computes equally many.
        const bool uneven = group.blocks > 1 && group.blocks < 8 * params.threads;
        if (uneven) group.blocks = std::min(ceil_div(group.blocks, params.threads) * params.threads, units);
        // With few tiles the columns are shared out, too, and each thread looks up the rows for itself.
        const int64_t panels = std::max<int64_t>(1, ceil_div(columns, kDotColumns));
        const int64_t blocks = group.blocks * params.channel_groups;
        const bool many = params.threads == 1 || blocks == 0 || blocks >= 4 * params.threads;
        group.parts = many ? 1 : std::clamp<int64_t>(ceil_div(2 * params.threads, blocks), 1, panels);
        group.folded = whole_runs(arrangement.groups.targets[g], params.dst.fold);
        group.first_task = params.tasks;
        params.tasks += group.blocks * group.parts;
        if (group.blocks > 0) {
            params.block = std::max(params.block, ceil_div(units, group.blocks) * kDotBlockRows);
        }
    }
    params.groups = arrangement.groups.groups.data();
    params.group_count = static_cast<int64_t>(arrangement.groups.groups.size());
}

}  // namespace

DotPlan::DotPlan(const Joined& joined, FilterDirection direction, const PanelSizes& panels, const Dot& dot,
                 int bias_dtype, int threads, const Epilogue& post_ops)
    : arrangement(joined.problem, direction, panels),
      epilogue(fitted_epilogue(post_ops, joined.problem.batch, joined.problem.groups * arrangement.columns,
                               direction == FilterDirection::dgrad ? joined.problem.out : joined.problem.in,
                               joined.dst)) {
    const Images images(joined.problem, direction, arrangement, joined.src, joined.dst);
    params = product_params(joined.problem, arrangement, images, bias_dtype, threads);
    params.src = apart(images.src, params.planes > 1 ? kBf16Unit : panels.depth);
    params.src.item = dot.item;
    if (params.planes > 1) {
        params.dot = &dot;
        lay_out_tiles(params, arrangement);
    } else {
        lay_out_tasks(params, arrangement);
    }
}

bool is_tiled(const FilterProblem& problem) {
    return std::any_of(problem.tile.axis, problem.tile.axis + kFilterAxes, [](int64_t tile) { return tile > 1; });
}

void check_tiles(const FilterProblem& problem, const Dot& dot) {
    for (int64_t tile : problem.tile.axis) {
        if (tile > kLargeTile) {
            fail(ErrorKind::invalid_argument, "narrow product: tiles have up to 3 results; set tile to 3 or less");
        }
    }
    if (is_tiled(problem) && dot.item != 2) {
        fail(ErrorKind::invalid_argument,
             std::string("integer product: ") + dot.isa + " has the direct form only; set tile to 1");
    }
}

}  // namespace dgo

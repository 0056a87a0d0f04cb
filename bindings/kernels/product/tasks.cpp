#include "kernels/product/tasks.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/division.hpp"

namespace dgo {

namespace {

constexpr int64_t kMostParts = 4;  // for each thread
constexpr int64_t kThirds = 3;  // register tiles of one and two thirds of the rows leave few rows computed in vain

// Returns the rows that the largest of the blocks computes: block b has units [units * b / blocks, units * (b + 1) /
// blocks), and the last one, which is none of the smaller ones, ends with the rows.
int64_t largest(const SplitWork& work, int64_t units, int64_t blocks) {
    const int64_t most = ceil_div(units, blocks), larger = units % blocks;
    if (larger > 1 || (larger == 0 && blocks > 1)) return most * work.unit;
    const int64_t third = std::max<int64_t>(work.unit / kThirds, 1), last = work.rows - (units - most) * work.unit;
    return std::max(ceil_div(last, third) * third, (most - larger) * work.unit);
}

}  // namespace

Split cheapest_split(const SplitWork& work, int threads) {
    Split best;
    const int64_t units = ceil_div(work.rows, work.unit), most_parts = std::min(work.shares, kMostParts * threads);
    for (int64_t most = std::min(work.most_units, units); most > 0; --most) {
        const int64_t blocks = ceil_div(units, most);
        if (ceil_div(units, blocks) < most) continue;
        const auto rows = static_cast<double>(largest(work, units, blocks));
        for (int64_t parts = 1; parts <= most_parts; ++parts) {
            const auto shares = static_cast<double>(ceil_div(work.shares, parts));
            const double task = rows * (work.prepare + shares * work.product) + shares * work.weights;
            const double tasks = static_cast<double>(blocks) * static_cast<double>(parts * work.times);
            const double seconds = (std::ceil(tasks / threads) + kHeldUp) * task / static_cast<double>(work.times);
            if (best.blocks == 0 || seconds < best.seconds) best = {blocks, parts, seconds};
        }
    }
    return best;
}

}  // namespace dgo

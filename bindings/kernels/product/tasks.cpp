#include "kernels/product/tasks.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/division.hpp"

namespace dgo {

namespace {

constexpr int64_t kThirds = 3;  // register tiles of one and two thirds of the rows leave few rows computed in vain

// Returns the rows that the largest of the blocks computes: block b has units [units * b / blocks, units * (b + 1) /
// blocks), so that the last one is none of the smaller ones, and ends with the rows.
int64_t largest(const SplitWork& work, int64_t units, int64_t blocks) {
    const int64_t most = ceil_div(units, blocks), larger = units % blocks;
    if (larger > 1 || (larger == 0 && blocks > 1)) return most * work.unit;
    const int64_t third = std::max<int64_t>(work.unit / kThirds, 1), last = work.rows - (units - most) * work.unit;
    return std::max(ceil_div(last, third) * third, blocks == 1 ? 0 : units / blocks * work.unit);
}

}  // namespace

double last_end(double tasks, int threads, double task) { return (std::ceil(tasks / threads) + kHeldUp) * task; }

Split cheapest_split(const SplitWork& work, int threads) {
    Split best;
    const int64_t units = ceil_div(work.rows, work.unit);
    const double times = static_cast<double>(work.times), most_tasks = static_cast<double>(kTasksOfThread * threads);
    int64_t size = units + 1;  // units of a block
    for (int64_t blocks = ceil_div(units, work.most_units); blocks <= units; ++blocks) {
        if (ceil_div(units, blocks) == size) continue;
        size = ceil_div(units, blocks);
        const auto rows = static_cast<double>(largest(work, units, blocks));
        for (int64_t parts = 1; parts <= work.shares; ++parts) {
            const double tasks = static_cast<double>(blocks) * static_cast<double>(parts) * times;
            if (parts > 1 && tasks > most_tasks) break;
            const auto shares = static_cast<double>(ceil_div(work.shares, parts));
            const double task =
                (rows + (size % kThirds != 0 ? work.ragged : 0)) * (work.prepare + shares * work.product) +
                shares * work.weights;
            const double seconds = last_end(tasks, threads, task) / times;
            if (best.blocks == 0 || seconds < best.seconds) best = {blocks, parts, seconds};
        }
        if (static_cast<double>(blocks) * times > most_tasks) break;
    }
    return best;
}

}  // namespace dgo

// How many tasks a product is split into: by what a task costs, and how evenly threads share tasks of equal cost.
#pragma once

#include <cstdint>

namespace dgo {

// Multiplications that take as long as reading a packed weight from beyond the near caches, a value of the left factor
// that a fetch has brought near, and a value that another core has written.
constexpr double kWeightCost = 16, kReadCost = 4, kSharedCost = 12;
constexpr double kHeldUp = 0.3;  // tasks by which the last thread is late: among equals small tasks are better
constexpr int64_t kTasksOfThread = 8;  // more do not even out any further

// The work on some rows and columns of a product, in multiplications. Tasks have units of rows, whole register tiles or
// thirds of them, but for the last one, and columns in shares, the least that a task of its own can take.
struct SplitWork {
    int64_t rows, unit, most_units, shares;  // most_units: of one task
    double ragged;  // rows that a task's last units take longer where they fill no register tile; of units in threes
    double prepare;  // looking up or transforming a row, for any number of shares
    double product;  // a share of a row
    double weights;  // reading the weights of a share
    int64_t times = 1;  // products like this one whose tasks run together
};

struct Split {
    int64_t blocks = 0, parts = 1;  // of the rows; of the shares
    double seconds = 0;  // of one of the products, in multiplications
};

// Returns when the last thread ends, where each task costs so much, in multiplications.
double last_end(double tasks, int threads, double task);

// Returns the split whose last thread ends first.
Split cheapest_split(const SplitWork& work, int threads);

}  // namespace dgo

// A matrix product of two factors whose rows are contiguous.
#pragma once

#include <cstdint>

namespace dgo {

// c[i * c_row + j * c_column] = sum over k of a[i * a_row + k] * b[j * b_row + k]
struct RowProduct {
    int64_t rows, columns, depth;
    int64_t a_row, b_row, c_row, c_column;
};
using RowProductFn = void (*)(const RowProduct& p, const float* a, const float* b, float* c);

constexpr int64_t kRowProductRows = 64;  // of a: what a part of the depth leaves in the second cache

}  // namespace dgo

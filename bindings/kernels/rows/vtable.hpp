// A matrix product of two factors, each of which is contiguous along its rows or along the depth.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"

namespace dgo {

// Element k of row i is at i * row + k * depth, and one of the two strides is 1: `along_depth` tells whether the latter.
struct RowFactor {
    ElementType type;
    int64_t row, depth;
    bool along_depth;
    int64_t size() const { return type == ElementType::f32 ? 4 : 2; }
};

// c[i * c_row + j * c_column] = sum over k of a(i, k) * b(j, k), added to what is there if so asked
struct RowProduct {
    int64_t rows, columns, depth;
    RowFactor a, b;
    ElementType c_type;  // other than f32 only as `rounds_at_once` allows
    int64_t c_row, c_column;
    bool add;
};
constexpr int64_t kPanelDepth = 512;  // the depth of panels in one pass
constexpr int64_t kRowProductDepth = 1024;  // the depth of dot products in one pass: both tiles stay near
constexpr int64_t kRowProductRows = 96;  // rows of a in one pass: they stay in the second cache

// Fewer rows of a than `few` are multiplied with b as it lies: dot products of so many rows of both at once, or vectors
// across b's rows, of which no more than kRowsAcross are worth it. For more, b's rows are put across in panels.
struct RowTiles {
    int64_t few, rows, columns;

    // Whether `count` rows of a factor become dot products with the other factor's rows rather than a panel. A dot
    // product ends with the sum of a vector's lanes, which takes as long as kLaneSum steps.
    bool dots(int64_t count, int64_t depth, int64_t lanes) const {
        constexpr int64_t kLaneSum = 10, kShort = 128;
        const int64_t tiled = count % rows == 1 ? count : (count + rows - 1) / rows * rows;
        const int64_t panel = (count + lanes - 1) / lanes * depth;
        return count < few && (depth > kShort || tiled * (depth / lanes + kLaneSum) < panel);
    }
};
constexpr int64_t kRowsAcross = 8;

struct RowCode {
    int64_t (*scratch)();  // floats
    // At most kRowProductRows rows.
    void (*product)(const RowProduct& p, const char* a, const char* b, char* c, float* scratch);
    RowTiles tiles;
};

}  // namespace dgo

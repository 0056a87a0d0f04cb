// A matrix product of two factors whose rows are contiguous.
#pragma once

#include <cstdint>

namespace dgo {

// c[i * c_row + j * c_column] = sum over n and k of a[n * a_image + i * a_row + k] * b[n * b_image + j * b_row + k],
// added to what is there if so asked
struct RowProduct {
    int64_t rows, columns, depth;
    int64_t a_row, b_row, c_row, c_column;
    int64_t images = 1, a_image = 0, b_image = 0;
    bool add = false;
};
constexpr int64_t kRowProductDepth = 1024;  // worked on at once: tiles of both factors stay in the first cache
constexpr int64_t kRowProductRows = 96;     // of a at once: that many such rows stay in the second cache
constexpr int64_t kRowProductPitch = kRowProductDepth + 16;  // elements between them in scratch

// Fewer rows of a than `few` are dot products, of so many rows of both at once; for more, panels of b's rows are put
// across.
struct RowTiles {
    int64_t few, rows, columns;
};

struct RowCode {
    int64_t (*scratch)();  // floats
    // One image of at most kRowProductRows rows.
    void (*product)(const RowProduct& p, const float* a, const float* b, float* c, float* scratch);
    RowTiles tiles;
};

}  // namespace dgo

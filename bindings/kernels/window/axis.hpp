// The sizes of pooling and resampling: three spatial axes, of which the first may be of one element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

constexpr int kWindowAxes = 3;

// f32 of a thread's rows between two passes, which are to stay in the first-level cache.
constexpr int64_t kRowFloats = 8 * 1024;
// All channels are treated together, as they lie in a row, unless less than so many positions would fit.
constexpr double kLeastPiece = 6;
constexpr int64_t kLeastStrip = 64;

// One side, channels side by side: strides in elements, n and the three axes.
struct WindowSide {
    int64_t batch = 0, axis[kWindowAxes] = {0, 0, 0};
};

// Checks sizes and strides (n, c, spatial), and that channels lie side by side.
WindowSide window_side(const std::string& what, const char* name, int64_t n, int64_t c, const Dims& spatial,
                       const Dims& strides);

// The values of one to three axes as three; the others are in front.
template <class T>
void three_axes(const std::vector<T>& given, T missing, T (&values)[kWindowAxes]) {
    std::fill_n(values, kWindowAxes, missing);
    std::copy(given.begin(), given.end(), values + (kWindowAxes - given.size()));
}

// How a row of results is cut: `strips` of channels, `pieces` of positions. Nothing is cut where no rows are kept.
struct WindowPieces {
    int64_t strip = 0, strips = 0, piece = 0, pieces = 0;

    // columns: of the source that are kept for each position of the results, and how many more; 0: none are kept
    WindowPieces(int64_t channels, int64_t positions, double columns, int64_t more);
};

}  // namespace dgo

// The sizes of pooling and resampling: three spatial axes, of which the first may be of one element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"

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

// A piece of a row of results, some of its channels.
struct WindowTask {
    int64_t image, plane, line, start, results, channel, channels;
};

// Calls run(task, scratch of the thread) for all results (n, out, c); work: as of threads_for.
template <class Run>
void for_each_piece(int64_t n, const int64_t (&out)[kWindowAxes], int64_t c, const WindowPieces& cut, double work,
                    const ScratchLayout& each, Run&& run) {
    const int64_t tasks = n * out[0] * out[1] * cut.pieces * cut.strips;
    const int threads = threads_for(tasks, work);
    const Scratch scratch({}, each, threads);
    parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
        for (int64_t task = begin; task < end; ++task) {
            const int64_t channel = task % cut.strips * cut.strip, row = task / cut.strips / cut.pieces;
            const int64_t start = task / cut.strips % cut.pieces * cut.piece, plane = row / out[1];
            run(WindowTask{plane / out[0], plane % out[0], row % out[1], start, std::min(cut.piece, out[2] - start),
                           channel, std::min(cut.strip, c - channel)},
                scratch.of(rank));
        }
    });
}

}  // namespace dgo

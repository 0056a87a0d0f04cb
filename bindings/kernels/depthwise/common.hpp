// What the three depthwise kernels share: the checked problem, the way its sums are vectorised, rows kept in f32.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/copy/copy.hpp"
#include "kernels/factories.hpp"
#include "kernels/isa.hpp"
#include "kernels/row_movers.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/scratch.hpp"

namespace dgo {

// As check_layer, and the strides.
void check_depthwise(const std::string& what, const DepthwiseProblem& problem);

// What a run is worth, as of threads_for: the bytes of src and dst, or the multiplications.
double work_of(const DepthwiseProblem& problem);

// How the sums are vectorised.
enum class Path {
    channels,  // channels are neighbours in memory and enough for a vector
    blocks,    // by channels too, on rows transposed into blocks of neighbours in f32
    space,     // along the innermost axis, f32 copies of the rows
};
Path choose_path(const RowLayout& src, const RowLayout& dst, int64_t channels);

// The weights as the paths read them, f32: kernel by channels, padded to whole blocks, or channels by kernel.
struct PackedWeights {
    Dims shape, strides;       // channels first, as in the problem
    int64_t block;             // channels of a full block
    int64_t channels, floats;  // channels of a kernel position, padded to whole blocks; of all
    PackedWeights(const DepthwiseProblem& problem, Path path);
};

// The f32 copies of the last few rows that a thread has read, on the outer axes modulo a small window.
class RowCache {
public:
    // A place for as many rows as are in use at the same time on each outer axis.
    class Layout {
    public:
        Layout() = default;
        Layout(ScratchLayout& scratch, const TapAxes& axes, int64_t row_floats);

    private:
        friend class RowCache;
        struct Tag {
            int64_t image, i, j;
        };
        int64_t window_[2] = {0, 0}, row_floats_ = 0;
        ScratchArray<float> rows_;
        ScratchArray<Tag> tags_;
    };

    RowCache(const Layout& layout, char* scratch);
    // The place of a row; `fresh` tells whether the caller has to fill it. `image` names all but the row.
    float* find(int64_t image, int64_t i, int64_t j, bool& fresh);

private:
    const Layout& layout_;
    float* rows_;
    Layout::Tag* tags_;
};

}  // namespace dgo

// What the three depthwise kernels share: the checked problem and the way its sums are vectorised.
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

}  // namespace dgo

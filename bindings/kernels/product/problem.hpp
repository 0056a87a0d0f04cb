// A transposed convolution and its two gradients as blocks of small matrix products, on each axis directly or by
// Winograd. Directions are those of the ordinary convolution, of which a transposed one is dgrad.
//
// With o + pad = s * q + r, output phase r of an axis is a stride-1 convolution over q with the taps k = r + s * j.
// A tile of m outputs of such a filter of t taps needs m + t - 1 products per axis instead of m * t.
// The design is told in docs/internals/kernels.md.
#pragma once

#include <cstdint>

namespace dgo {

constexpr int kFilterAxes = 3;     // fewer spatial axes are padded with plain ones in front
constexpr int kFilterPlanes = 64;  // four points on three axes; more only on two
constexpr int kFilterPoints = 6;  // points of an axis, at most

// A plain array with value semantics; never a standard template, see isa/vector/lanes.hpp.
struct Axes {
    int64_t axis[kFilterAxes];
    __attribute__((always_inline)) int64_t& operator[](int64_t a) { return axis[a]; }
    __attribute__((always_inline)) constexpr const int64_t& operator[](int64_t a) const { return axis[a]; }
};

// One transposed convolution, channels last, of src to dst: the dgrad of an ordinary one. Strides in elements.
struct FilterProblem {
    static constexpr const char* kClass = "FilterProblem";
    int spatial_rank = 0;
    int64_t batch = 0, groups = 1;
    int64_t in_channels = 0, out_channels = 0;  // channels of one group
    Axes in{{1, 1, 1}}, out{{1, 1, 1}}, kernel{{1, 1, 1}}, stride{{1, 1, 1}}, pad{{0, 0, 0}}, dilation{{1, 1, 1}};
    Axes tile{{1, 1, 1}};  // outputs per tile: 1 is the direct form; 2 to 4 for two taps per phase, 2 or 4 for three
    bool any_size = false;  // the weights are packed as for large sizes, whatever those here
};

struct FilterTensor {
    int dtype = 0;
    int64_t batch_stride = 0;
    Axes strides{{0, 0, 0}};
};

// Weights are seen as [group][in channel][out channel][tap...].
struct FilterWeights {
    int dtype = 0;
    int64_t group_stride = 0, in_stride = 0, out_stride = 0;
    Axes tap_strides{{0, 0, 0}};
};

enum class FilterDirection { dgrad, fprop };

// Returns the threads of a run: one where a second costs more than it saves, on a problem of some microseconds. threads
// 0: the number that OpenMP gives.
int filter_threads(const FilterProblem& problem, int threads);

}  // namespace dgo

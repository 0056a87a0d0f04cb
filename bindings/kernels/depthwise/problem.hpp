// The checked problem of the three depthwise kernels, and how its sums are vectorised. The design is told in
// docs/internals/kernels.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/copy/copy_list.hpp"
#include "kernels/isa.hpp"
#include "kernels/layer.hpp"
#include "kernels/row_movers.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/scratch.hpp"

namespace dgo {

// A depthwise layer: every channel has its own kernel. Element strides in the order n, c, spatial for src and
// dst, c, kernel for the weights.
struct DepthwiseProblem : LayerSizes {
    static constexpr const char* kClass = "DepthwiseProblem";
    int dtype;  // the type of all tensors: f32, bf16 or f16; sums are f32
    Dims src_strides, weights_strides, dst_strides;
    // channels of a group, as many in as out; above 1 src and dst must be channels last, and the weights' strides are
    // those of group, in channel, out channel, kernel
    int64_t width = 1;
};

// Checks the sizes, as check_layer does, and the strides.
void check_depthwise(const std::string& what, const DepthwiseProblem& problem);

// Whether depthwise_wgrad computes groups of `width` of `channels` channels.
bool gradient_of_groups(int64_t channels, int64_t width);

// Returns the work of a run, in units of threads_for: bytes of src and dst, or multiplications.
double work_of(const DepthwiseProblem& problem);

// Whether rows of sources are read without copies: so many rows that each is read often rarely are near each other.
bool reads_where_they_lie(const DepthwiseProblem& problem);

// How the sums are vectorised.
enum class Path {
    channels,  // channels are neighbours in memory and enough for a vector
    blocks,  // along the channels of blocks, transposed to f32 neighbours
    space,     // along the innermost axis, f32 copies of the rows
};
Path choose_path(const DepthwiseProblem& problem);

// For example 'depthwise_fprop_f32_avx512_channels'; the direction is that of the ordinary convolution.
std::string depthwise_name(const char* direction, Path path);

// The packed weights, f32: kernel by source channels of a group by channels, padded to whole blocks, or channels by
// kernel. Turned: kernel by r by source channels, a weight to the result channel s ^ r of the group of source channel s.
struct PackedWeights {
    Dims shape, strides;  // in the order of the problem's weights
    int64_t block;             // channels of a full block
    int64_t vector;            // its vectors' lanes
    int64_t channels, floats;  // channels of a kernel position, padded to whole blocks; of all
    bool turned;  // several groups of 4 or 8 channels in a vector, whose weights stay in the nearest cache
    // dgrad: groups' in channels are the sources, else the out channels
    PackedWeights(const DepthwiseProblem& problem, Path path, bool dgrad = true);
    int64_t blocks() const { return ChannelBlock::number(all, block); }
    ChannelBlock block_at(int64_t index) const { return ChannelBlock::at(index, all, block, vector); }
    // Returns the kernel that copies weights, of the problem's strides, to packed ones.
    std::shared_ptr<Kernel> packing(int dtype, const Dims& weights_strides) const;

private:
    int64_t all;
    size_t source;  // the axis of source channels of a group
};

// The taps of one phase on the innermost axis: segments of equally many neighbours, or single taps.
struct PhaseTaps {
    std::vector<Tap> taps;  // the sources rising
    int64_t distance = 0;  // units between the sources of neighbouring taps
    int64_t classes = 1, advance = 1;  // outputs `classes` apart are `advance` units apart
    int64_t unit = 1;  // sources
    int64_t counts[2] = {0, 0}, sizes[2] = {1, 1};  // segments of a kernel row and their taps, by part

    PhaseTaps(const TapAxis& axis, int64_t phase, int64_t most_taps);
};
std::vector<PhaseTaps> taps_of_phases(const DepthwiseProblem& problem, const TapAxis& axis, Path path,
                                      const PackedWeights& weights);

// The channels of a layer as tasks of whole vectors, few enough that their sources, or weights, stay in the nearest cache.
struct ChannelTasks {
    struct Part {
        int64_t first, channels;
        int64_t head;  // channels before the first aligned one
    };
    int64_t all, each, number;  // each: the last one has the rest, too
    int64_t vector;  // channels of the whole groups of a vector
    bool grouped;  // tasks are cut between groups, wherever these begin

    // sources: elements of a row that are read.
    ChannelTasks(const DepthwiseProblem& problem, Path path, const std::vector<PhaseTaps>& phases, int64_t sources);
    // Returns tasks of at most `most` channels.
    ChannelTasks cut(int64_t most) const;
    // Returns the channels before the first one whose vectors are aligned at every position; 0 if there is none.
    int64_t head(const char* data, const RowLayout& layout, int64_t item_size) const;
    Part at(int64_t index, int64_t head) const;
};

}  // namespace dgo

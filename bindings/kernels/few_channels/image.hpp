// The image of a layer of few channels: rows are copied into f32 with a border of zeros, position by position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/copy/copy_list.hpp"
#include "kernels/division.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/few_channels/vtable.hpp"

namespace dgo {

// The first layer of a network, or any ordinary convolution of few channels: fprop. dst is
// its image of c channels, which are few, src its results, of `channels`. Strides: n, channel, spatial for src and dst.
struct FewChannelsProblem : LayerSizes {
    int64_t channels;
    int dst_dtype;
    Dims dst_strides;
    int src_dtype;
    Dims src_strides;
};

// Returns the size of a spatial axis; axes that are missing in front have one position.
struct FewChannelsAxis {
    int64_t outputs = 1, size = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;

    FewChannelsAxis(const LayerSizes& p, int number);
    int64_t reach() const { return dilation * (kernel - 1); }
    // Returns the positions from the first to the last one that `outputs` outputs may meet.
    int64_t span(int64_t count) const { return std::max<int64_t>(count - 1, 0) * stride + reach() + 1; }
};

// A block of rows: of an image, a plane and a section, `rows` from `line` on.
struct FewChannelsBlock {
    int64_t n, plane, line, rows, section;
};

// How the work is cut: sections of rows of results, and blocks of sections under each other whose image is copied at
// once.
struct FewChannelsLayout {
    FewChannelsAxis planes, lines, inner;
    int64_t sections, outputs;  // sections of a row; outputs of a section, at most
    int64_t most_rows;                 // sections of a block
    int64_t row_floats, plane_floats;  // floats of a copied row; of all copied rows of a plane
    int64_t position, channel;  // floats from one position of a copied row to the next; from channel to channel

    // planar: rows are copied channel by channel.
    FewChannelsLayout(const LayerSizes& p, bool planar);
    int64_t begin(int64_t section) const { return inner.outputs * section / sections; }
    bool too_long() const;
    // Calls run(block, follows) for blocks of the rows [begin, end), which are numbered by image, section, plane and
    // line. follows: the block reads all planes of the one before it but the first, and a new one.
    template <class Run>
    void for_each_block(int64_t begin, int64_t end, Run&& run) const {
        const bool shared = planes.kernel > 1 && planes.stride == planes.dilation;
        FewChannelsBlock last{-1, 0, 0, 0, 0};
        for (int64_t row = begin; row < end;) {
            const int64_t line = row % lines.outputs, plane = row / lines.outputs, part = plane / planes.outputs;
            const int64_t rows = std::min({most_rows, lines.outputs - line, end - row});
            const FewChannelsBlock block{part / sections, plane % planes.outputs, line, rows, part % sections};
            run(block, shared && block.n == last.n && block.section == last.section && block.plane == last.plane + 1 &&
                           block.line == last.line && block.rows <= last.rows);
            last = block;
            row += rows;
        }
    }
};

class FewChannelsImage {
public:
    FewChannelsImage(const LayerSizes& layer, int dtype, const Dims& strides, bool planar);

    const FewChannelsLayout layout;

    // Returns the floats of the copies that one block reads.
    int64_t floats() const;
    // Returns all steps of the kernel: the values of a block's copies, from the first value of its first result on.
    std::vector<FewChannelsStep> steps(int64_t panel) const;
    // Copies the elements of src that a block of `count` results from `output` on reads, and zeros for padding.
    // follows: `to` holds the copies of the block before it.
    void copy(const char* image, const FewChannelsBlock& block, bool follows, int64_t output, int64_t count,
              float* to) const;

private:
    void copy_row(const char* row, int64_t begin, int64_t end, float* to) const;

    RowLayout from_;
    int64_t item_, channels_;
    bool planar_;
    bool dense_;  // channels lie side by side already
    BlockFn load_;
};

// Returns the work of a run, in units of threads_for. item: bytes of an element of src.
double few_channels_work(const LayerSizes& layer, int64_t channels, int64_t item);

// Throws unless the kernels compute the problem.
void check_few_channels(const FewChannelsProblem& problem, bool planar);

// Returns the f32 elements of weights that are packed in panels of so many channels.
int64_t few_channels_packed_size(const LayerSizes& layer, int64_t channels, int64_t panel);

// Returns the copies from weights of these strides to packed ones.
std::vector<CopyItem> few_channels_packing(const LayerSizes& layer, int64_t channels, const Dims& strides,
                                           int64_t panel);

}  // namespace dgo

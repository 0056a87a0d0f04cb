// What the three depthwise kernels share: the checked problem, its axes, and rows moved in and out of f32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/copy/copy.hpp"
#include "kernels/factories.hpp"
#include "kernels/isa.hpp"
#include "kernels/scratch.hpp"
#include "kernels/taps.hpp"

namespace dgo {

// Throws NativeError unless `list` has `length` entries from `least` to `most`.
void check_list(const std::string& what, const char* name, const Dims& list, size_t length, int64_t least,
                int64_t most);

// Throws NativeError where the lists of the problem disagree in length, an entry is out of its bounds, or sizes
// multiply to more than a tensor can have.
void check_depthwise(const std::string& what, const DepthwiseProblem& problem);

int64_t product(const Dims& dims);

// What a run is worth, as of threads_for: the bytes of src and dst, or the multiplications.
double work_of(const DepthwiseProblem& problem);

// The taps of one output row on the outer axes.
struct RowTap {
    int64_t source[2];  // indices on the outer axes, the missing ones 0
    int64_t tap;        // of the kernel's rows
};

// One side of the problem seen as rows along the innermost axis.
struct RowLayout {
    Dims spatial;
    int64_t batch, channel, outer[2], inner;  // strides; outer axes that do not exist have extent 1, stride 0

    RowLayout(const Dims& spatial, const Dims& strides);
    int64_t rows() const { return extent(0) * extent(1); }
    int64_t extent(int axis) const;  // of an outer axis
    int64_t width() const { return spatial.back(); }
    int64_t offset(int64_t n, int64_t c, int64_t i, int64_t j) const {
        return n * batch + c * channel + i * outer[0] + j * outer[1];
    }
    int64_t offset_of_row(int64_t n, int64_t c, int64_t row) const {
        return offset(n, c, row / extent(1), row % extent(1));
    }
};

// All axes of a gather: up to two outer ones and the innermost.
struct TapAxes {
    std::vector<TapAxis> outer;  // always two; an axis that does not exist has one output and one tap
    TapAxis inner;

    TapAxes(const DepthwiseProblem& problem, bool forward);
    // The taps that one output row meets.
    void taps_of_row(int64_t row, std::vector<RowTap>& list) const;
};

// The part [begin, end) of the innermost axis' outputs of every phase, and the groups of `advance` sources
// from first_group to last_group that it may read.
struct Piece {
    int64_t begin, end;
    int64_t first_group, last_group;
    std::vector<Segment> segments;
};
std::vector<Piece> cut_into_pieces(const TapAxis& axis, int64_t outputs);

// The sources [first, end) that a piece may read.
int64_t first_source(const Piece& piece, const TapAxis& axis);
int64_t end_source(const Piece& piece, const TapAxis& axis);

// The most that a piece has: outputs of a phase, sources, groups of sources, and elements of the rows into which those
// groups are split.
struct Widest {
    int64_t outputs = 0, sources = 0, groups = 0, split = 0;
    Widest(const std::vector<Piece>& pieces, const TapAxis& axis);
};

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

// A block of channels of the path `blocks`.
struct ChannelBlock {
    static constexpr int64_t kLeast = 16;  // of a full block
    int64_t first, real;                   // channels of the layer
    int64_t lanes;                         // of a block in scratch memory: `real` rounded up to a vector
    // Channels of a full block for rows of this width: short rows are not worth a task for few channels.
    static int64_t size_for(int64_t width) { return width <= 32 ? 64 : width <= 64 ? 32 : kLeast; }
    static int64_t number(int64_t channels, int64_t size) { return ceil_div(channels, size); }
    static ChannelBlock at(int64_t index, int64_t channels, int64_t size);
};

// Moves positions of a row between memory of any data type and f32 blocks [position][lane].
class BlockMover {
public:
    BlockMover(Cell cell, const RowLayout& layout);
    void load(const char* row, int64_t first, int64_t last, const ChannelBlock& block, float* to) const;
    void store(const float* from, int64_t first, int64_t last, const ChannelBlock& block, char* row) const;

private:
    int64_t size_, channel_, inner_;
    bool by_channels_;  // neighbours in memory are channels
    BlockFn load_, store_;
};

// Moves a row between memory of any data type and f32, split into `phases` rows that lie `pitch` apart.
class RowMover {
public:
    RowMover(Cell cell, int64_t stride, int64_t phases);
    // Groups [first, last) of `phases` neighbours, as far as the row has them.
    void load(const char* row, int64_t width, int64_t first, int64_t last, float* to, int64_t pitch) const;
    void store(const float* from, int64_t pitch, int64_t first, int64_t last, char* row, int64_t width) const;

private:
    int64_t size_, stride_, phases_;
    BlockFn load_whole_, load_rest_, store_whole_, store_rest_;
};

// The f32 copies of the last few rows that a thread has read, on the outer axes modulo a small window.
class RowCache {
public:
    // Room for as many rows as are in use at the same time on each outer axis.
    class Room {
    public:
        Room() = default;
        Room(ScratchLayout& scratch, const TapAxes& axes, int64_t row_floats);

    private:
        friend class RowCache;
        struct Tag {
            int64_t image, i, j;
        };
        int64_t window_[2] = {0, 0}, row_floats_ = 0;
        Part<float> rows_;
        Part<Tag> tags_;
    };

    RowCache(const Room& room, char* scratch);
    // The place of a row; `fresh` tells whether the caller has to fill it. `image` names all but the row.
    float* find(int64_t image, int64_t i, int64_t j, bool& fresh);

private:
    const Room& room_;
    float* rows_;
    Room::Tag* tags_;
};

}  // namespace dgo

// Rows moved between memory of any data type and f32, and the copies of the last few of them.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"
#include "kernels/copy/vtable.hpp"
#include "kernels/division.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/scratch.hpp"

namespace dgo {

// A block of channels, worked on together in f32.
struct ChannelBlock {
    static constexpr int64_t kLeast = 16;  // channels of a full block, at least
    int64_t first, real;                   // channels of the layer
    int64_t lanes;  // channels in scratch memory: `real` rounded up to vectors
    // Channels of a full block for rows of this width: short rows are not worth a task for few channels.
    static int64_t size_for(int64_t width) { return width <= 32 ? 64 : width <= 64 ? 32 : kLeast; }
    static int64_t number(int64_t channels, int64_t size) { return ceil_div(channels, size); }
    static ChannelBlock at(int64_t index, int64_t channels, int64_t size, int64_t vector = 8);
};

// Moves positions of a row between memory of any data type and f32 blocks [position][lane].
class BlockMover {
public:
    BlockMover(ElementType type, const RowLayout& layout);
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
    RowMover(ElementType type, int64_t stride, int64_t phases);
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
    float* find(int64_t image, int64_t i, int64_t j, bool& fresh) {
        const int64_t slot = within(i, layout_.window_[0]) * layout_.window_[1] + within(j, layout_.window_[1]);
        Layout::Tag& tag = tags_[slot];
        fresh = tag.image != image || tag.i != i || tag.j != j;
        if (fresh) tag = {image, i, j};
        return rows_ + slot * layout_.row_floats_;
    }

private:
    // Returns index % window; a division takes as long as the rest of `find`.
    static int64_t within(int64_t index, int64_t window) { return index < window ? index : index % window; }

    const Layout& layout_;
    float* rows_;
    Layout::Tag* tags_;
};

}  // namespace dgo

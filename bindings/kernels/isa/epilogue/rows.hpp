// Rows of results on their way to dst, handed to an epilogue as many at once as are alike.
#pragma once

#include "kernels/isa/vector/integer.hpp"
#include "kernels/isa/epilogue/apply.hpp"

namespace dgo::DGO_ISA {

class EpilogueRows {
public:
    int64_t first_channel = 0;  // the first channel of the rows' group

    // dst: its first element; channels: of one group.
    EpilogueRows(EpilogueCall call, const void* dst, int64_t item, int64_t channels)
        : call_(call), dst_(static_cast<const char*>(dst)), shift_(item == 4   ? 2
                                                                   : item == 2 ? 1
                                                                               : 0),
          channels_(channels), tile_{rows_, offsets_, 0, 0, 0} {}
    EpilogueRows(const EpilogueRows&) = delete;
    EpilogueRows& operator=(const EpilogueRows&) = delete;

    // Adds `count` results at `row`, which belong to `at` in dst; the first one is element n of a run of whole
    // positions.
    void add(float* row, const void* at, int64_t n, int64_t count) {
        if (count <= 0) return;
        const int64_t channel = first_channel + (n < channels_ ? n : n % channels_);
        if (tile_.columns != count || tile_.channel != channel || tile_.count == kMost) flush();
        tile_.columns = count;
        tile_.channel = channel;
        rows_[tile_.count] = row;
        // rows are short, and a division takes as long as one of them
        offsets_[tile_.count++] = (static_cast<const char*>(at) - dst_) >> shift_;
    }

    void flush() {
        if (tile_.count > 0) apply_epilogue(*call_.params, call_.operands, tile_);
        tile_.count = 0;
    }

private:
    static constexpr int64_t kMost = 48;  // short rows of so many stay in the first cache level

    const EpilogueCall call_;
    const char* const dst_;
    const int shift_;  // element offset = byte offset >> shift_
    const int64_t channels_;
    float* rows_[kMost];
    int64_t offsets_[kMost];
    EpilogueTile tile_;
};

}  // namespace dgo::DGO_ISA

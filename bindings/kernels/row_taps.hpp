// A layer of one channel at a time seen as rows along its innermost axis: which rows and which taps an output meets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/layer.hpp"
#include "kernels/taps.hpp"

namespace dgo {

// Throws NativeError where the lists of a layer disagree in length, an entry is out of its bounds, or sizes multiply to
// more than a tensor can have.
void check_layer(const std::string& what, const LayerSizes& layer);

// Throws NativeError unless strides (n, c, spatial) reach only what an array may have.
void check_strides(const std::string& what, const char* name, const LayerSizes& layer, const Dims& spatial,
                   const Dims& strides);

int64_t product(const Dims& dims);

// The taps of one output row on the outer axes.
struct RowTap {
    int64_t source[2];  // indices on the outer axes, the missing ones 0
    int64_t tap;  // the number of the kernel's row
};

// One side of the problem seen as rows along the innermost axis.
struct RowLayout {
    Dims spatial;
    int64_t batch, channel, outer[2], inner;  // strides; outer axes that do not exist have extent 1, stride 0

    RowLayout(const Dims& spatial, const Dims& strides);
    int64_t rows() const { return extent(0) * extent(1); }
    int64_t extent(int axis) const;  // positions of dst on an outer axis
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

    TapAxes(const LayerSizes& layer, bool dgrad);
    // The taps that one output row meets.
    void taps_of_row(int64_t row, std::vector<RowTap>& list) const;
};

// The part [begin, end) of the innermost axis' outputs of every phase, and the groups of `advance` sources
// from first_group to last_group that it may read.
struct RowSection {
    int64_t begin, end;
    int64_t first_group, last_group;
    std::vector<Stretch> stretches;
};
std::vector<RowSection> cut_into_sections(const TapAxis& axis, int64_t outputs);

// The sources [first, end) that a section may read.
int64_t first_source(const RowSection& section, const TapAxis& axis);
int64_t end_source(const RowSection& section, const TapAxis& axis);

// The most that a section has: outputs of a phase, sources, groups of sources, and elements of the rows into which those
// groups are split.
struct Widest {
    int64_t outputs = 0, sources = 0, groups = 0, split = 0;
    Widest(const std::vector<RowSection>& sections, const TapAxis& axis);
};

}  // namespace dgo

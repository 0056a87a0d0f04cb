#include "kernels/row_taps.hpp"

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"

namespace dgo {

int64_t product(const Dims& dims) {
    int64_t all = 1;
    for (const int64_t dim : dims) all *= dim;
    return all;
}

void check_layer(const std::string& what, const LayerSizes& p) {
    const size_t rank = p.src_spatial.size();
    if (rank < 1 || rank > 3) {
        fail(ErrorKind::invalid_argument,
             what + ": src_spatial has " + std::to_string(rank) + " axes, 1 to 3 are possible");
    }
    const auto check = [&](const char* name, const Dims& list, int64_t least) {
        check_list(what, name, list, rank, least, kMostSize);
    };
    check("src_spatial", p.src_spatial, 0);
    check("dst_spatial", p.dst_spatial, 0);
    check("kernel", p.kernel, 1);
    check("strides", p.strides, 1);
    check("pads_begin", p.pads_begin, -kMostSize);
    check("dilations", p.dilations, 1);
    check_list(what, "(n, c)", {p.n, p.c}, 2, 0, kMostSize);
    const auto spatial = [&](const Dims& dims, size_t axis) { return axis < rank ? dims[axis] : 1; };
    for (const Dims* dims : {&p.src_spatial, &p.dst_spatial, &p.kernel}) {
        const int64_t images = dims == &p.kernel ? 1 : p.n;
        checked_product(what, {images, p.c, spatial(*dims, 0), spatial(*dims, 1), spatial(*dims, 2)});
    }
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t reach = p.dilations[axis] * (p.kernel[axis] - 1);
        const int64_t span = p.strides[axis] * std::max<int64_t>(p.src_spatial[axis] - 1, 0);
        if (reach > kMostSize || span > kMostSize) {
            fail(ErrorKind::invalid_argument, what + ": axis " + std::to_string(axis) + " spans more than " +
                                                  std::to_string(kMostSize) + " elements");
        }
    }
}

void check_strides(const std::string& what, const char* name, const LayerSizes& layer, const Dims& spatial,
                   const Dims& strides) {
    Dims sizes = {layer.n, layer.c};
    sizes.insert(sizes.end(), spatial.begin(), spatial.end());
    check_tensor(what, name, sizes, strides);
}

RowLayout::RowLayout(const Dims& spatial, const Dims& strides)
    : spatial(spatial), batch(strides[0]), channel(strides[1]), outer{0, 0}, inner(strides.back()) {
    const size_t missing = 3 - spatial.size();
    for (size_t axis = missing; axis < 2; ++axis) outer[axis] = strides[2 + axis - missing];
}

int64_t RowLayout::extent(int axis) const {
    const int missing = 3 - static_cast<int>(spatial.size());
    return axis < missing ? 1 : spatial[static_cast<size_t>(axis - missing)];
}

TapAxes::TapAxes(const LayerSizes& p, bool dgrad) {
    const auto make = dgrad ? TapAxis::dgrad : TapAxis::fprop;
    for (size_t axis = p.kernel.size(); axis < 3; ++axis) outer.push_back(make(1, 1, 1, 1, 0, 1));
    for (size_t axis = 0; axis < p.kernel.size(); ++axis) {
        outer.push_back(make(p.src_spatial[axis], p.dst_spatial[axis], p.kernel[axis], p.strides[axis],
                             p.pads_begin[axis], p.dilations[axis]));
    }
    inner = std::move(outer.back());
    outer.pop_back();
}

void TapAxes::taps_of_row(int64_t row, std::vector<RowTap>& list) const {
    const TapAxis::Output first = outer[0].output(row / outer[1].outputs),
                          second = outer[1].output(row % outer[1].outputs);
    list.resize(first.taps.size() * second.taps.size());
    RowTap* end = list.data();
    outer[0].for_output(first, [&](int64_t k0, int64_t i) {
        outer[1].for_output(second, [&](int64_t k1, int64_t j) { *end++ = {{i, j}, k0 * outer[1].kernel + k1}; });
    });
    list.resize(static_cast<size_t>(end - list.data()));
}

std::vector<RowSection> cut_into_sections(const TapAxis& axis, int64_t outputs) {
    int64_t lowest = 0, highest = -1;
    bool any = false;
    for (const std::vector<Tap>& list : axis.taps) {
        for (const Tap& tap : list) {
            const int64_t group = floor_div(tap.base, axis.advance);
            lowest = any ? std::min(lowest, group) : group;
            highest = any ? std::max(highest, group) : group;
            any = true;
        }
    }
    const std::vector<Stretch> stretches = axis.stretches();
    const int64_t groups = ceil_div(axis.sources, axis.advance);
    std::vector<RowSection> sections;
    for (int64_t begin = 0; begin < axis.count(0); begin += outputs) {
        RowSection section{begin, std::min(begin + outputs, axis.count(0)), 0, 0, {}};
        section.first_group = std::max<int64_t>(section.begin + lowest, 0);
        section.last_group = std::max(std::min(section.end + highest, groups), section.first_group);
        for (Stretch stretch : stretches) {
            stretch.begin = std::max(stretch.begin, section.begin);
            stretch.end = std::min(stretch.end, section.end);
            if (stretch.begin < stretch.end) section.stretches.push_back(stretch);
        }
        sections.push_back(std::move(section));
    }
    return sections;
}

int64_t first_source(const RowSection& section, const TapAxis& axis) { return section.first_group * axis.advance; }

int64_t end_source(const RowSection& section, const TapAxis& axis) {
    return std::min(section.last_group * axis.advance, axis.sources);
}

Widest::Widest(const std::vector<RowSection>& sections, const TapAxis& axis) {
    for (const RowSection& section : sections) {
        outputs = std::max(outputs, section.end - section.begin);
        sources = std::max(sources, end_source(section, axis) - first_source(section, axis));
        groups = std::max(groups, section.last_group - section.first_group);
    }
    split = groups * std::min(axis.advance, axis.sources);
}

const Declaration kLayerSizes{"LayerSizes(n, c, src_spatial, dst_spatial, kernel, strides, pads_begin, dilations)",
                              object_of<LayerSizes, int64_t, int64_t, Dims, Dims, Dims, Dims, Dims, Dims>,
                              "A layer that treats its channels alike, seen as a transposed convolution."};

}  // namespace dgo

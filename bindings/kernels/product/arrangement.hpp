// The arrangement of packed weights, on which packing and products of an instruction set agree, and views of the tensors.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/checked.hpp"
#include "kernels/product/axis.hpp"

namespace dgo {

constexpr double kTransformCost = 16;  // multiplications that take as long as transforming one value

// Packed weights: columns of a panel, columns of a task step, and the units that the channels of a segment and the
// columns of a group are rounded up to.
struct PanelSizes {
    int64_t columns, chunk, depth, unit;
};
PanelSizes filter_panels();  // the sizes of this process's vector code
constexpr PanelSizes kBf16Panels{kDotColumns, 64, kBf16Unit, kDotColumns};
// Returns the sizes of a set, or of f32 for null.
PanelSizes panels(const Dot* dot);

// Returns a count of multiplications as an integer, bounded.
inline int64_t bounded(double count) { return static_cast<int64_t>(std::min(count, 1e18)); }

// Returns `products` on `columns` columns together with the products that only fill up panels.
double padded(int64_t products, int64_t columns, const PanelSizes& of);

// Whether the targets contain whole runs of dst only.
bool whole_runs(const std::vector<int32_t>& targets, int64_t fold);

FilterImage image(const FilterTensor& tensor, int64_t channels, const Axes& size, const Axes& step,
                  const std::vector<Axes>& first);

// Returns the image with one run for each segment if channels do not fill whole units of the depth.
FilterImage apart(FilterImage image, int64_t depth);

struct TargetGroups {
    std::vector<std::vector<int32_t>> targets;
    std::vector<TargetGroup> groups;
    int64_t packed = 0;
};

// Returns the products of one tile for each pair of channels.
int64_t used_products(const FilterLayout& layout, const std::vector<int32_t>& targets);

// Returns the multiplications of one tile for each row: those of panels in which a target has weights, with the columns
// that fill up a panel or its half.
double multiplied(const FilterLayout& layout, const std::vector<int32_t>& targets, int64_t columns,
                  const PanelSizes& of);

struct Arrangement {
    FilterLayout layout;
    int64_t rows, columns;  // channels of one group
    PanelSizes panels;
    TargetGroups groups;

    Arrangement(const FilterProblem& problem, FilterDirection direction, const PanelSizes& of = filter_panels());

    // Returns the packing's parameters as bytes, without the weights' layout and data: equal bytes, equal packed
    // weights.
    std::string packing(const FilterProblem& problem) const;
    // Returns the elements of the packed weights.
    int64_t packed_size(const FilterProblem& problem) const;
    // Returns all parameters of packing but the number of threads.
    PackParams pack_params(const FilterProblem& problem, FilterDirection direction, const FilterWeights& weights) const;
};

// The tensors of a problem as images.
struct Images {
    FilterImage src, dst;

    Images(const FilterProblem& p, FilterDirection direction, const Arrangement& of, const FilterTensor& from,
           const FilterTensor& to)
        : Images(direction == FilterDirection::dgrad, p, of, from, to) {}

private:
    Images(bool dgrad, const FilterProblem& p, const Arrangement& of, const FilterTensor& from, const FilterTensor& to)
        : src(image(from, of.rows, dgrad ? p.in : p.out, of.layout.src_step, of.layout.src_first)),
          dst(image(to, of.columns, dgrad ? p.out : p.in, of.layout.dst_step, of.layout.dst_first)) {}
};

// A layer and its tensors with axes of one tap joined to one axis where their positions follow each other in both
// tensors.
struct Joined {
    FilterProblem problem;
    FilterTensor src, dst;

    Joined(const FilterProblem& of, const FilterTensor& from, const FilterTensor& to)
        : problem(of), src(from), dst(to) {
        constexpr int last = kFilterAxes - 1;
        const auto plain = [&](int a) {
            return of.kernel[a] == 1 && of.stride[a] == 1 && of.pad[a] == 0 && of.tile[a] == 1 && of.in[a] == of.out[a];
        };
        for (int a = last - 1; a >= 0 && plain(a) && plain(last); --a) {
            const int64_t size = problem.in[last];
            const bool follow =
                src.strides[a] == src.strides[last] * size && dst.strides[a] == dst.strides[last] * size;
            if (of.in[a] > 1 && (!follow || of.in[a] > kMostSize / size)) return;
            problem.in[last] = problem.out[last] = of.in[a] * size;
            problem.in[a] = problem.out[a] = 1;
        }
    }
};

}  // namespace dgo

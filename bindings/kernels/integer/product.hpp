// A transposed convolution forward, or an ordinary one (backward data), of integers of 8 bits: exact sums in s32, then
// scales, bias and post-ops in f32, then integers again or f32. The direct form of filter_product.hpp.
//
// src is first made into rows: bytes without a sign or, where an instruction set multiplies words, 16 bits. Positions
// that src lacks stand for its zero point. Zero points of weights need the sums of what each position reads: the same
// product by weights of one, with `sums`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/filtering/filter_product.hpp"
#include "kernels/tail/tail.hpp"

namespace dgo {

// How src becomes rows for a set: bytes of an element, elements of a position, and whether it is its rows as it lies.
struct IntegerLayout {
    int64_t item, pitch;
    bool as_it_is;
};
IntegerLayout integer_layout(int64_t channels, int dtype, const std::string& isa);

// Bytes of the packed weights.
int64_t integer_packed_size(const FilterProblem& problem, FilterDirection direction, const std::string& isa);
// As filter_packing.
std::string integer_packing(const FilterProblem& problem, FilterDirection direction, const std::string& isa);

// Whether zero points of weights are subtracted when they are packed, rather than after the product.
bool integer_pack_subtracts(const std::string& isa);

// Operands: src, rows. Sizes and strides of the axes but the channels, which are contiguous; zero: of src.
std::unique_ptr<Kernel> integer_rows(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                     int64_t channels, int dtype, int zero, int threads, const std::string& isa);

// Operands: weights, [points, s32 of all out channels,] packed. `channels`: of a group, what weights have of those that
// are read; the others fill up a position of rows, and their weights are zero.
std::unique_ptr<Kernel> integer_pack(const FilterProblem& problem, FilterDirection direction,
                                     const FilterWeights& weights, int64_t channels, bool has_points, int threads,
                                     const std::string& isa);

// src_zero: of src, by its own type. Results of s8 and u8 are rounded quotients by dst_scale, plus dst_zero, from low to
// high.
struct IntegerQuantization {
    int src_dtype = 0, src_zero = 0;
    double dst_scale = 1;
    int dst_zero = 0;
    int dst_low = -128, dst_high = 255;
    bool has_points = false;
};

// Operands: rows, packed, scales, [bias,] [points, sums,] the tail's, scratch, dst. Scales and bias: f32 of all out
// channels; points: s32; sums: of each position of dst and group, in the order of memory. A dst of s32: the sums, and
// then there is nothing between packed and scratch. dst strides: multiples of one position's.
std::unique_ptr<ScratchKernel> integer_product(const FilterProblem& problem, FilterDirection direction,
                                               const FilterTensor& rows, const FilterTensor& dst,
                                               const IntegerQuantization& how, int bias_dtype, int64_t position,
                                               int threads, const Tail& tail, const std::string& isa);

}  // namespace dgo

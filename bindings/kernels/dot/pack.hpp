// The packing of weights of bf16 and 8 bits.
#pragma once

#include <memory>
#include <string>

#include "kernels/kernel.hpp"
#include "kernels/product/arrangement.hpp"

namespace dgo {

// Returns a tensor or weights with the dtype f32: the geometry of f32 knows no integers.
template <class T>
T as_floats(T tensor) {
    tensor.dtype = kF32;
    return tensor;
}

// Returns the bytes of the packed weights; in 8 bits the totals of the columns follow them.
int64_t packed_bytes(const std::string& name, const Arrangement& of, const FilterProblem& problem, const Dot& dot);

// Returns the kernel that packs weights. channels: how many in channels of a group weights of 8 bits have, or 0 for
// all.
std::unique_ptr<Kernel> dot_pack(const char* name, const Dot& dot, const FilterProblem& problem,
                                 FilterDirection direction, const FilterWeights& weights, ElementType type, int threads,
                                 int64_t channels = 0, bool has_points = false);

// Whether tiles have several results: Winograd.
bool is_tiled(const FilterProblem& problem);

// Throws if tiles have more than 3 results, whose coefficients make the errors of bf16 several times as large and are
// no integers; or more than one where elements are bytes, which have no room for transformed values.
void check_tiles(const FilterProblem& problem, const Dot& dot);

}  // namespace dgo

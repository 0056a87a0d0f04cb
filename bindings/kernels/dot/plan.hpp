// What products in the direct form of all narrow types, of bf16 and of integers, lay out alike.
#pragma once

#include "kernels/filtering/arrangement.hpp"
#include "kernels/dot/vtable.hpp"
#include "kernels/tail/tail.hpp"

namespace dgo {

struct DotPlan {
    Arrangement arrangement;
    FittedTail tail;
    ProductParams params{};

    // `item`: bytes of an element of src.
    DotPlan(const Joined& joined, FilterDirection direction, const PanelSizes& panels, int64_t item, int bias_dtype,
            int threads, const Tail& tail);
    DotPlan(const DotPlan&) = delete;
    DotPlan& operator=(const DotPlan&) = delete;
};

// As 'dot_bf16_amx_32x32'.
std::string dot_name(const Dot& dot);

// Throws where a tile has several results.
void check_direct(const FilterProblem& problem);

}  // namespace dgo

// Compiled without contraction: results are those of the steps one by one, each of which is rounded.
#include "kernels/isa/elementwise/affine.hpp"

#include "kernels/isa/epilogue/fused_activation.hpp"
#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kFetchedBytes = 4096;  // of x ahead, where rows do not follow each other

// A row of an operand: floats from `at` on, or one for all columns.
struct AffineRow {
    const float* at;
    bool stretched;

    AffineRow(const ElementwiseSide& side, int64_t row)
        : at(reinterpret_cast<const float*>(side.at) + row * side.row), stretched(side.column == 0) {}
    DGO_INLINE Lanes get(int64_t column, int64_t count) const {
        return stretched ? *at - Lanes{} : load_some(at + column, count);
    }
};

template <bool kFactor, bool kTerm, class Function>
DGO_INLINE void run_rows(const ElementwiseBlock& block, const ElementwiseAffine& affine, Function&& function) {
    const ElementwiseSide& x = block.operands[affine.x];
    const int64_t ahead = larger(kFetchedBytes / (block.columns * 4), 1) * x.row;
    const bool fetches = x.row > block.columns;
    for (int64_t r = 0; r < block.rows; ++r) {
        const float* const from = reinterpret_cast<const float*>(x.at) + r * x.row;
        float* const to = reinterpret_cast<float*>(block.dst.at) + r * block.dst.row;
        const AffineRow factor(block.operands[kFactor ? affine.factor : affine.x], r);
        const AffineRow term(block.operands[kTerm ? affine.term : affine.x], r);
        for (int64_t c = 0; c < block.columns; c += kLanes) {
            const int64_t count = smaller(block.columns - c, kLanes);
            Lanes y = load_some(from + c, count);
            if (fetches) __builtin_prefetch(from + ahead + c);
            if constexpr (kFactor) y *= factor.get(c, count);
            if constexpr (kTerm) y += term.get(c, count);
            store_some(to + c, function(y), count);
        }
    }
}

template <class Function>
void run_with(const ElementwiseBlock& block, const ElementwiseAffine& affine, Function&& function) {
    if (affine.factor >= 0 && affine.term >= 0) return run_rows<true, true>(block, affine, function);
    if (affine.factor >= 0) return run_rows<true, false>(block, affine, function);
    run_rows<false, true>(block, affine, function);
}

}  // namespace

void run_affine(const ElementwiseBlock& block, const ElementwiseAffine& affine) {
    if (affine.activation.as == FusedActivation::As::it_is) {
        return run_with(block, affine, [](Lanes y) { return y; });
    }
    activate_with<kLanes>(affine.activation, [&](auto function) { run_with(block, affine, function); });
}

}  // namespace dgo::DGO_ISA

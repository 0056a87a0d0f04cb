// Types of operands, and a table of a tile's functions, for all ways of multiplying.
#pragma once

#include "kernels/product/dot.hpp"
#include "kernels/isa/epilogue/fused_activation.hpp"
#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {

// Activates sums and rounds them to bf16; see Dot::round.
inline void round_pairs(const FusedActivation& activation, const float* sums, int64_t step, const DotTarget* targets,
                        int64_t rows, int64_t begin, int64_t end) {
    using V = Floats<16>;  // every set that rounds so has vectors of 16
    const auto round_all = [&](auto activated) __attribute__((always_inline)) {
        const auto pairs = [&](const float* some) __attribute__((always_inline)) {
            const V first = activated(load_bytes<V>(some)), second = activated(load_bytes<V>(some + 16));
            return bits<__m512i>(_mm512_cvtne2ps_pbh(bits<__m512>(second), bits<__m512>(first)));
        };
        const float* from = sums;
        for (const DotTarget* target = targets; target != targets + rows; ++target, from += step) {
            if (end - begin == 32 && target->low <= begin && target->high >= end) {
                // a panel, which takes as long as the branches of other rows
                store_bytes(target->at + 2 * begin, pairs(from));
                continue;
            }
            int64_t c = larger(begin, target->low);
            const int64_t high = smaller(end, target->high);
            for (; c + 32 <= high; c += 32) store_bytes(target->at + 2 * c, pairs(from + c - begin));
            if (c < high) {
                const auto some = static_cast<__mmask32>((uint32_t{1} << (high - c)) - 1);
                _mm512_mask_storeu_epi16(target->at + 2 * c, some, pairs(from + c - begin));
            }
        }
    };
    if (activation.as == FusedActivation::As::it_is) {
        round_all([](V x) { return x; });
    } else {
        activate_with<16>(activation, round_all);
    }
}

using RoundFn = decltype(Dot::round);
extern const DotWindows kBf16Windows;  // Winograd's windows in the sets that multiply bf16
struct Bf16Pairs {
    static constexpr const char* kType = "bf16";
    static constexpr int64_t kItem = 2;
    static constexpr RoundFn kRound = round_pairs;
    static constexpr const DotWindows* kWindows = &kBf16Windows;
    template <class V>
    static DGO_INLINE void put(uint16_t* at, V value) {
        const auto both = _mm512_cvtne2ps_pbh(bits<__m512>(value), bits<__m512>(value));
        store_bytes(at, _mm512_castsi512_si256(bits<__m512i>(both)));
    }
};
struct ByteQuads {
    static constexpr const char* kType = "int8";
    static constexpr int64_t kItem = 1;
    static constexpr RoundFn kRound = nullptr;
    static constexpr const DotWindows* kWindows = nullptr;
};
struct WordPairs {
    static constexpr const char* kType = "int8";
    static constexpr int64_t kItem = 2;
    static constexpr RoundFn kRound = nullptr;
    static constexpr const DotWindows* kWindows = nullptr;
};

DGO_INLINE void fetch_ahead(const char* line) { _mm_prefetch(further(line, kFetchedAhead), _MM_HINT_T0); }

// The product of vpdpbusd and tdpbusd: rows are u8, columns s8, sums do not saturate.
DGO_INLINE uint32_t quad(const char* row, const char* column) {
    uint32_t sum = 0;
    for (int k = 0; k < 4; ++k)
        sum += static_cast<uint32_t>(static_cast<uint8_t>(row[k]) * static_cast<int8_t>(column[k]));
    return sum;
}

template <class Tile>
constexpr Dot dot_of() {
    using Operands = typename Tile::Operands;
    return {DGO_TEXT(DGO_ISA), Operands::kType, Tile::kRowsAtOnce, Tile::kColumnsAtOnce,
            Operands::kItem,   Tile::kStep,     Tile::kUnit,       Tile::begin,
            Tile::end,         Tile::product,   Operands::kRound,  Operands::kWindows,
            Tile::kDepthwise};
}

}  // namespace dgo::DGO_ISA

// Products by tiles, registers of 16 rows of 64 bytes: of AMX, and the same in plain C++.
#pragma once

#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/dot/set.hpp"

namespace dgo::DGO_ISA {

// Keeps earlier writes in front of loads: GCC takes instructions that load tiles for ones that read none.
DGO_INLINE void written(const void* at) { asm volatile("" : : "r"(at) : "memory"); }

// The compiler's intrinsics take no template parameters as numbers of tiles. Tile i += the products of rows in tile j and
// columns in tile k.
struct Tdpbf16ps {
    template <int i, int j, int k>
    static DGO_INLINE void add() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(i), "i"(j), "i"(k));
    }
};
struct Tdpbusd {
    template <int i, int j, int k>
    static DGO_INLINE void add() {
        asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(i), "i"(j), "i"(k));
    }
};

// Blocks of 16 or 32 rows by 16 or 32 columns, a unit of the depth at once.
template <class Type, class Block>
struct Tiles {
    using Operands = Type;
    static constexpr int64_t kStep = 64 / Type::kItem, kUnit = kStep;
    static constexpr int kRowsAtOnce = kDotBlockRows, kColumnsAtOnce = kDotColumns;
    static constexpr const DotDepthwise* kDepthwise = nullptr;

    static void begin(int64_t) {}
    static void end() {}
    static void product(const DotTerm* terms, int64_t count, const DotPanel& panel, const DotSums& sums, int64_t rows,
                        int64_t columns) {
        if (panel.lines > 0 && rows > sums.second && columns > 16) {
            return Block::template run<2, 2, true>(terms, count, panel, sums);
        }
        const auto block = rows > sums.second
                               ? (columns > 16 ? &Block::template run<2, 2> : &Block::template run<2, 1>)
                               : (columns > 16 ? &Block::template run<1, 2> : &Block::template run<1, 1>);
        block(terms, count, panel, sums);
    }
};

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
template <class Type, class Multiply>
struct AmxTiles : Tiles<Type, AmxTiles<Type, Multiply>> {
    // The library multiplies tiles in the same threads and configures them itself, so nothing is left configured.
    static void begin(int64_t tile_rows) {
        struct __attribute__((packed)) {
            uint8_t palette = 1, start = 0, unused[14] = {};
            uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};  // bytes of a row of each tile
            uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
        } shape;
        for (int tile = 0; tile < 6; ++tile) shape.rows[tile] = static_cast<uint8_t>(tile_rows);
        written(&shape);
        _tile_loadconfig(&shape);
    }

    static void end() { _tile_release(); }

    template <int kHalves, int kVectors, bool kFetch = false>
    static void run(const DotTerm* terms, int64_t count, const DotPanel& panel, const DotSums& sums) {
        const char* fetched = panel.fetched;
        const int64_t in = sums.start_step * 4, out = sums.to_step * 4, second = sums.second;
        const auto start = [&](int64_t i, int64_t j) {
            return static_cast<const char*>(sums.start) + second * i * in + 64 * j;
        };
        const auto to = [&](int64_t i, int64_t j) { return static_cast<char*>(sums.to) + second * i * out + 64 * j; };
        written(terms);
        const __m512i first = load_bytes<__m512i>(start(0, 0));
        const __m512i all = kVectors == 2 ? _mm512_or_si512(first, load_bytes<__m512i>(start(0, 1))) : first;
        if (in == 0 && _mm512_test_epi32_mask(all, all) == 0) {
            // a quarter of the time of a short sum is that of loads of one row into all of a tile
            _tile_zero(0);
            if constexpr (kVectors == 2) _tile_zero(1);
            if constexpr (kHalves == 2) _tile_zero(2);
            if constexpr (kHalves == 2 && kVectors == 2) _tile_zero(3);
        } else {
            _tile_loadd(0, start(0, 0), in);
            if constexpr (kVectors == 2) _tile_loadd(1, start(0, 1), in);
            if constexpr (kHalves == 2) _tile_loadd(2, start(1, 0), in);
            if constexpr (kHalves == 2 && kVectors == 2) _tile_loadd(3, start(1, 1), in);
        }
        for (const DotTerm* term = terms; term != terms + count; ++term) {
            const char *a = term->rows[0].at, *b = panel.at + term->panel;
            const char* below = kHalves == 2 ? term->rows[1].at : nullptr;
            const int64_t pitch = term->rows[0].pitch, pitch_below = kHalves == 2 ? term->rows[1].pitch : 0;
            for (int64_t d = 0; d < term->depth; d += 64 / Type::kItem, a += 64, b += panel.unit) {
                for (int64_t line = 0; kHalves == 1 && line < kDotColumns * 64; line += 64) fetch_ahead(b + line);
                if (kFetch) {
                    for (int64_t line = 0; line < panel.lines; ++line) _mm_prefetch(fetched + line * 64, _MM_HINT_T1);
                    fetched += panel.fetched_unit;
                }
                _tile_loadd(4, a, pitch);
                _tile_loadd(6, b, 64);
                Multiply::template add<0, 4, 6>();
                if constexpr (kVectors == 2) {
                    _tile_loadd(7, b + panel.half, 64);
                    Multiply::template add<1, 4, 7>();
                }
                if constexpr (kHalves == 2) {
                    _tile_loadd(5, below, pitch_below);
                    Multiply::template add<2, 5, 6>();
                    if constexpr (kVectors == 2) Multiply::template add<3, 5, 7>();
                    below += 64;
                }
            }
        }
        _tile_stored(0, to(0, 0), out);
        if constexpr (kVectors == 2) _tile_stored(1, to(0, 1), out);
        if constexpr (kHalves == 2) _tile_stored(2, to(1, 0), out);
        if constexpr (kHalves == 2 && kVectors == 2) _tile_stored(3, to(1, 1), out);
    }
};

// Denormal numbers are zeros.
DGO_INLINE float flushed(float value) {
    const uint32_t u = bits<uint32_t>(value);
    return (u & 0x7f800000u) == 0 ? bits<float>(u & 0x80000000u) : value;
}

DGO_INLINE float bf16_at(const char* at) { return flushed(bits<float>(uint32_t{load_bytes<uint16_t>(at)} << 16)); }

// A set for tests, in plain C++: the operands, and a sum plus the products of a unit of a row and of a column.
struct PlainBf16 {
    static constexpr const char* kType = "bf16";
    static constexpr int64_t kItem = 2;
    static constexpr RoundFn kRound = nullptr;
    static constexpr const DotWindows* kWindows = &kBf16Windows;
    static DGO_INLINE void put(uint16_t* at, Lanes value) {
        store_float<Bf16, kLanes>(reinterpret_cast<Bf16::T*>(at), value);
    }

    // The sums of even and odd elements apart, as tdpbf16ps has them. Products of two bf16 are exact.
    static DGO_INLINE float with_unit(float sum, const char* row, const char* column) {
        float part[2] = {0.0f, 0.0f};
        for (int64_t k = 0; k < 32; ++k) {
            const float product = flushed(bf16_at(row + 2 * k) * bf16_at(column + k / 2 * 64 + k % 2 * 2));
            part[k % 2] = flushed(part[k % 2] + product);
        }
        return flushed(sum + flushed(part[0] + part[1]));
    }
};
struct PlainBytes : ByteQuads {
    static DGO_INLINE int32_t with_unit(int32_t sum, const char* row, const char* column) {
        auto total = static_cast<uint32_t>(sum);
        for (int64_t k = 0; k < 64; k += 4) total += quad(row + k, column + 16 * k);
        return static_cast<int32_t>(total);
    }
};

template <class Type>
struct PlainTiles : Tiles<Type, PlainTiles<Type>> {
    template <int kHalves, int kVectors, bool kFetch = false>
    static void run(const DotTerm* terms, int64_t count, const DotPanel& panel, const DotSums& sums) {
        using Sum = decltype(Type::with_unit({}, nullptr, nullptr));
        for (int64_t i = 0; i < kHalves * sums.second; ++i) {
            for (int64_t j = 0; j < kVectors * 16; ++j) {
                Sum sum = static_cast<const Sum*>(sums.start)[i * sums.start_step + j];
                for (const DotTerm* term = terms; term != terms + count; ++term) {
                    const DotRows& rows = term->rows[i / sums.second];
                    const char* a = rows.at + i % sums.second * rows.pitch;
                    const char* b = panel.at + term->panel + j / 16 * panel.half + j % 16 * 4;
                    for (int64_t d = 0; d < term->depth; d += 64 / Type::kItem, a += 64, b += panel.unit)
                        sum = Type::with_unit(sum, a, b);
                }
                static_cast<Sum*>(sums.to)[i * sums.to_step + j] = sum;
            }
        }
    }
};

using Bf16ByAmx = AmxTiles<Bf16Pairs, Tdpbf16ps>;
using BytesByAmx = AmxTiles<ByteQuads, Tdpbusd>;
using Bf16ByPlainTiles = PlainTiles<PlainBf16>;
using BytesByPlainTiles = PlainTiles<PlainBytes>;

}  // namespace dgo::DGO_ISA

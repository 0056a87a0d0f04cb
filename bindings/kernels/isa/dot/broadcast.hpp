// sum[column] += row[0 .. 4 bytes) * column[0 .. 4 bytes): the row's bytes are spread to all lanes.
#pragma once

#include "kernels/isa/dot/depthwise.hpp"

namespace dgo::DGO_ISA {

// sum += the products of 4 bytes of a row with those of the columns; in place: see multiply_add.
struct Vdpbf16ps {
    static DGO_INLINE void add(Lanes& sum, Lanes row, Lanes columns) {
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns));
    }
};
struct Vpdpbusd {
    static DGO_INLINE void add(Lanes& sum, Lanes row, Lanes columns) {
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns));
    }
};
struct ShortVpdpbusd {
    static DGO_INLINE void add(Lanes& sum, Lanes row, Lanes columns) {
        asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(row), "x"(columns));
    }
};
// No sum of two products saturates.
struct Vpmaddwd {
    template <class V>
    static DGO_INLINE void add(V& sum, V row, V columns) {
        const __m256i pairs = _mm256_madd_epi16(bits<__m256i>(row), bits<__m256i>(columns));
        sum = bits<V>(_mm256_add_epi32(bits<__m256i>(sum), pairs));
    }
};
struct PlainQuads {
    static DGO_INLINE void add(Lanes& sum, Lanes row, Lanes columns) {
        for (int i = 0; i < 4 * kLanes; i += 4) {
            char* at = reinterpret_cast<char*>(&sum) + i;
            const char *left = reinterpret_cast<const char*>(&row) + i,
                       *right = reinterpret_cast<const char*>(&columns) + i;
            store_bytes(at, load_bytes<uint32_t>(at) + quad(left, right));
        }
    }
};

template <class Type, int64_t kUnitElements, class Multiply>
struct Broadcast {
    using Operands = Type;
    static constexpr int64_t kStep = 4 / Type::kItem, kUnit = kUnitElements;
    static constexpr bool kShort = kUnit == kStep;  // units of one step
    // 16 rows are 8 and 8, or 6, 5 and 5: of 16 registers 12 hold sums, as many as hide the latency.
    static constexpr int kRowsAtOnce = kLanes == 16 ? 8 : 6, kRowsNext = kLanes == 16 ? 8 : 5;
    static constexpr int kColumnsAtOnce = 2 * kLanes;
    static constexpr const DotDepthwise* kDepthwise = kDepthwiseOf<Type, Multiply>;

    static void begin(int64_t) {}
    static void end() {}

    // Computes rows [row, row + kRows) of a half.
    template <int kRows, int kVectors, bool kFetch>
    static void rows_of(const DotTerm* terms, int64_t count, int half, int64_t row, const DotPanel& panel,
                        const DotSums& sums) {
        const int64_t first = half * kDotRows + row;
        const int64_t line = kShort ? kDotColumns * 4 : 64, to_vector = kShort ? kLanes * 4 : panel.half;
        Lanes sum[kRows][kVectors];
        const int64_t start_step = sums.start_step, to_step = sums.to_step;
        const auto* start = static_cast<const float*>(sums.start) + first * start_step;
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) sum[i][j] = load_bytes<Lanes>(start + i * start_step + j * kLanes);
        }
        for (const DotTerm* term = terms; term != terms + count; ++term) {
            const int64_t pitch = term->rows[half].pitch;
            const char *a = term->rows[half].at + row * pitch, *b = panel.at + term->panel;
            const auto step = [&]() __attribute__((always_inline)) {
                Lanes right[kVectors];
#pragma GCC unroll 2
                for (int j = 0; j < kVectors; ++j) {
                    if (kFetch) fetch_ahead(b + j * to_vector);
                    right[j] = load_bytes<Lanes>(b + j * to_vector);
                }
#pragma GCC unroll 8
                for (int i = 0; i < kRows; ++i) {
                    const auto some = bits<Lanes>(load_bytes<uint32_t>(a + i * pitch) - Vec<kLanes>::u32{});
#pragma GCC unroll 2
                    for (int j = 0; j < kVectors; ++j) Multiply::add(sum[i][j], some, right[j]);
                }
                a += 4;
                b += line;
            };
            int64_t d = 0;
            for (; !kShort && d + kUnit <= term->depth; d += kUnit, b += panel.unit - kUnit / kStep * 64) {
#pragma GCC unroll 2
                for (int64_t u = 0; u < kUnit / kStep; ++u) step();
            }
#pragma GCC unroll 2
            for (; d < term->depth; d += kStep) step();
        }
        auto* to = static_cast<float*>(sums.to) + first * to_step;
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) store_bytes(to + i * to_step + j * kLanes, sum[i][j]);
        }
    }

    // Computes `rows` rows, without padding them to a whole block.
    template <int kVectors>
    static void block(const DotTerm* terms, int64_t count, const DotPanel& panel, const DotSums& sums, int64_t rows) {
        for (int64_t done = 0, taken; done < rows; done += taken) {
            const int half = done < kDotRows ? 0 : 1;
            const int64_t row = done % kDotRows, left = rows - done;
            taken = row == 0 ? kRowsAtOnce : kRowsNext;
            const auto some = left > 4    ? (done == 0  ? &rows_of<kRowsAtOnce, kVectors, true>
                                             : row == 0 ? &rows_of<kRowsAtOnce, kVectors, false>
                                                        : &rows_of<kRowsNext, kVectors, false>)
                              : left > 2  ? &rows_of<4, kVectors, true>
                              : left == 2 ? &rows_of<2, kVectors, true>
                                          : &rows_of<1, kVectors, true>;
            some(terms, count, half, row, panel, sums);
        }
    }

    static void product(const DotTerm* terms, int64_t count, const DotPanel& panel, const DotSums& sums, int64_t rows,
                        int64_t columns) {
        for (int64_t c = 0; c < smaller(columns, kDotColumns); c += kColumnsAtOnce) {
            const DotPanel some{panel.at + c / 16 * panel.half, panel.half, panel.unit};
            const DotSums at{static_cast<const float*>(sums.start) + c, sums.start_step,
                             static_cast<float*>(sums.to) + c, sums.to_step};
            // one vector where no more columns are written
            const auto tile = columns - c > kLanes ? &block<2> : &block<1>;
            tile(terms, count, some, at, smaller(rows, kDotBlockRows));
        }
    }
};

using Bf16ByVdpbf16ps = Broadcast<Bf16Pairs, 32, Vdpbf16ps>;
using BytesByVpdpbusd = Broadcast<ByteQuads, 4, Vpdpbusd>;
using BytesByShortVpdpbusd = Broadcast<ByteQuads, 4, ShortVpdpbusd>;
using WordsByVpmaddwd = Broadcast<WordPairs, 2, Vpmaddwd>;
using BytesByPlainQuads = Broadcast<ByteQuads, 4, PlainQuads>;

}  // namespace dgo::DGO_ISA

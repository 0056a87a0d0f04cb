// Narrow products: operands in bf16, sums in f32, or operands in 8 bits, sums in s32. A block of up to 32 rows and 32 columns
// stays in registers while a list of terms is summed. Of bf16, `amx` multiplies tiles, `avx512bf16` broadcasts pairs,
// `emulated` does what `amx` does in plain C++. Of 8 bits, `amxint8` multiplies tiles, `avx512vnni` and `avxvnni` broadcast
// quads, `emulatedint8tiles` and `emulatedint8` do the same in plain C++, `avx2words` broadcasts pairs of the operands
// widened to 16 bits: no sum of two products saturates.
#pragma once

#include "kernels/isa/lanes.hpp"

namespace dgo::DGO_ISA {

#if defined(DGO_INTEGER_QUADS) || defined(DGO_INTEGER_WORDS) || defined(DGO_INTEGER_EMULATED)
#define DGO_INTEGER
#define DGO_NARROW_DOT
#elif defined(DGO_INTEGER_AMX) || defined(DGO_INTEGER_TILES_EMULATED)
#define DGO_INTEGER
#endif
#if defined(DGO_NARROW_AMX) || defined(DGO_INTEGER_AMX)
#define DGO_TILES
#endif

// Rows that lie a pitch apart, and columns of a panel.
constexpr int64_t kNarrowRows = 16, kNarrowColumns = 32;
#ifdef DGO_INTEGER
typedef int32_t NarrowSum;
#ifdef DGO_INTEGER_WORDS
constexpr int64_t kNarrowItem = 2;
#else
constexpr int64_t kNarrowItem = 1;
#endif
#else
typedef float NarrowSum;
constexpr int64_t kNarrowItem = 2;
#endif
// A panel is a list of units, each of kNarrowUnit of the depth: two halves of 16 columns after each other, in a half rows of
// 64 bytes, in a row 4 bytes of the depth for each column. Of a row of the left factor kNarrowStep elements are read at once.
#ifdef DGO_NARROW_DOT
constexpr int64_t kNarrowStep = 4 / kNarrowItem;
#else
constexpr int64_t kNarrowStep = 64 / kNarrowItem;
#endif
#if defined(DGO_INTEGER) && defined(DGO_NARROW_DOT)
constexpr int64_t kNarrowUnit = kNarrowStep;
#else
constexpr int64_t kNarrowUnit = 64 / kNarrowItem;
#endif
constexpr int64_t kNarrowUnitBytes = kNarrowColumns * kNarrowUnit * kNarrowItem,
                  kNarrowHalfBytes = kNarrowUnitBytes / 2;

// 16 rows of the left factor; pitch in bytes.
struct NarrowRows {
    const char* at;
    int64_t pitch;
};

// Some of the depth: `depth` elements of each row, rounded up to kNarrowStep, by as many units of a panel, which begin so
// many bytes into it. Weights that fill up the last unit are zero, and what a row has there is read: finite numbers.
struct NarrowTerm {
    NarrowRows rows[2];  // the second are not looked at for a block of 16 rows
    int64_t panel, depth;
};

#ifdef DGO_TILES
// What was written before is in memory: GCC takes instructions that load tiles for ones that read none.
DGO_INLINE void written(const void* at) { asm volatile("" : : "r"(at) : "memory"); }
#endif

// What every thread needs around its products: one object in its part of a parallel region. The library multiplies tiles
// in the same threads and configures them itself, so nothing is left configured.
class NarrowState {
public:
    NarrowState() {
#ifdef DGO_TILES
        struct __attribute__((packed)) {
            uint8_t palette = 1, start = 0, unused[14] = {};
            uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};  // of a row
            uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
        } shape;
        written(&shape);
        _tile_loadconfig(&shape);
#endif
    }
    ~NarrowState() {
#ifdef DGO_TILES
        _tile_release();
#endif
    }
    NarrowState(const NarrowState&) = delete;
    NarrowState& operator=(const NarrowState&) = delete;
};

// A panel, or the same units with the halves of all of them apart: how far a half and the next unit lie, in bytes.
struct NarrowPanel {
    const char* at;
    int64_t half, unit;

    NarrowPanel(const char* panel, int64_t to_half = kNarrowHalfBytes, int64_t to_unit = kNarrowUnitBytes)
        : at(panel), half(to_half), unit(to_unit) {}
};

// Weights that the first rows of a block ask for ahead of their use: those of few rows come from memory. Panels follow each
// other, and what is asked for in vain behind the last one is never waited for.
constexpr int64_t kNarrowAhead = 8192;

DGO_INLINE void fetch_ahead(const char* line) {
    _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(line) + kNarrowAhead), _MM_HINT_T0);
}

// Sums begin with those at start[i * start_step][:], which may be where they go: a step of 0 is one row for all.
struct NarrowSums {
    const NarrowSum* start;
    int64_t start_step;
    NarrowSum* to;
    int64_t to_step;  // in sums
};

#if defined(DGO_INTEGER_EMULATED) || defined(DGO_INTEGER_TILES_EMULATED)
// As vpdpbusd and tdpbusd multiply: bytes of rows without a sign, the columns' with one, sums without saturation.
DGO_INLINE uint32_t quad(const char* row, const char* column) {
    uint32_t sum = 0;
    for (int k = 0; k < 4; ++k)
        sum += static_cast<uint32_t>(static_cast<uint8_t>(row[k]) * static_cast<int8_t>(column[k]));
    return sum;
}
#endif

#if defined(DGO_TILES)

#ifdef DGO_INTEGER
#define DGO_MULTIPLY_TILES _tile_dpbusd
#else
#define DGO_MULTIPLY_TILES _tile_dpbf16ps
#endif

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
template <int kHalves, int kVectors>
inline void narrow_block(const NarrowTerm* terms, int64_t count, const NarrowPanel& panel, const NarrowSums& sums) {
    const auto start = [&](int64_t i, int64_t j) { return sums.start + 16 * i * sums.start_step + 16 * j; };
    const auto to = [&](int64_t i, int64_t j) { return sums.to + 16 * i * sums.to_step + 16 * j; };
    const int64_t in = sums.start_step * 4, out = sums.to_step * 4;
    written(terms);
    _tile_loadd(0, start(0, 0), in);
    if constexpr (kVectors == 2) _tile_loadd(1, start(0, 1), in);
    if constexpr (kHalves == 2) _tile_loadd(2, start(1, 0), in);
    if constexpr (kHalves == 2 && kVectors == 2) _tile_loadd(3, start(1, 1), in);
    for (const NarrowTerm* term = terms; term != terms + count; ++term) {
        const char *a = term->rows[0].at, *b = panel.at + term->panel;
        const char* below = kHalves == 2 ? term->rows[1].at : nullptr;
        const int64_t pitch = term->rows[0].pitch, pitch_below = kHalves == 2 ? term->rows[1].pitch : 0;
        for (int64_t d = 0; d < term->depth; d += kNarrowUnit, a += 64, b += panel.unit) {
            for (int64_t line = 0; kHalves == 1 && line < kNarrowUnitBytes; line += 64) fetch_ahead(b + line);
            _tile_loadd(4, a, pitch);
            _tile_loadd(6, b, 64);
            DGO_MULTIPLY_TILES(0, 4, 6);
            if constexpr (kVectors == 2) {
                _tile_loadd(7, b + panel.half, 64);
                DGO_MULTIPLY_TILES(1, 4, 7);
            }
            if constexpr (kHalves == 2) {
                _tile_loadd(5, below, pitch_below);
                DGO_MULTIPLY_TILES(2, 5, 6);
                if constexpr (kVectors == 2) DGO_MULTIPLY_TILES(3, 5, 7);
                below += 64;
            }
        }
    }
    _tile_stored(0, to(0, 0), out);
    if constexpr (kVectors == 2) _tile_stored(1, to(0, 1), out);
    if constexpr (kHalves == 2) _tile_stored(2, to(1, 0), out);
    if constexpr (kHalves == 2 && kVectors == 2) _tile_stored(3, to(1, 1), out);
}

#elif defined(DGO_NARROW_DOT)

#ifdef DGO_WIDE
constexpr int kDotRows = 8, kDotColumns = 32;
#else
constexpr int kDotRows = 4, kDotColumns = 16;
#endif

// sum += the products of 4 bytes of a row with those of the columns.
DGO_INLINE void add_products(Lanes& sum, Lanes row, Lanes columns) {
#if defined(DGO_INTEGER_QUADS) && defined(DGO_WIDE)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns));
#elif defined(DGO_INTEGER_QUADS)
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(row), "x"(columns));
#elif defined(DGO_INTEGER_WORDS)
    const __m256i pairs = _mm256_madd_epi16(bits<__m256i>(row), bits<__m256i>(columns));
    sum = bits<Lanes>(_mm256_add_epi32(bits<__m256i>(sum), pairs));
#elif defined(DGO_INTEGER_EMULATED)
    for (int i = 0; i < 4 * kLanes; i += 4) {
        char* at = reinterpret_cast<char*>(&sum) + i;
        const char *left = reinterpret_cast<const char*>(&row) + i,
                   *right = reinterpret_cast<const char*>(&columns) + i;
        store_bytes(at, load_bytes<uint32_t>(at) + quad(left, right));
    }
#else
    // in place: see multiply_add
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns));
#endif
}

// kRows rows from `row` of a half on.
template <int kRows, int kVectors, bool kFetch>
inline void dot_rows(const NarrowTerm* terms, int64_t count, int half, int64_t row, const NarrowPanel& panel,
                     const NarrowSums& sums) {
    const int64_t first = half * kNarrowRows + row;
#ifdef DGO_INTEGER
    constexpr int64_t kLine = kNarrowUnitBytes, kVectorStep = kLanes * 4;
#else
    constexpr int64_t kLine = 64;
    const int64_t kVectorStep = panel.half;
#endif
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
            sum[i][j] = load_bytes<Lanes>(sums.start + (first + i) * sums.start_step + j * kLanes);
        }
    }
    for (const NarrowTerm* term = terms; term != terms + count; ++term) {
        const int64_t pitch = term->rows[half].pitch;
        const char *a = term->rows[half].at + row * pitch, *b = panel.at + term->panel;
        const auto step = [&]() __attribute__((always_inline)) {
            Lanes right[kVectors];
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) {
                const char* line = b + j * kVectorStep;
                if (kFetch) fetch_ahead(line);
                right[j] = load_bytes<Lanes>(line);
            }
#pragma GCC unroll 8
            for (int i = 0; i < kRows; ++i) {
                const auto some = bits<Lanes>(load_bytes<uint32_t>(a + i * pitch) - Vec<kLanes>::u32{});
#pragma GCC unroll 2
                for (int j = 0; j < kVectors; ++j) add_products(sum[i][j], some, right[j]);
            }
            a += 4;
            b += kLine;
        };
        int64_t d = 0;
#ifdef DGO_INTEGER
#pragma GCC unroll 2
#else
        for (; d + kNarrowUnit <= term->depth; d += kNarrowUnit, b += panel.unit - kNarrowUnitBytes / 2) {
#pragma GCC unroll 2
            for (int u = 0; u < 16; ++u) step();
        }
#endif
        for (; d < term->depth; d += kNarrowStep) step();
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) store_bytes(sums.to + (first + i) * sums.to_step + j * kLanes, sum[i][j]);
    }
}

// Of few rows no more are computed.
template <int kVectors>
inline void dot_block(const NarrowTerm* terms, int64_t count, const NarrowPanel& panel, const NarrowSums& sums,
                      int64_t rows) {
    for (int64_t done = 0; done < rows; done += kDotRows) {
        const int half = done < kNarrowRows ? 0 : 1;
        const int64_t row = done % kNarrowRows, left = rows - done;
        const auto some = left > 4
                              ? (done == 0 ? &dot_rows<kDotRows, kVectors, true> : &dot_rows<kDotRows, kVectors, false>)
                          : left > 2  ? &dot_rows<4, kVectors, true>
                          : left == 2 ? &dot_rows<2, kVectors, true>
                                      : &dot_rows<1, kVectors, true>;
        some(terms, count, half, row, panel, sums);
    }
}

#else

#ifdef DGO_INTEGER

// `sum` with the products of a unit of a row and of a column.
DGO_INLINE int32_t with_unit(int32_t sum, const char* row, const char* column) {
    auto total = static_cast<uint32_t>(sum);
    for (int64_t k = 0; k < kNarrowUnit; k += 4) total += quad(row + k, column + k / 4 * 64);
    return static_cast<int32_t>(total);
}

#else

// Denormal numbers are zeros.
DGO_INLINE float flushed(float value) {
    const uint32_t u = bits<uint32_t>(value);
    return (u & 0x7f800000u) == 0 ? bits<float>(u & 0x80000000u) : value;
}

DGO_INLINE float narrow_element(const char* at) {
    return flushed(bits<float>(uint32_t{load_bytes<uint16_t>(at)} << 16));
}

// The sums of even and odd elements apart, as tdpbf16ps has them. Products of two bf16 are exact.
DGO_INLINE float with_unit(float sum, const char* row, const char* column) {
    float part[2] = {0.0f, 0.0f};
    for (int64_t k = 0; k < kNarrowUnit; ++k) {
        const float product = flushed(narrow_element(row + 2 * k) * narrow_element(column + k / 2 * 64 + k % 2 * 2));
        part[k % 2] = flushed(part[k % 2] + product);
    }
    return flushed(sum + flushed(part[0] + part[1]));
}

#endif

template <int kHalves, int kVectors>
inline void narrow_block(const NarrowTerm* terms, int64_t count, const NarrowPanel& panel, const NarrowSums& sums) {
    for (int64_t i = 0; i < kHalves * kNarrowRows; ++i) {
        for (int64_t j = 0; j < kVectors * 16; ++j) {
            NarrowSum sum = sums.start[i * sums.start_step + j];
            for (const NarrowTerm* term = terms; term != terms + count; ++term) {
                const NarrowRows& rows = term->rows[i / kNarrowRows];
                const char* a = rows.at + i % kNarrowRows * rows.pitch;
                const char* b = panel.at + term->panel + j / 16 * panel.half + j % 16 * 4;
                for (int64_t d = 0; d < term->depth; d += kNarrowUnit, a += 64, b += panel.unit)
                    sum = with_unit(sum, a, b);
            }
            sums.to[i * sums.to_step + j] = sum;
        }
    }
}

#endif

// to[i][j] = start[i][j] + the sum of all terms, for 16 or 32 columns and up to 32 rows, or a few more: whole tiles.
inline void narrow_product(const NarrowTerm* terms, int64_t count, const NarrowPanel& panel, const NarrowSums& sums,
                           int64_t rows, int64_t columns) {
#ifdef DGO_NARROW_DOT
    for (int64_t c = 0; c < smaller(columns, kNarrowColumns); c += kDotColumns) {
        const NarrowPanel some(panel.at + c / 16 * panel.half, panel.half, panel.unit);
        const NarrowSums to{sums.start + c, sums.start_step, sums.to + c, sums.to_step};
        (columns - c > 16 && kDotColumns > 16
             ? dot_block<kDotColumns / kLanes>
             : dot_block<16 / kLanes>)(terms, count, some, to, smaller(rows, 2 * kNarrowRows));
    }
#else
    if (rows > kNarrowRows) {
        (columns > 16 ? narrow_block<2, 2> : narrow_block<2, 1>)(terms, count, panel, sums);
    } else {
        (columns > 16 ? narrow_block<1, 2> : narrow_block<1, 1>)(terms, count, panel, sums);
    }
#endif
}

}  // namespace dgo::DGO_ISA

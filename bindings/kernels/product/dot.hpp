// How an instruction set multiplies bf16 with sums in f32, or 8 bits with sums in s32. The design is told in
// docs/internals/kernels.md.
#pragma once

#include <cstdint>

#include "kernels/epilogue/vtable.hpp"
#include "kernels/product/spread.hpp"

namespace dgo {

struct DotDepthwise;

// A block of up to kDotBlockRows rows and kDotColumns columns stays in registers while a list of terms is summed; kDotRows
// of its rows lie a pitch apart, or fewer in sets that multiply tiles: as many as begin() was told.
constexpr int64_t kDotRows = 16, kDotBlockRows = 32, kDotColumns = 32;
constexpr int64_t kBf16Unit = 32;  // elements of the depth in a unit of bf16, in every set

// 16 rows of the left factor; pitch in bytes.
struct DotRows {
    const char* at;
    int64_t pitch;
};

// A range of the depth: `depth` elements of each row, rounded up to a step, and as many units of a panel, which begin
// `panel` bytes into it. Rows must be readable and finite up to the end of the last unit, where the panel's weights are
// zero.
struct DotTerm {
    DotRows rows[2];  // rows[1] is read only for blocks of more than 16 rows
    int64_t panel, depth;
};

// Weights are fetched so many bytes ahead of their use by the first rows of a block: weights of few rows come from memory.
// Panels follow each other, and fetches past the last one cost no waiting.
constexpr int64_t kFetchedAhead = 8192;

// Returns an address that may lie past the end of its memory.
__attribute__((always_inline)) inline const char* further(const char* at, int64_t bytes) {
    return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(bytes));
}

// The first unit of a panel, and how far its second 16 columns and the next unit lie, in bytes. A set of tiles
// fetches `lines` cache lines with each unit: those from `fetched` on, and `fetched_unit` bytes further with the next unit.
struct DotPanel {
    const char* at;
    int64_t half, unit;
    const char* fetched = nullptr;
    int64_t fetched_unit = 0, lines = 0;
};

// Sum (i, j) begins with start[i * start_step + j] and goes to to[i * to_step + j], which may be the same place. Sums have
// 4 bytes; a start_step of 0 is one row of starts for all. second: the row of the first sum of rows[1].
struct DotSums {
    const void* start;
    int64_t start_step;
    void* to;
    int64_t to_step;
    int64_t second = kDotRows;
};

// A run of dst, of which elements [low, high) exist.
template <class T>
struct RunTarget {
    T* at;
    int64_t low, high;
};
using DotTarget = RunTarget<char>;

// Windows of Winograd -> planes in bf16, by the shapes of the axes. Null for tiles of more than 3 results.
struct DotWindows {
    SpreadFn<float, uint16_t> (*f32)(const ShapeIndex* shape);
    SpreadFn<uint16_t> (*bf16)(const ShapeIndex* shape);
};

// A panel is a list of units, each of `unit` elements of the depth: two halves of 16 columns after each other, in a half
// rows of 64 bytes, in a row 4 bytes of the depth for each column.
struct Dot {
    const char* isa;
    const char* type;  // the factors' type, for example "bf16"
    int rows, columns;  // rows and columns of the sums in registers
    int64_t item;  // bytes of an element of both factors: 2 where those of 8 bits are widened
    int64_t step;  // elements of a row that are read at once
    int64_t unit;
    // Each thread calls begin() before its products and end() after them. tile_rows: up to kDotRows where the set
    // multiplies tiles, else kDotRows.
    void (*begin)(int64_t tile_rows);
    void (*end)();
    // to[i][j] = start[i][j] + the sum of all terms, for 16 or 32 columns and up to 32 rows, or a few more: whole tiles.
    void (*product)(const DotTerm* terms, int64_t count, const DotPanel& panel, const DotSums& sums, int64_t rows,
                    int64_t columns);
    // Activates and rounds elements [begin, end) of rows of sums, `step` apart, to bf16. Reads up to 31 floats beyond a
    // row's end. Null: the set has no such function.
    void (*round)(const FusedActivation& activation, const float* from, int64_t step, const DotTarget* targets,
                  int64_t rows, int64_t begin, int64_t end);
    const DotWindows* windows;  // null: not for 8 bits
    const DotDepthwise* depthwise;  // of vectors of bytes; else null
};

}  // namespace dgo

#include "kernels/attention/vtable.hpp"

#include "kernels/isa/vector/transpose_panels.hpp"
#include "kernels/isa/product/gemm_tile.hpp"
#include "kernels/isa/table.hpp"
#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kRows = 4 * kTileRows;  // rows of q in a block

// Scratch: panels of keys, panels of values, scores.
struct Layout {
    int64_t pitch;  // floats from one row of scores to the next
    int64_t values, scores, floats;

    Layout(int64_t keys, int64_t depth, int64_t width) {
        pitch = round_up(keys, kPanel);
        values = pitch * depth;
        scores = values + round_up(width, kPanel) * keys;
        floats = scores + kRows * pitch;
    }
    explicit Layout(const AttentionBlock& block) : Layout(block.keys, block.depth, block.width) {}
};

int64_t scratch_of(int64_t keys, int64_t depth, int64_t width) { return Layout(keys, depth, width).floats; }

// to[i * kPanel + j] = from[i * step + j], zeros after the last column.
void pack_rows(const float* from, int64_t step, int64_t rows, int64_t columns, float* to) {
    for (int64_t i = 0; i < rows; ++i, from += step, to += kPanel) {
#pragma GCC unroll 2
        for (int64_t j = 0; j < kPanel; j += kLanes) {
            const int64_t some = columns - j;
            const Lanes v = some <= 0 ? Lanes{} : load_some(from + j, some);
            store_bytes(to + j, v);
        }
    }
}

// to[i * kPanel + j] = from[i + j * step], likewise.
void pack_columns(const float* from, int64_t step, int64_t rows, int64_t columns, float* to) {
    if (columns < kPanel) {
        for (int64_t i = 0; i < rows * kPanel; i += kLanes) store_bytes(to + i, Lanes{});
    }
    transpose_to<F32>(reinterpret_cast<const F32::T*>(from), step, rows, columns, to, kPanel);
}

void pack(const AttentionBlock& block) {
    const Layout layout(block);
    float* to = block.scratch;
    for (int64_t j = 0; j < block.keys; j += kPanel, to += kPanel * block.depth) {
        const int64_t columns = smaller(block.keys - j, kPanel);
        const float* const from = block.k + j * block.k_key;
        if (block.k_key == 1) {
            pack_rows(from, block.k_depth, block.depth, columns, to);
        } else if (block.k_depth == 1) {
            pack_columns(from, block.k_key, block.depth, columns, to);
        } else {
            for (int64_t i = 0; i < block.depth; ++i) {
                for (int64_t c = 0; c < kPanel; ++c) {
                    to[i * kPanel + c] = c < columns ? from[i * block.k_depth + c * block.k_key] : 0.0f;
                }
            }
        }
    }
    to = block.scratch + layout.values;
    for (int64_t j = 0; j < block.width; j += kPanel, to += kPanel * block.keys) {
        pack_rows(block.v + j, block.v_key, block.keys, smaller(block.width - j, kPanel), to);
    }
}

// c[i][:] = scales[i] * sum over k of a[i][k] * b[k][:], `columns` columns; with scales null, the sums in whole
// vectors.
struct Product {
    const float* a;
    int64_t a_row;
    const float* b;
    int64_t pitch;
    float* c;
    int64_t c_row, depth, columns;
    const float* scales;
};

template <int kTile, int kVectors>
__attribute__((noinline)) void tile(const Product& p, int64_t row) {
    Lanes sum[kTile][kVectors] = {};
    const float* const a = p.a + row * p.a_row;
    const float* b = p.b;
    const auto step = [&](int64_t k) __attribute__((always_inline)) {
        Lanes right[kVectors];
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) right[j] = *reinterpret_cast<const LanesAt*>(b + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kTile; ++i) {
            const Lanes left = broadcast(a[i * p.a_row + k]);
#pragma GCC unroll 4
            for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], left, right[j]);
        }
        b += p.pitch;
    };
    int64_t k = 0;
    for (; k + 4 <= p.depth; k += 4) {
#pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) step(k + u);
    }
    for (; k < p.depth; ++k) step(k);
    float* to = p.c + row * p.c_row;
#pragma GCC unroll 16
    for (int i = 0; i < kTile; ++i, to += p.c_row) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
            const Lanes v = p.scales != nullptr ? sum[i][j] * p.scales[row + i] : sum[i][j];
            store_some(to + j * kLanes, v, p.scales != nullptr ? p.columns - j * kLanes : kLanes);
        }
    }
}

template <int kVectors>
void product_of(const Product& p, int64_t rows) {
    int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows) tile<kTileRows, kVectors>(p, row);
    if constexpr (kTileRows > 8) {
        for (; row + 8 <= rows; row += 8) tile<8, kVectors>(p, row);
    }
    for (; row + 4 <= rows; row += 4) tile<4, kVectors>(p, row);
    for (; row + 2 <= rows; row += 2) tile<2, kVectors>(p, row);
    if (row < rows) tile<1, kVectors>(p, row);
}

void product(const Product& p, int64_t rows) {
    if (p.columns > kLanes) {
        product_of<kTileVectors>(p, rows);
    } else {
        product_of<1>(p, rows);
    }
}

template <int kNumber>
struct Together {
    static constexpr int kValue = kNumber;
};

// Computes the scores of one row of q, reading k as it lies.
void scores_of_row(const AttentionBlock& block, const float* q, float* scores) {
    const int64_t depth = block.depth;
    if (block.k_depth != 1) {
        for (int64_t j = 0; j < block.keys; ++j) {
            const float* const key = block.k + j * block.k_key;
            float sum = 0;
            for (int64_t i = 0; i < depth; ++i) sum += q[i] * key[i * block.k_depth];
            scores[j] = sum;
        }
        return;
    }
    const int64_t whole = depth / kLanes * kLanes, rest = depth - whole;
    int64_t j = 0;
    const auto some = [&](auto count) __attribute__((always_inline)) {
        constexpr int kCount = decltype(count)::kValue;
        Lanes sum[kCount] = {};
        const float* const key = block.k + j * block.k_key;
        for (int64_t i = 0; i < whole; i += kLanes) {
            const Lanes left = load_bytes<Lanes>(q + i);
#pragma GCC unroll 4
            for (int c = 0; c < kCount; ++c) sum[c] += left * load_bytes<Lanes>(key + c * block.k_key + i);
        }
        if (rest > 0) {
            const Lanes left = load_part(q + whole, rest);
#pragma GCC unroll 4
            for (int c = 0; c < kCount; ++c) sum[c] += left * load_part(key + c * block.k_key + whole, rest);
        }
#pragma GCC unroll 4
        for (int c = 0; c < kCount; ++c) scores[j + c] = sum_across(sum[c]);
        j += kCount;
    };
    while (j + 4 <= block.keys) some(Together<4>{});
    while (j < block.keys) some(Together<1>{});
}

// Computes a row of dst, reading v as it lies.
void results_of_row(const AttentionBlock& block, const float* shares, int64_t keys, float scale, float* to) {
    constexpr int kWide = 4;
    int64_t j = 0;
    for (; j + kWide * kLanes <= block.width; j += kWide * kLanes) {
        tile<1, kWide>({shares, 0, block.v + j, block.v_key, to + j, 0, keys, kWide * kLanes, &scale}, 0);
    }
    for (; j + kLanes <= block.width; j += kLanes) {
        tile<1, 1>({shares, 0, block.v + j, block.v_key, to + j, 0, keys, kLanes, &scale}, 0);
    }
    if (j == block.width) return;
    const int64_t rest = block.width - j;
    Lanes sum = {};
    const float* value = block.v + j;
    for (int64_t i = 0; i < keys; ++i, value += block.v_key) sum += shares[i] * load_part(value, rest);
    store_part(to + j, sum * scale, rest);
}

DGO_INLINE Lanes larger_lanes(Lanes a, Lanes b) { return a > b ? a : b; }

// 1 / the sum of a row's e^score, and whether all scores of the row are -Inf.
struct Share {
    float scale;
    bool unseen;
};

// row = e^(scale * row + masks - largest), in place, over `keys` keys; zeros in the rest of the last panel.
template <int kMasks>
Share shares_of(float* row, int64_t keys, int64_t pitch, float scale, const AttentionMask (&masks)[kMostMasks],
                int64_t number) {
    const float* at[kMostMasks] = {};
    for (int m = 0; m < kMasks; ++m) at[m] = masks[m].at + number * masks[m].row;
    const Lanes nothing = broadcast(-__builtin_inff());
    Lanes top = nothing, odd = {};
    const int64_t whole = keys / kLanes * kLanes;
    const auto masked = [&](int64_t j, int64_t some) __attribute__((always_inline)) {
        Lanes v = load_bytes<Lanes>(row + j) * scale;
#pragma GCC unroll 2
        for (int m = 0; m < kMasks; ++m) v += masks[m].key == 0 ? broadcast(*at[m]) : load_some(at[m] + j, some);
        return v;
    };
    for (int64_t j = 0; j < whole; j += kLanes) {
        const Lanes v = masked(j, kLanes);
        store_bytes(row + j, v);
        top = larger_lanes(v, top);
        odd += v != v ? v : Lanes{};
    }
    if (whole < keys) {
        Lanes v = masked(whole, keys - whole);
        for (int64_t i = keys - whole; i < kLanes; ++i) v[i] = nothing[0];
        store_bytes(row + whole, v);
        top = larger_lanes(v, top);
        odd += v != v ? v : Lanes{};
    }
    const float most = across(top, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
    Lanes sum = odd;
    int64_t j = 0;
    for (; j < keys; j += kLanes) {
        const Lanes power = exponential_down(load_bytes<Lanes>(row + j) - most);
        store_bytes(row + j, power);
        sum += power;
    }
    for (; j < pitch; j += kLanes) store_bytes(row + j, Lanes{});
    const float odd_sum = sum_across(odd);
    return {1 / sum_across(sum), most == nothing[0] && odd_sum == odd_sum};
}

float shares(const AttentionBlock& block, float* row, int64_t keys, int64_t pitch, int64_t number) {
    const Share part = block.mask_count == 0   ? shares_of<0>(row, keys, pitch, block.scale, block.masks, number)
                       : block.mask_count == 1 ? shares_of<1>(row, keys, pitch, block.scale, block.masks, number)
                                               : shares_of<2>(row, keys, pitch, block.scale, block.masks, number);
    const bool empty =
        block.zeros == ZeroRows::nan ? part.scale != part.scale : block.zeros == ZeroRows::unseen && part.unseen;
    if (!empty) return part.scale;
    for (int64_t j = 0; j < pitch; j += kLanes) store_bytes(row + j, Lanes{});
    return 0;
}

void run(const AttentionBlock& block) {
    const Layout layout(block);
    float* const scores = block.scratch + layout.scores;
    float scales[kRows];
    // keys that no row of the block sees are left out
    int64_t keys = block.seen != nullptr ? 0 : block.keys;
    for (int64_t i = 0; block.seen != nullptr && i < block.rows; ++i) keys = larger(keys, block.seen[i]);
    const int64_t pitch = round_up(keys, kLanes);
    for (int64_t j = 0; block.packed && j < keys; j += kPanel) {
        product({block.q, block.q_row, block.scratch + j * block.depth, kPanel, scores + j, layout.pitch, block.depth,
                 smaller(keys - j, kPanel), nullptr},
                block.rows);
    }
    for (int64_t i = 0; i < block.rows; ++i) {
        float* const row = scores + i * layout.pitch;
        if (!block.packed) scores_of_row(block, block.q + i * block.q_row, row);
        scales[i] = shares(block, row, block.seen != nullptr ? block.seen[i] : keys, pitch, i);
        if (!block.packed) results_of_row(block, row, keys, scales[i], block.dst + i * block.dst_row);
    }
    for (int64_t j = 0; block.packed && j < block.width; j += kPanel) {
        product({scores, layout.pitch, block.scratch + layout.values + j * block.keys, kPanel, block.dst + j,
                 block.dst_row, keys, smaller(block.width - j, kPanel), scales},
                block.rows);
    }
}

}  // namespace

const AttentionCode kAttentionCode = {kRows, scratch_of, pack, run};

}  // namespace dgo::DGO_ISA

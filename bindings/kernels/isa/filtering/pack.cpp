// Weights -> their transform, packed in panels of columns for the products.
#include "kernels/team.hpp"
#include "kernels/isa/product/transforms.hpp"
#include "kernels/isa/vector/integer.hpp"
#include "kernels/isa/vector/transpose_panels.hpp"
#include "kernels/isa/filtering/vtable.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kTransposedFloats = 4096;  // floats that a task transposes: half a first cache level
constexpr int64_t kCachedWeights = 1 << 18;
constexpr int64_t kFetched = 3;  // rows ahead
constexpr int64_t kTogether = 4;  // taps
constexpr int64_t kMostRows = 16;  // rows of a panel that are packed together

// `count` consecutive columns of a panel: channels of one target.
struct PanelSlice {
    int64_t target, channel, column, count;
};

// Weights as f32 whose columns are contiguous: [tap][row][column], columns from `first` on.
struct TapColumns {
    const float* at;
    int64_t first, row_stride;
    Axes tap_strides;
};

int64_t tap_count(const PackParams& params) { return params.kernel[0] * params.kernel[1] * params.kernel[2]; }

Axes dense_taps(const PackParams& params, int64_t step) {
    return Axes{{params.kernel[1] * params.kernel[2] * step, params.kernel[2] * step, step}};
}

// Returns how many rows of a panel a task packs.
int64_t row_block(const PackParams& params) { return tap_count(params) > 256 ? 8 : kMostRows; }

// Whether the taps of a pair of channels are read together, as they lie in memory. They are not if the weights stay in
// the cache from one tap to the next, and whole vectors of taps do not become whole panels.
bool taps_together(const PackParams& params) {
    if (params.as == PackedAs::words) return false;
    const bool cached = tap_count(params) * params.n * params.k < kCachedWeights;
    const bool even = tap_count(params) % kLanes == 0 && params.n % kPanel == 0;
    if (tap_count(params) < kTogether || (cached && !even)) return false;
    const Axes dense = dense_taps(params, 1);
    for (int a = 0; a < kFilterAxes; ++a) {
        if (params.kernel[a] > 1 && params.tap_strides[a] != dense[a]) return false;
    }
    return params.k_stride != 1 && params.n_stride != 1;
}

// Returns how many columns of each target a task packs: whole panels, or all channels.
int64_t column_block(const PackParams& params) {
    if (params.n % kPanel != 0) return params.n;
    const int64_t most = kTransposedFloats / (tap_count(params) * row_block(params)) / kPanel * kPanel;
    return smaller(params.n, larger(most, kPanel));
}

int64_t padded_block(const PackParams& params) { return round_up(column_block(params), 8); }

int64_t packed_item(const PackParams& params) { return params.as == PackedAs::f32 ? 4 : 2; }

// to[row * kPanel + column] = one tap of `rows` rows and `columns` columns.
template <class C>
void read_tap(const PackParams& params, const char* weights, int64_t rows, int64_t columns, float* to) {
    const auto* from = reinterpret_cast<const typename C::T*>(weights);
    constexpr bool kVectors = sizeof(typename C::T) > 1;
    if constexpr (kVectors) {
        if (params.k_stride == 1) return transpose_to<C>(from, params.n_stride, rows, columns, to, kPanel);
    }
    for (int64_t row = 0; row < rows; ++row, from += params.k_stride, to += kPanel) {
        int64_t c = 0;
        if constexpr (kVectors) {
            for (; params.n_stride == 1 && c + kLanes <= columns; c += kLanes) {
                store_bytes(to + c, load_float<C, kLanes>(from + c));
            }
        }
        for (; c < columns; ++c) to[c] = C::get(from + c * params.n_stride);
    }
}

// Packs rows of one segment of a panel: f32 as they are, or words of 16 bits in pairs of the depth.
struct PanelRows {
    static constexpr int64_t kHalf = 16;
    const PackParams& params;
    SpreadFn<float> transform;
    char* to;
    Spread spread;
    float* some;  // words: [plane][kMostRows][kPanel], transformed but not rounded yet
    int64_t half_bytes = kHalf * params.unit * 2;
    int64_t pitch = kPanel;  // of f32: floats from row to row

    PanelRows(const PackParams& of, const TargetGroup& group, int64_t panel, int64_t segment, char* packed,
              float* scratch)
        : params(of), transform(filter_transform(of.shape)), to(packed + group.packed * packed_item(of)),
          some(scratch) {
        const int64_t columns = group.target_count * of.n, segments = segment_count(of), column = panel * kPanel;
        if (of.as != PackedAs::f32) {
            const int64_t bytes = round_up(of.k, of.unit) * kDotColumns * 2;  // bytes of a segment of a panel
            to += (column / kDotColumns * segments + segment) * bytes + column % kDotColumns / kHalf * half_bytes;
            spread = {ceil_div(columns, kDotColumns) * segments * bytes, kPanel, 0};
        } else {
            pitch = panel_pitch(columns - column);
            to += (column * segments + segment * pitch) * of.k * 4;
            spread = {round_up(columns, kLanes) * segments * of.k, kPanel, 0};
        }
    }

    // The direct form passes each row on as it is.
    DGO_INLINE void put(int64_t row, const float* const* from) const {
        if (params.as != PackedAs::f32) {
            transform(from, kPanel, some + row % kMostRows * kPanel, Spread{kMostRows * kPanel, kPanel, 0});
            return;
        }
        float* at = reinterpret_cast<float*>(to) + row * pitch;
        if (params.planes > 1) return transform(from, pitch, at, spread);
        for (int64_t c = 0; c < pitch; c += kLanes) store_bytes(at + c, load_bytes<Lanes>(from[0] + c));
    }

    // Returns a vector of words: bf16, rounded once, or whole numbers.
    DGO_INLINE Vec<kLanes>::u32 words(const float* at) const {
        if (params.as == PackedAs::bf16) return Bf16::narrow<kLanes>(load_bytes<Vec<kLanes>::u32>(at));
        const Integers whole = __builtin_convertvector(load_bytes<Lanes>(at) * params.scale, Integers);
        return bits<Vec<kLanes>::u32>(whole) & 0xffff;
    }

    // Rounds rows [begin, end) to words after all of them were put; `begin` is a multiple of kMostRows, and they are at
    // most as many.
    void finish(int64_t begin, int64_t end) const {
        if (params.as == PackedAs::f32) return;
        const int64_t filled = end == params.k ? round_up(end, params.unit) : end;
        alignas(64) static const float zeros[kPanel] = {};
        for (int p = 0; p < params.planes; ++p) {
            const float* rows = some + p * kMostRows * kPanel;
            const auto row = [&](int64_t k) { return k < end ? rows + k % kMostRows * kPanel : zeros; };
            for (int64_t k = begin; k < filled; k += 2) {
                char* at = to + p * spread.plane + k / params.unit * 2 * half_bytes + k % params.unit * kHalf * 2;
                for (int64_t c = 0; c < kPanel; c += kLanes) {
                    store_bytes(at + c / kHalf * half_bytes + c % kHalf * 4, words(row(k) + c) | words(row(k + 1) + c)
                                                                                                     << 16);
                }
            }
        }
    }
};

// to[row * kPanel + column] = one tap of integers less the zero points of the columns.
void read_integers(const PackParams& params, const char* weights, int64_t rows, int64_t columns, const int32_t* points,
                   float* to) {
    const auto read = params.type == ElementType::u8 ? read_tap<U8> : read_tap<S8>;
    read(params, weights, rows, columns, to);
    for (int64_t row = 0; points != nullptr && row < rows; ++row, to += kPanel) {
        for (int64_t c = 0; c < columns; ++c) to[c] -= static_cast<float>(points[c]);
    }
}

// Packs one segment of one panel, reading the weights tap by tap. points: of the columns' channels, or null.
void pack_taps(const PackParams& params, const char* weights, const int32_t* points, int64_t segment,
               const PanelSlice* slices, int64_t slice_count, const PanelRows& to) {
    const int64_t length = params.taps.length[0] * params.taps.length[1] * params.taps.length[2];
    constexpr int64_t kRows = kMostRows;
    alignas(64) float taps[kMaxLength][kRows * kPanel];
    const float* from[kMaxLength];
    int64_t offset[kPanel][kMaxLength];
    __builtin_memset(taps, 0, static_cast<size_t>(length) * sizeof(taps[0]));
    for (int64_t i = 0; i < slice_count; ++i) {
        tap_offsets(params.taps, params.tap_strides, segment, slices[i].target, offset[i]);
    }
    for (int64_t k = 0; k < params.k; k += kRows) {
        const int64_t rows = smaller(kRows, params.k - k);
        for (int64_t i = 0; i < slice_count; ++i) {
            const int64_t start = slices[i].channel * params.n_stride + k * params.k_stride;
            for (int64_t j = 0; j < length; ++j) {
                if (offset[i][j] < 0) continue;
                const char* at = weights + (start + offset[i][j]) * params.item;
                if (params.as == PackedAs::words) {
                    read_integers(params, at, rows, slices[i].count,
                                  points == nullptr ? nullptr : points + slices[i].channel, taps[j] + slices[i].column);
                    continue;
                }
                with_type(params.type, [&](auto type) __attribute__((always_inline)) {
                    read_tap<decltype(type)>(params, at, rows, slices[i].count, taps[j] + slices[i].column);
                });
            }
        }
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t j = 0; j < length; ++j) from[j] = taps[j] + row * kPanel;
            to.put(k + row, from);
        }
        to.finish(k, k + rows);
    }
}

// Packs rows [first, first + rows) of one segment of one panel.
void pack_segment(const PackParams& params, const TapColumns& columns, int64_t segment, const PanelSlice* slices,
                  int64_t slice_count, int64_t first, int64_t rows, const PanelRows& to) {
    const int64_t length = params.taps.length[0] * params.taps.length[1] * params.taps.length[2];
    alignas(64) float taps[kMaxLength][kPanel];
    __builtin_memset(taps, 0, static_cast<size_t>(length) * sizeof(taps[0]));
    alignas(64) static const float zeros[kPanel] = {};
    const float* from[kMaxLength];
    int64_t offset[kPanel][kMaxLength];
    for (int64_t i = 0; i < slice_count; ++i) {
        tap_offsets(params.taps, columns.tap_strides, segment, slices[i].target, offset[i]);
    }
    // Columns after the last channel of a target pad its panel; no product reads their sums.
    const bool whole = slice_count == 1;
    if (whole && params.planes == 1) {
        const int64_t at = offset[0][0] + slices[0].channel - columns.first;
        for (int64_t k = 0; k < rows; ++k) {
            // fetches the place of the next segment
            __builtin_prefetch(to.to + (params.k + first + k) * to.pitch * 4, 1);
            const float* row = offset[0][0] < 0 ? zeros : columns.at + k * columns.row_stride + at;
            to.put(first + k, &row);
        }
        return;
    }
    for (int64_t k = 0; k < rows; ++k) {
        const float* row = columns.at + k * columns.row_stride;
        for (int64_t j = 0; j < length; ++j) {
            if (whole) {
                from[j] = offset[0][j] < 0 ? zeros : row + offset[0][j] + slices[0].channel - columns.first;
                continue;
            }
            from[j] = taps[j];
            for (int64_t i = 0; i < slice_count; ++i) {
                const PanelSlice& slice = slices[i];
                if (offset[i][j] < 0) continue;
                const float* at = row + offset[i][j] + slice.channel - columns.first;
                for (int64_t c = 0; c < slice.count; ++c) taps[j][slice.column + c] = at[c];
            }
        }
        to.put(first + k, from);
    }
    to.finish(first, first + rows);
}

int64_t panel_slices(const PackParams& params, const TargetGroup& group, int64_t panel, PanelSlice* slices) {
    const int64_t end = smaller((panel + 1) * kPanel, group.target_count * params.n);
    int64_t count = 0;
    for (int64_t c = panel * kPanel; c < end;) {
        const int64_t channel = c % params.n, width = smaller(params.n - channel, end - c);
        slices[count++] = {group.targets[c / params.n], channel, c - panel * kPanel, width};
        c += width;
    }
    return count;
}

int64_t panel_count(const PackParams& params, const TargetGroup& group) {
    return ceil_div(group.target_count * params.n, kPanel);
}

void pack_panel(const PackParams& params, const TargetGroup& group, const TapColumns& columns, int64_t panel, int64_t k,
                int64_t rows, char* packed) {
    alignas(64) float some[kFilterPlanes * kMostRows * kPanel];
    PanelSlice slices[kPanel];
    const int64_t count = panel_slices(params, group, panel, slices);
    for (int64_t s = 0; s < segment_count(params); ++s) {
        pack_segment(params, columns, s, slices, count, k, rows, {params, group, panel, s, packed, some});
    }
}

// Packs rows from `k` on and a block of columns from `n` on of one group of channels: all taps are transposed, then
// packed.
void pack_block(const PackParams& params, const char* weights, int64_t k, int64_t n, float* scratch, char* packed) {
    const int64_t rows = smaller(row_block(params), params.k - k), stride = padded_block(params);
    const int64_t block = column_block(params), width = smaller(block, params.n - n), all = row_block(params) * stride;
    const int64_t of_line = larger(64 / (params.n_stride * params.item), 1);  // columns
    weights += (k * params.k_stride + n * params.n_stride) * params.item;
    with_type(params.type, [&](auto type) __attribute__((always_inline)) {
        using C = decltype(type);
        const auto* at = reinterpret_cast<const typename C::T*>(weights);
        for (int64_t row = 0; row < rows; ++row, at += params.k_stride) {
            // Fetches the next lines of columns, which may lie too far apart for the processor to foresee them.
            for (int64_t c = 0; c < width; c += of_line) {
                _mm_prefetch(reinterpret_cast<const char*>(at + kFetched * params.k_stride + c * params.n_stride),
                             _MM_HINT_T0);
            }
            transpose_to<C>(at, params.n_stride, tap_count(params), width, scratch + row * stride, all);
        }
    });
    const TapColumns columns{scratch, n, stride, dense_taps(params, all)};
    for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
        if (block == params.n) {
            const int64_t panels = panel_count(params, *group);
            for (int64_t panel = 0; panel < panels; ++panel)
                pack_panel(params, *group, columns, panel, k, rows, packed);
            continue;
        }
        for (int64_t target = 0; target < group->target_count; ++target) {
            for (int64_t c = n; c < n + width; c += kPanel) {
                pack_panel(params, *group, columns, (target * params.n + c) / kPanel, k, rows, packed);
            }
        }
    }
}

void pack_together(const PackParams& params, const char* weights, float* scratch, char* packed) {
    const int64_t rows = row_block(params), columns = column_block(params);
    const int64_t blocks = ceil_div(params.n, columns), row_blocks = ceil_div(params.k, rows);
    run_evenly(params.threads, params.channel_groups * row_blocks * blocks, [&](int64_t task, int rank) {
        const int64_t g = task / (row_blocks * blocks), row = task % row_blocks, column = task / row_blocks % blocks;
        pack_block(params, weights + g * params.group_stride * params.item, row * rows, column * columns,
                   scratch + rank * pack_scratch(params), packed + g * params.packed * packed_item(params));
    });
}

void pack_by_tap(const PackParams& params, const char* weights, char* packed) {
    const int64_t segments = segment_count(params);
    for (int64_t g = 0; g < params.channel_groups * params.group_count; ++g) {
        const TargetGroup& group = params.groups[g % params.group_count];
        const int64_t panels = panel_count(params, group);
        const char* from = weights + g / params.group_count * params.group_stride * params.item;
        const int32_t* points = params.points == nullptr ? nullptr : params.points + g / params.group_count * params.n;
        char* to = packed + g / params.group_count * params.packed * packed_item(params);
        run_evenly(params.threads, panels * segments, [&](int64_t task, int) {
            // The panels of a segment one after the other share pages of the weights.
            const int64_t panel = task % panels, segment = task / panels;
            PanelSlice slices[kPanel];
            const int64_t count = panel_slices(params, group, panel, slices);
            alignas(64) float some[kFilterPlanes * kMostRows * kPanel];
            pack_taps(params, from, points, segment, slices, count, {params, group, panel, segment, to, some});
        });
    }
}

}  // namespace

int64_t pack_scratch(const PackParams& params) {
    return taps_together(params) ? tap_count(params) * row_block(params) * padded_block(params) + kPanel : 0;
}

void run_pack(const PackParams& params, const char* weights, float* scratch, char* packed) {
    if (taps_together(params))
        pack_together(params, weights, scratch, packed);
    else
        pack_by_tap(params, weights, packed);
}

}  // namespace dgo::DGO_ISA

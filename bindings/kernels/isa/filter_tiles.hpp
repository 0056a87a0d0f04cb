// The windows and the results of tiles: addresses, absent positions, conversion.
#pragma once

#include "filter_transform.hpp"

namespace dgo::DGO_ISA {

DGO_INLINE void widen(Cell cell, const char* from, int64_t count, float* to) {
    const auto run = [&](auto tag) {
        using C = decltype(tag);
        const auto* at = reinterpret_cast<const typename C::T*>(from);
        int64_t c = 0;
        for (; c + kLanes <= count; c += kLanes) store_bytes(to + c, load_float<C, kLanes>(at + c));
        for (; c < count; ++c) to[c] = C::get(at + c);
    };
    if (cell == Cell::bf16) run(Bf16{});
    else if (cell == Cell::f16) run(F16{});
    else run(F32{});
}

DGO_INLINE void narrow(Cell cell, const float* from, int64_t count, char* to) {
    const auto run = [&](auto tag) {
        using C = decltype(tag);
        auto* at = reinterpret_cast<typename C::T*>(to);
        int64_t c = 0;
        for (; c + kLanes <= count; c += kLanes) {
            store_float<C, kLanes>(at + c, load_bytes<typename Vec<kLanes>::f32>(from + c));
        }
        for (; c < count; ++c) C::put(at + c, from[c]);
    };
    if (cell == Cell::bf16) run(Bf16{});
    else if (cell == Cell::f16) run(F16{});
    else run(F32{});
}

// A tile's number -> its image and its first position on each axis.
struct TilePlace {
    int64_t image;
    int64_t at[kFilterAxes];
};

DGO_INLINE TilePlace place(int64_t tile, const Axes& tiles, const Axes& base, const Axes& step) {
    TilePlace p;
    for (int a = kFilterAxes - 1; a >= 0; --a) {
        const int64_t count = tiles[a];
        p.at[a] = base[a] + tile % count * step[a];
        tile /= count;
    }
    p.image = tile;
    return p;
}

constexpr int64_t kAbsent = INT64_MIN;

// Byte offsets of the counts[0] x counts[1] x counts[2] runs from `p` on, kAbsent where there is none. Of those at
// index k of the last axis only elements [low[k], high[k]) exist.
struct RunOffsets {
    int64_t at[kFilterPlanes];
    int64_t low[4], high[4];
};

DGO_INLINE void find_runs(const FilterImage& image, const TilePlace& p, int64_t run, const Axes& counts,
                          RunOffsets& out) {
    constexpr int last = kFilterAxes - 1;
    int64_t at[kFilterAxes][4];
    const Axes& first = image.first[run * image.fold];
    for (int a = 0; a < kFilterAxes; ++a) {
        for (int64_t i = 0; i < counts[a]; ++i) {
            const int64_t position = image.step[a] * (p.at[a] + i) + first[a];
            const int64_t width = a == last ? image.fold : 1;
            const bool present = position > -width && position < image.size[a];
            at[a][i] = present ? position * image.strides[a] : kAbsent;
            if (a != last) continue;
            out.low[i] = larger(0, -position) * image.channels;
            out.high[i] = smaller(width, image.size[a] - position) * image.channels;
        }
    }
    const int64_t start = p.image * image.batch_stride;
    int64_t* to = out.at;
    for (int64_t i = 0; i < counts[0]; ++i) {
        for (int64_t j = 0; j < counts[1]; ++j) {
            for (int64_t k = 0; k < counts[2]; ++k) {
                const bool absent = at[0][i] == kAbsent || at[1][j] == kAbsent || at[2][k] == kAbsent;
                *to++ = absent ? kAbsent : (start + at[0][i] + at[1][j] + at[2][k]) * image.item;
            }
        }
    }
}

// Elements [begin, end) of a run as f32 in `wide`, zeros where they are absent.
DGO_INLINE void widen_run(const FilterImage& image, const char* run, int64_t begin, int64_t end, int64_t low,
                          int64_t high, float* wide) {
    const int64_t from = larger(begin, low), to = larger(from, smaller(end, high));
    if (to - from < end - begin) __builtin_memset(wide, 0, static_cast<size_t>(end - begin) * sizeof(float));
    widen(image.cell, run + from * image.item, to - from, wide + from - begin);
}

// Transforms elements [begin, begin + count) of one run of a window.
DGO_INLINE void transform_window(const FilterImage& image, const char* data, const TilePlace& p, int64_t run,
                                 const Axes& counts, int64_t begin, int64_t count, const float* zeros, float* wide,
                                 SpreadFn transform, float* to, const Spread& spread) {
    RunOffsets runs;
    const float* from[kFilterPlanes];
    find_runs(image, p, run, counts, runs);
    const int64_t end = begin + count, all = counts[0] * counts[1] * counts[2];
    for (int64_t i = 0; i < all; ++i) {
        const int64_t low = runs.low[i % counts[2]], high = runs.high[i % counts[2]];
        if (runs.at[i] == kAbsent) {
            from[i] = zeros;
        } else if (image.cell == Cell::f32 && begin >= low && end <= high) {
            from[i] = reinterpret_cast<const float*>(data + runs.at[i]) + begin;
        } else {
            widen_run(image, data + runs.at[i], begin, end, low, high, wide + i * count);
            from[i] = wide + i * count;
        }
    }
    transform(from, count, to, spread);
}

}  // namespace dgo::DGO_ISA

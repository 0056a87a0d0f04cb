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

// Byte offsets of the counts[0] x counts[1] x counts[2] positions from `p` on, -1 where there is no element.
DGO_INLINE void offsets(const FilterImage& image, const TilePlace& p, int64_t segment, const Axes& counts,
                        int64_t* out) {
    int64_t at[kFilterAxes][4];
    const Axes& first = image.first[segment];
    for (int a = 0; a < kFilterAxes; ++a) {
        for (int64_t i = 0; i < counts[a]; ++i) {
            const int64_t position = image.step[a] * (p.at[a] + i) + first[a];
            at[a][i] = position >= 0 && position < image.size[a] ? position * image.strides[a] : -1;
        }
    }
    const int64_t start = p.image * image.batch_stride;
    for (int64_t i = 0; i < counts[0]; ++i) {
        for (int64_t j = 0; j < counts[1]; ++j) {
            for (int64_t k = 0; k < counts[2]; ++k) {
                const bool absent = (at[0][i] | at[1][j] | at[2][k]) < 0;
                *out++ = absent ? -1 : (start + at[0][i] + at[1][j] + at[2][k]) * image.item;
            }
        }
    }
}

// Transforms one window of `channels` channels from `data`, already moved to the first of them.
DGO_INLINE void transform_window(const FilterImage& image, const char* data, const TilePlace& p, int64_t segment,
                                 const Axes& counts, int64_t channels, const float* zeros, float* wide,
                                 SpreadFn transform, float* to, const Spread& spread) {
    int64_t offset[kFilterPlanes];
    const float* from[kFilterPlanes];
    offsets(image, p, segment, counts, offset);
    const int64_t count = counts[0] * counts[1] * counts[2];
    for (int64_t i = 0; i < count; ++i) {
        if (offset[i] < 0) {
            from[i] = zeros;
        } else if (image.cell == Cell::f32) {
            from[i] = reinterpret_cast<const float*>(data + offset[i]);
        } else {
            widen(image.cell, data + offset[i], channels, wide + i * channels);
            from[i] = wide + i * channels;
        }
    }
    transform(from, channels, to, spread);
}

}  // namespace dgo::DGO_ISA

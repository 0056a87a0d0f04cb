// The windows and the results of tiles: addresses, absent positions, conversion.
#pragma once

#include "kernels/isa/product/transforms.hpp"
#include "kernels/isa/vector/convert.hpp"

namespace dgo::DGO_ISA {

// Returns the image with one run for each segment.
inline FilterImage unfolded(FilterImage image) {
    image.fold = 1;
    image.run = image.channels;
    image.runs = image.segments;
    image.gapless = false;
    return image;
}

// The image of a tile and its first position on each axis, by the tile's number.
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

// Calls visit(t, n, place) for tiles t .. t + n - 1 of `count` from `first` on that follow each other on the last axis.
template <class Visit>
DGO_INLINE void for_each_line(const Axes& tiles, const Axes& base, const Axes& step, int64_t first, int64_t count,
                              Visit&& visit) {
    const int64_t length = tiles[kFilterAxes - 1];
    for (int64_t t = 0; t < count;) {
        const int64_t n = smaller(count - t, length - (first + t) % length);
        visit(t, n, place(first + t, tiles, base, step));
        t += n;
    }
}

constexpr int64_t kAbsent = INT64_MIN;

// A run in the windows of tiles that follow each other on the last axis: where the first tile's run begins, and its
// position on that axis.
struct LineRun {
    int64_t offset;  // elements, at position 0 of the last axis
    int64_t position;
    bool absent;
};

DGO_INLINE LineRun line_run(const FilterImage& image, const TilePlace& p, int64_t run) {
    constexpr int last = kFilterAxes - 1;
    const Axes& begin = image.first[run * image.fold];
    LineRun line{p.image * image.batch_stride, image.step[last] * p.at[last] + begin[last], false};
    for (int a = 0; a < last; ++a) {
        const int64_t position = image.step[a] * p.at[a] + begin[a];
        line.absent = line.absent || position < 0 || position >= image.size[a];
        line.offset += position * image.strides[a];
    }
    return line;
}

// at[i]: byte offsets of the counts[0] x counts[1] x counts[2] runs from `p` on, kAbsent for an absent run. At index k
// of the last axis only elements [low[k], high[k]) exist.
struct RunOffsets {
    int64_t at[kFilterPlanes];
    int64_t low[kFilterPoints], high[kFilterPoints];
    bool inside;  // all of them are whole

    // Whether elements [begin, end) of run i exist; the division is for borders only.
    DGO_INLINE bool has(int64_t i, const Axes& counts, int64_t begin, int64_t end) const {
        if (inside) return true;
        const int64_t k = i % counts[kFilterAxes - 1];
        return begin >= low[k] && end <= high[k];
    }
};

// Fills `out` if all runs are whole; returns false otherwise.
DGO_INLINE bool find_inner_runs(const FilterImage& image, const TilePlace& p, int64_t run, const Axes& counts,
                                RunOffsets& out) {
    constexpr int last = kFilterAxes - 1;
    const Axes& first = image.first[run * image.fold];
    int64_t start = p.image * image.batch_stride;
    for (int a = 0; a < kFilterAxes; ++a) {
        const int64_t begin = image.step[a] * p.at[a] + first[a];
        const int64_t end = begin + image.step[a] * (counts[a] - 1) + (a == last ? image.fold : 1);
        if (begin < 0 || end > image.size[a]) return false;
        start += begin * image.strides[a];
    }
    Axes step;
    for (int a = 0; a < kFilterAxes; ++a) step[a] = image.step[a] * image.strides[a] * image.item;
    for (int64_t k = 0; k < counts[last]; ++k) {
        out.low[k] = 0;
        out.high[k] = image.run;
    }
    int64_t* to = out.at;
    start *= image.item;
    for (int64_t i = 0; i < counts[0]; ++i) {
        for (int64_t j = 0; j < counts[1]; ++j) {
            for (int64_t k = 0; k < counts[2]; ++k) *to++ = start + i * step[0] + j * step[1] + k * step[2];
        }
    }
    return true;
}

DGO_INLINE void find_runs(const FilterImage& image, const TilePlace& p, int64_t run, const Axes& counts,
                          RunOffsets& out) {
    constexpr int last = kFilterAxes - 1;
    out.inside = find_inner_runs(image, p, run, counts, out);
    if (out.inside) return;
    int64_t at[kFilterAxes][kFilterPoints];
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

// Reads elements of windows as floats, or words as they are: bf16 or integers.
DGO_INLINE void read_as(ElementType type, const char* from, int64_t count, float* to) { widen(type, from, count, to); }
template <class Word>
DGO_INLINE void read_as(ElementType, const char* from, int64_t count, Word* to) {
    static_assert(sizeof(Word) == 2, "a word has two bytes");
    __builtin_memcpy(to, from, static_cast<size_t>(count) * 2);
}

// wide[0 .. end - begin) = elements [begin, end) of a run, zeros where they are absent.
template <class From>
DGO_INLINE void widen_run(const FilterImage& image, const char* run, int64_t begin, int64_t end, int64_t low,
                          int64_t high, From* wide) {
    const int64_t from = smaller(larger(begin, low), end), to = larger(from, smaller(end, high));
    const auto clear = [&](int64_t first, int64_t stop) {
        if (first < stop) __builtin_memset(wide + first - begin, 0, static_cast<size_t>(stop - first) * sizeof(From));
    };
    clear(begin, from);
    clear(to, end);
    read_as(image.type, run + from * image.item, to - from, wide + from - begin);
}

// Calls visit(t, m, runs) for tiles t .. t + n - 1 of a line, `tile` positions apart, whose windows or results have
// `counts` runs: `runs` are the runs of tile t. If all of them are whole, the runs of the next m - 1 tiles are
// line_step further each.
template <class Visit>
DGO_INLINE void for_each_runs(const FilterImage& image, TilePlace p, int64_t run, const Axes& counts, int64_t tile,
                              int64_t t, int64_t n, Visit&& visit) {
    constexpr int last = kFilterAxes - 1;
    const int64_t begin = image.first[run * image.fold][last];
    for (int64_t m; n > 0; t += m, n -= m, p.at[last] += m * tile) {
        RunOffsets runs;
        find_runs(image, p, run, counts, runs);
        m = 1;
        if (runs.inside && n > 1) {
            const int64_t end = image.step[last] * (p.at[last] + counts[last] - 1) + begin + image.fold;
            m = smaller(n, (image.size[last] - end) / (image.step[last] * tile) + 1);
        }
        visit(t, m, runs);
    }
}

// Returns the bytes from a run of one tile to that run of the next tile on the last axis.
DGO_INLINE int64_t line_step(const FilterImage& image, int64_t tile) {
    constexpr int last = kFilterAxes - 1;
    return image.step[last] * tile * image.strides[last] * image.item;
}

constexpr int64_t kFetchedBytes = 1024;  // bytes of each position; the processor foresees the rest

// Transforms the windows of a line of tiles: windows lie `tile` positions apart, their transforms `stride` elements.
// From, To: the types that the transform reads and stores.
template <class From, class To>
struct Windows {
    const FilterImage& image;
    const char* data;
    const Axes& counts;
    int64_t tile;
    SpreadFn<From, To> transform;
    Spread spread;
    int64_t stride;
    const From* zeros;
    From* wide;

    // Fetches the positions that the next window adds: its rows lie too far apart for the processor to foresee them.
    DGO_INLINE void fetch_next(const From* const* from, int64_t step, int64_t count) const {
        constexpr int last = kFilterAxes - 1;
        const int64_t bytes = smaller(count * static_cast<int64_t>(sizeof(From)), kFetchedBytes);
        const int64_t all = counts[0] * counts[1] * counts[last], fresh = smaller(tile, counts[last]);
        for (int64_t row = 0; row < all; row += counts[last]) {
            for (int64_t i = row + counts[last] - fresh; i < row + counts[last]; ++i) {
                const char* next = reinterpret_cast<const char*>(from[i]) + step;
                for (int64_t c = 0; c < bytes; c += 64) _mm_prefetch(next + c, _MM_HINT_T0);
            }
        }
    }

    // Moves whole, widened windows on by a tile; positions that both windows have are not widened again.
    DGO_INLINE void widen_next(const From** from, const char* moved, const RunOffsets& runs, int64_t begin,
                               int64_t end) const {
        const int64_t width = counts[2], all = counts[0] * counts[1] * width, kept = larger(width - tile, 0);
        for (int64_t row = 0; row < all; row += width) {
            const From* before[kFilterPoints];
            for (int64_t k = 0; k < width; ++k) before[k] = from[row + k];
            for (int64_t k = 0; k < width; ++k) {
                from[row + k] = before[(k + width - kept) % width];
                if (k < kept) continue;
                widen_run(image, moved + runs.at[row + k], begin, end, 0, image.run, const_cast<From*>(from[row + k]));
            }
        }
    }

    // Transforms elements [begin, begin + count) of one run in the windows of n tiles from p on.
    DGO_INLINE void to(To* at, const TilePlace& p, int64_t n, int64_t run, int64_t begin, int64_t count) const {
        const int64_t end = begin + count, all = counts[0] * counts[1] * counts[2], step = line_step(image, tile);
        const bool straight = sizeof(From) == 2 || image.type == ElementType::f32;
        for_each_runs(image, p, run, counts, tile, 0, n, [&](int64_t, int64_t m, const RunOffsets& runs) {
            const From* from[kFilterPlanes];
            const char* moved = data;
            for (int64_t j = 0; j < m; ++j, moved += step, at += stride) {
                if (j > 0 && !straight) widen_next(from, moved, runs, begin, end);
                for (int64_t i = 0; i < all && (j == 0 || straight); ++i) {
                    if (j > 0) {
                        from[i] += step / static_cast<int64_t>(sizeof(From));
                    } else if (runs.at[i] == kAbsent) {
                        from[i] = zeros;
                    } else if (straight && runs.has(i, counts, begin, end)) {
                        from[i] = reinterpret_cast<const From*>(moved + runs.at[i]) + begin;
                    } else {
                        const int64_t k = i % counts[2];
                        widen_run(image, moved + runs.at[i], begin, end, runs.low[k], runs.high[k], wide + i * count);
                        from[i] = wide + i * count;
                    }
                }
                if (straight && j + 1 < m) fetch_next(from, step, count);
                transform(from, count, at, spread);
            }
        });
    }
};

}  // namespace dgo::DGO_ISA

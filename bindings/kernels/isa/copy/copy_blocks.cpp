// Two-dimensional copies for every pair of elements, in the four kinds of copy/vtable.hpp.
#include "kernels/copy/vtable.hpp"
#include "kernels/isa/copy/lines.hpp"
#include "kernels/isa/vector/transpose.hpp"

namespace dgo::DGO_ISA {
namespace {

template <class S, class D>
DGO_INLINE void convert_one(const typename S::T* src, typename D::T* dst) {
    D::put(dst, static_cast<typename D::value>(S::get(src)));
}

// Elements with load and store of 32-bit lanes, where one pair of them converts by storing what was loaded.
template <class C>
constexpr bool kFloat = false;
template <>
constexpr bool kFloat<F32> = true;
template <>
constexpr bool kFloat<Bf16> = true;
template <>
constexpr bool kFloat<F16> = true;
template <class S, class D>
constexpr bool kByLanes = kFloat<S> && kFloat<D>;
template <>
constexpr bool kByLanes<Raw1, Raw1> = true;
template <>
constexpr bool kByLanes<Raw2, Raw2> = true;
template <>
constexpr bool kByLanes<Raw4, Raw4> = true;

// ---- rows -----------------------------------------------------------------------------------------------

// Copies a row of at least 8 elements; the last vector overlaps the one before it.
template <class S, class D>
DGO_INLINE void convert_long(const typename S::T* src, typename D::T* dst, int64_t n) {
    int64_t i = 0;
    constexpr int64_t kStep = 4 * kLanes;
    for (; i + kStep <= n; i += kStep) {
#pragma GCC unroll 4
        for (int64_t u = i; u < i + kStep; u += D::kSize == 2 ? 2 * kLanes : kLanes) {
            if constexpr (D::kSize == 2) {
                store_bytes(dst + u, narrow_two<D>(load<S, kLanes>(src + u), load<S, kLanes>(src + u + kLanes)));
            } else {
                store<D, kLanes>(dst + u, load<S, kLanes>(src + u));
            }
        }
    }
    for (; i + 8 <= n; i += 8) store<D, 8>(dst + i, load<S, 8>(src + i));
    if (i < n) store<D, 8>(dst + n - 8, load<S, 8>(src + n - 8));
}

// Copies rows of K elements, K known to the compiler.
template <class S, class D, int K>
void short_rows(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    for (int64_t i = 0; i < b.n0; ++i) {
        const typename S::T* s = src + i * b.src0;
        typename D::T* d = dst + i * b.dst0;
        if constexpr (kSame<S, D>) {
            __builtin_memcpy(d, s, K * sizeof(typename S::T));
        } else {
#pragma GCC unroll 8
            for (int k = 0; k < K; ++k) convert_one<S, D>(s + k, d + k);
        }
    }
}

template <class S, class D>
void few_elements(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    switch (b.n1) {
        case 1: return short_rows<S, D, 1>(src, dst, b);
        case 2: return short_rows<S, D, 2>(src, dst, b);
        case 3: return short_rows<S, D, 3>(src, dst, b);
        case 4: return short_rows<S, D, 4>(src, dst, b);
        case 5: return short_rows<S, D, 5>(src, dst, b);
        case 6: return short_rows<S, D, 6>(src, dst, b);
        case 7: return short_rows<S, D, 7>(src, dst, b);
    }
}

// Short rows that lie at a distance are first packed, so that conversion itself always works on full vectors.
template <class S, class D>
void packed_rows(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    constexpr int64_t kElementsAtOnce = 512;
    typename S::T from[kElementsAtOnce];
    typename D::T to[kElementsAtOnce];
    const int64_t step = kElementsAtOnce / b.n1;
    const bool dense = b.dst0 == b.n1;
    for (int64_t i = 0; i < b.n0; i += step) {
        const int64_t rows = smaller(step, b.n0 - i);
        if (rows * b.n1 < 8) {
            return few_elements<S, D>(src + i * b.src0, dst + i * b.dst0, {rows, b.n1, b.src0, 1, b.dst0, 1});
        }
        few_elements<S, S>(src + i * b.src0, from, {rows, b.n1, b.src0, 1, b.n1, 1});
        convert_long<S, D>(from, dense ? dst + i * b.n1 : to, rows * b.n1);
        if (!dense) few_elements<D, D>(to, dst + i * b.dst0, {rows, b.n1, b.n1, 1, b.dst0, 1});
    }
}

template <class S, class D>
void rows(const char* src_bytes, char* dst_bytes, const CopyBlock& b) {
    const auto* src = reinterpret_cast<const typename S::T*>(src_bytes);
    auto* dst = reinterpret_cast<typename D::T*>(dst_bytes);
    if (b.n1 < 8) {
        if constexpr (!kSame<S, D>) {
            if (b.n0 * b.n1 >= 64) return packed_rows<S, D>(src, dst, b);
        }
        return few_elements<S, D>(src, dst, b);
    }
    for (int64_t i = 0; i < b.n0; ++i) convert_long<S, D>(src + i * b.src0, dst + i * b.dst0, b.n1);
}

void move_bytes(const char* src, char* dst, int64_t n) {
    int64_t i = 0;
    for (; i + 128 <= n; i += 128) {
#pragma GCC unroll 4
        for (int u = 0; u < 128; u += 32) store_bytes(dst + i + u, load_bytes<__m256i>(src + i + u));
    }
    for (; i + 32 <= n; i += 32) store_bytes(dst + i, load_bytes<__m256i>(src + i));
    if (i < n) store_bytes(dst + n - 32, load_bytes<__m256i>(src + n - 32));
}

template <class C>
void raw_rows(const char* src, char* dst, const CopyBlock& b) {
    constexpr int64_t kSize = sizeof(typename C::T);
    if (b.n1 < 8) {
        const auto* from = reinterpret_cast<const typename C::T*>(src);
        return few_elements<C, C>(from, reinterpret_cast<typename C::T*>(dst), b);
    }
    const int64_t bytes = b.n1 * kSize;
    for (int64_t i = 0; i < b.n0; ++i) {
        const char* s = src + i * b.src0 * kSize;
        char* d = dst + i * b.dst0 * kSize;
        if (bytes < 32 || bytes > 4096) {
            __builtin_memcpy(d, s, static_cast<size_t>(bytes));
        } else {
            move_bytes(s, d, bytes);
        }
    }
}

// ---- transposed -----------------------------------------------------------------------------------------

template <class S, class D>
void transposed_one_by_one(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    for (int64_t i = 0; i < b.n0; i += 8) {
        const int64_t end = smaller(i + 8, b.n0);
        for (int64_t j = 0; j < b.n1; ++j) {
            for (int64_t k = i; k < end; ++k) convert_one<S, D>(src + k + j * b.src1, dst + k * b.dst0 + j);
        }
    }
}

// Transposes to few columns of dst, at least 8 of src.
template <class S, class D, int K>
void interleave(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    for (int64_t i = 0; i < b.n0; i += 8) {
        const int64_t at = smaller(i, b.n0 - 8);
        if (K == 2 && b.dst0 == 2) {
            zip_tile<S, D>(src + at, b.src1, dst + at * 2);
        } else {
            interleave_tile<S, D, K>(src + at, b.src1, dst + at * b.dst0, b.dst0);
        }
    }
}

// Transposes few columns of src to at least 8 of dst.
template <class S, class D, int K>
void deinterleave(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    for (int64_t j = 0; j < b.n1; j += 8) {
        const int64_t at = smaller(j, b.n1 - 8);
        if (K == 2 && b.src1 == 2) {
            unzip_tile<S, D>(src + at * 2, dst + at, b.dst0);
        } else {
            deinterleave_tile<S, D, K>(src + at * b.src1, b.src1, dst + at, b.dst0);
        }
    }
}

constexpr int64_t kFetched = 64;  // elements ahead

// Transposes at least 8 by 8. Two tiles along the source row use up a cache line of it before the next rows push it
// out.
template <class S, class D>
void transposed_from_far(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    for (int64_t i = 0; i < b.n0; i += 16) {
        for (int64_t j = 0; j < b.n1; j += 8) {
            const int64_t column = smaller(j, b.n1 - 8);
            // Fetches the next lines of source rows, which may lie megabytes apart.
            for (int64_t c = column; c < column + 8; ++c) {
                _mm_prefetch(reinterpret_cast<const char*>(src + i + kFetched + c * b.src1), _MM_HINT_T0);
            }
            for (int64_t h = i; h < smaller(i + 16, b.n0); h += 8) {
                const int64_t row = smaller(h, b.n0 - 8);
                const typename S::T* from = src + row + column * b.src1;
                transpose_tile<S, D>(from, b.src1, dst + row * b.dst0 + column, b.dst0);
            }
        }
    }
}

// Transposes at least 8 by 8 to rows of dst that lie far apart, often by a power of two, so that few of them have room
// in a cache together: lines of few rows are filled one after the other.
template <class S, class D>
void transposed_to_far(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    for (int64_t i = 0; i < b.n0; i += 8) {
        const int64_t row = smaller(i, b.n0 - 8);
        for (int64_t j = 0; j < b.n1; j += 8) {
            const int64_t column = smaller(j, b.n1 - 8);
            transpose_tile<S, D>(src + row + column * b.src1, b.src1, dst + row * b.dst0 + column, b.dst0);
        }
    }
}

template <class S, class D>
void transposed_tiles(const typename S::T* src, typename D::T* dst, const CopyBlock& b) {
    return b.src1 < b.dst0 ? transposed_to_far<S, D>(src, dst, b) : transposed_from_far<S, D>(src, dst, b);
}

// Transposes blocks of less than a cache line on either side.
template <class S, class D>
void transposed_elements(const typename S::T* src, typename D::T* dst, CopyBlock b) {
    if constexpr (kByLanes<S, D>) {
        if (b.n0 >= 8 && b.n1 >= 8) return transposed_tiles<S, D>(src, dst, b);
        if (b.n0 >= 8) {
            if (b.n1 == 2) return interleave<S, D, 2>(src, dst, b);
            if (b.n1 == 3) return interleave<S, D, 3>(src, dst, b);
            if (b.n1 >= 4) {
                interleave<S, D, 4>(src, dst, b);
                b.n1 -= 4;
                if (b.n1 > 0) transposed_elements<S, D>(src + 4 * b.src1, dst + 4, b);
                return;
            }
        } else if (b.n1 >= 8) {
            if (b.n0 == 2) return deinterleave<S, D, 2>(src, dst, b);
            if (b.n0 == 3) return deinterleave<S, D, 3>(src, dst, b);
            if (b.n0 >= 4) {
                deinterleave<S, D, 4>(src, dst, b);
                b.n0 -= 4;
                if (b.n0 > 0) transposed_elements<S, D>(src + 4, dst + 4 * b.dst0, b);
                return;
            }
        }
    }
    transposed_one_by_one<S, D>(src, dst, b);
}

constexpr int64_t kAtOnce = 256;  // rows of either side whose addresses are at hand

// at[i] = the address of row begin + i: rows lie `step` apart, or folded on a second axis.
template <class Row>
DGO_INLINE void addresses(Row first, int64_t begin, int64_t count, int64_t step, const CopyFold& fold, Row* at) {
    if (fold.size == 0) {
        for (int64_t i = 0; i < count; ++i) at[i] = first + (begin + i) * step;
        return;
    }
    int64_t outer = begin / fold.size, inner = begin % fold.size;
    for (int64_t i = 0; i < count; ++i) {
        at[i] = first + outer * fold.step + inner * step;
        if (++inner == fold.size) inner = 0, ++outer;
    }
}

constexpr int64_t kAhead = 2;          // tiles
constexpr int64_t kSameSets = 1024;    // bytes from row to row by which a column of lines shares few sets of a cache

// Fetches the lines of a tile that will be read or written: rows may lie megabytes apart.
template <int Write, class Row>
DGO_INLINE void fetch(const Row* rows, int64_t count, int64_t at, int64_t elements) {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(*Row{}));
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t c = 0; c < elements; c += kLine) __builtin_prefetch(rows[i] + at + c, Write);
    }
}

// Walks the tiles of a matrix; the last tiles overlap earlier ones.
template <int64_t Wide, int64_t Tall>
struct TileWalk {
    int64_t rows, columns;
    bool along_columns;
    int64_t row = 0, column = 0;

    int64_t tiles() const { return ceil_div(rows, Wide) * ceil_div(columns, Tall); }
    int64_t i() const { return smaller(row, rows - Wide); }
    int64_t j() const { return smaller(column, columns - Tall); }
    void step() {
        if (along_columns) {
            column += Tall;
            if (column >= columns) column = 0, row += Wide;
        } else {
            row += Wide;
            if (row >= rows) row = 0, column += Tall;
        }
    }
};

// Calls `tile` for all of a block; a tile transposes Wide by Tall elements.
template <class S, class D, int64_t Wide, int64_t Tall, class Tile>
DGO_INLINE void by_tiles(const typename S::T* src, typename D::T* dst, const CopyBlock& b, Tile&& tile) {
    const typename S::T* from[kAtOnce];
    typename D::T* to[kAtOnce];
    // Lines of a column that share sets of the cache are written along the rows.
    const bool along_columns = b.dst0 * static_cast<int64_t>(sizeof(*dst)) % kSameSets == 0;
    const int64_t ahead = b.cached ? 0 : kAhead;
    for (int64_t j0 = 0; j0 < b.n1; j0 += kAtOnce) {
        const int64_t j_first = smaller(j0, b.n1 - Tall), columns = smaller(kAtOnce, b.n1 - j_first);
        addresses(src, j_first, columns, b.src1, b.fold1, from);
        for (int64_t i0 = 0; i0 < b.n0; i0 += kAtOnce) {
            const int64_t i_first = smaller(i0, b.n0 - Wide), rows = smaller(kAtOnce, b.n0 - i_first);
            addresses(dst + j_first, i_first, rows, b.dst0, b.fold0, to);
            TileWalk<Wide, Tall> now{rows, columns, along_columns}, later = now;
            const int64_t tiles = now.tiles();
            const auto fetch_next = [&] {
                fetch<0>(from + later.j(), Tall, i_first + later.i(), Wide);
                fetch<1>(to + later.i(), Wide, later.j(), Tall);
                later.step();
            };
            for (int64_t t = 0; t < smaller(ahead, tiles); ++t) fetch_next();
            for (int64_t t = 0; t < tiles; ++t, now.step()) {
                if (ahead != 0 && t + ahead < tiles) fetch_next();
                tile(from + now.j(), i_first + now.i(), to + now.i(), now.j());
            }
        }
    }
}

template <class S, class D>
void transposed(const char* src_bytes, char* dst_bytes, const CopyBlock& b) {
    const auto* src = reinterpret_cast<const typename S::T*>(src_bytes);
    auto* dst = reinterpret_cast<typename D::T*>(dst_bytes);
    if constexpr (kByLanes<S, D>) {
        using Elements = Turned<S, D>;
        if (b.n0 >= Elements::kWide && b.n1 >= Elements::kTall) {
            return by_tiles<S, D, Elements::kWide, Elements::kTall>(src, dst, b, turn_tile<S, D>);
        }
        if constexpr (Elements::kSize < 4) {  // eight by eight of the widest are as fast
            if (b.n0 >= Elements::kRows && b.n1 >= Elements::kTall) {
                return by_tiles<S, D, Elements::kRows, Elements::kTall>(src, dst, b, turn_columns<S, D>);
            }
            if (b.n0 >= Elements::kWide && b.n1 >= Elements::kRows) {
                return by_tiles<S, D, Elements::kWide, Elements::kRows>(src, dst, b, turn_rows<S, D>);
            }
        }
    }
    // part by part
    const int64_t rows = b.fold0.size != 0 ? b.fold0.size : b.n0, columns = b.fold1.size != 0 ? b.fold1.size : b.n1;
    for (int64_t i = 0; i < b.n0; i += rows) {
        for (int64_t j = 0; j < b.n1; j += columns) {
            const CopyBlock part{smaller(rows, b.n0 - i), smaller(columns, b.n1 - j), b.src0, b.src1, b.dst0, b.dst1};
            const int64_t from = b.fold1.size != 0 ? j / columns * b.fold1.step : 0;
            const int64_t to = b.fold0.size != 0 ? i / rows * b.fold0.step : 0;
            transposed_elements<S, D>(src + i + from, dst + j + to, part);
        }
    }
}

// ---- broadcast and strided ------------------------------------------------------------------------------

template <class S, class D>
void broadcast(const char* src_bytes, char* dst_bytes, const CopyBlock& b) {
    const auto* src = reinterpret_cast<const typename S::T*>(src_bytes);
    auto* dst = reinterpret_cast<typename D::T*>(dst_bytes);
    for (int64_t i = 0; i < b.n0; ++i) {
        constexpr int64_t kMany = 64 / sizeof(typename D::T);
        typename D::T many[kMany];
        convert_one<S, D>(src + i * b.src0, many);
        for (int64_t j = 1; j < kMany; ++j) many[j] = many[0];
        typename D::T* d = dst + i * b.dst0;
        int64_t j = 0;
        for (; j + kMany <= b.n1; j += kMany) __builtin_memcpy(d + j, many, sizeof(many));
        for (; j < b.n1; ++j) d[j] = many[0];
    }
}

template <class S, class D>
void strided(const char* src_bytes, char* dst_bytes, const CopyBlock& b) {
    const auto* src = reinterpret_cast<const typename S::T*>(src_bytes);
    auto* dst = reinterpret_cast<typename D::T*>(dst_bytes);
    for (int64_t i = 0; i < b.n0; ++i) {
        const typename S::T* s = src + i * b.src0;
        typename D::T* d = dst + i * b.dst0;
        if (b.src1 == 1 && b.dst1 == 1) {
            for (int64_t j = 0; j < b.n1; ++j) convert_one<S, D>(s + j, d + j);
        } else {
            for (int64_t j = 0; j < b.n1; ++j) convert_one<S, D>(s + j * b.src1, d + j * b.dst1);
        }
    }
}

// ---- the table ------------------------------------------------------------------------------------------

template <class S, class D>
constexpr BlockFn pick(BlockKind kind) {
    switch (kind) {
        case BlockKind::rows:
            if constexpr (kByLanes<S, D> && !kSame<S, D>) return rows<S, D>;
            if constexpr (kSame<S, D>) return raw_rows<S>;
            return strided<S, D>;
        case BlockKind::transposed: return transposed<S, D>;
        case BlockKind::broadcast: return broadcast<S, D>;
        case BlockKind::strided: break;
    }
    return strided<S, D>;
}

// Elements of equal types are moved as raw bits.
template <class S, class D>
constexpr BlockFn pick_other(BlockKind kind) {
    if constexpr (kSame<S, D>)
        return nullptr;
    else
        return pick<S, D>(kind);
}

template <class S>
BlockFn pick_number(BlockKind kind, ElementType dst) {
    switch (dst) {
        case ElementType::f32: return pick_other<S, F32>(kind);
        case ElementType::bf16: return pick_other<S, Bf16>(kind);
        case ElementType::f16: return pick_other<S, F16>(kind);
        case ElementType::s32: return pick_other<S, S32>(kind);
        case ElementType::s8: return pick_other<S, S8>(kind);
        case ElementType::u8: return pick_other<S, U8>(kind);
        default: return nullptr;
    }
}

BlockFn copy_block(BlockKind kind, ElementType src, ElementType dst) {
    if (src == dst) {
        switch (src) {
            case ElementType::raw1:
            case ElementType::s8:
            case ElementType::u8: return pick<Raw1, Raw1>(kind);
            case ElementType::raw2:
            case ElementType::bf16:
            case ElementType::f16: return pick<Raw2, Raw2>(kind);
            case ElementType::raw4:
            case ElementType::f32:
            case ElementType::s32: return pick<Raw4, Raw4>(kind);
            case ElementType::raw8: return pick<Raw8, Raw8>(kind);
            case ElementType::raw16: return pick<Raw16, Raw16>(kind);
            case ElementType::raw32: return pick<Raw32, Raw32>(kind);
        }
    }
    switch (src) {
        case ElementType::f32: return pick_number<F32>(kind, dst);
        case ElementType::bf16: return pick_number<Bf16>(kind, dst);
        case ElementType::f16: return pick_number<F16>(kind, dst);
        case ElementType::s32: return pick_number<S32>(kind, dst);
        case ElementType::s8: return pick_number<S8>(kind, dst);
        case ElementType::u8: return pick_number<U8>(kind, dst);
        default: return nullptr;
    }
}

}  // namespace

extern const CopyCode kCopyCode;
const CopyCode kCopyCode = {copy_block};

}  // namespace dgo::DGO_ISA

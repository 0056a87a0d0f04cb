#include "kernels/norm/vtable.hpp"

#include "kernels/isa/vector/convert.hpp"
#include "kernels/isa/vector/elements_of_rows.hpp"
#include "kernels/isa/vector/quotient.hpp"
#include "kernels/isa/norm/row_norm.hpp"
#include "kernels/isa/norm/softmax.hpp"
#include "kernels/isa/table.hpp"
#include "kernels/isa/epilogue/apply.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kMostRows = 32, kMostFloats = 4096;  // floats that are normalised before their post-ops
constexpr int kTogether = 4;       // vectors of a row whose sums stay in registers
constexpr int64_t kCentral = 4;   // rows whose mean is near that of the block
constexpr int64_t kCascade = 16;  // rows that are summed before their sum is added to others

// ---- elements -----------------------------------------------------------------------------------------------

template <uint32_t kFlip>
struct Byte {
    using T = char;
    static constexpr int64_t kSize = 1;

    static DGO_INLINE Lanes load(const char* at) {
        return to_floats(bits<Integers>(load_words<1, kLanes>(at) ^ kFlip));
    }
};

template <class C>
DGO_INLINE Lanes load_numbers(const typename C::T* at, int64_t count) {
    if constexpr (C::kSize == 1) {
        if (count >= kLanes) return C::load(at);
        char some[kLanes] = {};
        __builtin_memcpy(some, at, static_cast<size_t>(count));
        return C::load(some);
    } else {
        return load_lanes<C>(at, count);
    }
}

template <class F>
DGO_INLINE void with_number_type(ElementType type, F&& f) {
    if (type == ElementType::u8) return f(Byte<0>{});
    if (type == ElementType::s8) return f(Byte<0x80>{});
    with_type(type, f);
}

int64_t size_of(ElementType type) { return type == ElementType::f32 ? 4 : is_byte(type) ? 1 : 2; }

// ---- sums by column -----------------------------------------------------------------------------------------

// `count`: columns of the last vector.
template <class C, int kVectors>
DGO_INLINE void sums_of(const typename C::T* at, int64_t rows, int64_t pitch, int64_t count, const NormSums& to) {
    const auto load = [&](const typename C::T* row, int j) __attribute__((always_inline)) {
        return load_numbers<C>(row + j * kLanes, j < kVectors - 1 ? kLanes : count);
    };
    Lanes center[kVectors], all_sum[kVectors], all_squares[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
        center[j] = load(at, j);
        for (int64_t i = 1; i < kCentral && i < rows; ++i) center[j] += load(at + i * pitch, j);
        center[j] *= 1.0f / static_cast<float>(smaller(rows, kCentral));
        all_sum[j] = all_squares[j] = Lanes{};
    }
    for (int64_t begin = 0; begin < rows; begin += kCascade) {
        const int64_t end = smaller(rows, begin + kCascade);
        Lanes sum[kVectors] = {}, squares[kVectors] = {};
        for (int64_t i = begin; i < end; ++i, at += pitch) {
#pragma GCC unroll 4
            for (int j = 0; j < kVectors; ++j) {
                const Lanes distance = load(at, j) - center[j];
                sum[j] += distance;
                squares[j] += distance * distance;
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
            all_sum[j] += sum[j];
            all_squares[j] += squares[j];
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
        const int64_t some = j < kVectors - 1 ? kLanes : count;
        store_some(to.center + j * kLanes, center[j], some);
        store_some(to.sum + j * kLanes, all_sum[j], some);
        store_some(to.squares + j * kLanes, all_squares[j], some);
    }
}

DGO_INLINE NormSums from_column(NormSums sums, int64_t column) {
    sums.center += column;
    sums.sum += column;
    sums.squares += column;
    return sums;
}

void sums(const NormRows& rows, const NormSums& to) {
    with_number_type(rows.type, [&](auto tag) __attribute__((always_inline)) {
        using C = decltype(tag);
        const auto* at = reinterpret_cast<const typename C::T*>(rows.at);
        int64_t j = 0;
        for (; j + kTogether * kLanes <= rows.width; j += kTogether * kLanes) {
            sums_of<C, kTogether>(at + j, rows.rows, rows.pitch, kLanes, from_column(to, j));
        }
        for (; j < rows.width; j += kLanes) {
            const int64_t rest = rows.width - j;
            if (rest >= kLanes) {
                sums_of<C, 1>(at + j, rows.rows, rows.pitch, kLanes, from_column(to, j));
            } else {
                sums_of<C, 1>(at + j, rows.rows, rows.pitch, rest, from_column(to, j));
            }
        }
    });
}

void add_totals(const NormSums& block, int64_t rows, int64_t width, double* total) {
    const double count = static_cast<double>(rows);
    const float *center = block.center, *sum = block.sum;
    for (int64_t j = 0; j < width; ++j) total[j] += count * double{center[j]} + double{sum[j]};
}

void add_squares(const NormSums& block, int64_t rows, int64_t width, const double* mean, double* total) {
    const double count = static_cast<double>(rows), part = 1 / count;
    const float *center = block.center, *sum = block.sum, *squares = block.squares;
    for (int64_t j = 0; j < width; ++j) {
        const double average = double{sum[j]} * part, apart = double{center[j]} - mean[j] + average;
        const double own = double{squares[j]} - double{sum[j]} * average;
        // rounding may leave less than nothing; NaN stays
        total[j] += (own < 0 ? 0 : own) + count * (apart * apart);
    }
}

// ---- normalisation ------------------------------------------------------------------------------------------

// Normalises V vectors of each row from column j on. count: columns of the last vector.
template <class C, class D, int kVectors>
DGO_INLINE void affine_columns(const NormAffine& block, int64_t j, int64_t count) {
    const auto* from = reinterpret_cast<const typename C::T*>(block.from.at) + j;
    auto* to = reinterpret_cast<typename D::T*>(block.to) + j;
    Lanes mean[kVectors], scale[kVectors], shift[kVectors];
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
        const int64_t at = j + k * kLanes, some = k < kVectors - 1 ? kLanes : count;
        mean[k] = load_some(block.mean + at, some);
        scale[k] = load_some(block.scale + at, some);
        shift[k] = load_some(block.shift + at, some);
    }
    for (int64_t i = 0; i < block.from.rows; ++i, from += block.from.pitch, to += block.pitch) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            const int64_t some = k < kVectors - 1 ? kLanes : count;
            const Lanes v = load_numbers<C>(from + k * kLanes, some);
            store_lanes<D>(to + k * kLanes, (v - mean[k]) * scale[k] + shift[k], some);
        }
    }
}

template <class C, class D>
DGO_INLINE void affine_rows(const NormAffine& block) {
    const int64_t width = block.from.width;
    int64_t j = 0;
    for (; j + kTogether * kLanes <= width; j += kTogether * kLanes) {
        affine_columns<C, D, kTogether>(block, j, kLanes);
    }
    for (; j + kLanes <= width; j += kLanes) affine_columns<C, D, 1>(block, j, kLanes);
    if (j < width) affine_columns<C, D, 1>(block, j, width - j);
}

int64_t norm_scratch(int64_t width) { return larger(kMostFloats, width); }

// Normalises integers to integers: up to kVectors vectors of each row from column j on, `count` columns.
template <class C, int kVectors, Division kBy>
DGO_INLINE void byte_columns(const NormAffine& block, int64_t j, int64_t count) {
    constexpr int64_t kAll = kVectors * kLanes;
    const Quotient by = *block.quotient;
    const bool signs = block.type == ElementType::s8, whole = count >= kAll;
    Lanes mean[kVectors], scale[kVectors], shift[kVectors];
    for (int k = 0; k < kVectors; ++k) {
        mean[k] = load_bytes<Lanes>(block.mean + j + k * kLanes);
        scale[k] = load_bytes<Lanes>(block.scale + j + k * kLanes);
        shift[k] = load_bytes<Lanes>(block.shift + j + k * kLanes);
    }
    const char* from = block.from.at + j;
    char* to = block.to + j;
    for (int64_t i = 0; i < block.from.rows; ++i, from += block.from.pitch, to += block.pitch) {
        char some[kAll] = {};
        if (!whole) __builtin_memcpy(some, from, static_cast<size_t>(count));
        Lanes value[kVectors], v[kVectors];
        for (int k = 0; k < kVectors; ++k) {
            value[k] = (C::load((whole ? from : some) + k * kLanes) - mean[k]) * scale[k] + shift[k];
        }
        quotients_of<false, kBy>(by, value, v);
        store_integers<true>(v, by, signs, whole ? to : some);
        if (!whole) store_first(to, some, count);
    }
}

template <class C>
DGO_INLINE void byte_rows(const NormAffine& block) {
    by_division(division_of(*block.quotient), [&](auto by) __attribute__((always_inline)) {
        const int64_t width = block.from.width;
        int64_t j = 0;
        for (; j + kMostBytes <= width; j += kMostBytes) byte_columns<C, kMostByteVectors, by>(block, j, kMostBytes);
        for (; j < width; j += kBytesAtOnce) byte_columns<C, kByteVectors, by>(block, j, width - j);
    });
}

void affine_alone(const NormAffine& block) {
    if (block.quotient != nullptr) {
        return block.from.type == ElementType::s8 ? byte_rows<Byte<0x80>>(block) : byte_rows<Byte<0>>(block);
    }
    with_number_type(block.from.type, [&](auto from) __attribute__((always_inline)) {
        with_type(block.type,
                  [&](auto to) __attribute__((always_inline)) { affine_rows<decltype(from), decltype(to)>(block); });
    });
}

// A few rows at a time: the post-ops find them in the first cache level.
void affine(const NormAffine& block) {
    if (block.epilogue == nullptr) return affine_alone(block);
    const int64_t width = block.from.width, most = smaller(larger(kMostFloats / width, 1), kMostRows);
    const int64_t from_item = size_of(block.from.type), to_item = size_of(block.type);
    for (int64_t begin = 0; begin < block.from.rows; begin += most) {
        NormAffine part = block;
        part.from.rows = smaller(most, block.from.rows - begin);
        part.from.at += begin * block.from.pitch * from_item;
        part.to += begin * block.pitch * to_item;
        char* const to = part.to;
        if (block.type != ElementType::f32) {
            part.type = ElementType::f32;
            part.to = reinterpret_cast<char*>(block.scratch);
            part.pitch = width;
        }
        affine_alone(part);
        float* rows[kMostRows];
        int64_t offsets[kMostRows];
        for (int64_t i = 0; i < part.from.rows; ++i) {
            rows[i] = reinterpret_cast<float*>(part.to) + i * part.pitch;
            offsets[i] = block.offset + (begin + i) * block.pitch;
        }
        apply_epilogue(*block.epilogue, block.operands, {rows, offsets, part.from.rows, width, 0});
        for (int64_t i = 0; i < part.from.rows && block.type != ElementType::f32; ++i) {
            narrow(block.type, rows[i], width, to + i * block.pitch * to_item);
        }
    }
}

}  // namespace

const NormCode kNormCode = {sums, add_totals, add_squares, affine, norm_scratch, softmax, softmax_gradient, row_norm};

}  // namespace dgo::DGO_ISA

// Makes rows of activations of 8 bits.
#include "kernels/team.hpp"
#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/dot/code.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kFew = 4;  // elements of a position that are written one by one
constexpr int64_t kMany = 16;  // elements that are written at once

template <class Element>
void make_rows(const Int8Rows& params, const char* src, Element* rows) {
    const int64_t* sizes = params.sizes;
    const int64_t lines = sizes[0] * sizes[1] * sizes[2];
    // the sign bit, which s8 has flipped
    const int flip = params.type == ElementType::s8 ? 0x80 : 0;
    const auto less = static_cast<Element>(sizeof(Element) == 2 ? flip + params.zero : 0);
    const auto filling = static_cast<Element>(sizeof(Element) == 2 ? 0 : flip + params.zero);
    typedef Element Many __attribute__((vector_size(kMany * sizeof(Element))));
    // positions without gaps are one of many channels
    const bool joined = params.before == 0 && params.strides[3] == params.channels && params.pitch == params.channels;
    const int64_t positions = joined ? 1 : sizes[3], channels = joined ? sizes[3] * params.channels : params.channels;
    run_evenly(params.threads, lines, [&](int64_t line, int) {
        const int64_t at[] = {line / (sizes[1] * sizes[2]), line / sizes[2] % sizes[1], line % sizes[2]};
        const char* from = src + at[0] * params.strides[0] + at[1] * params.strides[1] + at[2] * params.strides[2];
        Element* position = rows + line * sizes[3] * params.pitch;
        // a copy, which no store changes
        const auto row_element = [flip, less](Words::u8 element) {
            return static_cast<Element>((element ^ flip) - less);
        };
        const Many flips = static_cast<Element>(flip) - Many{}, all_less = less - Many{};
        for (int64_t i = 0; i < positions; ++i, from += params.strides[3], position += params.pitch) {
            const auto* element = reinterpret_cast<const Words::u8*>(from);
            if (channels <= kFew && params.pitch == kFew && params.before == 0) {
                Element few[kFew] = {filling, filling, filling, filling};
                for (int64_t c = 0; c < channels; ++c) few[c] = row_element(element[c]);
                __builtin_memcpy(position, few, sizeof(few));
                continue;
            }
            for (int64_t c = 0; c < params.before; ++c) position[c] = filling;
            Element* to = position + params.before;
            int64_t c = 0;
#pragma GCC unroll 4
            for (; c + kMany <= channels; c += kMany) {
                const __m128i bytes = load_bytes<__m128i>(element + c);
                Many many;
                if constexpr (sizeof(Element) == 2) {
                    many = bits<Many>(_mm256_cvtepu8_epi16(bytes));
                } else {
                    many = bits<Many>(bytes);
                }
                store_bytes(to + c, (many ^ flips) - all_less);
            }
            for (; c < channels; ++c) to[c] = row_element(element[c]);
            for (; c < params.pitch - params.before; ++c) to[c] = filling;
        }
    });
}

}  // namespace

void run_int8_rows(const Dot& dot, const Int8Rows& params, const char* src, char* rows) {
    if (dot.item == 2) {
        make_rows(params, src, reinterpret_cast<Words::u16*>(rows));
    } else {
        make_rows(params, src, reinterpret_cast<Words::u8*>(rows));
    }
}

}  // namespace dgo::DGO_ISA

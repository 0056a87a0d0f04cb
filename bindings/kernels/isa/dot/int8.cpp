// Products of 8 bits in the direct form, and the results of depthwise sums.
#include "kernels/isa/dot/int8_finish.hpp"

namespace dgo::DGO_ISA {

const ProductCode kInt8Products = kProductsOf<Products<Int8Finish>>;

void run_int8_positions(const Int8Positions& positions, bool scale, bool round) {
    const Int8Positions of = positions;  // a copy, which no store changes
    const Int8Values values{*of.integer, of.scales, of.bias};
    int32_t* row = of.sums;
    char* to = of.dst;
    const auto each = [&](auto finish) __attribute__((always_inline)) {
        for (int64_t i = 0; i < of.count; ++i, row += of.step, to += of.pitch) finish();
    };
    if (!scale || !round || !is_byte(of.type)) {
        each([&] {
            if (scale) values.scale(row, 0, of.channels, reinterpret_cast<float*>(row), of.floats);
            if (round) values.round(of.type, row, of.channels, to);
        });
    } else if (of.floats && of.joined) {
        constexpr int64_t kStep = kWide ? 2 * kBytesAtOnce : kBytesAtOnce;
        const int64_t all = of.count * of.channels;
        for (int64_t i = 0, channel = 0; i < all; i += kStep, channel = (channel + kStep) % of.channels) {
            values.scale_to_bytes<true>(of.type, row + i, channel, smaller(kStep, all - i), to + i);
        }
    } else {
        by_flag(of.floats, [&](auto floats) __attribute__((always_inline)) {
            each([&]() __attribute__((always_inline)) {
                values.scale_to_bytes<floats>(of.type, row, 0, of.channels, to);
            });
        });
    }
}

}  // namespace dgo::DGO_ISA

// Products of 8 bits in the direct form, and the results of depthwise sums.
#include "kernels/isa/dot/int8_finish.hpp"

namespace dgo::DGO_ISA {

const DotProducts kInt8Products = kProductsOf<Products<Int8Finish>>;

void run_int8_positions(const Int8Positions& positions, bool scale, bool round) {
    const Int8Positions of = positions;  // which no store changes
    const Int8Values values{*of.integer, of.scales, of.bias, nullptr};
    const bool bytes = of.type == ElementType::s8 || of.type == ElementType::u8;
    int32_t* row = of.sums;
    char* to = of.dst;
    if (scale && round && bytes) {
        for (int64_t i = 0; i < of.count; ++i, row += of.step, to += of.pitch) {
            values.scale_to_bytes<false>(of.type, row, 0, of.channels, 0, to);
        }
        return;
    }
    for (int64_t i = 0; i < of.count; ++i, row += of.step, to += of.pitch) {
        if (scale) values.scale(row, 0, of.channels, 0);
        if (round) values.round(of.type, row, of.channels, to);
    }
}

}  // namespace dgo::DGO_ISA

// What one instruction set offers for narrow products: operands in bf16, sums in f32.
#pragma once

#include <cstdint>

namespace dgo {

struct NarrowCode {
    const char* isa;
    int64_t step;  // elements of the depth that are read at once
};

}  // namespace dgo

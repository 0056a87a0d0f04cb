// Transposed copies inside of other kernels.
#pragma once

#include "kernels/copy/vtable.hpp"
#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {

extern const CopyCode kCopyCode;

// Transposes and converts: to[i * stride + j] = from[i + j * from_stride], in the type.
class NarrowAcross {
public:
    explicit NarrowAcross(ElementType type) : copy_(kCopyCode.block(BlockKind::transposed, ElementType::f32, type)) {}

    void operator()(const float* from, int64_t from_stride, int64_t rows, int64_t columns, int64_t stride,
                    char* to) const {
        copy_(reinterpret_cast<const char*>(from), to, {rows, columns, 1, from_stride, stride, 1, {}, {}, true});
    }

private:
    BlockFn copy_;
};

}  // namespace dgo::DGO_ISA

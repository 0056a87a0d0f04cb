// What one instruction set offers.
#include "kernels/isa.hpp"
#include "kernels/isa/copy/copy_blocks.hpp"
#include "kernels/isa/depthwise/depthwise.hpp"
#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/overlap/overlap_product.hpp"
#include "kernels/isa/rows/row_product.hpp"

#define DGO_TEXT_(x) #x
#define DGO_TEXT(x) DGO_TEXT_(x)

namespace dgo::DGO_ISA {

extern const bool kEmulated;
#ifdef DGO_EMULATE_AVX512
const bool kEmulated = true;
#else
const bool kEmulated = false;
#endif

extern const VectorCode kVectorCode;
const VectorCode kVectorCode = {
    DGO_TEXT(DGO_ISA),
    copy_block,
    kDepthwiseCode,
    kMinimalFilterCode,
    kOverlapCode,
    row_product_room,
    row_product,
};

}  // namespace dgo::DGO_ISA

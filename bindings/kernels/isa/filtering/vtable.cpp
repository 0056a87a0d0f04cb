#include "kernels/isa/filtering/vtable.hpp"

namespace dgo::DGO_ISA {

const MinimalFilterCode kMinimalFilterCode = {
    kPanel,        kTileRows,    kFilterChunk, products_scratch, gradient_scratch,
    gradient_sums, prepare_room, run_products, run_prepare,      run_gradient,
};

}  // namespace dgo::DGO_ISA

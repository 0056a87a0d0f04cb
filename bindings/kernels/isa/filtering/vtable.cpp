#include "kernels/isa/filtering/vtable.hpp"

#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {

const FilterCode kFilterCode = {
    kPanel,        kTileRows,    kFilterChunk, products_scratch, gradient_scratch,
    gradient_sums, prepare_room, run_products, run_prepare,      run_gradient,
};

}  // namespace dgo::DGO_ISA

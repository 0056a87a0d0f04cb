#include "kernels/isa/filtering/vtable.hpp"

#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {

const FilterCode kFilterCode = {
    kPanel,        kTileRows,    kFilterChunk, kFloatProducts, gradient_scratch,
    gradient_sums, pack_scratch, run_pack,     run_gradient,
};

}  // namespace dgo::DGO_ISA

#include "kernels/isa/dot/code.hpp"

#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {

const DotCode kDotCode = {kBf16Products, kInt8Products, kInt8Filtering,    kBf16Gradient,
                          run_dot_pack,  run_int8_rows, run_int8_positions};

}  // namespace dgo::DGO_ISA

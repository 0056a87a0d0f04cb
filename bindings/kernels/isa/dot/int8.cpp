// Products of 8 bits in the direct form.
#include "kernels/isa/dot/int8_finish.hpp"

namespace dgo::DGO_ISA {

const DotProducts kInt8Products = kProductsOf<Products<Int8Finish>>;

}  // namespace dgo::DGO_ISA

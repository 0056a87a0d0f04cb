// One instruction set: the build says which way of multiplying DGO_DOT is.
#include "kernels/isa/dot/broadcast.hpp"
#include "kernels/isa/dot/tiles.hpp"

namespace dgo::DGO_ISA {

extern const Dot kDot;
const Dot kDot = dot_of<DGO_DOT>();

}  // namespace dgo::DGO_ISA
